//go:build e2e

package components

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/test/prometheus"
)

// platform is OpenShift's Prometheus with the configuration of its operator (cluster-monitoring-operator): the bundle
// of the service CA, a client certificate, and the objects of namespaces with the label. Its ServiceAccount alone has
// no permission to read metrics.
const platform = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus-k8s, namespace: openshift-monitoring}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: serving-certs-ca-bundle, namespace: openshift-monitoring, annotations: {service.beta.openshift.io/inject-cabundle: "true"}}
---
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: k8s, namespace: openshift-monitoring}
spec:
  image: IMAGE
  serviceAccountName: prometheus-k8s
  securityContext: {runAsNonRoot: true, runAsUser: 65534, fsGroup: 65534}
  serviceDiscoveryRole: EndpointSlice
  evaluationInterval: 15s
  secrets: [metrics-client-certs]
  configMaps: [serving-certs-ca-bundle]
  serviceMonitorSelector: {}
  serviceMonitorNamespaceSelector: &platform {matchLabels: {openshift.io/cluster-monitoring: "true"}}
  ruleSelector: {}
  ruleNamespaceSelector: *platform
`

// scrapedIn is the time in which a Prometheus starts, discovers its targets and scrapes them, which it does every 30
// seconds.
const scrapedIn = 4 * time.Minute

// startPrometheus creates a Prometheus object and returns the resulting Prometheus.
func startPrometheus(ctx context.Context, inNamespace, manifest string) *prometheus.Prometheus {
	GinkgoHelper()
	Expect(cluster.ApplyManifest(ctx, strings.ReplaceAll(manifest, "IMAGE", cluster.Lab.Registry()+"/prometheus:1"))).To(Succeed())
	pod := client.ObjectKey{Namespace: inNamespace, Name: "prometheus-k8s-0"}
	Eventually(func() error { return cluster.Get(ctx, pod, &corev1.Pod{}) }).WithContext(ctx).Should(Succeed())
	Expect(cluster.WaitRunning(ctx, pod.Namespace, pod.Name)).To(Succeed())
	return prometheus.At(cluster.Cluster, addressOf(ctx, where{namespace: pod.Namespace, pod: pod.Name})+":9090")
}

// scrapes waits until all targets are scraped.
func scrapes(ctx context.Context, p *prometheus.Prometheus, targets int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		down, up, err := p.Down(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(down).To(BeEmpty())
		g.Expect(up).To(Equal(targets))
	}).WithContext(ctx).WithTimeout(scrapedIn).WithPolling(2 * time.Second).Should(Succeed())
}

var monitored *prometheus.Prometheus

func isScraped(ctx context.Context) {
	GinkgoHelper()
	Expect(cluster.ApplyManifest(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: openshift-monitoring}}")).To(Succeed())
	certificate, key, err := prometheus.ClientCertificate(ctx, cluster.Cluster)
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-monitoring", Name: "metrics-client-certs"},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	})).To(Succeed())
	monitored = startPrometheus(ctx, "openshift-monitoring", platform)
	// The targets are two agents, the operator and one on standby.
	scrapes(ctx, monitored, 4)

	hasLabels(ctx, monitored, `up{job="vg-manager-metrics-service"}`, "node", "node1", "node2")
	hasLabels(ctx, monitored, `up{job="lvms-operator-metrics-service"}`, "namespace", namespace, namespace)
	hasLabels(ctx, monitored, `lvms_volume_group_state{device_class="vg1", state="Ready"} == 1`, "node",
		"node1", "node2")
	// As configured in the ServiceMonitor, the namespace is that of the claim and not that of the agent.
	hasLabels(ctx, monitored, `lvms_volume_size_bytes{persistentvolumeclaim="data"}`, "namespace", "default")
}

// hasLabels waits until an expression returns series with exactly these values of a label.
func hasLabels(ctx context.Context, p *prometheus.Prometheus, expr, label string, want ...string) {
	GinkgoHelper()
	Eventually(func() ([]string, error) {
		samples, err := p.Query(ctx, expr)
		var found []string
		for _, s := range samples {
			found = append(found, s.Metric[label])
		}
		slices.Sort(found)
		return found, err
	}).WithContext(ctx).WithPolling(2*time.Second).Should(Equal(want), "%s of %s", label, expr)
}

func fires(ctx context.Context) {
	GinkgoHelper()
	Expect(monitored).NotTo(BeNil(), "no Prometheus was started")
	evaluates(ctx, monitored)
	node, err := cluster.Lab.Node("node2")
	Expect(err).NotTo(HaveOccurred())
	Expect(node.RemoveDisk(ctx, pulledDisk(ctx).Name)).To(Succeed())
	Eventually(func() ([]string, error) {
		alerts, err := monitored.Alerts(ctx)
		var firing []string
		for _, a := range alerts {
			if a.State == "firing" {
				firing = append(firing, a.Labels["alertname"]+" "+a.Labels["device_class"]+" "+a.Labels["node"])
			}
		}
		return firing, err
	}).WithContext(ctx).WithTimeout(5 * time.Minute).WithPolling(2 * time.Second).Should(
		ContainElement("LVMSDeviceMissing loose node2"))
}

// evaluates waits until exactly the product's rules are evaluated.
func evaluates(ctx context.Context, p *prometheus.Prometheus) {
	GinkgoHelper()
	want := shippedRules()
	Expect(want).NotTo(BeEmpty())
	Eventually(func() (map[string]string, error) { return p.Rules(ctx) }).WithContext(ctx).WithTimeout(2 * time.Minute).
		WithPolling(2 * time.Second).
		Should(Equal(want))
}

// shippedRules returns the names of the rules in the PrometheusRule, like [prometheus.Prometheus.Rules] if there are no
// errors.
func shippedRules() map[string]string {
	GinkgoHelper()
	data, err := os.ReadFile(repositoryFile("monitoring/prometheusrule/prometheusrule.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var rule struct {
		Spec struct {
			Groups []struct {
				Rules []struct{ Alert, Record string }
			}
		}
	}
	Expect(yaml.Unmarshal(data, &rule)).To(Succeed())
	names := map[string]string{}
	for _, group := range rule.Spec.Groups {
		for _, r := range group.Rules {
			names[r.Alert+r.Record] = ""
		}
	}
	return names
}
