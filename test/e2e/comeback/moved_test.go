//go:build e2e

package comeback

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// areMoved moves the disk of a node that is off for good to the other node.
func areMoved(ctx SpecContext) {
	bringUp(ctx, lab.Options{Name: "comeback-moved", Nodes: 2})
	from, to := nodeOf("node1"), nodeOf("node2")
	addDisk(ctx, from)
	createClasses(ctx, thinClass)
	volumes := writeTwo(ctx)
	var before []*corev1.PersistentVolume
	for _, w := range volumes {
		before = append(before, w.volume(ctx))
	}
	content := volumesOn(ctx, from.Name())

	By("moving the disk")
	taken := takeDisk(ctx, from)
	for _, w := range volumes {
		cluster.Run(ctx, "delete", "pod", "-n", namespace, w.pod(), "--force", "--grace-period=0")
	}
	taken.insert(ctx, to)
	start := time.Now()
	Eventually(reasonOf(to.Name())).WithContext(ctx).Should(
		ContainSubstring("VGMoved"))
	named := time.Since(start)

	By("adopting the volume group")
	start = time.Now()
	adopt(ctx, 0, to.Name(), adoption(statusOf(ctx, to.Name(), class).Reason, to.Name()))
	waitUsed(ctx, to.Name())
	adopted := time.Since(start)
	Expect(volumesOn(ctx, to.Name())).To(ConsistOf(content), "nothing is created, removed or wiped")

	By("moving the objects")
	for _, v := range importOn(ctx, to.Name()) {
		Expect(v.FromNode).To(Equal(from.Name()), "volume %s", v.Name)
	}
	for _, w := range volumes {
		Expect(w.volume(ctx).Spec.NodeAffinity.String()).To(ContainSubstring(from.Name()), "nothing is moved unasked")
	}
	reportTimes(named, adopted+approveImport(ctx))
	for i, w := range volumes {
		w.isBound(ctx)
		Expect(string(w.claim(ctx).UID)).To(Equal(w.uid), "it is the same claim")
		after := w.volume(ctx)
		Expect(after.Name).To(Equal(before[i].Name))
		Expect(after.Spec.CSI.VolumeHandle).To(Equal(before[i].Spec.CSI.VolumeHandle))
		Expect(after.Spec.NodeAffinity.String()).To(And(ContainSubstring(to.Name()),
			Not(ContainSubstring(from.Name()))))
		w.isReadAgain(ctx, to.Name())
	}
	Expect(volumesOn(ctx, to.Name())).To(ConsistOf(content))
	expectOrphansGone(ctx, to.Name())
}

// isLost starts a new cluster with the disk of another one, of which nothing else is left.
func isLost(ctx SpecContext) {
	const node = "node1"
	cluster = suite.Up(ctx, lab.Options{Name: "comeback-lost"})
	addDisk(ctx, nodeOf(node))
	install(ctx)
	declare(ctx, "site-7")
	createClasses(ctx, thinClass)
	volumes := writeTwo(ctx)
	content := volumesOn(ctx, node)
	expectIdentity(ctx, node, "site-7")
	taken := takeDisk(ctx, nodeOf(node))
	endCluster(ctx)

	By("starting another cluster with the disk")
	bringUp(ctx, lab.Options{Name: "comeback-new"})
	taken.insert(ctx, nodeOf(node))
	Expect(cluster.ApplyManifest(ctx, thinClass)).To(Succeed())
	start := time.Now()
	Eventually(reasonOf(node)).WithContext(ctx).Should(
		ContainSubstring("OtherClusterVG"))
	named := time.Since(start)
	Expect(volumesOn(ctx, node)).To(ConsistOf(content), "nothing is created, removed or wiped")

	By("adopting all volume groups of the former cluster")
	Expect(statusOf(ctx, node, class).Reason).To(ContainSubstring("adoptClusters: [site-7]"))
	start = time.Now()
	adoptAll(ctx, "site-7")
	waitUsed(ctx, node)
	adopted := time.Since(start)
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
	var orphans []any
	for _, w := range volumes {
		orphans = append(orphans, HaveSuffix(" "+namespace+"/"+w.Name))
	}
	Eventually(orphansOf(node)).WithContext(ctx).Should(
		ConsistOf(orphans...))

	By("importing the volumes from their tags alone")
	fileSystems := map[string]string{}
	for _, v := range importOn(ctx, node) {
		fileSystems[v.Claim] = v.FSType
		Expect(v.Size).To(BeNumerically(">=", 256*lab.MiB))
	}
	Expect(fileSystems).To(Equal(map[string]string{namespace + "/files": "xfs", namespace + "/block": ""}))
	Expect(cluster.Run(ctx, "get", "pv,logicalvolume,pvc", "-A", "-o", "name")).To(BeEmpty(),
		"nothing is imported unasked")
	reportTimes(named, adopted+approveImport(ctx))
	for _, w := range volumes {
		w.isBound(ctx)
		w.isReadAgain(ctx, node)
	}
	Expect(volumesOn(ctx, node)).To(ConsistOf(content))
	expectOrphansGone(ctx, node)
	for _, w := range volumes {
		isDeletedWithItsClaim(ctx, w, node)
	}
}

// writeTwo writes data to a volume with a file system and to a block volume.
func writeTwo(ctx context.Context) []written {
	GinkgoHelper()
	return []written{
		write(ctx, story.Volume{Name: "files", Class: "lvms-" + class, Size: "512Mi"}),
		write(ctx, story.Volume{Name: "block", Class: "lvms-" + class, Size: "256Mi", Block: true}),
	}
}

// waitUsed waits until the volume group of the device class on a node is used.
func waitUsed(ctx context.Context, node string) {
	GinkgoHelper()
	Eventually(func() string { s := statusOf(ctx, node, class); return string(s.Status) + " " + s.Reason }).
		WithContext(ctx).Should(Equal("Ready "))
	Expect(statusOf(ctx, node, class).Devices).NotTo(BeEmpty())
}
