//go:build e2e

package comeback

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// isRestored restores etcd from a backup. After the backup, one volume grew, one was created and one was deleted.
func isRestored(ctx SpecContext) {
	const node = "node1"
	bringUp(ctx, lab.Options{Name: "comeback-etcd", Disks: []lab.DiskSpec{{Size: diskSize}}})
	createClasses(ctx, thinClass)
	volume := func(name string) story.Volume {
		return story.Volume{Name: name, Class: "lvms-" + class, Size: "512Mi"}
	}
	kept := write(ctx, volume("kept"))
	deleted := write(ctx, volume("deleted"))
	Expect(cluster.StopPod(ctx, namespace, deleted.pod())).To(Succeed())
	objectOfDeleted := deleted.claim(ctx).Spec.VolumeName
	handleOfDeleted := deleted.volume(ctx).Spec.CSI.VolumeHandle

	By("backing up etcd")
	backup := filepath.Join(GinkgoT().TempDir(), "etcd")
	Expect(cluster.Lab.BackUpEtcd(ctx, backup)).To(Succeed())
	DeferCleanup(os.RemoveAll, backup)

	By("using the cluster after the backup")
	_, err := cluster.Expand(ctx, kept.Volume, kept.pod(), "1Gi")
	Expect(err).NotTo(HaveOccurred())
	created := write(ctx, volume("created"))
	handleOfCreated := created.volume(ctx).Spec.CSI.VolumeHandle
	Expect(cluster.Unclaim(ctx, deleted.Volume)).To(Succeed())
	Eventually(volumesOn).WithArguments(ctx, node).ShouldNot(
		ContainElement(ContainSubstring(handleOfDeleted)))
	before := volumesOn(ctx, node)

	By("restoring etcd")
	Expect(cluster.Lab.RestoreEtcd(ctx, backup)).To(Succeed())
	start := time.Now()
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
	kept.isRead(ctx, node)

	By("waiting until the differences are reported")
	Eventually(orphansOf(node)).WithContext(ctx).Should(
		ConsistOf(
			"LogicalVolume "+class+"/"+handleOfCreated+" "+namespace+"/"+created.Name,
			"Object "+objectOfDeleted+" "+namespace+"/"+deleted.Name,
		))
	named := time.Since(start)
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "events", "-A").Should(
		And(ContainSubstring("LogicalVolumeMissing"), ContainSubstring("OrphanLogicalVolume")))
	Expect(volumesOn(ctx, node)).To(ConsistOf(before), "nothing is created, removed or shrunk")
	Expect(cluster.Run(ctx, "get", "pvc", "-n", namespace, "-o", "jsonpath={.items[*].metadata.name}")).To(
		Equal("deleted kept"))

	By("importing the volume that was created after the backup")
	Eventually(inUse).WithArguments(ctx, node, handleOfCreated).Should(
		BeFalse(), "the kubelet stops the Pod that etcd does not have")
	imported := importOn(ctx, node, handleOfCreated)
	Expect(imported).To(ConsistOf(And(HaveField("Name", handleOfCreated),
		HaveField("Claim", namespace+"/"+created.Name), HaveField("FSType", "xfs"), HaveField("FromNode", ""))))
	reportTimes(named, approveImport(ctx))
	created.isBound(ctx)
	created.isReadAgain(ctx, node)

	By("using the volume that grew after the backup")
	Expect(cluster.StopPod(ctx, namespace, kept.pod())).To(Succeed())
	kept.isReadAgain(ctx, node)
	growsAgain(ctx, kept, node)

	By("deleting the claim whose data was deleted after the backup")
	Expect(cluster.Unclaim(ctx, deleted.Volume)).To(Succeed())
	Eventually(orphansOf(node)).WithContext(ctx).Should(BeEmpty())
	Expect(volumesOn(ctx, node)).To(ConsistOf(before), "nothing was removed")

	By("deleting the imported volume")
	isDeletedWithItsClaim(ctx, created, node)
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
}

// growsAgain expands a claim that has an older size than its volume, first to the size that the volume has.
func growsAgain(ctx context.Context, w written, node string) {
	GinkgoHelper()
	sizeOf := func() string {
		return cluster.OnNode(ctx, node, "lvs", "--noheadings", "--units", "m", "--nosuffix", "-o", "lv_size",
			class+"/"+w.volume(ctx).Spec.CSI.VolumeHandle)
	}
	Expect(sizeOf()).To(Equal("1024.00"))
	for _, size := range []string{"1Gi", "1280Mi"} {
		cluster.Run(ctx, "patch", "pvc", "-n", w.Namespace, w.Name, "--patch",
			`{"spec":{"resources":{"requests":{"storage":"`+size+`"}}}}`)
		Eventually(cluster.Run).WithArguments(ctx, "get", "pvc", "-n", w.Namespace, w.Name, "-o",
			"jsonpath={.status.capacity.storage}").Should(Equal(size))
	}
	Expect(sizeOf()).To(Equal("1280.00"))
	w.isRead(ctx, node)
}

// inUse returns whether a logical volume is mounted or otherwise open on a node.
func inUse(ctx context.Context, node, volume string) bool {
	GinkgoHelper()
	return strings.Contains(cluster.OnNode(ctx, node, "lvs", "--noheadings", "-o", "lv_device_open", class+"/"+volume),
		"open")
}
