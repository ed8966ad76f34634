//go:build e2e

// Package namespace tests an installation in a namespace with the workloads of another operator.
package namespace

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
)

// namespace is where upstream LVMS was installed until version 4.19.
const namespace = "openshift-storage"

func TestNamespace(t *testing.T) {
	suite.Run(t, "LVM Storage in another namespace")
}

func TestEachSpecIsInOneChapter(t *testing.T) { suite.Chapters(t, "manifests", "olm", "helm") }

// neighbors are objects of another operator in the namespace.
const neighbors = `
apiVersion: v1
kind: Namespace
metadata: {name: openshift-storage, labels: {neighbor: "yes"}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: neighbor, namespace: openshift-storage}
data: {a: b}
---
apiVersion: v1
kind: Pod
metadata: {name: neighbor, namespace: openshift-storage, labels: {app: neighbor}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: registry.lab:5000/busybox:1
    command: [sleep, "100000"]
`

const manifest = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: NAMESPACE}
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, overprovisionRatio: 10}
`

var cluster suite.Cluster

var _ = Describe("LVM Storage in the namespace of another operator", Label("manifests"), func() {
	It("serves volumes, and leaves the other operator alone", servesBesideAnother, NodeTimeout(30*time.Minute))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get all,networkpolicy -n "+namespace,
		"logs -n "+namespace+" deployment/lvms-operator --tail=60")
}, NodeTimeout(4*time.Minute))
