//go:build e2e

package encryption

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/story"
)

var (
	data     = story.Volume{Namespace: namespace, Name: "data", Class: "lvms-secret", Size: "1Gi"}
	restored = story.Volume{Namespace: namespace, Name: "restored", Class: "lvms-secret", Size: "1400Mi", Snapshot: "snap"}
	block    = story.Volume{Namespace: namespace, Name: "block", Class: "lvms-thick-secret", Size: "256Mi", Block: true}
	// sum is the checksum of the data.
	sum string
)

// sentence is in a file of the volume, and must not be on the disk.
const sentence = "a sentence that no disk may contain"

// startLater creates a Pod that cannot start yet.
func startLater(ctx SpecContext, v story.Volume, pod string) {
	GinkgoHelper()
	Expect(cluster.ApplyManifest(ctx, `{apiVersion: v1, kind: Pod, metadata: {name: `+pod+`, namespace: `+v.Namespace+`},
  spec: {terminationGracePeriodSeconds: 1, volumes: [{name: data, persistentVolumeClaim: {claimName: `+v.Name+`}}],
    containers: [{name: main, image: "`+cluster.Lab.Registry()+`/busybox:1", command: [sleep, "86400"],
      volumeMounts: [{name: data, mountPath: /data}]}]}}`)).To(Succeed())
}

func needsItsKey(ctx SpecContext) {
	Expect(cluster.Claim(ctx, data)).To(Succeed())
	startLater(ctx, data, "app")
	Eventually(failedMounts(ctx, "app")).WithContext(ctx).Should(ContainSubstring("lvms-key"))
	keys(ctx, "other="+firstKey)
	Eventually(failedMounts(ctx, "app")).WithContext(ctx).Should(
		ContainSubstring("has no key"))
	Expect(cluster.OnNode1(ctx, "blkid --probe "+device(ctx)+" || true")).To(BeEmpty(), "nothing is formatted")
	keys(ctx, "key="+firstKey)
	Expect(cluster.WaitRunning(ctx, namespace, "app")).To(Succeed())
	var err error
	sum, err = cluster.Write(ctx, data, "app")
	Expect(err).NotTo(HaveOccurred())
}

// device returns the logical volume of the claim data.
func device(ctx SpecContext) string {
	GinkgoHelper()
	volume := cluster.Run(ctx, "get", "pvc", "data", "-n", namespace, "-o", "jsonpath={.spec.volumeName}")
	return "/dev/secret/" + cluster.Run(ctx, "get", "pv", volume, "-o", "jsonpath={.spec.csi.volumeHandle}")
}

func keepsDataOffTheDisk(ctx SpecContext) {
	_, err := cluster.Shell(ctx, namespace, "app", "for i in $(seq 1000); do echo "+sentence+"; done > /data/text; sync")
	Expect(err).NotTo(HaveOccurred())
	count := func(path string) string {
		return cluster.OnNode1(ctx, "blockdev --flushbufs "+path+"; tr '\\000' '\\n' < "+path+
			" | grep --text --count '"+sentence+"' || true")
	}
	Expect(count(device(ctx))).To(Equal("0"))
	Expect(mapped(ctx)).To(HaveLen(1))
	Expect(count("/dev/mapper/" + mapped(ctx)[0])).NotTo(Equal("0"))
	Expect(cluster.OnNode1(ctx, "blkid --probe --match-tag TYPE --output value "+device(ctx))).To(Equal("crypto_LUKS"))
	Expect(cluster.Run(ctx, "get", "lvmvolumegroupnodestatus", "node1", "-n", story.OperatorNamespace, "-o", "yaml")).NotTo(
		ContainSubstring("lvms-crypt-"), "the mapped device is not listed as a device")
}

func expandsAndCopies(ctx SpecContext) {
	size, err := cluster.Expand(ctx, data, "app", "1400Mi")
	Expect(err).NotTo(HaveOccurred())
	Expect(size).To(BeNumerically(">", 1200<<20))
	Expect(cluster.Snapshot(ctx, data, "snap")).To(Succeed())
	Expect(cluster.Claim(ctx, restored)).To(Succeed())
	Expect(cluster.StartPod(ctx, restored, "restored")).To(Succeed())
	Expect(cluster.Checksum(ctx, restored, "restored")).To(Equal(sum))
	plain := restored
	plain.Name = "plain"
	plain.Class = "plain"
	Expect(cluster.Claim(ctx, plain)).To(Succeed())
	Eventually(func() string {
		return cluster.Run(ctx, "get", "events", "-n", namespace, "--field-selector",
			"reason=ProvisioningFailed,involvedObject.name=plain", "-o", "jsonpath={.items[*].message}")
	}).WithContext(ctx).Should(ContainSubstring("is encrypted, but the StorageClass is not"))
	Expect(cluster.Unclaim(ctx, plain)).To(Succeed())
	Expect(mapped(ctx)).To(HaveLen(2))
	Expect(cluster.StopPod(ctx, namespace, "restored")).To(Succeed())
	Eventually(func() []string { return mapped(ctx) }).WithContext(ctx).Should(HaveLen(1))
}

func survivesAPowerCut(ctx SpecContext) {
	node, err := cluster.Lab.Node("node1")
	Expect(err).NotTo(HaveOccurred())
	Expect(node.PowerCut(ctx)).To(Succeed())
	Expect(node.Start(ctx)).To(Succeed())
	Eventually(func() (string, error) { return cluster.Checksum(ctx, data, "app") }).WithContext(ctx).Should(Equal(sum))
}

func replacesTheKey(ctx SpecContext) {
	Expect(cluster.StopPod(ctx, namespace, "app")).To(Succeed())
	Eventually(func() []string { return mapped(ctx) }).WithContext(ctx).Should(BeEmpty())
	keys(ctx, "key="+secondKey)
	startLater(ctx, data, "again")
	Eventually(failedMounts(ctx, "again")).WithContext(ctx).Should(
		And(ContainSubstring("its key is not key"), ContainSubstring("nothing is formatted")))
	keys(ctx, "key="+secondKey, "previousKey="+firstKey)
	Expect(cluster.WaitRunning(ctx, namespace, "again")).To(Succeed())
	Expect(cluster.Checksum(ctx, data, "again")).To(Equal(sum))
	Expect(cluster.StopPod(ctx, namespace, "again")).To(Succeed())
	keys(ctx, "key="+secondKey)
	Expect(cluster.StartPod(ctx, data, "last")).To(Succeed())
	Expect(cluster.Checksum(ctx, data, "last")).To(Equal(sum))
	Expect(cluster.StopPod(ctx, namespace, "last")).To(Succeed())
	Expect(cluster.Unclaim(ctx, data)).To(Succeed())
}

func servesBlockVolumes(ctx SpecContext) {
	Expect(cluster.Claim(ctx, block)).To(Succeed())
	Expect(cluster.StartPod(ctx, block, "block")).To(Succeed())
	written, err := cluster.Write(ctx, block, "block")
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.Shell(ctx, namespace, "block", "blockdev --getsize64 /dev/data")).To(HavePrefix("251658240"),
		"256 MiB without the header")
	Expect(cluster.StopPod(ctx, namespace, "block")).To(Succeed())
	Expect(cluster.StartPod(ctx, block, "block-again")).To(Succeed())
	Expect(cluster.Checksum(ctx, block, "block-again")).To(Equal(written))
	Expect(cluster.StopPod(ctx, namespace, "block-again")).To(Succeed())
	Expect(cluster.Unclaim(ctx, block)).To(Succeed())
	Expect(cluster.OnNode1(ctx, "lvs --noheadings -o lv_name thick-secret")).To(BeEmpty(), "it is erased and removed")
	Expect(mapped(ctx)).To(BeEmpty())
}
