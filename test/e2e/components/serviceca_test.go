//go:build e2e

package components

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/consoleplugin"
	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/prometheus"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// classes has a device class on each node for volumes, and one on a disk of node2 that can be pulled.
const classes = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, sizePercent: 90, overprovisionRatio: 10}
    - name: loose
      nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node2]}]}]}
      deviceSelector: {paths: [LOOSE]}
`

// bundleMap is a ConfigMap that requests the bundle of the service CA, like that of OpenShift's monitoring.
const bundleMap = `
apiVersion: v1
kind: ConfigMap
metadata: {name: trusted, namespace: default, annotations: {service.beta.openshift.io/inject-cabundle: "true"}}
`

// installs installs config/openshift and creates an LVMCluster, which the webhook must admit.
func installs(ctx context.Context) {
	GinkgoHelper()
	Expect(cluster.InstallFrom(ctx, "config/openshift", image)).To(Succeed())
	Expect(cluster.ApplyManifest(ctx, bundleMap)).To(Succeed())
	cluster.Configure(ctx, strings.ReplaceAll(classes, "LOOSE", pulledDisk(ctx).Device))
}

// pulledDisk is the disk of node2 that can be pulled.
func pulledDisk(ctx context.Context) lab.Disk {
	GinkgoHelper()
	node, err := cluster.Lab.Node("node2")
	Expect(err).NotTo(HaveOccurred())
	disks, err := node.Disks(ctx)
	Expect(err).NotTo(HaveOccurred())
	at := slices.IndexFunc(disks, func(d lab.Disk) bool { return d.Kind == lab.SCSI })
	Expect(at).To(BeNumerically(">=", 0))
	return disks[at]
}

func hasCertificates(ctx context.Context) {
	GinkgoHelper()
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(bundle(ctx))).To(BeTrue())
	for secret, service := range map[string]string{
		"lvms-operator-webhook-server-cert": "lvms-operator-webhook-service",
		"lvms-operator-metrics-cert":        "lvms-operator-metrics-service",
		"vg-manager-metrics-cert":           "vg-manager-metrics-service",
		consoleplugin.Name + "-cert":        consoleplugin.Name,
	} {
		found := &corev1.Secret{}
		// The operator creates the Service of the plugin after it has started.
		Eventually(cluster.Get).WithArguments(ctx, client.ObjectKey{Namespace: namespace, Name: secret},
			found).WithContext(ctx).Should(Succeed())
		pair, err := tls.X509KeyPair(found.Data[corev1.TLSCertKey], found.Data[corev1.TLSPrivateKeyKey])
		Expect(err).NotTo(HaveOccurred(), secret)
		_, err = pair.Leaf.Verify(x509.VerifyOptions{DNSName: service + "." + namespace + ".svc", Roots: roots})
		Expect(err).NotTo(HaveOccurred(), secret)
	}
}

// bundle returns the certificates that clients of the service CA trust.
func bundle(ctx context.Context) []byte {
	GinkgoHelper()
	trusted := &corev1.ConfigMap{}
	Eventually(func() (string, error) {
		err := cluster.Get(ctx, client.ObjectKey{Namespace: "default", Name: "trusted"}, trusted)
		return trusted.Data["service-ca.crt"], err
	}).WithContext(ctx).ShouldNot(BeEmpty())
	return []byte(trusted.Data["service-ca.crt"])
}

// asksTheWebhook creates a second LVMCluster, which only the operator's webhook refuses.
func asksTheWebhook(ctx context.Context) {
	GinkgoHelper()
	err := cluster.ApplyManifest(ctx, strings.NewReplacer("LOOSE", "/dev/ubdz", "name: my-lvmcluster", "name: second").Replace(classes))
	Expect(err).To(MatchError(MatchRegexp(`The LVMCluster "second" is invalid: .* can have (only )?one`)))
}

func bindsAClaim(ctx context.Context) {
	GinkgoHelper()
	v := story.Volume{Namespace: "default", Name: "data", Class: "lvms-vg1", Size: "512Mi"}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, "data")).To(Succeed())
	Expect(cluster.Write(ctx, v, "data")).To(HaveLen(64))
}

// servesCertificates reads the metrics of each Pod with the name of the Service, and trusts only the service CA.
func servesCertificates(ctx context.Context) {
	GinkgoHelper()
	certificate, key, err := prometheus.ClientCertificate(ctx, cluster.Cluster)
	Expect(err).NotTo(HaveOccurred())
	platform, err := tls.X509KeyPair(certificate, key)
	Expect(err).NotTo(HaveOccurred())
	for name, metric := range map[string]string{"lvms-operator": "\nrest_client_requests_total{",
		"vg-manager": "\nlvms_volume_group_state{"} {
		for _, pod := range podsOf(ctx, name) {
			config := &tls.Config{ServerName: name + "-metrics-service." + namespace + ".svc",
				RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{platform}}
			Expect(config.RootCAs.AppendCertsFromPEM(bundle(ctx))).To(BeTrue())
			Expect(get(ctx, config, fmt.Sprintf("https://%s:8443/metrics", pod.Status.PodIP))).To(
				ContainSubstring(metric), pod.Name)
		}
	}
	available := &appsv1.Deployment{}
	Eventually(func() (int32, error) {
		err := cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: consoleplugin.Name}, available)
		return available.Status.AvailableReplicas, err
	}).WithContext(ctx).Should(Equal(int32(2)),
		"Pods of the plugin, which wait for their certificate")
}

// get sends a request with a TLS configuration in the lab's network, and returns the response.
func get(ctx context.Context, config *tls.Config, url string) string {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	Expect(err).NotTo(HaveOccurred())
	web := &http.Client{Timeout: suite.ResponseTimeout,
		Transport: &http.Transport{DialContext: cluster.Lab.Dial, DisableKeepAlives: true, TLSClientConfig: config}}
	response, err := web.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.StatusCode).To(Equal(http.StatusOK), "%s: %s", url, body)
	return string(body)
}

// isAppliedAgain applies the manifests again, as a GitOps tool does continuously.
func isAppliedAgain(ctx context.Context) {
	GinkgoHelper()
	isInjected := func() {
		GinkgoHelper()
		found := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		Expect(cluster.Get(ctx, client.ObjectKey{Name: "lvms-operator-webhook"}, found)).To(Succeed())
		Expect(found.Webhooks).NotTo(BeEmpty())
		for _, webhook := range found.Webhooks {
			Expect(webhook.ClientConfig.CABundle).To(Equal(bundle(ctx)), webhook.Name)
		}
	}
	isInjected()
	before := podsOf(ctx, "lvms-operator")
	Expect(cluster.InstallFrom(ctx, "config/openshift", image)).To(Succeed())
	isInjected()
	var names, now []string
	for _, pod := range before {
		names = append(names, pod.Name)
	}
	for _, pod := range podsOf(ctx, "lvms-operator") {
		now = append(now, pod.Name)
	}
	Expect(now).To(ConsistOf(names), "no Pod was replaced")
	Expect(cluster.Run(ctx, "annotate", "lvmcluster", "-n", namespace, "my-lvmcluster", "applied=again")).NotTo(BeEmpty(),
		"the webhook answers")
	isInjected()
}

// agentsHaveCertificates checks that the operator has issued a certificate for the agent of each node.
func agentsHaveCertificates(ctx context.Context) {
	GinkgoHelper()
	pods := podsOf(ctx, "vg-manager")
	Expect(pods).NotTo(BeEmpty())
	for _, pod := range pods {
		node := pod.Spec.NodeName
		status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
		Eventually(func() (string, error) {
			err := cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: node}, status)
			if err != nil || status.Status.AgentCertificate == nil {
				return "", err
			}
			return status.Status.AgentCertificate.Certificate, nil
		}).WithContext(ctx).ShouldNot(BeEmpty(), node)
		c := status.Status.AgentCertificate
		Expect(c.Message).To(BeEmpty(), node)
		certificate, err := pki.ParseCertificate([]byte(c.Certificate))
		Expect(err).NotTo(HaveOccurred(), node)
		authorities := x509.NewCertPool()
		Expect(authorities.AppendCertsFromPEM([]byte(c.Authorities))).To(BeTrue(), node)
		_, err = certificate.Verify(x509.VerifyOptions{DNSName: node, Roots: authorities})
		Expect(err).NotTo(HaveOccurred(), node)
		Expect(fmt.Sprint(certificate.URIs)).To(Equal("["+mutualtls.Node(node)+"]"), node)
	}
}
