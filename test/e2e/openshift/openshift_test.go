//go:build e2e

// Package openshift tests LVM Storage on a cluster with the APIs of OpenShift, and on one on which upstream LVMS was
// installed.
package openshift

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	consolev1 "github.com/openshift/api/console/v1"
	securityv1 "github.com/openshift/api/security/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/consoleplugin"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

var image string

func TestOpenShift(t *testing.T) { suite.Run(t, "LVM Storage on an OpenShift-like cluster") }

// A single-node cluster with OpenShift's APIs, and without the snapshot APIs.
var _ = Describe("LVM Storage on an OpenShift-like cluster", Ordered, func() {
	var openshift suite.Cluster
	removeCluster := func(ctx SpecContext) {
		GinkgoHelper()
		lvmCluster := &lvmv1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{
			Namespace: openshift.InstallNamespace(), Name: "my-lvmcluster"}}
		Expect(openshift.Remove(ctx, lvmCluster, 6*time.Minute)).To(Succeed())
		scc := &metav1.PartialObjectMetadata{}
		scc.SetGroupVersionKind(securityv1.GroupVersion.WithKind("SecurityContextConstraints"))
		Expect(apierrors.IsNotFound(openshift.Get(ctx, client.ObjectKey{Name: "lvms-vgmanager"}, scc))).To(BeTrue())
		Expect(apierrors.IsNotFound(openshift.Get(ctx,
			client.ObjectKey{Namespace: "openshift-config-managed", Name: "lvms-dashboard"},
			&corev1.ConfigMap{}))).To(BeTrue())
	}

	BeforeAll(func(ctx SpecContext) {
		image = suite.Archive("LVMS_IMAGE")
		openshift = suite.UpAndRecord(ctx, lab.Options{
			Name: "e2e-openshift", Nodes: 1, OpenShift: true, Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}},
		})
		openshift.PrepareOpenShift(ctx)
	}, NodeTimeout(20*time.Minute))

	JustAfterEach(func(ctx SpecContext) { suite.ReportFailure(ctx, openshift.Cluster) }, NodeTimeout(30*time.Minute))

	DescribeTable("takes over the objects and volumes of upstream while a Pod writes",
		func(ctx SpecContext, namespace string) {
			openshift.Namespace = namespace
			takesUpstreamOver(ctx, openshift)
			consoleReadsFrom(ctx, openshift, namespace)
			removeCluster(ctx)
			Expect(openshift.Get(ctx, client.ObjectKey{Name: consoleplugin.PluginName}, consolePlugin())).To(Succeed())
			Expect(openshift.Uninstall(ctx, image)).To(Succeed())
			goneWithTheOperator(ctx, openshift)
			openshift.Namespace = story.OperatorNamespace
		},
		Entry("in the namespace since 4.20", NodeTimeout(20*time.Minute), story.OperatorNamespace),
		Entry("in the namespace before 4.20", NodeTimeout(20*time.Minute), "openshift-storage"),
	)

	It("serves the console plugin before an LVMCluster exists", func(ctx SpecContext) {
		Expect(openshift.Install(ctx, image)).To(Succeed())
		servesThePlugin(ctx, openshift)
	}, NodeTimeout(30*time.Minute))

	It("creates its SecurityContextConstraints, and serves volumes", func(ctx SpecContext) {
		Expect(openshift.ApplyFile(ctx, "config/samples/lvm_v1alpha1_lvmcluster.yaml")).To(Succeed())
		Expect(openshift.WaitReady(ctx, "my-lvmcluster")).To(Succeed())

		scc := &metav1.PartialObjectMetadata{}
		scc.SetGroupVersionKind(securityv1.GroupVersion.WithKind("SecurityContextConstraints"))
		Expect(openshift.Get(ctx, client.ObjectKey{Name: "lvms-vgmanager"}, scc)).To(Succeed())

		dashboard := &corev1.ConfigMap{}
		Expect(openshift.Get(ctx, client.ObjectKey{Namespace: "openshift-config-managed", Name: "lvms-dashboard"},
			dashboard)).To(Succeed())
		Expect(dashboard.Labels).To(HaveKeyWithValue("console.openshift.io/dashboard", "true"))

		v := story.Volume{Namespace: "default", Name: "data", Class: "lvms-vg1", Size: "512Mi"}
		Expect(openshift.Claim(ctx, v)).To(Succeed())
		Expect(openshift.StartPod(ctx, v, "data")).To(Succeed())
		Expect(openshift.Write(ctx, v, "data")).To(HaveLen(64))
	}, NodeTimeout(20*time.Minute))

	It("reports whether it runs in FIPS mode with the certified module", func(ctx SpecContext) {
		mode := "FIPS mode off"
		if suite.HasCertifiedModule() {
			mode = "FIPS mode on, Go Cryptographic Module v"
		}
		for _, workload := range []string{"deployment/lvms-operator", "daemonset/vg-manager"} {
			Expect(openshift.Run(ctx, "-n", story.OperatorNamespace, "logs", workload)).To(ContainSubstring(mode),
				workload)
		}
	}, NodeTimeout(30*time.Minute))

	It("replaces the cluster tag of version 0.1", func(ctx SpecContext) {
		id := openshift.Run(ctx, "get", "clusterversion", "version", "-o", "jsonpath={.spec.clusterID}")
		uid := openshift.Run(ctx, "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
		openshift.OnNode1(ctx, "lvm vgchange --deltag lvms.cluster="+id+" --addtag lvms.cluster="+uid+" vg1")
		openshift.Run(ctx, "-n", story.OperatorNamespace, "delete", "pod", "-l", "app.kubernetes.io/name=vg-manager")
		Eventually(func() string { return openshift.OnNode1(ctx, "lvm vgs --noheadings --options vg_tags vg1") }).
			WithContext(ctx).Should(And(
			ContainSubstring("lvms.cluster="+id), Not(ContainSubstring(uid))))
		Expect(openshift.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
	}, NodeTimeout(30*time.Minute))

	It("follows the TLS profile of the cluster without a restart", func(ctx SpecContext) {
		followsTheProfile(ctx, openshift)
	}, NodeTimeout(30*time.Minute))

	It("is upgraded while a Pod writes", func(ctx SpecContext) {
		upgrades(ctx, openshift)
		removeCluster(ctx)
	}, NodeTimeout(24*time.Minute))
})

// followsTheProfile changes the TLS profile, and connects to each server with a client that supports only TLS 1.2. The
// port of the agent for the operator is not included: it requires a client certificate.
func followsTheProfile(ctx SpecContext, c suite.Cluster) {
	GinkgoHelper()
	pods := func() map[string]string {
		GinkgoHelper()
		list := &corev1.PodList{}
		Expect(c.List(ctx, list, client.InNamespace(story.OperatorNamespace))).To(Succeed())
		restarts := map[string]string{}
		for _, pod := range list.Items {
			if pod.Labels["app.kubernetes.io/name"] == consoleplugin.Name {
				continue // The profile is in its arguments, so its Pods are replaced.
			}
			restarts[pod.Name] = fmt.Sprintf("%s %d", pod.Status.PodIP, pod.Status.ContainerStatuses[0].RestartCount)
		}
		return restarts
	}
	before := pods()
	accepts := func(version uint16) func() map[string]bool {
		return func() map[string]bool {
			accepted := map[string]bool{}
			list := &corev1.PodList{}
			Expect(c.List(ctx, list, client.InNamespace(story.OperatorNamespace))).To(Succeed())
			for _, pod := range list.Items {
				if !ready(&pod) {
					continue
				}
				for _, port := range pod.Spec.Containers[0].Ports {
					if !slices.Contains([]string{"healthz", "agent", "peer"}, port.Name) {
						accepted[pod.Labels["app.kubernetes.io/name"]+" "+port.Name] = shakesHands(ctx, c.Lab,
							fmt.Sprintf("%s:%d", pod.Status.PodIP, port.ContainerPort), version)
					}
				}
			}
			return accepted
		}
	}
	all := map[string]bool{"lvms-operator webhook": true, "lvms-operator metrics": true, "vg-manager metrics": true,
		"lvms-console-plugin https": true, "lvms-operator changed-blocks": true}
	none := map[string]bool{"lvms-operator webhook": false, "lvms-operator metrics": false, "vg-manager metrics": false,
		"lvms-console-plugin https": false, "lvms-operator changed-blocks": false}
	Eventually(accepts(tls.VersionTLS12)).WithContext(ctx).Should(Equal(all))
	Expect(c.ApplyManifest(ctx, "{apiVersion: config.openshift.io/v1, kind: APIServer, metadata: {name: cluster}, spec: "+
		"{tlsSecurityProfile: {type: Modern, modern: {}}}}")).To(Succeed())
	Eventually(accepts(tls.VersionTLS12)).WithContext(ctx).Should(Equal(none))
	Expect(accepts(tls.VersionTLS13)()).To(Equal(all))
	c.Run(ctx, "delete", "apiserver.config.openshift.io", "cluster")
	Expect(pods()).To(Equal(before), "nothing was restarted")
}

func shakesHands(ctx context.Context, l *lab.Lab, address string, version uint16) bool {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, suite.ResponseTimeout)
	defer cancel()
	raw, err := l.Dial(ctx, "tcp", address)
	if err != nil {
		return false // a terminating Pod
	}
	defer func() { _ = raw.Close() }()
	return tls.Client(raw, &tls.Config{InsecureSkipVerify: true, MaxVersion: version}).HandshakeContext(ctx) == nil
}

// ready reports whether a Pod is ready and not terminating.
func ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && slices.ContainsFunc(pod.Status.Conditions,
		func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
}

func consolePlugin() *metav1.PartialObjectMetadata { return consoleObject("ConsolePlugin") }

func consoleObject(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(consolev1.GroupVersion.WithKind(kind))
	return object
}

// servesThePlugin simulates the service CA, and then loads the plugin's files like the console, with the name of the
// Service.
func servesThePlugin(ctx SpecContext, openshift suite.Cluster) {
	GinkgoHelper()
	const namespace = story.OperatorNamespace
	service := &corev1.Service{}
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: namespace, Name: consoleplugin.Name}
	Eventually(openshift.Get).WithArguments(ctx, key, service).WithContext(ctx).
		Should(Succeed())
	ca, err := story.NewServiceCA()
	Expect(err).NotTo(HaveOccurred())
	Expect(ca.Serve(ctx, openshift.Cluster, service.Name,
		service.Annotations["service.beta.openshift.io/serving-cert-secret-name"])).To(Succeed())
	Eventually(func(g Gomega) int32 {
		g.Expect(openshift.Get(ctx, key, deployment)).To(Succeed())
		return deployment.Status.AvailableReplicas
	}).WithContext(ctx).Should(Equal(int32(1)),
		"one Pod on a single node")

	pods := &corev1.PodList{}
	Expect(openshift.List(ctx, pods, client.InNamespace(namespace),
		client.MatchingLabels(service.Spec.Selector))).To(Succeed())
	Expect(pods.Items).To(HaveLen(1))
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(ca.Authority)).To(BeTrue())
	web := &http.Client{Timeout: suite.ResponseTimeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return openshift.Lab.Dial(ctx, network,
				fmt.Sprintf("%s:%d", pods.Items[0].Status.PodIP,
					pods.Items[0].Spec.Containers[0].Ports[0].ContainerPort))
		},
	}}
	load := func(path string) (string, []byte) {
		GinkgoHelper()
		response, err := web.Get(fmt.Sprintf("https://%s.%s.svc.cluster.local:%d/%s", service.Name, namespace,
			service.Spec.Ports[0].Port, path))
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		Expect(err).NotTo(HaveOccurred())
		Expect(response.StatusCode).To(Equal(http.StatusOK), "%s: %s", path, body)
		return response.Header.Get("Content-Type"), body
	}
	var manifest struct {
		Name        string
		LoadScripts []string
	}
	_, body := load("plugin-manifest.json")
	Expect(json.Unmarshal(body, &manifest)).To(Succeed())
	Expect(manifest.Name).To(Equal(consoleplugin.PluginName))
	Expect(manifest.LoadScripts).NotTo(BeEmpty())
	for _, script := range manifest.LoadScripts {
		kind, body := load(script)
		Expect(kind).To(HavePrefix("text/javascript"))
		Expect(string(body)).To(ContainSubstring("__load_plugin_entry__"))
	}
	_, body = load("config.json")
	Expect(body).To(MatchJSON(`{"namespace": "` + namespace + `"}`))
	load("locales/en/plugin__" + consoleplugin.PluginName + ".json")

	for kind, name := range map[string]string{"ConsolePlugin": consoleplugin.PluginName,
		"ConsoleQuickStart": "lvms-local-volumes"} {
		object := consoleObject(kind)
		Expect(openshift.Get(ctx, client.ObjectKey{Name: name}, object)).To(Succeed())
		Expect(object.OwnerReferences).To(HaveLen(1))
		Expect(object.OwnerReferences[0].Kind + " " + object.OwnerReferences[0].Name).To(
			Equal("ClusterRole lvms-operator"))
	}
	Expect(openshift.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "lvms-metrics"},
		&rbacv1.RoleBinding{})).To(Succeed())
}

// consoleReadsFrom checks which namespace the plugin and the quick start have.
func consoleReadsFrom(ctx SpecContext, openshift suite.Cluster, namespace string) {
	GinkgoHelper()
	Expect(openshift.Run(ctx, "get", "consoleplugin", consoleplugin.PluginName, "-o",
		"jsonpath={.spec.backend.service.namespace}")).To(Equal(namespace))
	Expect(openshift.Run(ctx, "get", "consolequickstart", "lvms-local-volumes", "-o",
		"jsonpath={.spec.accessReviewResources[*].namespace} {.spec.tasks[0].review.failedTaskHelp}")).To(
		And(HavePrefix(namespace+" "), HaveSuffix("in the namespace "+namespace+".")))
	Expect(openshift.Run(ctx, "-n", namespace, "get", "deployment", consoleplugin.Name, "-o",
		"jsonpath={.spec.template.spec.containers[0].args}")).To(ContainSubstring("--namespace=" + namespace))
}

// goneWithTheOperator checks that the cluster-scoped objects are deleted without being deleted by name.
func goneWithTheOperator(ctx SpecContext, openshift suite.Cluster) {
	GinkgoHelper()
	for _, kind := range []string{"ConsolePlugin", "ConsoleQuickStart"} {
		Eventually(func() ([]metav1.PartialObjectMetadata, error) {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(consolev1.GroupVersion.WithKind(kind + "List"))
			err := openshift.List(ctx, list)
			return list.Items, err
		}).WithContext(ctx).Should(BeEmpty())
	}
}
