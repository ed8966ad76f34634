//go:build e2e

package olmv1

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/olm"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// kinds are the CRDs of the bundle.
var kinds = []string{
	"lvmclusters.lvm.topolvm.io", "lvmvolumegroups.lvm.topolvm.io", "lvmvolumegroupnodestatuses.lvm.topolvm.io",
	"lvmrecoveries.lvm.topolvm.io", "lvmdeviceapprovals.lvm.topolvm.io", "volumemoves.lvm.topolvm.io",
	"logicalvolumes.topolvm.io",
}

var data = story.Volume{Namespace: "default", Name: "data", Class: "lvms-vg1", Size: "512Mi"}

var _ = Describe("LVM Storage with OLM v1", Ordered, func() {
	var (
		documented olm.Manifest
		before     map[string]bool
		disks, sum string
	)

	BeforeAll(func(ctx SpecContext) {
		likeOpenShift(ctx, "e2e-olmv1")
		catalog := publish(ctx, first)
		var err error
		documented, err = olm.DocumentedV1(catalog)
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.Apply(ctx, documented.Without("ClusterRoleBinding", "ClusterExtension"))).To(Succeed())
		Expect(cluster.WaitServing(ctx, catalog)).To(Succeed())
		before, err = cluster.Objects(ctx)
		Expect(err).NotTo(HaveOccurred())
		disks = base.ContentOfDisks(ctx)
	}, NodeTimeout(20*time.Minute))

	It("is not installed without a version or a permission, and OLM v1 reports why", func(ctx SpecContext) {
		By("requesting a version that the catalog does not have")
		Expect(cluster.Apply(ctx, olm.Manifest{withVersion(extensionOf(documented), "9.9.9")})).To(Succeed())
		Eventually(cluster.Says).WithContext(ctx).Should(ContainSubstring(
			`no bundles found for package "lvms-operator" matching version "9.9.9" in channels [stable-0.2]`))

		By("using a ServiceAccount without the ClusterRole")
		Expect(cluster.Apply(ctx, olm.Manifest{extensionOf(documented)})).To(Succeed())
		Eventually(cluster.Says).WithContext(ctx).Should(And(
			ContainSubstring("Installed=False"), ContainSubstring("is forbidden"),
			ContainSubstring("system:serviceaccount:"+namespace+":lvms-installer")))
		Expect(base.Run(ctx, "get", "deployments", "-n", namespace, "-o", "name")).To(BeEmpty())
		Expect(cluster.Remove(ctx, extensionOf(documented), story.Soon)).To(Succeed())
	}, NodeTimeout(30*time.Minute))

	It("is installed with the manifest of the documentation, and serves volumes", func(ctx SpecContext) {
		Expect(cluster.Apply(ctx, documented)).To(Succeed())
		Expect(cluster.WaitInstalled(ctx, first)).To(Succeed())
		base.Run(ctx, "rollout", "status", "deployment/lvms-operator", "-n", namespace, story.Timeout)
		Expect(cluster.ApplyFile(ctx, "config/samples/lvm_v1alpha1_lvmcluster.yaml")).To(Succeed())
		Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
		Eventually(pluginOwner).WithContext(ctx).Should(HavePrefix(roleOf(first)))
		installed, err := cluster.Objects(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(olm.LeftOver(before, installed)).To(ContainElements(
			"customresourcedefinitions /logicalvolumes.topolvm.io", "deployments "+namespace+"/lvms-operator",
			"services "+namespace+"/lvms-operator-service",
		), "the comparison that finds what is left")
		Expect(cluster.Claim(ctx, data)).To(Succeed())
		sum = startWriting(ctx)
		base.StillWrites(ctx)
	}, NodeTimeout(20*time.Minute))

	It("has an admission webhook with a certificate of the service CA", func(ctx SpecContext) {
		second := `{apiVersion: lvm.topolvm.io/v1alpha1, kind: LVMCluster,
  metadata: {name: second, namespace: ` + namespace +
			`}, spec: {storage: {deviceClasses: [{name: other, default: true}]}}}`
		Expect(cluster.ApplyManifest(ctx, second)).To(MatchError(And(ContainSubstring("second"), ContainSubstring(clusterName))))
	}, NodeTimeout(30*time.Minute))

	It("is upgraded to the next minor version while a Pod writes", func(ctx SpecContext) {
		catalog := publish(ctx, next)
		changed, err := olm.DocumentedV1(catalog)
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.Apply(ctx, changed)).To(Succeed())
		Expect(cluster.WaitServing(ctx, catalog)).To(Succeed())
		base.Run(ctx, "patch", "clusterextension", olm.PackageName, "--type=merge",
			`--patch={"spec":{"source":{"catalog":{"channels":["stable-0.3"]}}}}`)
		Expect(cluster.WaitInstalled(ctx, next)).To(Succeed())
		agentsFollow(ctx, images[next])
		Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
		Eventually(pluginOwner).WithContext(ctx).Should(HavePrefix(roleOf(next)))
		base.StillWrites(ctx)
		Expect(cluster.Checksum(ctx, data, "writer")).To(Equal(sum), "what was written before the upgrade")
		during := story.Volume{Namespace: "default", Name: "during", Class: data.Class, Size: "256Mi"}
		Expect(cluster.Claim(ctx, during)).To(Succeed())
		Expect(cluster.StartPod(ctx, during, during.Name)).To(Succeed(), "the next version serves volumes too")
		Expect(cluster.StopPod(ctx, during.Namespace, during.Name)).To(Succeed())
		Expect(cluster.Unclaim(ctx, during)).To(Succeed())
	}, NodeTimeout(20*time.Minute))

	It("keeps its volumes if the ClusterExtension is deleted too early, and serves them again",
		func(ctx SpecContext) {
			idle := story.Volume{Namespace: "default", Name: "idle", Class: data.Class, Size: "512Mi"}
			Expect(cluster.Claim(ctx, idle)).To(Succeed())
			Expect(cluster.StartPod(ctx, idle, idle.Name)).To(Succeed())
			written, err := cluster.Write(ctx, idle, idle.Name)
			Expect(err).NotTo(HaveOccurred())
			Expect(cluster.StopPod(ctx, idle.Namespace, idle.Name)).To(Succeed())
			current, err := cluster.Extension(ctx)
			Expect(err).NotTo(HaveOccurred())

			Expect(cluster.Remove(ctx, extensionOf(documented), story.Soon)).To(Succeed())
			Eventually(func() string {
				return base.Run(ctx, "get", "pods", "-n", namespace, "-l",
					"app.kubernetes.io/name=lvms-operator", "-o", "name")
			}).WithContext(ctx).Should(BeEmpty(), "the operator is removed")
			Expect(deletions(ctx)).To(BeEmpty(), "nothing is left that could delete them")
			base.StillWrites(ctx)

			runDocumented(ctx, "docs/how-to/remove.md", "kubectl patch crd ")
			Expect(cluster.Apply(ctx, olm.Manifest{current})).To(Succeed())
			Expect(cluster.WaitInstalled(ctx, next)).To(Succeed())
			base.Run(ctx, "rollout", "status", "deployment/lvms-operator", "-n", namespace, story.Timeout)
			Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
			agentsFollow(ctx, images[next])
			Expect(cluster.StartPod(ctx, idle, idle.Name)).To(Succeed())
			Expect(cluster.Checksum(ctx, idle, idle.Name)).To(Equal(written), "what was written before")
			Expect(deletions(ctx)).To(BeEmpty(), "a deletion cannot be withdrawn")
			base.StillWrites(ctx)
			Expect(cluster.StopPod(ctx, idle.Namespace, idle.Name)).To(Succeed())
			Expect(cluster.Unclaim(ctx, idle)).To(Succeed())
		}, NodeTimeout(32*time.Minute))

	It("leaves nothing of the bundle behind when it is removed after its LVMCluster", func(ctx SpecContext) {
		Expect(cluster.StopPod(ctx, data.Namespace, "writer")).To(Succeed())
		Expect(cluster.Unclaim(ctx, data)).To(Succeed())
		lvmCluster := &lvmv1alpha1.LVMCluster{}
		lvmCluster.Namespace = namespace
		lvmCluster.Name = clusterName
		Expect(cluster.Remove(ctx, lvmCluster, 6*time.Minute)).To(Succeed())
		Expect(cluster.Remove(ctx, extensionOf(documented), 4*time.Minute)).To(Succeed())
		base.Run(ctx, "delete", "clusterrolebinding", "lvms-installer")
		Eventually(func() ([]string, error) {
			after, err := cluster.Objects(ctx)
			return olm.LeftOver(before, after), err
		}).WithContext(ctx).WithPolling(2*time.Second).Should(BeEmpty(),
			"what is left in the API")
		Expect(base.ContentOfDisks(ctx)).To(Equal(disks))
	}, NodeTimeout(20*time.Minute))
})

// Without a service CA, the lab leaves the feature gate for webhooks disabled.
var _ = Describe("LVM Storage with an OLM v1 that installs no webhooks", func() {
	It("is refused, and OLM v1 reports why", func(ctx SpecContext) {
		bringUp(ctx, lab.Options{Name: "e2e-olmv1-plain"})
		documented, err := olm.DocumentedV1(publish(ctx, first))
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.Apply(ctx, documented)).To(Succeed())
		Eventually(cluster.Says).WithContext(ctx).Should(And(
			ContainSubstring("Installed=False"),
			ContainSubstring("unsupported bundle: webhookDefinitions are not supported")))
		Expect(base.Run(ctx, "get", "deployments", "-n", namespace, "-o", "name")).To(BeEmpty())
	}, NodeTimeout(24*time.Minute))
})

// extensionOf returns a copy of the ClusterExtension.
func extensionOf(manifest olm.Manifest) *unstructured.Unstructured {
	GinkgoHelper()
	at := slices.IndexFunc(manifest, func(
		o *unstructured.Unstructured) bool {
		return o.GetKind() == "ClusterExtension"
	})
	Expect(at).To(BeNumerically(">=", 0), "the documentation has a ClusterExtension")
	return manifest[at].DeepCopy()
}

// withVersion sets the requested version of a ClusterExtension.
func withVersion(extension *unstructured.Unstructured, version string) *unstructured.Unstructured {
	GinkgoHelper()
	Expect(unstructured.SetNestedField(extension.Object, version, "spec", "source", "catalog", "version")).To(Succeed())
	return extension
}

// deletions returns the deletion timestamps of the product's CRDs, its LVMCluster and LogicalVolumes, or "" if none of
// them is being deleted.
func deletions(ctx context.Context) string {
	GinkgoHelper()
	const ask = "jsonpath={.items[*].metadata.deletionTimestamp}"
	return base.Run(ctx, append(strings.Fields("get -o "+ask+" crd"), kinds...)...) +
		base.Run(ctx, "get", "-n", namespace, "-o", ask, "lvmclusters,lvmvolumegroups,logicalvolumes")
}

// startWriting starts a Pod that writes, and returns the checksum of a file that it does not change.
func startWriting(ctx context.Context) string {
	GinkgoHelper()
	base.StartWriting(ctx, data.Name)
	sum, err := cluster.Write(ctx, data, "writer")
	Expect(err).NotTo(HaveOccurred())
	return sum
}

// agentsFollow waits until the node agents run an image.
func agentsFollow(ctx context.Context, image string) {
	GinkgoHelper()
	agents := &appsv1.DaemonSet{}
	Eventually(func(g Gomega) bool {
		g.Expect(cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "vg-manager"}, agents)).To(Succeed())
		has := func(c corev1.Container) bool { return c.Image == image }
		status := agents.Status
		settled := status.ObservedGeneration == agents.Generation && status.UpdatedNumberScheduled == 1 &&
			status.NumberReady == 1
		return settled && slices.ContainsFunc(agents.Spec.Template.Spec.Containers, has)
	}).WithContext(ctx).Should(BeTrue(), "the agents follow")
}

// roleOf returns the prefix of the names of a version's ClusterRoles. OLM v1 truncates the names, including the
// version, to 63 characters.
func roleOf(version string) string {
	return olm.PackageName + ".v" + version[:strings.LastIndex(version, ".")]
}

// pluginOwner returns the name of the ClusterRole that owns the ConsolePlugin.
func pluginOwner(ctx context.Context) (string, error) {
	plugin := &unstructured.Unstructured{}
	plugin.SetAPIVersion("console.openshift.io/v1")
	plugin.SetKind("ConsolePlugin")
	if err := cluster.Get(ctx, client.ObjectKey{Name: "lvms-console"}, plugin); err != nil {
		return "", err
	}
	owners := plugin.GetOwnerReferences()
	if len(owners) != 1 {
		return "", fmt.Errorf("owners of ConsolePlugin %s: %v", plugin.GetName(), owners)
	}
	role := &rbacv1.ClusterRole{}
	err := cluster.Get(ctx, client.ObjectKey{Name: owners[0].Name}, role)
	return role.Name, err
}
