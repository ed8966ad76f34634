//go:build e2e

package tenants

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	cmpdiff "github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/test/layers"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// guest is the volume group of a virtual machine: nothing of it is on the node.
var guest = layers.Group{Name: "guestvg", UUID: "gueStv-0000-0000-0000-0000-0000-000001",
	PV: "gueStp-0000-0000-0000-0000-0000-000001", Volume: "root"}

// content is what a tenant writes to a block volume.
type content struct {
	// build returns the beginning of the device.
	build func(ctx context.Context) []byte
	// seen is what blkid of the node says about the logical volume.
	seen string
	// class is the StorageClass; by default that of the device class.
	class string
	// hold makes the host open the device, as programs of other hosts do. udev of the node may do that by itself.
	hold func(ctx context.Context, device string)
	// holder is a part of the message that names what has opened the device. It is "" if the node opens nothing.
	holder string
	// release does what the command of the message does, if the node does not have the program. By default, the
	// command is run.
	release func(ctx context.Context)
}

func groupContent(g layers.Group) []byte { return layers.PhysicalVolume(g.PV, g.Metadata()) }

// namedAsOurs is a volume group with the name of the device class.
func namedAsOurs(context.Context) []byte {
	g := guest
	g.Name = class
	return groupContent(g)
}

// taggedAsOurs is a volume group with the tags of the volume group of the device class.
func taggedAsOurs(ctx context.Context) []byte {
	g := guest
	g.Tags = strings.Split(onTheDisk(ctx, "vgs", "vg_tags", class), ",")
	Expect(g.Tags).To(ContainElements("lvms", "lvms.node="+node))
	return groupContent(g)
}

// copyOfOurs is a copy of the metadata of the volume group of the device class, with the UUID of its physical volume.
func copyOfOurs(ctx context.Context) []byte {
	return layers.PhysicalVolume(onTheDisk(ctx, "pvs", "pv_uuid", disk), ourMetadata(ctx))
}

// newerThanOurs has metadata of the volume group of the device class with a higher sequence number, by which LVM
// selects the metadata that is valid. All its logical volumes are gone.
func newerThanOurs(ctx context.Context) []byte {
	text := regexp.MustCompile(`seqno = \d+`).ReplaceAllString(ourMetadata(ctx), "seqno = 1000000")
	before, rest, found := strings.Cut(text, "logical_volumes {")
	Expect(found).To(BeTrue())
	// The lines of the header come after the group.
	_, header, found := strings.Cut(rest, "\n}\n")
	Expect(found).To(BeTrue())
	return layers.PhysicalVolume(guest.PV, before+"}\n"+header)
}

// ourMetadata returns the metadata of the volume group of the device class as it is on the disk: it begins with the
// name of the group.
func ourMetadata(ctx context.Context) string {
	GinkgoHelper()
	text := cluster.OnNode1(ctx, fmt.Sprintf(
		"vgcfgbackup --config '%s' --file /run/backup %s >/dev/null && cat /run/backup", onlyTheDisk, class))
	header, group, found := strings.Cut(text, "\n"+class+" {")
	Expect(found).To(BeTrue(), "%s", text)
	return class + " {" + group + "\n" + header + "\n"
}

// onTheDisk returns a field of the report of LVM, which reads the disk of the device class alone.
func onTheDisk(ctx context.Context, command, field, name string) string {
	GinkgoHelper()
	return cluster.OnNode(ctx, node, command, "--config", onlyTheDisk, "--noheadings", "-o", field, name)
}

// array is the RAID array that the host assembles, which mdadm does on hosts that have it.
const array = "md120"

// assemble makes the host assemble an array that has the device of a tenant as its only member.
func assemble(ctx context.Context, device string) {
	GinkgoHelper()
	cluster.OnNode1(ctx, fmt.Sprintf(`set -e
modprobe raid1
dm=$(basename $(readlink -f %[1]s))
md=/sys/block/%[2]s/md
echo %[2]s >/sys/module/md_mod/parameters/new_array
echo none >$md/metadata_version
echo raid1 >$md/level
echo 1 >$md/raid_disks
cat /sys/block/$dm/dev >$md/new_dev
echo 2048 >$md/dev-$dm/offset
echo 0 >$md/dev-$dm/slot
echo 32768 >$md/component_size
echo active >$md/array_state`, device, array))
}

// stopArray does what mdadm --stop does.
func stopArray(ctx context.Context) {
	GinkgoHelper()
	cluster.OnNode1(ctx, "echo clear >/sys/block/"+array+"/md/array_state")
}

var _ = Describe("A tenant's block volume", Label("content"), Ordered, ContinueOnFailure, func() {
	within := NodeTimeout(25 * time.Minute)
	DescribeTable("harms nobody if it contains", harmlessContent,
		Entry("a volume group with the name of the device class", within,
			content{build: namedAsOurs, seen: "TYPE=LVM2_member", holder: class + "-" + guest.Volume}),
		Entry("a volume group with the tags of the operator", within,
			content{build: taggedAsOurs, seen: "TYPE=LVM2_member", holder: guest.Name}),
		Entry("a copy of the volume group of the device class", within,
			content{build: copyOfOurs, seen: "TYPE=LVM2_member"}),
		Entry("newer metadata of the volume group of the device class", within,
			content{build: newerThanOurs, seen: "TYPE=LVM2_member"}),
		Entry("a partition with such a volume group", within, content{seen: "PTTYPE=dos",
			build: func(ctx context.Context) []byte { return layers.Partitioned(namedAsOurs(ctx)) }}),
		Entry("such a volume group, encrypted by the product", within, content{seen: "TYPE=crypto_LUKS",
			build: namedAsOurs, class: encryptedClass, holder: class + "-" + guest.Volume}),
		Entry("an encrypted device", within, content{seen: "TYPE=crypto_LUKS",
			build: func(context.Context) []byte { return layers.LUKSHeader(2) }}),
		Entry("a member of a RAID array that the host assembles", within, content{seen: "TYPE=linux_raid_member",
			build: func(context.Context) []byte {
				return append(make([]byte, layers.MemberOffset), layers.MemberSuperblock()...)
			},
			hold: assemble, holder: array, release: stopArray}),
		Entry("a volume group that the host activates", within, content{seen: "TYPE=LVM2_member", holder: guest.Name,
			build: func(context.Context) []byte { return groupContent(guest) }}),
	)

	It("names the Pod that keeps a file of it open", namesTheMonitoringPod, NodeTimeout(20*time.Minute))
})

const (
	contentPod = "vm"
	device     = "/dev/data"
)

// harmlessContent writes content to a block volume, restarts the Pod, so that the kubelet sets up the device again, and
// removes everything.
func harmlessContent(ctx SpecContext, c content) {
	v := story.Volume{Namespace: attacker, Name: "disk", Class: cmp.Or(c.class, storageClass), Size: "64Mi",
		Block: true}
	Expect(tenant.Claim(ctx, v)).To(Succeed())
	DeferCleanup(cleanUp, v)
	Expect(tenant.StartPod(ctx, v, contentPod)).To(Succeed())
	data := c.build(ctx)
	data = append(data, make([]byte, (piece-len(data)%piece)%piece)...)
	write(ctx, data)
	handle := handleOf(ctx, v)
	path := "/dev/" + class + "/" + handle
	Expect(cluster.OnNode(ctx, node, "blkid", "--probe", "--output", "export", path)).To(ContainSubstring(c.seen),
		"the node recognizes the content")

	By("restarting the Pod")
	Expect(tenant.StopPod(ctx, attacker, contentPod)).To(Succeed())
	if c.hold != nil {
		c.hold(ctx, path)
	}
	Expect(tenant.StartPod(ctx, v, contentPod)).To(Succeed())
	harmsNobody(ctx)
	Expect(isOnTheDevice(ctx, data)).To(BeTrue(), "nothing on the node writes to the content")

	By("deleting the Pod and the claim")
	volume := cluster.Run(ctx, "get", "pvc", "-n", attacker, v.Name, "-o", "jsonpath={.spec.volumeName}")
	tenant.Run(ctx, "delete", "pod", "-n", attacker, contentPod, "--wait=false")
	tenant.Run(ctx, "delete", "pvc", "-n", attacker, v.Name, "--wait=false")
	isRemoved(ctx, handle, volume, c)
	leavesNothing(ctx)
}

// isRemoved waits until a volume is removed. If something on the host has opened it, the condition of the volume or an
// event names that, and the commands that release the volume.
func isRemoved(ctx context.Context, handle, volume string, c content) {
	GinkgoHelper()
	if c.holder == "" {
		Eventually(logicalVolumes).WithArguments(ctx).ShouldNot(ContainElement(handle))
		return
	}
	var commands []string
	Eventually(func(g Gomega) {
		if !slices.Contains(logicalVolumes(ctx), handle) {
			return
		}
		said := eventsOf("default", volume)(ctx) + "\n" + eventsOf("default", handle)(ctx) + "\n" +
			cluster.Run(ctx, "get", "logicalvolume", volume, "--ignore-not-found", "-o",
				`jsonpath={.metadata.annotations.lvm\.topolvm\.io/condition}`)
		g.Expect(said).To(ContainSubstring(c.holder))
		commands = releasing.FindAllString(said, -1)
		g.Expect(commands).NotTo(BeEmpty(), "the commands that release the volume: %s", said)
	}).WithContext(ctx).Should(Succeed())
	AddReportEntry("commands of the event", strings.Join(commands, "; "))
	switch {
	case len(commands) == 0:
	case c.release != nil:
		c.release(ctx)
	default:
		// The kernel detaches a loop device of the kubelet by itself when nothing uses it any longer.
		line := "set -e\n" + commands[0] + "\n"
		for _, command := range commands[1:] {
			line += command + " || true\n"
		}
		cluster.OnNode1(ctx, line)
	}
	// The deletion is repeated with a growing interval.
	Eventually(logicalVolumes).WithArguments(ctx).WithTimeout(6 * time.Minute).ShouldNot(ContainElement(handle))
}

// releasing are the commands that close what has opened a logical volume.
var releasing = regexp.MustCompile(
	`\b(?:vgchange|lvchange|dmsetup|mdadm|losetup|umount) [-/a-zA-Z0-9_.=+ ]*[a-zA-Z0-9_]`)

// piece is the size of the parts in which content is written and compared, in bytes: kubectl exec can lose the end of a
// longer standard input.
const piece = 16 << 10

// write writes whole pieces to the beginning of the device of the tenant, in the Pod, but for pieces of zeros, which
// the device has before.
func write(ctx context.Context, data []byte) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		at := 0
		for p := range slices.Chunk(data, piece) {
			if len(bytes.Trim(p, "\x00")) > 0 {
				_, err := tenant.Kubectl(ctx, bytes.NewReader(p), "exec", "-i", "-n", attacker, contentPod, "--", "dd",
					"of="+device, fmt.Sprintf("bs=%d", piece), fmt.Sprintf("seek=%d", at), "conv=fsync,notrunc")
				g.Expect(err).NotTo(HaveOccurred())
			}
			at++
		}
		g.Expect(isOnTheDevice(ctx, data)).To(BeTrue(), "what was written is on the device")
	}).WithContext(ctx).Should(Succeed())
}

// isOnTheDevice reports whether the device of the tenant begins with whole pieces of data. It compares their sums in
// the Pod.
func isOnTheDevice(ctx context.Context, data []byte) (bool, error) {
	want := ""
	for p := range slices.Chunk(data, piece) {
		want += fmt.Sprintf("%x  -\n", sha256.Sum256(p))
	}
	got, err := tenant.Shell(ctx, attacker, contentPod, fmt.Sprintf(
		"for i in $(seq 0 %d); do dd if=%s bs=%d skip=$i count=1 2>/dev/null | sha256sum; done",
		len(data)/piece-1, device, piece))
	if err != nil {
		return false, err
	}
	if want, got = strings.TrimSpace(want), strings.TrimSpace(got); want != got {
		AddReportEntry(fmt.Sprintf("sums of pieces of %d bytes that differ", piece), cmpdiff.Diff(want, got))
	}
	return want == got, nil
}

// cleanUp removes what an attempt that failed has left: holders, content, Pod and claim.
func cleanUp(ctx SpecContext, v story.Volume) {
	if len(logicalVolumes(ctx)) > 1 {
		cluster.OnNode1(ctx, `
if [ -e /sys/block/`+array+` ]; then echo clear >/sys/block/`+array+`/md/array_state; fi
for d in $(dmsetup ls | cut -f1 | grep '^`+guest.Name+`-'); do dmsetup remove $d; done
for lv in $(lvs --config '`+onlyTheDisk+`' --noheadings -o lv_path `+class+`); do
	if blkid -p $lv | grep -q -e LVM2_member -e linux_raid_member; then
		dd if=/dev/zero of=$lv bs=1M count=4 oflag=direct 2>/dev/null
	fi
done
true`)
	}
	forget(ctx, v, contentPod)
	Eventually(logicalVolumes).WithArguments(ctx).Should(HaveLen(1))
	Eventually(func() string { return stateOf(ctx) }).WithContext(ctx).Should(Equal(healthy))
}

// monitoring is the Pod of an administrator that sees the directory of the kubelet, and keeps a file of a volume open.
// The kernel removes the mount from its mount namespace when the kubelet removes the directory, but not the open file.
const monitoring = `
apiVersion: v1
kind: Namespace
metadata: {name: monitoring}
---
apiVersion: v1
kind: Pod
metadata: {name: scraper, namespace: monitoring}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: REGISTRY/busybox:1
    command: [/bin/sh, -c]
    args:
    - exec 3</host/kubelet/pods/POD/volumes/kubernetes.io~csi/VOLUME/mount/open; trap exit TERM; sleep 86400 & wait
    volumeMounts: [{name: kubelet, mountPath: /host/kubelet, readOnly: true}]
  volumes: [{name: kubelet, hostPath: {path: /var/lib/kubelet}}]
`

// namesTheMonitoringPod deletes the claim of a volume of which a Pod of an administrator has a file open, unknown to
// the kubelet.
func namesTheMonitoringPod(ctx SpecContext) {
	v := story.Volume{Namespace: attacker, Name: "kept", Class: storageClass, Size: "64Mi"}
	Expect(tenant.Claim(ctx, v)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { forget(ctx, v, "kept") })
	Expect(tenant.StartPod(ctx, v, "kept")).To(Succeed())
	_, err := tenant.Shell(ctx, attacker, "kept", "echo here > /data/open")
	Expect(err).NotTo(HaveOccurred())
	handle := handleOf(ctx, v)
	volume := cluster.Run(ctx, "get", "pvc", "-n", attacker, v.Name, "-o", "jsonpath={.spec.volumeName}")
	uid := cluster.Run(ctx, "get", "pod", "-n", attacker, "kept", "-o", "jsonpath={.metadata.uid}")
	scraper := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "scraper"}}
	Expect(cluster.ApplyManifest(ctx, strings.NewReplacer("REGISTRY", cluster.Lab.Registry(), "POD", uid, "VOLUME",
		volume).Replace(monitoring))).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { _ = cluster.Remove(ctx, scraper, story.Soon) })
	Expect(cluster.WaitRunning(ctx, scraper.Namespace, scraper.Name)).To(Succeed())

	By("deleting the claim")
	Expect(tenant.StopPod(ctx, attacker, "kept")).To(Succeed())
	tenant.Run(ctx, "delete", "pvc", "-n", attacker, v.Name, story.Timeout)
	Eventually(func() string {
		return eventsOf("default", volume)(ctx) + "\n" + eventsOf("default", handle)(ctx)
	}).WithContext(ctx).Should(ContainSubstring(scraper.Namespace + "/" + scraper.Name))
	Expect(logicalVolumes(ctx)).To(ContainElement(handle))
	harmsNobody(ctx)

	By("deleting the Pod that the event names")
	Expect(cluster.Remove(ctx, scraper, story.Soon)).To(Succeed())
	Eventually(logicalVolumes).WithArguments(ctx).WithTimeout(6 * time.Minute).ShouldNot(ContainElement(handle))
	leavesNothing(ctx)
}
