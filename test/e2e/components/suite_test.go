//go:build e2e

// Package components tests the product with real components of other projects: the Prometheus Operator and its
// Prometheus, and kube-network-policies. A signer for the annotations of OpenShift's service CA allows config/openshift
// to be installed and not only rendered.
package components

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const namespace = story.OperatorNamespace

var (
	cluster suite.Cluster
	image   string
)

func TestComponents(t *testing.T) {
	suite.Run(t, "LVM Storage beside real components")
}

func TestEachSpecIsInOneChapter(t *testing.T) {
	suite.Chapters(t, "openshift", "anywhere", "microshift", "nolvm")
}

// All tests share a cluster and an installation. A failed test does not prevent the others.
var _ = Describe("LVM Storage on a cluster with OpenShift's components", Label("openshift"), Ordered,
	ContinueOnFailure, func() {
		BeforeAll(func(ctx SpecContext) {
			image = suite.Archive("LVMS_IMAGE")
			cluster = suite.Up(ctx, lab.Options{
				Name: "e2e-components", Nodes: 2, OpenShift: true, ServiceCA: true, PrometheusOperator: true,
				NetworkPolicies: true,
				Disks:           []lab.DiskSpec{{Size: 4 * lab.GiB}, {Kind: lab.SCSI, Size: lab.GiB}},
			})
			cluster.PrepareOpenShift(ctx)
			installs(ctx)
		}, NodeTimeout(20*time.Minute))

		It("has the certificates of the service CA that config/openshift asks for", func(ctx SpecContext) {
			hasCertificates(ctx)
		}, NodeTimeout(30*time.Minute))

		It("has an admission webhook that the API server trusts", func(ctx SpecContext) {
			asksTheWebhook(ctx)
		}, NodeTimeout(30*time.Minute))

		It("binds a claim, and a Pod writes", func(ctx SpecContext) {
			bindsAClaim(ctx)
		}, NodeTimeout(20*time.Minute))

		It("issues certificates for its node agents", func(ctx SpecContext) {
			agentsHaveCertificates(ctx)
		}, NodeTimeout(30*time.Minute))

		It("serves metrics with a certificate that the bundle of the service CA verifies", func(ctx SpecContext) {
			servesCertificates(ctx)
		}, NodeTimeout(30*time.Minute))

		It("keeps what the service CA has injected when it is applied again", func(ctx SpecContext) {
			isAppliedAgain(ctx)
		}, NodeTimeout(30*time.Minute))

		It("allows ingress to admission and metrics, and to node agents from the operator", func(ctx SpecContext) {
			letsIn(ctx)
		}, NodeTimeout(30*time.Minute))

		It("allows only the egress that each of its Pods needs", func(ctx SpecContext) {
			letsOut(ctx)
		}, NodeTimeout(30*time.Minute))

		It("does not restrict the traffic of other Pods in its namespace", func(ctx SpecContext) {
			leavesNeighborsAlone(ctx)
		}, NodeTimeout(30*time.Minute))

		It("is scraped by a Prometheus that the Prometheus Operator has configured as on OpenShift", func(
			ctx SpecContext) {
			isScraped(ctx)
		}, NodeTimeout(24*time.Minute))

		It("has rules that this Prometheus evaluates, and an alert fires when a disk is pulled", func(ctx SpecContext) {
			fires(ctx)
		}, NodeTimeout(32*time.Minute))
	})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get networkpolicy,servicemonitor,prometheus -A")
}, NodeTimeout(30*time.Minute))

// repositoryFile returns the path of a file in the repository.
func repositoryFile(path string) string {
	GinkgoHelper()
	root, err := lab.Root()
	Expect(err).NotTo(HaveOccurred())
	return filepath.Join(root, path)
}

// podsOf returns the Pods of the product with a name (app.kubernetes.io/name).
func podsOf(ctx context.Context, name string) []corev1.Pod {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(cluster.List(ctx, list, client.InNamespace(namespace),
		client.MatchingLabels{"app.kubernetes.io/name": name})).To(Succeed())
	Expect(list.Items).NotTo(BeEmpty(), "Pods of %s", name)
	return list.Items
}
