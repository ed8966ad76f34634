//go:build e2e

// Package groupsnapshot tests snapshots of groups of volumes with the real snapshot-controller, on one and on two
// nodes, while Pods write to the volumes.
package groupsnapshot

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

var cluster suite.Cluster

func TestGroupSnapshots(t *testing.T) { suite.Run(t, "Group snapshots") }

const (
	namespace = "default"
	class     = "lvms-vg1"
	// secretClaim is the claim with an encrypted volume.
	secretClaim = "secret"
)

// classOf returns the StorageClass of a claim.
func classOf(claim string) string {
	if claim == secretClaim {
		return "encrypted"
	}
	return class
}

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
    - name: thick
      fstype: ext4
      deviceSelector: {paths: [/dev/ubdc]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: encrypted}
provisioner: topolvm.io
parameters:
  topolvm.io/device-class: vg1
  csi.storage.k8s.io/fstype: xfs
  lvm.topolvm.io/encryption: luks2
  csi.storage.k8s.io/node-stage-secret-name: lvms-key
  csi.storage.k8s.io/node-stage-secret-namespace: default
volumeBindingMode: WaitForFirstConsumer
`

var _ = Describe("Group snapshots", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		image := suite.Archive("LVMS_IMAGE")
		cluster = suite.UpAndRecord(ctx, lab.Options{Name: "e2e-group-snapshots", Nodes: 2, Snapshots: true,
			Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}, {Size: 1 * lab.GiB}}})
		Expect(cluster.Install(ctx, image)).To(Succeed())
		cluster.Configure(ctx, classes)
	}, NodeTimeout(20*time.Minute))

	It("is of one moment for two volumes of a node", takesGroupOfOneNode, NodeTimeout(30*time.Minute))
	It("is of one moment for two volumes of two nodes", takesGroupOfTwoNodes, NodeTimeout(20*time.Minute))
	It("survives the death of a node agent", survivesDeadAgent, NodeTimeout(30*time.Minute))
	It("survives the death of the operator", survivesDeadOperator, NodeTimeout(20*time.Minute))
	It("is of one moment for an encrypted and a plain volume", takesEncryptedVolumes, NodeTimeout(30*time.Minute))
	It("refuses thick volumes", refusesThickVolumes, NodeTimeout(20*time.Minute))
	It("suspends ten volumes of two nodes for a part of the time of the group", suspendsBriefly,
		NodeTimeout(20*time.Minute))
	It("is removed with its VolumeGroupSnapshot", removesGroups, NodeTimeout(20*time.Minute))
	It("keeps an LVMCluster from being removed", keepsTheClusterOfAGroup, NodeTimeout(24*time.Minute))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get events -A --sort-by=.lastTimestamp",
		"get volumegroupsnapshots,volumegroupsnapshotcontents,volumesnapshots,logicalvolumes.topolvm.io -A -o yaml",
		"logs -n "+story.OperatorNamespace+" -l app.kubernetes.io/name=lvms-operator --tail=60 --prefix",
		"logs -n "+story.OperatorNamespace+" -l app.kubernetes.io/name=vg-manager --tail=60 --prefix")
}, NodeTimeout(30*time.Minute))
