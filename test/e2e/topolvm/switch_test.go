//go:build e2e

package topolvm

import (
	"context"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// nodes are the nodes of the cluster.
var nodes = []string{"node1", "node2"}

// groupsOfTheAdministrator are the volume groups of each node: one with a logical volume and a thin pool of the
// administrator, and one with two disks.
const groupsOfTheAdministrator = `set -e
lvm vgcreate --quiet --addtag rack-7 myvg1 /dev/ubdb
lvm lvcreate --quiet --yes --size 128M --addtag keep --name backup myvg1
lvm lvcreate --quiet --yes --type thin-pool --size 2G --name pool myvg1
dd if=/dev/urandom of=/dev/myvg1/backup bs=1M count=64 conv=fsync 2>/dev/null
lvm vgcreate --quiet myvg2 /dev/ubdc /dev/ubdd`

// volume returns a volume in the namespace default, for Pods on a node.
func volume(node, name, class, size string) story.Volume {
	return story.Volume{Namespace: "default", Name: name, Class: class, Size: size, Node: node}
}

func asBlock(v story.Volume) story.Volume {
	v.Block = true
	return v
}

// The volumes that TopoLVM creates. No Pod uses idle and unwanted during the switch. The Pod that writes to written is
// on any node.
var (
	written  = volume("", "written", "topolvm-provisioner", "512Mi")
	thick    = volume("node1", "thick", "topolvm-provisioner", "512Mi")
	thin     = volume("node1", "thin", "topolvm-provisioner-thin", "256Mi")
	block    = asBlock(volume("node1", "block", "topolvm-provisioner", "256Mi"))
	far      = volume("node2", "far", "topolvm-provisioner-thin", "256Mi")
	striped  = volume("node2", "striped", "topolvm-provisioner-striped", "512Mi")
	idle     = volume("node1", "idle", "topolvm-provisioner-thin", "256Mi")
	unwanted = volume("node2", "unwanted", "topolvm-provisioner", "256Mi")
)

// running are the volumes that Pods use during the switch.
var running = []story.Volume{thick, thin, block, far, striped}

func switches(ctx SpecContext) {
	start(ctx, "e2e-topolvm")
	admin := openPage("switch-from-topolvm.md")

	By("using volumes of TopoLVM")
	installTopoLVM(ctx, admin, driver)
	sums := useTopoLVM(ctx)
	group := groupOf(ctx)
	volumes := onNodes(ctx, listVolumes)
	layout := layoutOf(ctx, striped)
	Expect(layout).To(HavePrefix("striped 2 64.00k "), "the layout of TopoLVM")

	By("stopping TopoLVM")
	admin.follow(ctx, "1. Keep a copy of the objects")
	admin.saveExample("2. Write the LVMCluster")
	admin.follow(ctx, "3. Stop TopoLVM")
	Expect(admin.run(ctx, "helm list --all --all-namespaces --short")).To(BeEmpty())
	Expect(onNodes(ctx, listVolumes)).To(Equal(volumes))
	cluster.StillWrites(ctx)
	waiting := useNothing(ctx)

	installOurs(ctx, admin)
	registered(ctx, driver)
	admin.follow(ctx, "6. Check, and clean up")
	Expect(groupOf(ctx)).To(Equal(group))
	cluster.StillWrites(ctx)

	By("serving what was requested in between")
	Expect(cluster.WaitRunning(ctx, waiting.Namespace, waiting.Name)).To(Succeed())
	removed(ctx, unwanted)
	nothingOfTopoLVM(ctx)

	sameContent(ctx, sums)
	newVolumes(ctx, layout)
	oldSnapshot(ctx, sums)
	Expect(cluster.Run(ctx, "get", "lvmvgns", "-n", story.OperatorNamespace, "-o",
		"jsonpath={.items[*].status..orphans}")).To(BeEmpty())
	Expect(groupOf(ctx)).To(Equal(group))

	goBack(ctx, admin, append([]story.Volume{waiting, written, idle}, running...))
	Expect(groupOf(ctx)).To(Equal(group))
}

// start starts a cluster with the volume groups of the administrator.
func start(ctx context.Context, name string) {
	GinkgoHelper()
	cluster = suite.Up(ctx, lab.Options{Name: name, Nodes: len(nodes), Snapshots: true, VolumeStatistics: true,
		Disks: []lab.DiskSpec{{Size: 8 * lab.GiB}, {Size: 2 * lab.GiB}, {Size: 2 * lab.GiB}}})
	onNodes(ctx, groupsOfTheAdministrator)
}

// installOurs installs LVM Storage, and creates the LVMCluster that the administrator has written.
func installOurs(ctx context.Context, admin page) {
	GinkgoHelper()
	By("installing LVM Storage")
	cluster.Run(ctx, "create", "namespace", story.OperatorNamespace)
	cluster.Run(ctx, "label", "namespace", story.OperatorNamespace, "pod-security.kubernetes.io/enforce=privileged")
	admin.follow(ctx, "4. Install LVM Storage")
	admin.follow(ctx, "5. Create the LVMCluster")
}

// onNodes runs a shell line on each node, and returns the outputs.
func onNodes(ctx context.Context, line string) string {
	GinkgoHelper()
	var all []string
	for _, node := range nodes {
		all = append(all, cluster.OnNode(ctx, node, "/bin/sh", "-c", line))
	}
	return strings.Join(all, "\n")
}

// listVolumes lists the logical volumes of the volume groups with their identity.
const listVolumes = "lvm lvs --noheadings --options lv_name,lv_uuid,lv_size myvg1 myvg2"

// groupOf returns what must not change: the volume groups, and the administrator's logical volumes with their content.
func groupOf(ctx context.Context) string {
	GinkgoHelper()
	return onNodes(ctx, `lvm vgs --noheadings --options vg_uuid,vg_tags,pv_count myvg1 myvg2
lvm lvs --noheadings --options lv_uuid,lv_size,lv_tags myvg1/backup
lvm lvs --noheadings --options lv_uuid,lv_size,lv_metadata_size,lv_tags myvg1/pool
sha256sum </dev/myvg1/backup`)
}

// layoutOf returns the type, the stripes and the read-ahead of a volume in myvg2.
func layoutOf(ctx context.Context, v story.Volume) string {
	GinkgoHelper()
	pv := cluster.Run(ctx, "-n", v.Namespace, "get", "pvc", v.Name, "-o", "jsonpath={.spec.volumeName}")
	handle := cluster.Run(ctx, "get", "pv", pv, "-o", "jsonpath={.spec.csi.volumeHandle}")
	return strings.Join(strings.Fields(cluster.OnNode(ctx, v.Node, "lvm", "lvs", "--noheadings", "--units", "k",
		"--options", "segtype,stripes,stripe_size,lv_read_ahead", "myvg2/"+handle)), " ")
}

// useTopoLVM creates volumes, writes to them, and takes a snapshot. It returns the checksums.
func useTopoLVM(ctx context.Context) map[string]string {
	GinkgoHelper()
	sums := map[string]string{}
	for _, v := range append([]story.Volume{idle, unwanted}, running...) {
		Expect(cluster.Claim(ctx, v)).To(Succeed())
		Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
		sum, err := cluster.Write(ctx, v, v.Name)
		Expect(err).NotTo(HaveOccurred())
		sums[v.Name] = sum
	}
	Expect(cluster.Snapshot(ctx, thin, "before")).To(Succeed())
	for _, v := range []story.Volume{idle, unwanted} {
		Expect(cluster.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
	}
	Expect(cluster.Claim(ctx, written)).To(Succeed())
	cluster.StartWriting(ctx, written.Name)
	Eventually(func() int { return strings.Count(finalizersOfNodes(ctx), "topolvm.io/node") }).WithContext(ctx).
		Should(Equal(len(nodes)), "TopoLVM protects the Nodes")
	return sums
}

func finalizersOfNodes(ctx context.Context) string {
	GinkgoHelper()
	return cluster.Run(ctx, "get", "nodes", "-o", "jsonpath={.items[*].metadata.finalizers}")
}

// useNothing requests a volume, and deletes another one, while neither TopoLVM nor LVM Storage runs. It returns the
// volume that is requested.
func useNothing(ctx context.Context) story.Volume {
	GinkgoHelper()
	waiting := volume("node1", "waiting", "topolvm-provisioner", "256Mi")
	request(ctx, waiting)
	cluster.Run(ctx, "delete", "pvc", unwanted.Name, "--wait=false")
	return waiting
}

// request creates a claim and a Pod with its name on node1, and does not wait for them.
func request(ctx context.Context, v story.Volume) {
	GinkgoHelper()
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	cluster.RunWith(ctx, strings.NewReplacer("NAME", v.Name, "IMAGE", cluster.Lab.Registry()+"/busybox:1").
		Replace(podManifest), "apply", "-f", "-")
}

const podManifest = `
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: default}
spec:
  nodeSelector: {kubernetes.io/hostname: node1}
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: IMAGE, command: [sleep, "86400"], volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, persistentVolumeClaim: {claimName: NAME}}]
`

// removed waits until a claim, its PersistentVolume and its logical volume no longer exist.
func removed(ctx context.Context, v story.Volume) {
	GinkgoHelper()
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "pv", "-o",
		"jsonpath={.items[*].spec.claimRef.name}").ShouldNot(ContainSubstring(v.Name))
	noOrphans(ctx, "logicalvolumes."+driver)
}

// noOrphans waits until each logical volume has a LogicalVolume, and each LogicalVolume has a logical volume. resources
// are the kinds of LogicalVolumes, separated by commas.
func noOrphans(ctx context.Context, resources string) {
	GinkgoHelper()
	Eventually(orphans).WithContext(ctx).WithArguments(resources).Should(BeEmpty(),
		"logical volumes without a LogicalVolume, or LogicalVolumes without a logical volume")
}

// orphans returns the logical volumes without a LogicalVolume, and the LogicalVolumes without a logical volume.
func orphans(ctx context.Context, resources string) []string {
	GinkgoHelper()
	expected := strings.Fields(cluster.Run(ctx, "get", resources, "-o", "jsonpath={.items[*].status.volumeID}"))
	expected = append(expected, "backup", "pool")
	var different []string
	found := strings.Fields(onNodes(ctx, "lvm lvs --noheadings --options lv_name myvg1 myvg2"))
	for _, pair := range [][2][]string{{expected, found}, {found, expected}} {
		for _, name := range pair[0] {
			if !strings.Contains(" "+strings.Join(pair[1], " ")+" ", " "+name+" ") {
				different = append(different, name)
			}
		}
	}
	return different
}

// nothingOfTopoLVM checks that nothing remains of TopoLVM that another program would have to look after.
func nothingOfTopoLVM(ctx context.Context) {
	GinkgoHelper()
	Eventually(finalizersOfNodes).WithContext(ctx).ShouldNot(ContainSubstring("topolvm.io/node"))
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "namespace", old,
		"--ignore-not-found").Should(BeEmpty())
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "csistoragecapacity", "-A",
		"--no-headers", "-o", "custom-columns=NAMESPACE:.metadata.namespace,CLASS:.storageClassName").Should(And(
		ContainSubstring("topolvm-provisioner-thin"), ContainSubstring("lvms-ssd"), Not(ContainSubstring(old))))
	for _, v := range append([]story.Volume{written, idle}, running...) {
		Eventually(onNodes).WithContext(ctx).WithArguments(
			"lvm lvs --noheadings --options lv_tags myvg1 myvg2").Should(ContainSubstring("lvms.pvc=default/" + v.Name))
	}
	for _, node := range nodes {
		for class, group := range map[string]string{"ssd": "myvg1", "striped": "myvg2"} {
			Eventually(publishedCapacity).WithContext(ctx).WithArguments(node, class, group).Should(
				BeZero(), "the difference to the free space without the spare space, of %s on %s", class, node)
		}
	}
}

// publishedCapacity returns by how much the capacity of a device class on a node differs from the free space of its
// volume group without the spare space, in bytes.
func publishedCapacity(ctx context.Context, node, class, group string) int64 {
	GinkgoHelper()
	free, err := strconv.ParseInt(cluster.OnNode(ctx, node, "lvm", "vgs", "--noheadings", "--nosuffix", "--units", "b",
		"--options", "vg_free", group), 10, 64)
	Expect(err).NotTo(HaveOccurred())
	published, err := strconv.ParseInt(cluster.Run(ctx, "get", "node", node, "-o",
		`jsonpath={.metadata.annotations.capacity\.topolvm\.io/`+class+"}"), 10, 64)
	Expect(err).NotTo(HaveOccurred())
	return published - (free - lab.GiB)
}

// sameContent checks and expands volumes in the Pods that TopoLVM has mounted them for. Then it checks them in Pods
// that start while those run, as in a rolling update, and in Pods that start later.
func sameContent(ctx context.Context, sums map[string]string) {
	GinkgoHelper()
	By("expanding volumes that TopoLVM has mounted")
	for _, v := range []story.Volume{thick, thin, striped} {
		_, err := cluster.Expand(ctx, v, v.Name, "768Mi")
		Expect(err).NotTo(HaveOccurred())
	}
	By("moving the volumes to other Pods")
	for _, v := range running {
		Expect(cluster.Checksum(ctx, v, v.Name)).To(Equal(sums[v.Name]))
		beside := v.Name + "-beside"
		Expect(cluster.StartPod(ctx, v, beside)).To(Succeed())
		Expect(cluster.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
		Expect(cluster.Checksum(ctx, v, beside)).To(Equal(sums[v.Name]))
		Expect(cluster.StopPod(ctx, v.Namespace, beside)).To(Succeed())
	}
	for _, v := range append([]story.Volume{idle}, running...) {
		checkAndStop(ctx, v, sums[v.Name])
	}
	cluster.StillWrites(ctx)
}

// checkAndStop reads a volume in a new Pod.
func checkAndStop(ctx context.Context, v story.Volume, sum string) {
	GinkgoHelper()
	pod := v.Name + "-again"
	Expect(cluster.StartPod(ctx, v, pod)).To(Succeed())
	Expect(cluster.Checksum(ctx, v, pod)).To(Equal(sum))
	Expect(cluster.StopPod(ctx, v.Namespace, pod)).To(Succeed())
}

// newVolumes creates, uses and deletes a volume of each StorageClass, on one node or the other. layout is that of the
// striped volume of TopoLVM.
func newVolumes(ctx context.Context, layout string) {
	GinkgoHelper()
	for i, class := range []string{"topolvm-provisioner", "lvms-ssd", "topolvm-provisioner-thin", "lvms-thin",
		"topolvm-provisioner-striped", "lvms-striped"} {
		By("creating a volume of StorageClass " + class)
		v := volume(nodes[i%len(nodes)], "new-"+class, class, "384Mi")
		Expect(cluster.Claim(ctx, v)).To(Succeed())
		Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
		if strings.HasSuffix(class, "-striped") {
			Expect(layoutOf(ctx, v)).To(Equal(layout), "the layout of TopoLVM")
		}
		sum, err := cluster.Write(ctx, v, v.Name)
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
		checkAndStop(ctx, v, sum)
		removed(ctx, v)
	}
}

// oldSnapshot restores the snapshot that TopoLVM took, and one that is taken of TopoLVM's volume now.
func oldSnapshot(ctx context.Context, sums map[string]string) {
	GinkgoHelper()
	By("restoring snapshots of a volume of TopoLVM")
	Expect(cluster.Snapshot(ctx, thin, "after")).To(Succeed())
	for _, snapshot := range []string{"before", "after"} {
		v := volume("node1", "restored-"+snapshot, "topolvm-provisioner-thin", "768Mi")
		v.Snapshot = snapshot
		Expect(cluster.Claim(ctx, v)).To(Succeed())
		checkAndStop(ctx, v, sums[thin.Name])
		Expect(cluster.RemoveSnapshot(ctx, "default", snapshot)).To(Succeed())
		removed(ctx, v)
	}
}

// goBack switches back to TopoLVM, with a volume that LVM Storage has created, and deletes all volumes.
func goBack(ctx context.Context, admin page, volumes []story.Volume) {
	GinkgoHelper()
	ours := volume("node2", "ours", "lvms-ssd", "256Mi")
	Expect(cluster.Claim(ctx, ours)).To(Succeed())
	Expect(cluster.StartPod(ctx, ours, ours.Name)).To(Succeed())
	sum, err := cluster.Write(ctx, ours, ours.Name)
	Expect(err).NotTo(HaveOccurred())
	for _, pod := range []string{ours.Name, "writer", "waiting"} {
		Expect(cluster.StopPod(ctx, "default", pod)).To(Succeed())
	}
	Eventually(onNodes).WithContext(ctx).WithArguments("grep -c topolvm.io /proc/mounts || true").
		Should(Equal("0\n0"), "no mount is left")

	By("going back to TopoLVM")
	admin.follow(ctx, "Go back")
	Expect(cluster.Run(ctx, "get", "pods", "-n", story.OperatorNamespace, "-o", "name")).To(BeEmpty())
	cluster.Run(ctx, "label", "namespace", old, "pod-security.kubernetes.io/enforce=privileged")
	cluster.Run(ctx, "-n", old, "rollout", "status", "daemonset/topolvm-node", story.Timeout)
	cluster.Run(ctx, "-n", old, "rollout", "status", "deployment/topolvm-controller", story.Timeout)
	registered(ctx, driver)
	checkAndStop(ctx, ours, sum)
	created := volume("node2", "created", "topolvm-provisioner-thin", "256Mi")
	Expect(cluster.Claim(ctx, created)).To(Succeed())
	Expect(cluster.StartPod(ctx, created, created.Name)).To(Succeed())
	Expect(cluster.StopPod(ctx, created.Namespace, created.Name)).To(Succeed())
	for _, v := range append(volumes, ours, created) {
		removed(ctx, v)
	}
	Expect(strings.Fields(onNodes(ctx, "lvm lvs --noheadings --options lv_name myvg1 myvg2"))).To(
		ConsistOf("backup", "pool", "backup", "pool"))
}
