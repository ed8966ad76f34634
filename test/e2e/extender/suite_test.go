//go:build e2e

// Package extender tests the scheduler extender and the Pod webhook: kube-scheduler asks `lvms scheduler` where Pods
// fit that the operator has marked.
package extender

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const namespace = story.OperatorNamespace

var (
	cluster suite.Cluster
	image   string
)

func TestExtender(t *testing.T) { suite.Run(t, "LVM Storage with a scheduler extender") }

// extenders is the configuration of kube-scheduler. In the lab, it does not run on a node, so it uses HTTPS.
const extenders = `
- urlPrefix: https://%s:9251
  filterVerb: predicate
  prioritizeVerb: prioritize
  weight: 1
  nodeCacheCapable: false
  enableHTTPS: true
  tlsConfig: {caData: %s}
  managedResources: [{name: topolvm.io/capacity, ignoredByScheduler: true}]
`

// classes has a thick device class on both nodes.
const classes = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: thick
      default: true
      fstype: ext4
      deviceSelector: {paths: [/dev/ubdb]}
`

var _ = Describe("LVM Storage with a scheduler extender", Ordered, func() {
	var certificate pki.Pair

	BeforeAll(func(ctx SpecContext) {
		image = suite.Archive("LVMS_IMAGE")
		authority, err := pki.NewAuthority(pki.Request{Name: "extender", Now: time.Now(), Validity: 24 * time.Hour})
		Expect(err).NotTo(HaveOccurred())
		certificate, err = authority.Issue(pki.ServerRequest(time.Now(), 24*time.Hour, lab.NodeIP(1)))
		Expect(err).NotTo(HaveOccurred())
		cluster = suite.Up(ctx, lab.Options{Name: "e2e-extender", Nodes: 2, Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}},
			Extenders: fmt.Sprintf(extenders, lab.NodeIP(1), base64.StdEncoding.EncodeToString(authority.PEM()))})
		Expect(cluster.Install(ctx, image)).To(Succeed())
		cluster.Configure(ctx, classes)
	}, NodeTimeout(20*time.Minute))

	It("runs the scheduler extender on a node of the control plane", func(ctx SpecContext) {
		runsTheExtender(ctx, certificate)
	}, NodeTimeout(30*time.Minute))

	It("registers the Pod webhook", func(ctx SpecContext) {
		registersTheWebhook(ctx)
	}, NodeTimeout(30*time.Minute))

	It("places a Pod with two claims on the node that has capacity for both", func(ctx SpecContext) {
		placesTwoClaims(ctx)
	}, NodeTimeout(30*time.Minute))

	It("says why a Pod fits on no node", func(ctx SpecContext) {
		saysWhy(ctx)
	}, NodeTimeout(30*time.Minute))

	It("is turned off, and Pods are created without marks", func(ctx SpecContext) {
		isTurnedOff(ctx)
	}, NodeTimeout(30*time.Minute))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get mutatingwebhookconfigurations -o yaml",
		"logs -n "+namespace+" -l app.kubernetes.io/name=lvms-scheduler --tail=40 --prefix", "get nodes -o yaml")
}, NodeTimeout(30*time.Minute))
