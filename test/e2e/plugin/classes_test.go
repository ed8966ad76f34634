//go:build e2e

package plugin

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	// moved is a device class whose volume group is of another cluster, and pooled one with a thin pool.
	moved  = "moved"
	pooled = "pooled"
)

// addClass adds a device class to the LVMCluster, with a disk.
func addClass(ctx context.Context, name, disk, more string) {
	GinkgoHelper()
	cluster.Run(ctx, "-n", story.OperatorNamespace, "patch", "lvmcluster", "my-lvmcluster", "--type=json", "-p",
		fmt.Sprintf(`[{"op":"add","path":"/spec/storage/deviceClasses/-","value":{"name":%q,"fstype":"ext4",`+
			`"deviceSelector":{"paths":[%q]}%s}}]`, name, disk, more))
}

// adopts uses a volume group of another cluster, and imports a volume of it.
func adopts(ctx context.Context, disk string) {
	GinkgoHelper()
	volume := story.Volume{Namespace: namespace, Name: "found", Class: "lvms-" + moved, Size: "64Mi"}
	cluster.OnNode(ctx, node, "/bin/sh", "-c", fmt.Sprintf(`set -e
lvm vgcreate --quiet %[1]s %[3]s
lvm vgchange --quiet --addtag lvms --addtag lvms.cluster=former %[1]s
lvm vgchange --quiet --addtag lvms.class=%[1]s --addtag lvms.node=%[2]s %[1]s
lvm lvcreate --quiet --yes --name kept --size 64m %[1]s
mkfs.ext4 -q -b 4096 /dev/%[1]s/kept
mkdir -p /run/kept && mount /dev/%[1]s/kept /run/kept
dd if=/dev/urandom of=/run/kept/file bs=1M count=8 conv=fsync
sha256sum </run/kept/file >/run/kept.sum
umount /run/kept
lvm vgchange --quiet --activate n %[1]s`, moved, node, disk))
	before := strings.Fields(cluster.OnNode(ctx, node, "cat", "/run/kept.sum"))[0]
	id := cluster.OnNode(ctx, node, "lvm", "vgs", "--noheadings", "--options", "vg_uuid", moved)
	addClass(ctx, moved, disk, "")
	Eventually(func() string { return lvms(ctx, "status").out }).WithContext(ctx).
		WithPolling(2 * time.Second).Should(And(ContainSubstring("kubectl lvms adopt"), ContainSubstring(id)))
	succeeds(ctx, "adopt", "--node", node, "--class", moved, "--volume-group", id, "--yes")
	Expect(cluster.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
	Eventually(func() string { return lvms(ctx, "orphans").out }).WithContext(ctx).
		WithPolling(2 * time.Second).Should(ContainSubstring("kept"))

	succeeds(ctx, "import", "--node", node, "--class", moved, "--volume", "kept="+namespace+"/"+volume.Name, "--yes")
	Expect(succeeds(ctx, "volumes", "--class", moved)).To(MatchRegexp(`default/found +node1 +moved +64Mi +Ready`))
	Expect(cluster.StartPod(ctx, volume, "reader")).To(Succeed())
	Expect(cluster.Checksum(ctx, volume, "reader")).To(Equal(before))
	isHealthy(ctx)
	Expect(cluster.StopPod(ctx, namespace, "reader")).To(Succeed())
	cluster.Run(ctx, "delete", "pvc", "-n", namespace, volume.Name) // the volume of an import is retained
}

// trims gives the blocks of a deleted file back to a thin pool.
func trims(ctx context.Context, disk string) {
	GinkgoHelper()
	volume := story.Volume{Namespace: namespace, Name: "pooled", Class: "lvms-" + pooled, Size: "200Mi"}
	addClass(ctx, pooled, disk, `,"thinPoolConfig":{"name":"pool","sizePercent":90,"overprovisionRatio":2}`)
	Expect(cluster.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
	Expect(cluster.Claim(ctx, volume)).To(Succeed())
	Expect(cluster.StartPod(ctx, volume, "writer-pooled")).To(Succeed())
	_, err := cluster.Write(ctx, volume, "writer-pooled")
	Expect(err).NotTo(HaveOccurred())
	full := used(ctx)
	_, err = cluster.Shell(ctx, namespace, "writer-pooled", "rm /data/file && sync")
	Expect(err).NotTo(HaveOccurred())
	Expect(used(ctx)).To(BeNumerically(">=", full), "a deleted file keeps its blocks")

	succeeds(ctx, "trim", "--node", node, "--class", pooled, "--yes")
	Expect(used(ctx)).To(BeNumerically("<", full/2))
	isHealthy(ctx)
	Expect(cluster.StopPod(ctx, namespace, "writer-pooled")).To(Succeed())

	By("asking for the repair of a pool that is intact")
	r := lvms(ctx, "repair", "--node", node, "--class", pooled, "--yes")
	Expect(r.code).To(Equal(2), "the action does not help")
	Expect(r.messages).To(ContainSubstring("the kernel reports no problem"))
	Expect(cluster.Run(ctx, "get", "lvmrecoveries", "-A", "-o", "jsonpath={.items[*].spec.action}")).NotTo(
		ContainSubstring("RepairThinPool"), "it is deleted again")
	Expect(cluster.Unclaim(ctx, volume)).To(Succeed())
}

// used returns the share of the thin pool that is used, in percent.
func used(ctx context.Context) float64 {
	GinkgoHelper()
	var percent float64
	_, err := fmt.Sscan(cluster.OnNode(ctx, node, "lvm", "lvs", "--noheadings", "--options", "data_percent",
		pooled+"/pool"), &percent)
	Expect(err).NotTo(HaveOccurred())
	return percent
}
