//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const raceClass = "race"

// givesWhatThereIs requests 50 volumes, each of which fits, but not all of them together. Agents and operator are
// killed meanwhile.
func givesWhatThereIs(ctx SpecContext) {
	const (
		size   = 200 << 20
		claims = 50
	)
	immediate := storagev1.VolumeBindingImmediate
	Expect(cluster.Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: raceClass}, Provisioner: wellknown.DriverName,
		VolumeBindingMode: &immediate,
		Parameters: map[string]string{wellknown.DeviceClassParameter: "thick-ext4",
			wellknown.FilesystemTypeParameter: "ext4"},
	})).To(Succeed())
	Eventually(func() []string { return volumesOf(ctx, "thick-ext4") }).WithContext(ctx).
		Should(BeEmpty())
	free := map[string]int64{}
	for _, node := range []string{"node1", "node2"} {
		bytes, err := strconv.ParseInt(cluster.OnNode(ctx, node, "vgs", "--noheadings", "--units", "b", "--nosuffix", "-o",
			"vg_free", "thick-ext4"), 10, 64)
		Expect(err).NotTo(HaveOccurred())
		free[node] = bytes
	}
	Eventually(func() map[string]int64 { return capacities(ctx, "thick-ext4") }).WithContext(ctx).Should(Equal(free))
	before := capacities(ctx, "thick-ext4")
	fit := 0
	for _, bytes := range before {
		fit += int(bytes / size)
	}
	Expect(fit).To(And(BeNumerically(">", 20), BeNumerically("<", claims)), "%v", before)

	for i := range claims {
		Expect(cluster.Claim(ctx, story.Volume{Namespace: namespace, Name: fmt.Sprint("race-", i), Class: raceClass,
			Size: fmt.Sprint(size)})).To(Succeed())
	}
	for range 3 {
		time.Sleep(3 * time.Second)
		kill(ctx, "lvms vgmanager")
		kill(ctx, "lvms operator")
	}
	// The kubelet may wait for minutes before it restarts a container that was killed several times.
	Eventually(func() int { return len(handles(ctx)) }).WithContext(ctx).WithTimeout(8*time.Minute).WithPolling(
		2*time.Second).Should(Equal(fit),
		func() string {
			return fmt.Sprintf("told before %v, told now %v, volumes %d", before, capacities(ctx, "thick-ext4"),
				len(volumesOf(ctx, "thick-ext4")))
		})

	By("comparing objects with logical volumes")
	consistent := func(g Gomega) {
		want := handles(ctx)
		g.Expect(want).To(HaveLen(fit))
		g.Expect(volumesOf(ctx, "thick-ext4")).To(ConsistOf(want),
			"one logical volume for each PersistentVolume, and none without")
		var objects topolvmv1.LogicalVolumeList
		g.Expect(cluster.List(ctx, &objects)).To(Succeed())
		var made []string
		for _, lv := range objects.Items {
			if lv.Spec.DeviceClass == "thick-ext4" && lv.Status.VolumeID != "" {
				made = append(made, lv.Status.VolumeID)
			}
		}
		g.Expect(made).To(ConsistOf(want))
	}
	Eventually(consistent).WithContext(ctx).WithPolling(2 * time.Second).Should(Succeed())

	By("waiting until the killed containers run again")
	// A volume that waits for its agent while its claim is deleted becomes unclaimed if the operator was killed, too.
	cluster.Run(ctx, "wait", "--for=condition=Ready", "pods", "--all", "-n", story.OperatorNamespace, story.Timeout)
	Eventually(func() []string { return refusedOrWaiting(ctx, "thick-ext4") }).WithContext(ctx).Should(BeEmpty())
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
	consistent(Default)

	By("deleting all of them at once")
	cluster.Run(ctx, "delete", "pvc", "-n", namespace, "--all", "--wait=false")
	Eventually(func() []string { return volumesOf(ctx, "thick-ext4") }).WithContext(ctx).Should(BeEmpty())
	Eventually(func() map[string]int64 { return capacities(ctx, "thick-ext4") }).WithContext(ctx).Should(Equal(before))
	Eventually(func() map[string]int64 { return scheduled(ctx, "lvms-thick-ext4") }).WithContext(ctx).
		Should(Equal(before))
	Eventually(func() []string { return handles(ctx) }).WithContext(ctx).Should(BeEmpty())
	cluster.Run(ctx, "delete", "storageclass", raceClass)
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
}

// refusedOrWaiting returns the LogicalVolumes of a device class without a logical volume.
func refusedOrWaiting(ctx context.Context, class string) []string {
	GinkgoHelper()
	var objects topolvmv1.LogicalVolumeList
	Expect(cluster.List(ctx, &objects)).To(Succeed())
	var names []string
	for _, lv := range objects.Items {
		if lv.Spec.DeviceClass == class && lv.Status.VolumeID == "" {
			names = append(names, lv.Name)
		}
	}
	return names
}

// kill ends programs on both nodes, as the kernel does when memory is low.
func kill(ctx context.Context, program string) {
	GinkgoHelper()
	for _, name := range []string{"node1", "node2"} {
		node, err := cluster.Lab.Node(name)
		Expect(err).NotTo(HaveOccurred())
		_, _ = node.Exec(ctx, "pkill", "-KILL", "-f", program) // it may run on the other node only, or be down
	}
}

// handles returns the volume handles of the claims.
func handles(ctx context.Context) []string {
	GinkgoHelper()
	var list corev1.PersistentVolumeList
	Expect(cluster.List(ctx, &list)).To(Succeed())
	var handles []string
	for _, pv := range list.Items {
		if pv.Spec.StorageClassName == raceClass && pv.Spec.CSI != nil {
			handles = append(handles, pv.Spec.CSI.VolumeHandle)
		}
	}
	return handles
}

// volumesOf returns the logical volumes of a thick class on both nodes.
func volumesOf(ctx context.Context, group string) []string {
	GinkgoHelper()
	var list []string
	for _, node := range []string{"node1", "node2"} {
		list = append(list, strings.Fields(cluster.OnNode(ctx, node, "lvs", "--noheadings", "-o", "lv_name", group))...)
	}
	return list
}

// capacities returns the capacity of a device class on the nodes, in bytes.
func capacities(ctx context.Context, class string) map[string]int64 {
	GinkgoHelper()
	var nodes corev1.NodeList
	Expect(cluster.List(ctx, &nodes)).To(Succeed())
	found := map[string]int64{}
	for _, node := range nodes.Items {
		if value, ok := node.Annotations[wellknown.CapacityAnnotationPrefix+class]; ok {
			bytes, err := strconv.ParseInt(value, 10, 64)
			Expect(err).NotTo(HaveOccurred())
			found[node.Name] = bytes
		}
	}
	return found
}

// scheduled returns the capacity of a StorageClass for the scheduler, in bytes by node.
func scheduled(ctx context.Context, class string) map[string]int64 {
	GinkgoHelper()
	var list storagev1.CSIStorageCapacityList
	Expect(cluster.List(ctx, &list, client.InNamespace(story.OperatorNamespace))).To(Succeed())
	found := map[string]int64{}
	for _, c := range list.Items {
		if c.StorageClassName == class {
			found[c.NodeTopology.MatchLabels[wellknown.TopologyNodeKey]] = c.Capacity.Value()
		}
	}
	return found
}

// kinds are Pods and claims that use all features of a volume.
const kinds = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: with-options}
provisioner: topolvm.io
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
mountOptions: [noatime]
parameters: {topolvm.io/device-class: thin-ext4, csi.storage.k8s.io/fstype: ext4, lvm.topolvm.io/mkfs-options: "-N 4096"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared, namespace: stories}
spec: {storageClassName: with-options, accessModes: [ReadWriteOnce], resources: {requests: {storage: 256Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer, namespace: stories}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {fsGroup: 4711}
  containers:
  - {name: main, image: REGISTRY/busybox:1, command: [sh, -c, "trap exit TERM; sleep 86400 & wait"], securityContext: {runAsUser: 4712}, volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, persistentVolumeClaim: {claimName: shared}}]
---
apiVersion: v1
kind: Pod
metadata: {name: reader, namespace: stories}
spec:
  terminationGracePeriodSeconds: 1
  nodeSelector: {zone: a}
  containers:
  - {name: main, image: REGISTRY/busybox:1, command: [sh, -c, "trap exit TERM; sleep 86400 & wait"], volumeMounts: [{name: data, mountPath: /data}, {name: scratch, mountPath: /scratch}]}
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: shared, readOnly: true}}
  - name: scratch
    ephemeral: {volumeClaimTemplate: {spec: {storageClassName: lvms-thin-xfs, accessModes: [ReadWriteOncePod], resources: {requests: {storage: 320Mi}}}}}
`

// clone is a larger copy of the shared volume.
const clone = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: clone, namespace: stories}
spec: {storageClassName: with-options, accessModes: [ReadWriteOnce], resources: {requests: {storage: 512Mi}}, dataSource: {kind: PersistentVolumeClaim, name: shared}}
`

func servesEveryKind(ctx SpecContext) {
	Expect(cluster.ApplyManifest(ctx, strings.ReplaceAll(kinds, "REGISTRY", cluster.Lab.Registry()))).To(Succeed())
	for _, pod := range []string{"writer", "reader"} {
		Expect(cluster.WaitRunning(ctx, namespace, pod)).To(Succeed())
	}
	in := func(pod, line string) (string, error) {
		out, err := cluster.Shell(ctx, namespace, pod, line)
		return strings.TrimSpace(out), err
	}
	Expect(in("writer", "head -c 8388608 /dev/urandom > /data/file && sync && stat -c %g /data/file")).To(
		Equal("4711"), "fsGroup")
	sum, err := in("writer", "sha256sum < /data/file")
	Expect(err).NotTo(HaveOccurred())
	Expect(in("reader", "sha256sum < /data/file")).To(Equal(sum), "another Pod of the node sees the same")
	_, err = in("reader", "echo x > /data/other")
	Expect(err).To(MatchError(ContainSubstring("Read-only file system")))
	Expect(in("reader", "mount | grep ' /scratch '")).To(ContainSubstring("xfs"))
	Expect(in("writer", "mount | grep ' /data '")).To(ContainSubstring("noatime"))
	Expect(in("writer", "stat -f -c %c /data")).To(Equal("4096"), "mkfs -N")

	By("cloning the volume, and deleting the source")
	Expect(cluster.ApplyManifest(ctx, clone)).To(Succeed())
	v := story.Volume{Namespace: namespace, Name: "clone"}
	Expect(cluster.StartPod(ctx, v, "clone")).To(Succeed())
	for _, pod := range []string{"writer", "reader"} {
		Expect(cluster.StopPod(ctx, namespace, pod)).To(Succeed())
	}
	Expect(cluster.Unclaim(ctx, story.Volume{Namespace: namespace, Name: "shared"})).To(Succeed())
	Expect(in("clone", "sha256sum < /data/file")).To(Equal(sum))
	Expect(in("clone", "echo $(( $(stat -f -c %b /data) * $(stat -f -c %S /data) / 1048576 > 400 ))")).To(Equal("1"),
		"the file system has the size of the clone")
	Eventually(func() string { return cluster.Run(ctx, "get", "pvc", "-n", namespace, "-o", "name") }).WithContext(ctx).
		Should(Equal("persistentvolumeclaim/clone"), "the ephemeral volume went with its Pod")
	Expect(cluster.StopPod(ctx, namespace, "clone")).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	cluster.Run(ctx, "delete", "storageclass", "with-options")
}

// recoversFromALargeRequest requests more than the capacity and then less (RecoverVolumeExpansionFailure).
func recoversFromALargeRequest(ctx SpecContext) {
	v := story.Volume{Namespace: namespace, Name: "greedy", Class: "lvms-thick-ext4", Size: "128Mi"}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, "greedy")).To(Succeed())
	sum, err := cluster.Write(ctx, v, "greedy")
	Expect(err).NotTo(HaveOccurred())
	ask := func(size string) {
		GinkgoHelper()
		cluster.Run(ctx, "patch", "pvc", "-n", namespace, "greedy", "--type=merge", "-p",
			`{"spec":{"resources":{"requests":{"storage":"`+size+`"}}}}`)
	}
	ask("500Gi")
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "events", "-n", namespace, "--field-selector",
		"involvedObject.name=greedy").Should(And(ContainSubstring("VolumeResizeFailed"),
		ContainSubstring("are free in volume group thick-ext4")))
	ask("256Mi")
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "pvc", "-n", namespace, "greedy", "-o",
		"jsonpath={.status.capacity.storage}").Should(Equal("256Mi"))
	Expect(cluster.Checksum(ctx, v, "greedy")).To(Equal(sum))
	Expect(cluster.StopPod(ctx, namespace, "greedy")).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
}

// survivesAFullPool fills a small pool from a Pod.
func survivesAFullPool(ctx SpecContext) {
	first := addDisk(ctx, "node1", "small")
	change(ctx, func(storage *lvmv1alpha1.Storage) {
		storage.DeviceClasses = append(storage.DeviceClasses, lvmv1alpha1.DeviceClass{
			Name: "small", FilesystemType: lvmv1alpha1.FilesystemTypeExt4,
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}},
				}}}},
			DeviceSelector: &lvmv1alpha1.DeviceSelector{
				Paths: []lvmv1alpha1.DevicePath{lvmv1alpha1.DevicePath(first.Device)}},
			ThinPoolConfig: &lvmv1alpha1.ThinPoolConfig{Name: "pool", OverprovisionRatio: 10, SizePercent: 90},
		})
	})
	waitStatus(ctx, "small", "node1", lvmv1alpha1.VGStatusReady)
	other := story.Volume{Namespace: namespace, Name: "other", Class: "lvms-thin-ext4", Size: "512Mi"}
	full := []story.Volume{
		{Namespace: namespace, Name: "full", Class: "lvms-small", Size: "600Mi"},
		{Namespace: namespace, Name: "neighbor", Class: "lvms-small", Size: "300Mi"},
	}
	all := append([]story.Volume{other}, full...)
	for _, v := range all {
		Expect(cluster.Claim(ctx, v)).To(Succeed())
		Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
	}
	sums := map[string]string{}
	for _, v := range full {
		var err error
		sums[v.Name], err = cluster.Write(ctx, v, v.Name)
		Expect(err).NotTo(HaveOccurred())
	}
	Eventually(func() int64 { return scheduled(ctx, "lvms-small")["node1"] }).WithContext(ctx).
		Should(BeNumerically(">", 0))

	By("writing more than the pool has, from two Pods")
	written := make(chan error, len(full))
	for _, v := range full {
		go func() {
			defer GinkgoRecover()
			_, err := cluster.Shell(ctx, namespace, v.Name,
				"dd if=/dev/zero of=/data/more bs=1M count=100 conv=fsync 2>&1")
			written <- err
		}()
	}
	poolCondition := func() string {
		return cluster.Run(ctx, "-n", story.OperatorNamespace, "get", "lvmvgns", "node1", "-o",
			`jsonpath={range .status.nodeStatus[?(@.name=="small")].conditions[?(@.type=="ThinPoolHealthy")]}{.status} {.message}{end}`)
	}
	Eventually(poolCondition).WithContext(ctx).
		Should(And(HavePrefix("False"), ContainSubstring(namespace+"/full"), ContainSubstring(namespace+"/neighbor"),
			Not(ContainSubstring(namespace+"/other"))))
	Eventually(func() int64 { return scheduled(ctx, "lvms-small")["node1"] }).WithContext(ctx).Should(BeZero())
	Expect(cluster.Write(ctx, other, "other")).NotTo(BeEmpty(), "a volume of another class is written as ever")

	By("adding a disk to the class")
	second := addDisk(ctx, "node1", "more")
	change(ctx, func(storage *lvmv1alpha1.Storage) {
		at := slices.IndexFunc(storage.DeviceClasses, func(c lvmv1alpha1.DeviceClass) bool { return c.Name == "small" })
		selector := storage.DeviceClasses[at].DeviceSelector
		selector.Paths = append(selector.Paths, lvmv1alpha1.DevicePath(second.Device))
	})
	for range full {
		Eventually(written).WithContext(ctx).Should(Receive(Succeed()), "the writes go on")
	}
	Eventually(poolCondition).WithContext(ctx).Should(HavePrefix("True"))
	for _, v := range full {
		Expect(cluster.Checksum(ctx, v, v.Name)).To(Equal(sums[v.Name]))
	}

	for _, v := range all {
		Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
		Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	}
	removeClass(ctx, "small")
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
	for _, name := range []string{"small", "more"} {
		removeDisk(ctx, "node1", name)
	}
}

// counter writes numbers, and prints each one after it is synced.
const counter = `i=$(cat /data/n 2>/dev/null || echo 0); trap exit TERM
while true; do i=$((i+1)); echo $i > /data/new && sync && mv /data/new /data/n && sync && echo $i; head -c 65536 /dev/urandom > /data/load; done`

// powerCuts returns how often the power is cut: once with -short, or as LVMS_POWER_CUTS says.
func powerCuts() int {
	if n, err := strconv.Atoi(os.Getenv("LVMS_POWER_CUTS")); err == nil {
		return n
	}
	if testing.Short() {
		return 1
	}
	return 6
}

func survivesPowerCuts(ctx SpecContext) {
	volumes := []story.Volume{
		{Namespace: namespace, Name: "count-ext4", Class: "lvms-thin-ext4", Size: "256Mi"},
		{Namespace: namespace, Name: "count-xfs", Class: "lvms-thin-xfs", Size: "320Mi"},
	}
	for _, v := range volumes {
		Expect(cluster.Claim(ctx, v)).To(Succeed())
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v.Name},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"zone": "a"}, TerminationGracePeriodSeconds: ptr.To(int64(1)),
				Containers: []corev1.Container{{
					Name: "main", Image: cluster.Lab.Registry() + "/busybox:1",
					Command:      []string{"/bin/sh", "-c", counter},
					VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
					Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}},
				}},
				Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.Name}}}},
			},
		}
		Expect(cluster.Create(ctx, pod)).To(Succeed())
	}
	node, err := cluster.Lab.Node("node1")
	Expect(err).NotTo(HaveOccurred())
	last := map[string]int{}
	for cut := range powerCuts() {
		said := map[string]int{}
		for _, v := range volumes {
			Eventually(func(g Gomega) {
				out, err := cluster.Kubectl(ctx, nil, "logs", "-n", namespace, v.Name, "--tail=1")
				g.Expect(err).NotTo(HaveOccurred())
				said[v.Name], err = strconv.Atoi(strings.TrimSpace(out))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(said[v.Name]).To(BeNumerically(">", last[v.Name]+3))
			}).WithContext(ctx).Should(Succeed())
		}
		Expect(node.PowerCut(ctx)).To(Succeed())
		Expect(node.Start(ctx)).To(Succeed())
		for _, v := range volumes {
			var has int
			Eventually(func() (err error) {
				var out string
				if out, err = cluster.Shell(ctx, namespace, v.Name, "cat /data/n"); err == nil {
					has, err = strconv.Atoi(strings.TrimSpace(out))
				}
				return err
			}).WithContext(ctx).Should(Succeed())
			Expect(has).To(BeNumerically(">=", said[v.Name]), "cut %d: %s", cut+1, v.Name)
			last[v.Name] = has
		}
	}
	AddReportEntry("power cuts", fmt.Sprint(powerCuts(), ", the last numbers ", slices.Sorted(maps.Values(last))))
	for _, v := range volumes {
		Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
		Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	}
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
}
