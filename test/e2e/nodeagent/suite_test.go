//go:build e2e

// Package nodeagent tests with a real kubelet what the node agents do to volumes, and the metrics that they serve about
// it: trims, I/O limits, the placement of thick volumes, and the erasure of orphans.
package nodeagent

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/prometheus"
	"github.com/lvm-storage/lvm-operator/test/story"
)

var (
	cluster suite.Cluster
	// scraper reads metrics as OpenShift's Prometheus does.
	scraper *http.Client
)

func TestNodeAgent(t *testing.T) { suite.Run(t, "Node agent") }

const (
	namespace = "default"
	class     = "vg1"
)

const classes = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      fstype: xfs
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, sizePercent: 90, overprovisionRatio: 10}
    - name: single
      fstype: ext4
      deviceSelector: {paths: [/dev/ubdc, /dev/ubdd]}
      thickConfig: {allocation: SingleDevice}
    - name: striped
      fstype: ext4
      deviceSelector: {paths: [/dev/ubde, /dev/ubdf]}
      thickConfig: {stripes: 2}
`

var _ = Describe("Node agent", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		image := suite.Archive("LVMS_IMAGE")
		thickDisks := slices.Repeat([]lab.DiskSpec{{Size: 400 * lab.MiB}}, 4)
		cluster = suite.Up(ctx, lab.Options{Name: "e2e-node-agent", Nodes: 1,
			Disks: slices.Concat([]lab.DiskSpec{{Size: 2 * lab.GiB}}, thickDisks)})
		Expect(cluster.Install(ctx, image)).To(Succeed())
		cluster.Configure(ctx, classes)
		certificate, key, err := prometheus.ClientCertificate(ctx, cluster.Cluster)
		Expect(err).NotTo(HaveOccurred())
		pair, err := tls.X509KeyPair(certificate, key)
		Expect(err).NotTo(HaveOccurred())
		scraper = &http.Client{Timeout: suite.ResponseTimeout, Transport: &http.Transport{DialContext: cluster.Lab.Dial,
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}}}
	}, NodeTimeout(20*time.Minute))

	It("trims a volume when the pool is fuller than the threshold", trims, NodeTimeout(30*time.Minute))
	It("reports the I/O limits that are in force", reportsLimits, NodeTimeout(20*time.Minute))
	It("places thick volumes on different devices", placesVolumes, NodeTimeout(20*time.Minute))
	It("erases an orphan before it removes it", erasesOrphans, NodeTimeout(30*time.Minute))
	It("proves on a schedule that the node provides volumes", probesNode, NodeTimeout(40*time.Minute))
	It("is started again when a part of it is stuck", endsWhenStuck, NodeTimeout(20*time.Minute))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get events -A --sort-by=.lastTimestamp",
		"logs -n "+story.OperatorNamespace+" -l app.kubernetes.io/name=vg-manager --tail=60 --prefix")
}, NodeTimeout(30*time.Minute))

// metrics returns what the node agent serves for Prometheus.
func metrics(ctx context.Context) string {
	GinkgoHelper()
	text, err := metricsOf(ctx, "vg-manager")
	Expect(err).NotTo(HaveOccurred())
	return text
}

// metricsOf returns what the first Pod of a component serves for Prometheus.
func metricsOf(ctx context.Context, component string) (string, error) {
	address, err := cluster.Kubectl(ctx, nil, "get", "pods", "-n", story.OperatorNamespace, "-l",
		"app.kubernetes.io/name="+component, "-o", `jsonpath={.items[0].status.podIP}:`+
			`{.items[0].spec.containers[0].ports[?(@.name=="metrics")].containerPort}`)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		return "", err
	}
	response, err := scraper.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}

// ofClaim returns a pattern for a series of the volume of a claim.
func ofClaim(metric, claim, more, value string) string {
	return fmt.Sprintf(`(?m)^%s\{device_class="%s",%snamespace="%s",node="node1",persistentvolumeclaim="%s",`+
		`volume="[^"]+"\} %s$`, metric, class, more, namespace, claim, value)
}
