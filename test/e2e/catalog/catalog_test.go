//go:build e2e

// Package catalog tests how OLM installs, upgrades and removes LVM Storage from a catalog.
package catalog

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	consolev1 "github.com/openshift/api/console/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/alertrules"
	"github.com/lvm-storage/lvm-operator/controllers/consoleplugin"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/olm"
	"github.com/lvm-storage/lvm-operator/test/story"
)

func TestCatalog(t *testing.T) { suite.Run(t, "LVM Storage from a catalog") }

// An administrator of a disconnected cluster installs the operator from a catalog in a mirror with the Operator
// Lifecycle Manager. The next version here is this one with another number, and the CRD of the previous version lacks a
// column. The upgrade from the real previous version is in test/e2e/previous.
var _ = Describe("LVM Storage from a catalog", Ordered, func() {
	var (
		c         olm.Cluster
		cluster   suite.Cluster
		publisher olm.Publisher
		images    map[string]string
		before    map[string]bool
		disks     string
		broken    story.Volume
	)
	data := story.Volume{Namespace: "default", Name: "data", Class: "lvms-vg1", Size: "512Mi"}

	BeforeAll(func(ctx SpecContext) {
		cluster = suite.UpAndRecord(ctx, lab.Options{Name: "e2e-olm", Nodes: 1, OLM: true, CRDs: env.ConsoleCRDs(),
			Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}})
		c = olm.Cluster{Cluster: cluster.Cluster}
		var err error
		publisher, err = olm.NewPublisher(ctx, c.Lab, GinkgoT().TempDir(), GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		images = map[string]string{}
		for version, variable := range map[string]string{"0.2.0": "LVMS_IMAGE", "0.3.0": "LVMS_NEXT_IMAGE"} {
			images[version], err = publisher.PublishImage(ctx, suite.Archive(variable), version)
			Expect(err).NotTo(HaveOccurred())
		}
		cluster.Run(ctx, "create", "namespace", story.OperatorNamespace)
		before, err = c.Objects(ctx)
		Expect(err).NotTo(HaveOccurred())
		disks = cluster.ContentOfDisks(ctx)
	}, NodeTimeout(24*time.Minute))

	JustAfterEach(func(ctx SpecContext) {
		suite.ReportFailure(ctx, c.Cluster, "get role,clusterrole -A -o name",
			"get catalogsources,subscriptions,installplans,csv,operatorgroups -A -o wide", "get jobs -A -o wide",
			"describe csv -n "+story.OperatorNamespace)
	}, NodeTimeout(30*time.Minute))

	publish := func(ctx context.Context, releases ...olm.Release) {
		GinkgoHelper()
		for _, release := range releases {
			Expect(publisher.Publish(ctx, release)).To(Succeed())
		}
		catalog, err := publisher.PublishCatalog(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Serve(ctx, catalog)).To(Succeed())
	}

	It(
		"is not installed if the Subscription, the OperatorGroup or the Kubernetes version is wrong, and OLM "+
			"reports why", func(ctx SpecContext) {
			// Another catalog has the operator in a newer version. It must not affect any of the tests.
			elsewhere, err := olm.NewPublisher(ctx, c.Lab, GinkgoT().TempDir(), GinkgoWriter)
			Expect(err).NotTo(HaveOccurred())
			Expect(elsewhere.Publish(ctx, olm.Release{Version: "0.9.0", Image: images["0.2.0"]})).To(Succeed())
			catalog, err := elsewhere.PublishCatalog(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(c.ServeAs(ctx, "elsewhere", catalog)).To(Succeed())
			publish(ctx, olm.Release{Version: "0.0.9", Image: images["0.2.0"],
				Change: changeCSV(`minKubeVersion: .*`, "minKubeVersion: 1.99.0")})

			By("using a catalog that does not exist")
			Expect(c.Group(ctx, olm.OwnNamespace)).To(Succeed())
			Expect(c.SubscribeTo(ctx, "nosuch", "candidate")).To(Succeed())
			Eventually(says).WithArguments(c).WithContext(ctx).Should(And(
				ContainSubstring("targeted catalogsource olm/nosuch missing"),
				ContainSubstring(
					"no operators found from catalog nosuch in namespace olm referenced by subscription lvms-operator")))
			Expect(c.Unsubscribe(ctx)).To(Succeed())

			By("subscribing without an OperatorGroup")
			Expect(c.SubscribeTo(ctx, olm.Source, "candidate")).To(Succeed())
			Eventually(says).WithArguments(c).WithContext(ctx).Should(
				ContainSubstring("all available catalogsources are healthy"))
			plans := func() (string, error) {
				return c.Kubectl(ctx, nil, "get", "installplans,csv", "-n", story.OperatorNamespace, "-o", "name")
			}
			Expect(plans()).To(BeEmpty(), "OLM says nothing, and does nothing")

			By("creating two OperatorGroups")
			for _, name := range []string{"lvms", "second"} {
				Expect(c.ApplyManifest(ctx,
					`{apiVersion: operators.coreos.com/v1, kind: OperatorGroup, metadata: {name: `+name+`, namespace: `+story.OperatorNamespace+`},
  spec: {targetNamespaces: [`+story.OperatorNamespace+`]}}`)).To(Succeed())
			}
			Eventually(func() string {
				return cluster.Run(ctx, "get", "operatorgroup", "second", "-n",
					story.OperatorNamespace, "-o", "jsonpath={.status.conditions[*].message}")
			}).WithContext(ctx).Should(
				Equal("Multiple OperatorGroup found in the same namespace"))
			Expect(plans()).To(BeEmpty(), "OLM has read the namespace again, and does nothing")

			By("requiring a newer Kubernetes")
			cluster.Run(ctx, "delete", "operatorgroup", "second", "-n",
				story.OperatorNamespace)
			Eventually(func() (string, error) {
				return c.Kubectl(ctx, nil, "get", "csv", "-n", story.OperatorNamespace, "-o",
					`jsonpath={range .items[*]}{.metadata.name} {.status.phase} {.status.requirementStatus[*].message}{end}`)
			}).WithContext(ctx).Should(
				And(HavePrefix("lvms-operator.v0.0.9 Pending"), ContainSubstring("1.99.0")))
			Expect(c.Unsubscribe(ctx)).To(Succeed())
		}, NodeTimeout(24*time.Minute))

	It("is installed with a Subscription, and serves volumes", func(ctx SpecContext) {
		publish(ctx, olm.Release{Version: "0.2.0", Image: images["0.2.0"], Change: withoutColumns})
		Expect(c.Subscribe(ctx, olm.OwnNamespace, "candidate")).To(Succeed())
		Expect(c.WaitInstalled(ctx, "0.2.0")).To(Succeed())
		Expect(columnsOf(ctx, c)).To(BeEmpty())
		Eventually(pluginOwner).WithArguments(c).WithContext(ctx).Should(
			HaveSuffix(olm.PackageName+".v0.2.0"), "the console's plugin goes with this version")

		By("forbidding privileged Pods in the namespace")
		level := func(level string) {
			cluster.Run(ctx, "label", "--overwrite", "namespace", story.OperatorNamespace,
				"pod-security.kubernetes.io/enforce="+level)
		}
		level("baseline")
		Expect(c.ApplyFile(ctx, "config/samples/lvm_v1alpha1_lvmcluster.yaml")).To(Succeed())
		Eventually(conditions).WithArguments(c).WithContext(ctx).Should(And(
			ContainSubstring("DaemonSet vg-manager: 0 of 1 Pods are created: the Pod Security level of namespace "+
				"openshift-lvm-storage does not allow privileged Pods"),
			ContainSubstring("kubectl label --overwrite namespace openshift-lvm-storage "+
				"pod-security.kubernetes.io/enforce=privileged"),
			ContainSubstring(`violates PodSecurity "baseline:latest"`)))
		level("privileged")
		Expect(c.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
		Eventually(func() (string, error) {
			return c.Kubectl(ctx, nil, "get", "operatorconditions", "-n", story.OperatorNamespace, "-o",
				`jsonpath={range .items[*].spec.conditions[*]}{.type}={.status} {end}`)
		}).WithContext(ctx).Should(ContainSubstring("Upgradeable=True"))
		Expect(c.Claim(ctx, data)).To(Succeed())
		cluster.StartWriting(ctx, data.Name)
		cluster.StillWrites(ctx)
	}, NodeTimeout(32*time.Minute))

	It("creates its alerts, with the runbook address of the Subscription", func(ctx SpecContext) {
		runbook := func() (string, error) {
			return c.Kubectl(ctx, nil, "get", "prometheusrule", alertrules.Name, "-n", story.OperatorNamespace, "-o",
				`jsonpath={.spec.groups[*].rules[?(@.alert=="LVMSAgentDown")].annotations.runbook_url}`)
		}
		is := func(base string) {
			GinkgoHelper()
			Eventually(runbook).WithContext(ctx).Should(
				Equal(base + "LVMSAgentDown.md"))
		}
		configure := func(patch string) {
			cluster.Run(ctx, "patch", "subscription", olm.PackageName, "-n",
				story.OperatorNamespace, "--type=merge", "--patch", patch)
		}
		Expect(c.AddMonitoring(ctx)).To(Succeed())
		is(alertrules.DefaultRunbooks)
		configure(
			`{"spec":{"config":{"env":[{"name":"RUNBOOK_BASE_URL","value":"https://runbooks.example.com/lvms"}]}}}`)
		is("https://runbooks.example.com/lvms/")
		configure(`{"spec":{"config":null}}`)
		is(alertrules.DefaultRunbooks)
		Expect(c.WaitInstalled(ctx, "0.2.0")).To(Succeed())
		cluster.StillWrites(ctx)
	}, NodeTimeout(24*time.Minute))

	// If an operator is installed for its own namespace, OLM limits its webhook to that namespace. A policy refuses
	// LVMClusters in other namespaces.
	It("refuses a second LVMCluster and one in another namespace, with a webhook certificate of OLM",
		func(ctx SpecContext) {
			for namespace, answer := range map[string]string{
				story.OperatorNamespace: "my-lvmcluster",
				"default":               `an LVMCluster must be created in namespace "openshift-lvm-storage", where the operator runs`,
			} {
				Expect(c.ApplyManifest(ctx,
					`{apiVersion: lvm.topolvm.io/v1alpha1, kind: LVMCluster, metadata: {name: second, namespace: `+namespace+`},
  spec: {storage: {deviceClasses: [{name: other, default: true}]}}}`)).To(MatchError(ContainSubstring(answer)))
			}
		}, NodeTimeout(30*time.Minute))

	It("reports a missing permission, and continues when it is restored",
		func(ctx SpecContext) {
			giveClaims := take(ctx, c, &rbacv1.ClusterRole{}, "persistentvolumeclaims/status", "persistentvolumeclaims",
				"list", "watch")
			giveAgents := take(ctx, c, &rbacv1.Role{}, "daemonsets", "daemonsets", "patch")
			restart := func() {
				cluster.Run(ctx, "delete", "pod", "-n", story.OperatorNamespace, "-l",
					"app.kubernetes.io/name=lvms-operator")
			}
			restart()
			Eventually(func() string {
				// There is no log before the Pod exists.
				out, _ := c.Kubectl(ctx, nil, "logs", "-n", story.OperatorNamespace, "deployment/lvms-operator")
				return out
			}).WithContext(ctx).Should(
				ContainSubstring("lvms: ServiceAccount openshift-lvm-storage/lvms-operator does not have " +
					"permission to list persistentvolumeclaims in all namespaces, watch persistentvolumeclaims in " +
					"all namespaces: its Role or ClusterRole is missing or was changed after the installation"))
			cluster.StillWrites(ctx)
			giveClaims()
			restart()
			Eventually(conditions).WithArguments(c).WithContext(ctx).Should(
				ContainSubstring("does not have permission to patch daemonsets.apps in namespace openshift-lvm-storage"))
			giveAgents()
			Expect(c.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
			Expect(c.WaitInstalled(ctx, "0.2.0")).To(Succeed())
		}, NodeTimeout(24*time.Minute))

	It("is upgraded through its channel while a Pod writes and a volume is created", func(ctx SpecContext) {
		waits := story.Volume{Namespace: "default", Name: "waits", Class: "lvms-vg1", Size: "256Mi"}
		Expect(c.Claim(ctx, waits)).To(Succeed())
		Expect(c.StartPod(ctx, waits, "made")).To(Succeed())
		Expect(c.StopPod(ctx, "default", "made")).To(Succeed())
		start := time.Now()
		Expect(c.StartPod(ctx, waits, "usual")).To(Succeed())
		usual := time.Since(start)
		Expect(c.StopPod(ctx, "default", "usual")).To(Succeed())
		replaced := make(chan replacement, 1)
		go func() {
			defer GinkgoRecover()
			defer close(replaced)
			replaced <- mountWhileReplaced(ctx, c, waits)
		}()
		plugin := consolePlugin()
		Expect(c.Get(ctx, client.ObjectKey{Name: consoleplugin.PluginName}, plugin)).To(Succeed())
		publish(ctx, olm.Release{Version: "0.3.0", Image: images["0.3.0"]})
		Eventually(func() (map[string]string, error) {
			phases, _, err := c.Versions(ctx)
			return phases,
				err
		}).WithContext(ctx).Should(HaveKey(olm.PackageName+".v0.3.0"),
			"OLM finds the new version")
		during := story.Volume{Namespace: "default", Name: "during", Class: "lvms-vg1", Size: "256Mi"}
		Expect(c.Claim(ctx, during)).To(Succeed())
		Expect(c.StartPod(ctx, during, "during")).To(Succeed())
		Expect(c.WaitInstalled(ctx, "0.3.0")).To(Succeed())
		Expect(columnsOf(ctx, c)).NotTo(BeEmpty(), "the CRD has its new shape")
		Eventually(pluginOwner).WithArguments(c).WithContext(ctx).Should(
			Equal(string(plugin.UID)+" "+olm.PackageName+".v0.3.0"), "the same plugin goes with the new version")
		agentsFollow(ctx, c, images["0.3.0"])
		Expect(c.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
		cluster.StillWrites(ctx)
		Expect(c.StopPod(ctx, "default", "during")).To(Succeed())
		Expect(c.Unclaim(ctx, during)).To(Succeed())

		waited := <-replaced
		Expect(c.StopPod(ctx, "default", "waits")).To(Succeed())
		Expect(c.Unclaim(ctx, waits)).To(Succeed())
		AddReportEntry("a Pod with a volume runs after, usually", usual.Round(100*time.Millisecond).String())
		AddReportEntry("from the old agent's end to the new one's registration",
			waited.agent.Round(100*time.Millisecond).String())
		AddReportEntry("a Pod that comes in between runs after", waited.pod.Round(100*time.Millisecond).String())
		// The kubelet doubles the time between its attempts, so the Pod waits about as long again as the agent was
		// absent, but not for minutes.
		Expect(waited.pod).To(BeNumerically("<=", 3*waited.agent+usual+30*time.Second))
	}, NodeTimeout(30*time.Minute))

	// A version whose program exits at start has the same effect: the Deployment does not become ready, and the old Pod
	// stays.
	It("continues to serve if the image of the next version is missing", func(ctx SpecContext) {
		repository, _, _ := strings.Cut(images["0.3.0"], "@")
		publish(ctx, olm.Release{Version: "0.3.1", Image: repository + "@sha256:" + strings.Repeat("0", 64)})
		Eventually(func() (map[string]string, error) {
			phases, _, err := c.Versions(ctx)
			return phases,
				err
		}).WithContext(ctx).Should(HaveKeyWithValue(olm.PackageName+
			".v0.3.1", "Installing"))
		Eventually(func() string {
			return cluster.Run(ctx, "get", "pods", "-n", story.OperatorNamespace, "-l",
				"app.kubernetes.io/name=lvms-operator", "--no-headers")
		}).WithContext(ctx).Should(ContainSubstring("ImagePull"))
		during := story.Volume{Namespace: "default", Name: "broken", Class: "lvms-vg1", Size: "256Mi"}
		Expect(c.Claim(ctx, during)).To(Succeed())
		Expect(c.StartPod(ctx, during, "broken")).To(Succeed(), "the old operator still makes volumes")
		cluster.StillWrites(ctx)
		broken = during
	}, NodeTimeout(24*time.Minute))

	// OLM does not upgrade from a version that was never installed. The administrator deletes the Subscription and the
	// versions, which also uninstalls an operator, and subscribes again.
	It("is replaced by a fixed version for all namespaces while volumes exist",
		func(ctx SpecContext) {
			publish(ctx, olm.Release{Version: "0.3.2", Image: images["0.3.0"]})
			sum, err := c.Write(ctx, broken, broken.Name)
			Expect(err).NotTo(HaveOccurred())
			kept := release(ctx, cluster, broken)
			Expect(c.Unsubscribe(ctx)).To(Succeed())
			cluster.StillWrites(ctx)
			Expect(c.Subscribe(ctx, olm.AllNamespaces, "stable-0.3")).To(Succeed())
			Expect(c.WaitInstalled(ctx, "0.3.2")).To(Succeed())
			Expect(c.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
			cluster.StillWrites(ctx)
			again := story.Volume{Namespace: "default", Name: "again", Class: broken.Class,
				Size: broken.Size, Existing: kept}
			Expect(c.Claim(ctx, again)).To(Succeed())
			Expect(c.StartPod(ctx, again, again.Name)).To(Succeed())
			Expect(c.Checksum(ctx, again, again.Name)).To(Equal(sum), "what Retain has left")
			Expect(c.StopPod(ctx, "default", again.Name)).To(Succeed())
			cluster.Run(ctx, "patch", "pv", kept, "--type=merge",
				`--patch={"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
			Expect(c.Unclaim(ctx, again)).To(Succeed())
		}, NodeTimeout(24*time.Minute))

	It("keeps the LVMCluster while a volume exists, and then leaves nothing behind", func(ctx SpecContext) {
		lvmCluster := &lvmv1alpha1.LVMCluster{}
		key := client.ObjectKey{Namespace: story.OperatorNamespace, Name: "my-lvmcluster"}
		Expect(c.Get(ctx, key, lvmCluster)).To(Succeed())
		Expect(c.Delete(ctx, lvmCluster)).To(Succeed())
		Eventually(func(g Gomega) string {
			g.Expect(c.Get(ctx, key, lvmCluster)).To(Succeed())
			return messages(lvmCluster)
		}).WithContext(ctx).Should(ContainSubstring("default/data"),
			"what keeps it is named")
		cluster.StillWrites(ctx)

		Expect(c.StopPod(ctx, "default", "writer")).To(Succeed())
		Expect(c.Unclaim(ctx, data)).To(Succeed())
		Expect(c.Remove(ctx, lvmCluster, 6*time.Minute)).To(Succeed())
		Expect(c.Unsubscribe(ctx)).To(Succeed())
		Expect(c.RemoveMonitoring(ctx)).To(Succeed())
		// OLM does not delete the CRDs of an operator. The administrator deletes them and the catalog.
		for _, args := range []string{
			"delete catalogsource.operators.coreos.com --all -n olm",
			"delete crd lvmclusters.lvm.topolvm.io lvmvolumegroups.lvm.topolvm.io " +
				"lvmvolumegroupnodestatuses.lvm.topolvm.io lvmrecoveries.lvm.topolvm.io " +
				"lvmdeviceapprovals.lvm.topolvm.io volumemoves.lvm.topolvm.io logicalvolumes.topolvm.io",
		} {
			_, err := c.Kubectl(ctx, nil, append(strings.Fields(args), "--timeout=60s")...)
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(func() ([]string, error) {
			after, err := c.Objects(ctx)
			return olm.LeftOver(before, after), err
		}).WithContext(ctx).WithPolling(2*time.Second).Should(BeEmpty(),
			"what is left in the API")
		Expect(cluster.ContentOfDisks(ctx)).To(Equal(disks))
	}, NodeTimeout(32*time.Minute))
})

// release deletes the Pod and claim of a volume, and keeps its PersistentVolume (Retain) for another claim. It returns
// the name of the PersistentVolume.
func release(ctx context.Context, c suite.Cluster, v story.Volume) string {
	GinkgoHelper()
	volume := c.Run(ctx, "get", "pvc", "-n", v.Namespace, v.Name, "-o", "jsonpath={.spec.volumeName}")
	c.Run(ctx, "patch", "pv", volume, "--type=merge", `--patch={"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	Expect(c.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
	c.Run(ctx, "delete", "pvc", "-n", v.Namespace, v.Name, "--timeout=60s")
	c.Run(ctx, "wait", "--for=jsonpath={.status.phase}=Released", "pv/"+volume, "--timeout=60s")
	c.Run(ctx, "patch", "pv", volume, "--type=merge", `--patch={"spec":{"claimRef":null}}`)
	return volume
}

// changeCSV replaces one match of a pattern in the ClusterServiceVersion of a bundle.
func changeCSV(pattern, by string) func(bundle string) error {
	return func(bundle string) error {
		path := filepath.Join(bundle, "manifests", "lvms-operator.clusterserviceversion.yaml")
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		expression := regexp.MustCompile(pattern)
		if found := expression.FindAll(data, -1); len(found) != 1 {
			return fmt.Errorf("%s matches %d times in %s", pattern, len(found), path)
		}
		return os.WriteFile(path, expression.ReplaceAll(data, []byte(by)), 0o644)
	}
}

// withoutColumns removes the printer columns from the LVMCluster CRD, which an older version may lack.
func withoutColumns(bundle string) error {
	files, err := filepath.Glob(filepath.Join(bundle, "manifests", "lvmclusters.*"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("files of the CRD: %v %w", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	from := bytes.Index(data, []byte("  - additionalPrinterColumns:\n"))
	to := bytes.Index(data, []byte("\n    name: v1alpha1\n"))
	if from < 0 || to < from {
		return fmt.Errorf("%s has no columns", files[0])
	}
	return os.WriteFile(files[0], slices.Concat(data[:from], []byte("  - name: v1alpha1\n"),
		data[to+len("\n    name: v1alpha1\n"):]), 0o644)
}

func columnsOf(ctx context.Context, c olm.Cluster) []apiextensionsv1.CustomResourceColumnDefinition {
	GinkgoHelper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	Expect(c.Get(ctx, client.ObjectKey{Name: "lvmclusters.lvm.topolvm.io"}, crd)).To(Succeed())
	return crd.Spec.Versions[0].AdditionalPrinterColumns
}

// pluginOwner returns the UID of the ConsolePlugin, and the version of the ClusterRole that owns it.
func pluginOwner(ctx context.Context, c olm.Cluster) (string, error) {
	plugin := consolePlugin()
	role := &rbacv1.ClusterRole{}
	if err := c.Get(ctx, client.ObjectKey{Name: consoleplugin.PluginName}, plugin); err != nil {
		return "", err
	}
	if len(plugin.OwnerReferences) != 1 {
		return "", fmt.Errorf("owners: %v", plugin.OwnerReferences)
	}
	err := c.Get(ctx, client.ObjectKey{Name: plugin.OwnerReferences[0].Name}, role)
	return string(plugin.UID) + " " + role.Labels["olm.owner"], err
}

// agentsFollow waits until the node agents run an image.
func agentsFollow(ctx context.Context, c olm.Cluster, image string) {
	GinkgoHelper()
	agents := &appsv1.DaemonSet{}
	Eventually(func(g Gomega) bool {
		g.Expect(c.Get(ctx, client.ObjectKey{Namespace: story.OperatorNamespace, Name: "vg-manager"},
			agents)).To(Succeed())
		status := agents.Status
		return slices.ContainsFunc(agents.Spec.Template.Spec.Containers,
			func(container corev1.Container) bool { return container.Image == image }) &&
			status.ObservedGeneration == agents.Generation && status.UpdatedNumberScheduled == 1 &&
			status.NumberReady == 1
	}).WithContext(ctx).Should(BeTrue(), "the agents follow")
}

// says returns the status of the Subscription and of the versions.
func says(ctx context.Context, c olm.Cluster) (string, error) {
	_, seen, err := c.Versions(ctx)
	return seen, err
}

// conditions returns the conditions of the LVMCluster.
func conditions(ctx context.Context, c olm.Cluster) (string, error) {
	lvmCluster := &lvmv1alpha1.LVMCluster{}
	err := c.Get(ctx, client.ObjectKey{Namespace: story.OperatorNamespace, Name: "my-lvmcluster"}, lvmCluster)
	return messages(lvmCluster), err
}

func messages(lvmCluster *lvmv1alpha1.LVMCluster) string {
	var all []string
	for _, condition := range lvmCluster.Status.Conditions {
		all = append(all, condition.Message)
	}
	return strings.Join(all, "; ")
}

// take removes verbs on a resource from the role that OLM created from the operator's bundle and that has a permission
// on another, known resource. The returned function restores them.
func take(ctx context.Context, c olm.Cluster, kind client.Object, known, resource string,
	verbs ...string) (give func()) {
	GinkgoHelper()
	listed := suite.Cluster{Cluster: c.Cluster}.Run(ctx, "get", resourceOf(kind), "-n",
		story.OperatorNamespace, "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.rules[*].resources}{"\n"}{end}`)
	key := client.ObjectKey{Namespace: story.OperatorNamespace}
	for line := range strings.Lines(listed) {
		if name, resources, _ := strings.Cut(line,
			" "); strings.HasPrefix(name, "lvms-operator.v") && strings.Contains(resources, `"`+known+`"`) {
			key.Name = name
		}
	}
	var rules *[]rbacv1.PolicyRule
	switch role := kind.(type) {
	case *rbacv1.ClusterRole:
		key.Namespace = ""
		rules = &role.Rules
	case *rbacv1.Role:
		rules = &role.Rules
	}
	Expect(c.Get(ctx, key, kind)).To(Succeed(), "a role of the operator with a right on %s, among\n%s", known, listed)
	var whole, rest []rbacv1.PolicyRule
	for _, rule := range *rules {
		whole = append(whole, *rule.DeepCopy())
		if slices.Contains(rule.Resources, resource) {
			rule.Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs),
				func(verb string) bool { return slices.Contains(verbs, verb) })
		}
		rest = append(rest, rule)
	}
	Expect(rest).NotTo(Equal(whole), "%s on %s was taken from %s", verbs, resource, key.Name)
	*rules = rest
	Expect(c.Update(ctx, kind)).To(Succeed())
	return func() {
		GinkgoHelper()
		Expect(c.Get(ctx, key, kind)).To(Succeed())
		*rules = whole
		Expect(c.Update(ctx, kind)).To(Succeed())
	}
}

// replacement is how long an agent was absent, and how long a Pod waited that started meanwhile.
type replacement struct{ agent, pod time.Duration }

// mountWhileReplaced waits until the node's agent ends, starts a Pod with an existing volume, and returns when the new
// agent is registered with the kubelet and the Pod runs.
func mountWhileReplaced(ctx context.Context, c olm.Cluster, v story.Volume) replacement {
	GinkgoHelper()
	registered := func() bool {
		node := &storagev1.CSINode{}
		Expect(c.Get(ctx, client.ObjectKey{Name: "node1"}, node)).To(Succeed())
		return slices.ContainsFunc(node.Spec.Drivers,
			func(d storagev1.CSINodeDriver) bool { return d.Name == wellknown.DriverName })
	}
	const (
		limit = 5 * time.Minute
		often = 50 * time.Millisecond
	)
	Eventually(registered).WithContext(ctx).WithTimeout(limit).WithPolling(often).Should(BeFalse(),
		"the old agent goes")
	gone := time.Now()
	started := make(chan time.Duration, 1)
	go func() {
		defer GinkgoRecover()
		defer close(started)
		start := time.Now()
		Expect(c.StartPod(ctx, v, v.Name)).To(Succeed())
		started <- time.Since(start)
	}()
	Eventually(registered).WithContext(ctx).WithTimeout(limit).WithPolling(often).Should(BeTrue(),
		"the new agent is registered")
	return replacement{agent: time.Since(gone), pod: <-started}
}

func consolePlugin() *metav1.PartialObjectMetadata {
	plugin := &metav1.PartialObjectMetadata{}
	plugin.SetGroupVersionKind(consolev1.GroupVersion.WithKind("ConsolePlugin"))
	return plugin
}

// resourceOf returns the resource name of a role, for kubectl.
func resourceOf(role client.Object) string {
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", role), "*v1.")) + "s.rbac.authorization.k8s.io"
}
