//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	clusterName = "e2e"
	namespace   = "stories"
)

// classes has two device classes on both nodes, and one on each: node1 has zone a, and node2 zone b. DISK1, DISK2 and
// DISK3 stand for the paths of the data disks: see withDisks.
const classes = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata:
  name: e2e
  namespace: openshift-lvm-storage
spec:
  storage:
    deviceClasses:
    - name: thin-xfs
      default: true
      deviceSelector: {paths: [DISK1]}
      thinPoolConfig: {name: thin-pool-1, overprovisionRatio: 10}
    - name: thick-ext4
      fstype: ext4
      deviceSelector: {paths: [DISK2]}
    - name: thin-ext4
      fstype: ext4
      nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}
      deviceSelector: {paths: [DISK3]}
      thinPoolConfig: {name: thin-pool-1, overprovisionRatio: 10}
    - name: thick-xfs
      nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [b]}]}]}
      deviceSelector: {optionalPaths: [DISK3, /dev/disk/by-id/not-here]}
`

var _ = Describe("LVM Storage, from installation to removal", Label("core"), Ordered, func() {
	var before []string // every object of the cluster before the installation of the operator

	BeforeAll(func(ctx SpecContext) {
		before = objects(ctx)
		Expect(cluster.Install(ctx, image)).To(Succeed())
	}, NodeTimeout(24*time.Minute))

	It("refuses a device in two device classes", func(ctx SpecContext) {
		Expect(cluster.ApplyManifest(ctx, withDisks(strings.Replace(classes, "DISK2", "DISK1", 1)))).To(
			MatchError(ContainSubstring(disks[0])))
	}, NodeTimeout(30*time.Minute))

	It("lists the devices of each node without a device class, and changes nothing", func(ctx SpecContext) {
		cluster.Configure(ctx, classes[:strings.Index(classes, "spec:")]+"spec: {}")
		states := func(ctx context.Context) string {
			return cluster.Run(ctx, "-n", story.OperatorNamespace, "get", "lvmvgns", "node2", "-o",
				`jsonpath={range .status.devices[*]}{.name} {.state}{"\n"}{end}`)
		}
		Eventually(states).WithContext(ctx).Should(And(
			ContainSubstring(disks[0]+" Available"), ContainSubstring(disks[1]+" Available"),
			ContainSubstring(disks[2]+" Available")))
		node, err := cluster.Lab.Node("node2")
		Expect(err).NotTo(HaveOccurred())
		disk, err := node.AddDisk(ctx, lab.DiskSpec{Name: "extra", Size: 100 * lab.MiB})
		Expect(err).NotTo(HaveOccurred())
		start := time.Now()
		Eventually(states).WithContext(ctx).WithPolling(200 * time.Millisecond).Should(
			ContainSubstring(disk.Device + " Available"))
		AddReportEntry("from a new disk to the status", time.Since(start).Round(100*time.Millisecond).String())
		Expect(node.RemoveDisk(ctx, disk.Name)).To(Succeed())
		Eventually(states).WithContext(ctx).ShouldNot(ContainSubstring(disk.Device))
		Expect(groups(ctx, "node1")).To(BeEmpty())
		Expect(groups(ctx, "node2")).To(BeEmpty())
	}, NodeTimeout(30*time.Minute))

	It("creates the volume group of each class on the nodes that the class selects", func(ctx SpecContext) {
		start := time.Now()
		cluster.Configure(ctx, withDisks(classes))
		AddReportEntry("from apply to Ready", time.Since(start).Round(100*time.Millisecond).String())
		cluster.Run(ctx, "wait", "lvmcluster/"+clusterName, "-n", story.OperatorNamespace, "--for=condition=Ready",
			"--timeout=30s")
		Expect(cluster.Run(ctx, "get", "lvmcluster", "-n", story.OperatorNamespace)).To(MatchRegexp(clusterName+
			` +Ready +6/6 +23Gi +23Gi `), "is it fine, and how much is left")
		Expect(groups(ctx, "node1")).To(ConsistOf("thick-ext4", "thin-ext4", "thin-xfs"))
		Expect(groups(ctx, "node2")).To(ConsistOf("thick-ext4", "thick-xfs", "thin-xfs"))
		Expect(cluster.Run(ctx, "get", "storageclass", "-o", "name")).To(Equal(strings.Join([]string{
			"storageclass.storage.k8s.io/lvms-thick-ext4", "storageclass.storage.k8s.io/lvms-thick-xfs",
			"storageclass.storage.k8s.io/lvms-thin-ext4", "storageclass.storage.k8s.io/lvms-thin-xfs"}, "\n")))
		// Scripts of upstream's users read the spec.
		Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "lvmvolumegroupnodestatus", "-n",
			story.OperatorNamespace, "node1", "-o",
			"jsonpath={range .spec.nodeStatus[*]}{.name} {.status} {.deviceDiscoveryPolicy};{end}").
			Should(Equal("thick-ext4 Ready Preconfigured;thin-ext4 Ready Preconfigured;" +
				"thin-xfs Ready Preconfigured;"))
	}, NodeTimeout(30*time.Minute))

	It("refuses a second LVMCluster and names the first", func(ctx SpecContext) {
		Expect(cluster.ApplyManifest(ctx, withDisks(strings.Replace(classes, "name: e2e", "name: another", 1)))).To(
			MatchError(ContainSubstring(`e2e`)))
	}, NodeTimeout(30*time.Minute))

	DescribeTable("keeps what a Pod writes", keepsWhatAPodWrites,
		Entry("thin, xfs", NodeTimeout(32*time.Minute), story.Volume{Class: "lvms-thin-xfs"}),
		Entry("thick, Block", NodeTimeout(32*time.Minute), story.Volume{Class: "lvms-thick-ext4", Block: true}),
	)

	It("keeps the data of a Pod when its node loses power", func(ctx SpecContext) {
		keepsDataWhile(ctx, func(node *lab.Node) {
			Expect(node.PowerCut(ctx)).To(Succeed())
			Expect(node.Start(ctx)).To(Succeed())
		})
	}, NodeTimeout(24*time.Minute))

	It("recovers from a disk that is lost, after the loss was approved", losesADisk, NodeTimeout(20*time.Minute))

	It("keeps the LVMCluster while a claim has a volume, and names the claim", func(ctx SpecContext) {
		v := story.Volume{Namespace: namespace, Name: "keeps-it", Class: "lvms-thick-ext4", Size: "256Mi"}
		Expect(cluster.Claim(ctx, v)).To(Succeed())
		Expect(cluster.StartPod(ctx, v, "keeps-it")).To(Succeed())
		sum, err := cluster.Write(ctx, v, "keeps-it")
		Expect(err).NotTo(HaveOccurred())

		cluster.Run(ctx, "delete", "lvmcluster", "-n", story.OperatorNamespace, clusterName, "--wait=false")
		Eventually(condition).WithContext(ctx).Should(And(
			ContainSubstring(lvmv1alpha1.ReasonDeletionPending), ContainSubstring(namespace+"/keeps-it")))
		Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "events", "-n", story.OperatorNamespace).
			Should(ContainSubstring(namespace + "/keeps-it"))
		Expect(sameData(ctx, v, "keeps-it")).To(Equal(sum))

		Expect(cluster.StopPod(ctx, namespace, "keeps-it")).To(Succeed())
		Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	}, NodeTimeout(30*time.Minute))

	It("leaves no object behind, and blank disks, when it is removed", func(ctx SpecContext) {
		cluster.Run(ctx, "wait", "--for=delete", "lvmcluster", "-n", story.OperatorNamespace, clusterName,
			story.Timeout)
		uninstall(ctx, before)
	}, NodeTimeout(24*time.Minute))
})

// Each chapter is selected by its label, and then runs on a cluster of its own.
var _ = Describe("LVM Storage with device classes", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		before := objects(ctx)
		Expect(cluster.Install(ctx, image)).To(Succeed())
		cluster.Configure(ctx, withDisks(classes))
		// An AfterAll would run before what the last story cleans up.
		DeferCleanup(func(ctx SpecContext) {
			cluster.Run(ctx, "delete", "lvmcluster", "-n", story.OperatorNamespace, clusterName, story.Timeout)
			uninstall(ctx, before)
		}, NodeTimeout(32*time.Minute))
	}, NodeTimeout(32*time.Minute))

	Describe("Volumes", Label("volumes"), func() {
		DescribeTable("keeps what a Pod writes", keepsWhatAPodWrites,
			Entry("thin, ext4", NodeTimeout(32*time.Minute), story.Volume{Class: "lvms-thin-ext4"}),
			Entry("thin, Block", NodeTimeout(32*time.Minute), story.Volume{Class: "lvms-thin-xfs", Block: true}),
			Entry("thick, ext4", NodeTimeout(32*time.Minute), story.Volume{Class: "lvms-thick-ext4"}),
			Entry("thick, xfs", NodeTimeout(32*time.Minute), story.Volume{Class: "lvms-thick-xfs"}),
		)
		It("serves several Pods, read-only mounts, ephemeral volumes, clones and mkfs options", servesEveryKind,
			NodeTimeout(32*time.Minute))
		It("expands by less after a request that was too large", recoversFromALargeRequest, NodeTimeout(20*time.Minute))
		It("limits the I/O of Pods by VolumeAttributesClass, and changes the limits while they run", limitsIO,
			NodeTimeout(32*time.Minute))
		It("serves metrics only to clients with permission", showsMetrics, NodeTimeout(30*time.Minute))
	})

	Describe("Sharing", Label("sharing"), func() {
		It("gives 50 claims at once the available capacity and no more while Pods of the product are killed",
			givesWhatThereIs, NodeTimeout(30*time.Minute))
		It("limits what a namespace has in the cluster and on each node", sharesCapacity, NodeTimeout(24*time.Minute))
		It("keeps the volumes of a spread group on different nodes", spreadsOverNodes, NodeTimeout(32*time.Minute))
	})

	Describe("Disks", Label("disks"), func() {
		It("reports which path is missing on which node, and serves the other nodes", func(ctx SpecContext) {
			disk := addDisk(ctx, "node1", "partial")
			addClass(ctx, "partial", disk.Device)
			status := waitStatus(ctx, "partial", "node2", lvmv1alpha1.VGStatusFailed)
			Expect(status.Reason).To(ContainSubstring(disk.Device))
			waitStatus(ctx, "partial", "node1", lvmv1alpha1.VGStatusReady)
			Expect(condition(ctx)).To(And(ContainSubstring("node2"), ContainSubstring(disk.Device)))
			waitStatus(ctx, "thin-xfs", "node2", lvmv1alpha1.VGStatusReady)

			removeClass(ctx, "partial")
			Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
			Expect(groups(ctx, "node1")).NotTo(ContainElement("partial"))
			Expect(cluster.OnNode(ctx, "node1", "wipefs", "--no-act", disk.Device)).To(BeEmpty(),
				"the disk is blank again")
			removeDisk(ctx, "node1", "partial")
		}, NodeTimeout(20*time.Minute))

		It("does not change a disk with a file system, and reports why", func(ctx SpecContext) {
			disk := addDisk(ctx, "node1", "occupied")
			cluster.OnNode(ctx, "node1", "mkfs.ext4", "-q", "-b", "4096", "-L", "precious", disk.Device)
			content := cluster.OnNode(ctx, "node1", "sha256sum", disk.Device)
			addClass(ctx, "occupied", disk.Device)

			status := waitStatus(ctx, "occupied", "node1", lvmv1alpha1.VGStatusFailed)
			Expect(status.Reason).To(ContainSubstring(disk.Device))
			Expect(status.Excluded).To(ContainElement(And(
				HaveField("Name", disk.Device),
				HaveField("Reasons", ContainElement(And(ContainSubstring("ext4"), ContainSubstring("precious")))))))
			Expect(groups(ctx, "node1")).NotTo(ContainElement("occupied"))
			Expect(cluster.OnNode(ctx, "node1", "sha256sum", disk.Device)).To(Equal(content))

			removeClass(ctx, "occupied")
			Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
			Expect(cluster.OnNode(ctx, "node1", "sha256sum", disk.Device)).To(Equal(content))
			removeDisk(ctx, "node1", "occupied")
		}, NodeTimeout(20*time.Minute))

		It("does not use a disk that two nodes see, and reports the other node", leavesASharedDiskAlone,
			NodeTimeout(24*time.Minute))
		It("keeps other volumes intact if a pool is full, reports what to do, and continues after the pool is extended",
			survivesAFullPool, NodeTimeout(32*time.Minute))
		It("keeps the data of a Pod when its node reboots", func(ctx SpecContext) {
			keepsDataWhile(ctx, func(node *lab.Node) { Expect(node.Restart(ctx)).To(Succeed()) })
		}, NodeTimeout(24*time.Minute))
		It("keeps synchronized data when a node loses power under load", survivesPowerCuts, NodeTimeout(60*time.Minute))
	})

	Describe("Nodes", Label("nodes"), func() {
		It("continues with the standby operator when the node of the first one loses power", takesOver,
			NodeTimeout(20*time.Minute))
		It("keeps the volumes of a node that a device class no longer selects", leavesANode,
			NodeTimeout(20*time.Minute))
		It("refuses to delete a volume group and a LogicalVolume that are in use", refusesDeletions,
			NodeTimeout(20*time.Minute))
		It("keeps a volume group with old metadata when its node is no longer selected, until it is restored",
			leavesWithOldMetadata, NodeTimeout(32*time.Minute))
		It("serves the volumes of a Node that was deleted and returns with its disks", comesBack,
			NodeTimeout(32*time.Minute))
	})
})

// uninstall removes the operator after the LVMCluster was deleted, and compares disks and objects with those before its
// installation.
func uninstall(ctx context.Context, before []string) {
	GinkgoHelper()
	for _, node := range []string{"node1", "node2"} {
		for _, disk := range disks {
			Expect(cluster.OnNode(ctx, node, "wipefs", "--no-act", disk)).To(BeEmpty(), "%s on %s is blank", disk, node)
		}
		Expect(allGroups(ctx, node)).To(ConsistOf(hostGroups[node]), "volume groups of %s", node)
		Expect(nodeKeys(ctx, node)).To(BeEmpty(), "annotations and finalizers of the driver on %s", node)
		Expect(cluster.Run(ctx, "get", "csinode", node, "-o", "jsonpath={.spec.drivers[*].name}")).To(BeEmpty())
	}
	Expect(cluster.Uninstall(ctx, image)).To(Succeed())
	Eventually(objects).WithContext(ctx).Should(ConsistOf(before))
}

// keepsDataWhile writes to a volume on node1, and reads it after the node was started again.
func keepsDataWhile(ctx context.Context, start func(node *lab.Node)) {
	GinkgoHelper()
	v := story.Volume{Namespace: namespace, Name: "reboot", Class: "lvms-thin-ext4", Size: "512Mi"} // on node1
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, "reboot")).To(Succeed())
	sum, err := cluster.Write(ctx, v, "reboot")
	Expect(err).NotTo(HaveOccurred())
	node, err := cluster.Lab.Node("node1")
	Expect(err).NotTo(HaveOccurred())
	start(node)
	Expect(sameData(ctx, v, "reboot")).To(Equal(sum))
	Expect(cluster.StopPod(ctx, namespace, "reboot")).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
}

func keepsWhatAPodWrites(ctx SpecContext, v story.Volume) {
	v.Namespace, v.Name, v.Size = namespace, strings.ToLower(fmt.Sprintf("v%d", time.Now().UnixNano())), "512Mi"
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	start := time.Now()
	Expect(cluster.StartPod(ctx, v, v.Name+"-writer")).To(Succeed())
	AddReportEntry("from the claim to a running Pod", time.Since(start).Round(100*time.Millisecond).String())
	sum, err := cluster.Write(ctx, v, v.Name+"-writer")
	Expect(err).NotTo(HaveOccurred())

	By("reading it in another Pod")
	Expect(cluster.StopPod(ctx, namespace, v.Name+"-writer")).To(Succeed())
	Expect(cluster.StartPod(ctx, v, v.Name+"-reader")).To(Succeed())
	Expect(cluster.Checksum(ctx, v, v.Name+"-reader")).To(Equal(sum))

	By("expanding the volume while the Pod uses it")
	_, err = cluster.Expand(ctx, v, v.Name+"-reader", "1Gi")
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.Checksum(ctx, v, v.Name+"-reader")).To(Equal(sum))

	if strings.HasPrefix(v.Class, "lvms-thin") {
		restoresASnapshot(ctx, v, sum)
	}
	Expect(cluster.StopPod(ctx, namespace, v.Name+"-reader")).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
}

func restoresASnapshot(ctx context.Context, v story.Volume, sum string) {
	GinkgoHelper()
	By("restoring a snapshot after the source was overwritten")
	Expect(cluster.Snapshot(ctx, v, v.Name)).To(Succeed())
	Expect(cluster.Write(ctx, v, v.Name+"-reader")).NotTo(Equal(sum))
	restored := v
	restored.Name = v.Name + "-restored"
	restored.Size = "1Gi"
	restored.Snapshot = v.Name
	Expect(cluster.Claim(ctx, restored)).To(Succeed())
	Expect(cluster.StartPod(ctx, restored, restored.Name)).To(Succeed())
	Expect(cluster.Checksum(ctx, restored, restored.Name)).To(Equal(sum))
	Expect(cluster.StopPod(ctx, namespace, restored.Name)).To(Succeed())
	Expect(cluster.Unclaim(ctx, restored)).To(Succeed())
	Expect(cluster.RemoveSnapshot(ctx, namespace, v.Name)).To(Succeed())
}

// sameData waits for the Pod, which may have been restarted, and reads the volume's checksum.
func sameData(ctx context.Context, v story.Volume, pod string) string {
	GinkgoHelper()
	Expect(cluster.WaitRunning(ctx, v.Namespace, pod)).To(Succeed())
	var sum string
	Eventually(func() (err error) {
		sum, err = cluster.Checksum(ctx, v, pod)
		return err
	}).WithContext(ctx).WithPolling(2 * time.Second).Should(Succeed())
	return sum
}

// groups returns the LVM volume groups on a node, without those of the host.
func groups(ctx context.Context, node string) []string {
	GinkgoHelper()
	all := allGroups(ctx, node)
	return slices.DeleteFunc(all, func(group string) bool { return slices.Contains(hostGroups[node], group) })
}

// allGroups returns the names of all volume groups of a node, including those of the host itself.
func allGroups(ctx context.Context, node string) []string {
	GinkgoHelper()
	return strings.Fields(cluster.OnNode(ctx, node, "vgs", "--noheadings", "-o", "vg_name"))
}

// nodeKeys returns the annotations and finalizers that the driver has added to a Node.
func nodeKeys(ctx context.Context, name string) []string {
	GinkgoHelper()
	var node corev1.Node
	Expect(cluster.Get(ctx, client.ObjectKey{Name: name}, &node)).To(Succeed())
	var keys []string
	for key := range node.Annotations {
		if strings.Contains(key, "topolvm.io/") {
			keys = append(keys, key)
		}
	}
	for _, finalizer := range node.Finalizers {
		if strings.Contains(finalizer, "topolvm.io/") {
			keys = append(keys, finalizer)
		}
	}
	return keys
}

// objects returns the names of all objects of the cluster, except those that change independently.
func objects(ctx context.Context) []string {
	GinkgoHelper()
	kinds := strings.Fields(cluster.Run(ctx, "api-resources", "--verbs=list", "-o", "name"))
	var listed []string
	for _, kind := range kinds {
		switch kind {
		case "events", "events.events.k8s.io", "componentstatuses", "leases.coordination.k8s.io",
			"apiservices.apiregistration.k8s.io":
		default:
			listed = append(listed, kind)
		}
	}
	return strings.Fields(cluster.Run(ctx, "get", strings.Join(listed, ","), "-A", "-o",
		`jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{"\n"}{end}`))
}

func addDisk(ctx context.Context, node, name string) lab.Disk {
	GinkgoHelper()
	n, err := cluster.Lab.Node(node)
	Expect(err).NotTo(HaveOccurred())
	disk, err := n.AddDisk(ctx, lab.DiskSpec{Name: name, Size: 256 * lab.MiB})
	Expect(err).NotTo(HaveOccurred())
	cluster.OnNode(ctx, node, "udevadm", "settle")
	return disk
}

func removeDisk(ctx context.Context, node, name string) {
	GinkgoHelper()
	n, err := cluster.Lab.Node(node)
	Expect(err).NotTo(HaveOccurred())
	Expect(n.RemoveDisk(ctx, name)).To(Succeed())
}

// addClass adds a thick device class with one path, on both nodes.
func addClass(ctx context.Context, name, path string) {
	GinkgoHelper()
	change(ctx, func(storage *lvmv1alpha1.Storage) {
		storage.DeviceClasses = append(storage.DeviceClasses, lvmv1alpha1.DeviceClass{
			Name: name, DeviceSelector: &lvmv1alpha1.DeviceSelector{
				Paths: []lvmv1alpha1.DevicePath{lvmv1alpha1.DevicePath(path)}},
		})
	})
}

func removeClass(ctx context.Context, name string) {
	GinkgoHelper()
	change(ctx, func(storage *lvmv1alpha1.Storage) {
		for i, class := range storage.DeviceClasses {
			if class.Name == name {
				storage.DeviceClasses = append(storage.DeviceClasses[:i], storage.DeviceClasses[i+1:]...)
				return
			}
		}
	})
}

func change(ctx context.Context, edit func(*lvmv1alpha1.Storage)) {
	GinkgoHelper()
	var c lvmv1alpha1.LVMCluster
	Expect(cluster.Get(ctx, client.ObjectKey{Namespace: story.OperatorNamespace, Name: clusterName}, &c)).To(Succeed())
	base := c.DeepCopy()
	edit(&c.Spec.Storage)
	patch := client.MergeFrom(base)
	// After a reboot, the API server's connection to the operator on that node is broken, which its next call notices.
	Eventually(func(g Gomega) {
		err := cluster.Patch(ctx, c.DeepCopy(), patch)
		if err != nil && !strings.Contains(err.Error(), "failed to call webhook") {
			StopTrying("change the LVMCluster").Wrap(err).Now()
		}
		g.Expect(err).NotTo(HaveOccurred())
	}).WithContext(ctx).Should(Succeed())
}

// waitStatus waits until a device class has a status on a node, and returns it.
func waitStatus(ctx context.Context, class, node string, want lvmv1alpha1.VGState) lvmv1alpha1.VGStatus {
	GinkgoHelper()
	var found lvmv1alpha1.VGStatus
	Eventually(func() lvmv1alpha1.VGState {
		var c lvmv1alpha1.LVMCluster
		Expect(cluster.Get(ctx, client.ObjectKey{Namespace: story.OperatorNamespace, Name: clusterName},
			&c)).To(Succeed())
		found = lvmv1alpha1.VGStatus{}
		for _, classStatus := range c.Status.DeviceClassStatuses {
			for _, nodeStatus := range classStatus.NodeStatus {
				if classStatus.Name == class && nodeStatus.Node == node {
					found = nodeStatus.VGStatus
				}
			}
		}
		return found.Status
	}).WithContext(ctx).Should(Equal(want), "class %s on %s: %v",
		class, node, &found)
	return found
}

// condition returns the conditions of the LVMCluster as text.
func condition(ctx context.Context) string {
	GinkgoHelper()
	var c lvmv1alpha1.LVMCluster
	Expect(cluster.Get(ctx, client.ObjectKey{Namespace: story.OperatorNamespace, Name: clusterName}, &c)).To(Succeed())
	var text []string
	for _, condition := range c.Status.Conditions {
		text = append(text, describe(condition))
	}
	return strings.Join(text, "\n")
}

func describe(c metav1.Condition) string {
	return fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
}
