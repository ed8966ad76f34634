//go:build e2e

package comeback

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// areRelocated restores etcd from a backup of before a VolumeMove, which still keeps the earlier copy. The objects name
// the old node: the earlier copy must not be used, and the data that was written after the move must be found.
func areRelocated(ctx SpecContext) {
	const from, to = "node1", "node2"
	bringUp(ctx, lab.Options{Name: "comeback-relocated", Nodes: 2, Snapshots: true,
		Disks: []lab.DiskSpec{{Size: diskSize}}})
	createClasses(ctx, thinClass)
	w := write(ctx, story.Volume{Name: "data", Class: "lvms-" + class, Size: "512Mi", Node: from})
	object := w.claim(ctx).Spec.VolumeName

	By("backing up etcd")
	backup := filepath.Join(GinkgoT().TempDir(), "etcd")
	Expect(cluster.Lab.BackUpEtcd(ctx, backup)).To(Succeed())
	DeferCleanup(os.RemoveAll, backup)

	By("moving the volume, and writing to it on the new node")
	move := &lvmv1alpha1.VolumeMove{
		ObjectMeta: metav1.ObjectMeta{Namespace: story.OperatorNamespace, Name: "data"},
		Spec: lvmv1alpha1.VolumeMoveSpec{NodeName: to,
			Claim: lvmv1alpha1.VolumeMoveClaim{Namespace: namespace, Name: w.Name}},
	}
	Expect(cluster.Create(ctx, move)).To(Succeed())
	Expect(cluster.StopPod(ctx, namespace, w.pod())).To(Succeed())
	Eventually(func() lvmv1alpha1.VolumeMovePhase {
		Expect(cluster.Get(ctx, client.ObjectKeyFromObject(move), move)).To(Succeed())
		return move.Status.Phase
	}).WithContext(ctx).WithTimeout(10*time.Minute).Should(Equal(lvmv1alpha1.MoveKeepingSource),
		func() string { return move.Status.Message })
	w.Node = to
	w.isReadAgain(ctx, to)
	stale := w.sum
	var err error
	w.sum, err = cluster.Write(ctx, w.Volume, w.pod())
	Expect(err).NotTo(HaveOccurred())
	Expect(w.sum).NotTo(Equal(stale))
	Expect(cluster.StopPod(ctx, namespace, w.pod())).To(Succeed())
	handle := w.volume(ctx).Spec.CSI.VolumeHandle
	old, moved := volumesOn(ctx, from), volumesOn(ctx, to)

	By("restoring etcd")
	Expect(cluster.Lab.RestoreEtcd(ctx, backup)).To(Succeed())
	start := time.Now()
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
	Eventually(orphansOf(to)).WithContext(ctx).Should(
		ConsistOf("OtherNode " + class + "/" + handle + " " + namespace + "/" + w.Name))
	named := time.Since(start)
	Eventually(orphansOf(from)).WithContext(ctx).Should(ConsistOf(
		"Object "+object+" "+namespace+"/"+w.Name,
		And(HavePrefix("LogicalVolume "+class+"/"), HaveSuffix(" "+namespace+"/"+w.Name))))
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "events", "-A").Should(
		ContainSubstring("VolumeOnOtherNode"))
	Expect(cluster.Run(ctx, "get", "pod", "-n", namespace, w.pod(), "-o",
		"jsonpath={.status.containerStatuses[0].ready}")).NotTo(Equal("true"), "the earlier copy is used")
	Expect(volumesOn(ctx, from)).To(ConsistOf(old), "nothing is created, removed or renamed")
	Expect(volumesOn(ctx, to)).To(ConsistOf(moved), "nothing is created, removed or renamed")

	By("importing the volume on the node that has it")
	w.Node = from
	Expect(cluster.StopPod(ctx, namespace, w.pod())).To(Succeed())
	Expect(importOn(ctx, to)).To(ConsistOf(And(HaveField("Name", handle), HaveField("FromNode", from))))
	reportTimes(named, approveImport(ctx))
	w.isBound(ctx)
	Expect(string(w.claim(ctx).UID)).To(Equal(w.uid), "it is the same claim")
	w.Node = to
	w.isReadAgain(ctx, to)
	expectOrphansGone(ctx, to)
	Eventually(orphansOf(from)).WithContext(ctx).Should(ConsistOf(HavePrefix("LogicalVolume " + class + "/")))
	Expect(volumesOn(ctx, from)).To(ConsistOf(old), "the earlier copy is kept until somebody deletes it")
}
