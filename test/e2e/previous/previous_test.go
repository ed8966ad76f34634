//go:build e2e

// Package previous tests the upgrade from the previous version, which is built from the repository's history, while
// Pods write.
//
// Tags, keys and states are literals here and not the constants of package api, because those of existing clusters do
// not change with the code.
package previous

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/alertrules"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/olm"
	"github.com/lvm-storage/lvm-operator/test/story"
)

func TestUpgradeFromThePreviousVersion(t *testing.T) {
	suite.Run(t, "Upgrade from the previous version")
}

const (
	clusterName = "my-lvmcluster"
	namespace   = "default"
	node        = "node1"
	bundleName  = "lvms-operator.clusterserviceversion.yaml"
	// longestPause limits the time between two writes of a Pod. The node has one CPU, which the upgrade also uses.
	longestPause = 30 * time.Second
)

const classes = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: thin
      default: true
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, overprovisionRatio: 10}
    - name: thin-ext4
      fstype: ext4
      deviceSelector: {paths: [/dev/ubdc]}
      thinPoolConfig: {name: thin-pool-1, overprovisionRatio: 10}
    - name: thick
      fstype: ext4
      deviceSelector: {paths: [/dev/ubdd]}
    - name: safe
      raidConfig: {type: raid1}
      deviceSelector: {paths: [/dev/ubde, /dev/ubdf]}
`

// volume is a claim with known content, and a Pod of the same name that writes next to that content.
type volume struct {
	story.Volume
	sum string
	pod *corev1.Pod
}

// upgrade is the cluster with its state before the upgrade.
type upgrade struct {
	olm.Cluster
	base          suite.Cluster // the same cluster
	publisher     olm.Publisher
	previous, tip string // bundles
	objects       map[string]bool
	disks         string
	volumes       []*volume
	before        state
}

var _ = Describe("The upgrade from the previous version", Ordered, func() {
	u := &upgrade{}

	BeforeAll(func(ctx SpecContext) {
		folder := os.Getenv("LVMS_PREVIOUS")
		Expect(folder).NotTo(BeEmpty(), "LVMS_PREVIOUS names the folder of hack/previous: run `make test-long ITEMS=e2e/previous`")
		image := suite.Archive("LVMS_IMAGE")
		root, err := lab.Root()
		Expect(err).NotTo(HaveOccurred())
		disk := lab.DiskSpec{Size: 2 * lab.GiB}
		u.base = suite.Up(ctx, lab.Options{
			Name: "e2e-previous", Nodes: 1, OLM: true, Snapshots: true,
			Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}, disk, disk, disk, disk},
		})
		u.Cluster = olm.Cluster{Cluster: u.base.Cluster}
		u.publisher, err = olm.NewPublisher(ctx, u.Lab, GinkgoT().TempDir(), GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		archive := filepath.Join(folder, "lvms-operator.tar")
		u.previous = u.withPublishedImage(ctx, filepath.Join(folder, "bundle"), archive)
		u.tip = u.withPublishedImage(ctx, filepath.Join(root, "bundle"), image)
		u.base.Run(ctx, "create", "namespace", story.OperatorNamespace)
		u.objects, err = u.Objects(ctx)
		Expect(err).NotTo(HaveOccurred())
		u.disks = u.base.ContentOfDisks(ctx)
	}, NodeTimeout(20*time.Minute))

	JustAfterEach(func(ctx SpecContext) {
		suite.ReportFailure(ctx, u.base.Cluster, "get catalogsources,subscriptions,installplans,csv -A -o wide")
	}, NodeTimeout(30*time.Minute))

	It("installs the previous version from its bundle, with volumes of every kind", u.installs, NodeTimeout(
		30*time.Minute))
	It("upgrades through the channel while Pods write to all volumes", u.upgrades, NodeTimeout(32*time.Minute))
	It("does not change data, tags, volume groups and node status", u.keeps, NodeTimeout(20*time.Minute))
	It("expands, snapshots, restores and clones the existing volumes", u.operates, NodeTimeout(30*time.Minute))
	It("mounts the existing volumes again, with their data", u.mounts, NodeTimeout(20*time.Minute))
	It("deletes the volumes, and leaves nothing behind when it is removed", u.removes, NodeTimeout(24*time.Minute))
})

// withPublishedImage publishes an image archive as the operator's image of a bundle, and returns a copy of the bundle
// with that image.
func (u *upgrade) withPublishedImage(ctx context.Context, bundle, archive string) string {
	GinkgoHelper()
	published, err := u.publisher.PublishImage(ctx, archive, versionOf(bundle))
	Expect(err).NotTo(HaveOccurred())
	copied := GinkgoT().TempDir()
	Expect(os.CopyFS(copied, os.DirFS(bundle))).To(Succeed())
	path := filepath.Join(copied, "manifests", bundleName)
	csv, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	named := regexp.MustCompile(`(?m)^    containerImage: (\S+)$`).FindStringSubmatch(string(csv))
	Expect(named).NotTo(BeNil(), "%s names no containerImage", path)
	Expect(os.WriteFile(path, []byte(strings.ReplaceAll(string(csv), named[1], published)), 0o644)).To(Succeed())
	return copied
}

// versionOf returns the version of a bundle.
func versionOf(bundle string) string {
	GinkgoHelper()
	csv, err := os.ReadFile(filepath.Join(bundle, "manifests", bundleName))
	Expect(err).NotTo(HaveOccurred())
	version := regexp.MustCompile(`(?m)^  version: (\S+)$`).FindSubmatch(csv)
	Expect(version).NotTo(BeNil(), "%s has no version", bundle)
	return string(version[1])
}

// publish adds a bundle to the cluster's catalog.
func (u *upgrade) publish(ctx context.Context, bundle string) {
	GinkgoHelper()
	Expect(u.publisher.PublishBundle(ctx, versionOf(bundle), bundle)).To(Succeed())
	catalog, err := u.publisher.PublishCatalog(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(u.Serve(ctx, catalog)).To(Succeed())
}

func (u *upgrade) installs(ctx SpecContext) {
	u.publish(ctx, u.previous)
	Expect(u.Subscribe(ctx, olm.OwnNamespace, "candidate")).To(Succeed())
	Expect(u.WaitInstalled(ctx, versionOf(u.previous))).To(Succeed())
	err := u.ApplyManifest(ctx, classes)
	Expect(err).NotTo(HaveOccurred())
	Expect(u.WaitReady(ctx, clusterName)).To(Succeed())

	By("writing to volumes of every kind")
	xfs := u.writes(ctx, story.Volume{Name: "xfs", Class: "lvms-thin", Size: "512Mi"})
	ext4 := u.writes(ctx, story.Volume{Name: "ext4", Class: "lvms-thin-ext4", Size: "256Mi"})
	u.writes(ctx, story.Volume{Name: "block", Class: "lvms-thin", Size: "256Mi", Block: true})
	u.writes(ctx, story.Volume{Name: "thick", Class: "lvms-thick", Size: "256Mi"})
	u.writes(ctx, story.Volume{Name: "raid1", Class: "lvms-safe", Size: "512Mi"})
	expanded := u.writes(ctx, story.Volume{Name: "expanded", Class: "lvms-thin-ext4", Size: "256Mi"})

	By("expanding, snapshotting, restoring and cloning them")
	u.expands(ctx, expanded, "384Mi")
	Expect(u.Snapshot(ctx, xfs.Volume, "snapshot")).To(Succeed())
	u.starts(ctx, story.Volume{Name: "restored", Class: "lvms-thin", Size: "512Mi", Snapshot: "snapshot"}, xfs.sum)
	u.starts(ctx, story.Volume{Name: "clone", Class: "lvms-thin-ext4", Size: "256Mi", Clone: "ext4"}, ext4.sum)
	Eventually(func() string {
		return u.base.OnNode1(ctx, "lvm lvs --noheadings --options sync_percent safe")
	}).WithContext(ctx).Should(HavePrefix("100"))
	Expect(u.WaitReady(ctx, clusterName)).To(Succeed())
	u.checkOwnership(ctx)
	u.before = u.state(ctx)
}

func (u *upgrade) upgrades(ctx SpecContext) {
	start := time.Now()
	u.publish(ctx, u.tip)
	Expect(u.WaitInstalled(ctx, versionOf(u.tip))).To(Succeed())
	deployment := &appsv1.Deployment{}
	agents := &appsv1.DaemonSet{}
	key := client.ObjectKey{Namespace: story.OperatorNamespace, Name: "lvms-operator"}
	Expect(u.Get(ctx, key, deployment)).To(Succeed())
	key.Name = "vg-manager"
	image := deployment.Spec.Template.Spec.Containers[0].Image
	Eventually(func(g Gomega) {
		g.Expect(u.Get(ctx, key, agents)).To(Succeed())
		status := agents.Status
		g.Expect(agents.Spec.Template.Spec.Containers[0].Image).To(Equal(image))
		g.Expect(status.ObservedGeneration).To(Equal(agents.Generation))
		g.Expect([]int32{status.UpdatedNumberScheduled, status.NumberReady}).To(Equal([]int32{1, 1}))
	}).WithContext(ctx).
		Should(Succeed(), "the agent is the new one")
	Expect(u.WaitReady(ctx, clusterName)).To(Succeed())
	Expect(u.AddMonitoring(ctx)).To(Succeed()) // On OpenShift, the operator does.
	Eventually(func() (string, error) {
		return u.Kubectl(ctx, nil, "get", "prometheusrule", alertrules.Name, "-n", story.OperatorNamespace,
			"-o", "jsonpath={.metadata.ownerReferences[*].kind}")
	}).WithContext(ctx).
		Should(Equal("ServiceMonitor"), "the alerts, which came with the previous bundle, are the operator's")
	AddReportEntry("from the new version in the catalog to Ready", time.Since(start).Round(time.Second).String())
	u.stillWrite(ctx)
}

func (u *upgrade) keeps(ctx SpecContext) {
	for _, v := range u.volumes {
		Expect(u.Checksum(ctx, v.Volume, v.Name)).To(Equal(v.sum), v.Name)
	}
	Eventually(u.state).WithContext(ctx).WithPolling(2 * time.Second).Should(
		Equal(u.before))
	u.checkOwnership(ctx)
}

func (u *upgrade) operates(ctx SpecContext) {
	By("restoring the existing snapshot")
	after := story.Volume{Name: "restored-after", Class: "lvms-thin", Size: "512Mi", Snapshot: "snapshot"}
	u.starts(ctx, after, u.volume("xfs").sum)

	By("snapshotting and cloning")
	for _, name := range []string{"xfs", "ext4", "block", "restored", "clone", "expanded"} {
		v := u.volume(name)
		Expect(u.Snapshot(ctx, v.Volume, name)).To(Succeed(), name)
		if name == "xfs" || name == "block" {
			restored := v.Volume
			restored.Name = name + "-restored"
			restored.Snapshot = name
			restored.Clone = ""
			u.starts(ctx, restored, v.sum)
		}
		Expect(u.RemoveSnapshot(ctx, namespace, name)).To(Succeed(), name)
	}
	for _, name := range []string{"ext4", "restored"} {
		clone := u.volume(name).Volume
		clone.Name = name + "-clone"
		clone.Snapshot = ""
		clone.Clone = name
		u.starts(ctx, clone, u.volume(name).sum)
	}
	u.checkOwnership(ctx)

	By("expanding")
	for name, size := range map[string]string{
		"xfs": "640Mi", "ext4": "384Mi", "block": "320Mi", "thick": "384Mi", "raid1": "640Mi",
		"expanded": "512Mi", "restored": "640Mi", "clone": "384Mi",
	} {
		u.expands(ctx, u.volume(name), size)
	}
	for _, v := range u.volumes {
		Expect(u.Checksum(ctx, v.Volume, v.Name)).To(Equal(v.sum), v.Name)
	}
	u.stillWrite(ctx)
}

func (u *upgrade) mounts(ctx SpecContext) {
	for _, v := range u.volumes {
		Expect(u.StopPod(ctx, namespace, v.Name)).To(Succeed())
	}
	for _, v := range u.volumes {
		Expect(u.StartPod(ctx, v.Volume, v.Name)).To(Succeed())
		Expect(u.Checksum(ctx, v.Volume, v.Name)).To(Equal(v.sum), v.Name)
	}
}

func (u *upgrade) removes(ctx SpecContext) {
	for _, v := range u.volumes {
		Expect(u.StopPod(ctx, namespace, v.Name)).To(Succeed())
	}
	for _, v := range u.volumes {
		Expect(u.Unclaim(ctx, v.Volume)).To(Succeed(), v.Name)
	}
	u.volumes = nil
	Expect(u.RemoveSnapshot(ctx, namespace, "snapshot")).To(Succeed())
	Eventually(u.logicalVolumes).WithContext(ctx).Should(BeEmpty())

	lvmCluster := &lvmv1alpha1.LVMCluster{}
	lvmCluster.Namespace = story.OperatorNamespace
	lvmCluster.Name = clusterName
	Expect(u.Remove(ctx, lvmCluster, 6*time.Minute)).To(Succeed())
	Expect(u.Unsubscribe(ctx)).To(Succeed())
	Expect(u.RemoveMonitoring(ctx)).To(Succeed())
	u.base.Run(ctx, "delete", "catalogsource.operators.coreos.com", "--all", "-n", "olm", "--timeout=60s")
	u.base.Run(ctx, "delete", "--timeout=60s", "crd", "lvmclusters.lvm.topolvm.io", "lvmvolumegroups.lvm.topolvm.io",
		"lvmvolumegroupnodestatuses.lvm.topolvm.io", "lvmrecoveries.lvm.topolvm.io",
		"lvmdeviceapprovals.lvm.topolvm.io", "volumemoves.lvm.topolvm.io", "logicalvolumes.topolvm.io")
	Eventually(func() ([]string, error) {
		after, err := u.Objects(ctx)
		return olm.LeftOver(u.objects, after), err
	}).WithContext(ctx).WithPolling(2*time.Second).
		Should(BeEmpty(), "what is left in the API")
	Expect(u.base.ContentOfDisks(ctx)).To(Equal(u.disks))
}

func (u *upgrade) volume(name string) *volume {
	GinkgoHelper()
	at := slices.IndexFunc(u.volumes, func(v *volume) bool { return v.Name == name })
	Expect(at).To(BeNumerically(">=", 0), name)
	return u.volumes[at]
}

// writes creates a volume, starts a Pod that writes to it, and fills a part of it with known content.
func (u *upgrade) writes(ctx context.Context, claim story.Volume) *volume {
	GinkgoHelper()
	v := u.starts(ctx, claim, "")
	sum, err := u.Write(ctx, v.Volume, v.Name)
	Expect(err).NotTo(HaveOccurred())
	v.sum = sum
	return v
}

// writer counts in a file, or in a block of a device after the part with known content, and exits after the first
// failed write. It stores the number of writes, and the longest time between two writes in seconds, outside of the
// volume.
const writer = `i=0; longest=0; last=$(date +%s)
while :; do
  i=$((i+1))
  WRITE || exit 1
  now=$(date +%s); [ $((now-last)) -le $longest ] || longest=$((now-last)); last=$now
  echo $i $longest > /tmp/new && mv /tmp/new /tmp/writes
  sleep 0.3
done`

// starts creates a volume and starts a Pod that writes to it, which is never restarted. If sum is given, the content
// must match it.
func (u *upgrade) starts(ctx context.Context, claim story.Volume, sum string) *volume {
	GinkgoHelper()
	claim.Namespace = namespace
	v := &volume{Volume: claim, sum: sum}
	Expect(u.Claim(ctx, claim)).To(Succeed())
	container := corev1.Container{Name: "main", Image: u.Lab.Registry() + "/busybox:1"}
	write := "echo $i > /data/count && sync /data/count"
	if claim.Block {
		write = "printf '%4096s' $i | dd of=/dev/data bs=4096 seek=32768 conv=notrunc,fsync 2>/dev/null"
		container.VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/data"}}
	} else {
		container.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
	container.Command = []string{"/bin/sh", "-c", strings.Replace(writer, "WRITE", write, 1)}
	grace := int64(1)
	v.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claim.Name},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{container},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}}},
		},
	}
	Expect(u.Create(ctx, v.pod)).To(Succeed())
	Expect(u.WaitRunning(ctx, namespace, claim.Name)).To(Succeed())
	if sum != "" {
		Expect(u.Checksum(ctx, v.Volume, v.Name)).To(Equal(sum), v.Name)
	}
	u.volumes = append(u.volumes, v)
	return v
}

func (u *upgrade) expands(ctx context.Context, v *volume, size string) {
	GinkgoHelper()
	_, err := u.Expand(ctx, v.Volume, v.Name, size)
	Expect(err).NotTo(HaveOccurred())
	v.Size = size
}

// stillWrite checks that each Pod is the same, continues to write, and never paused for long.
func (u *upgrade) stillWrite(ctx context.Context) {
	GinkgoHelper()
	writes := func(g Gomega, v *volume) (count, longest int) {
		out, err := u.Shell(ctx, namespace, v.Name, "cat /tmp/writes")
		g.Expect(err).NotTo(HaveOccurred(), v.Name)
		_, err = fmt.Sscan(out, &count, &longest)
		g.Expect(err).NotTo(HaveOccurred(), "%s: %q", v.Name, out)
		return count, longest
	}
	longest := 0
	for _, v := range u.volumes {
		pod := &corev1.Pod{}
		Expect(u.Get(ctx, client.ObjectKeyFromObject(v.pod), pod)).To(Succeed())
		Expect(pod.UID).To(Equal(v.pod.UID), v.Name)
		Expect(pod.Status.ContainerStatuses).To(ConsistOf(
			And(HaveField("State.Running", Not(BeNil())), HaveField("RestartCount", BeZero()))), v.Name)
		first, _ := writes(Default, v)
		var pause int
		Eventually(func(g Gomega) {
			var count int
			count, pause = writes(g, v)
			g.Expect(count).To(BeNumerically(">", first), v.Name)
		}).WithContext(ctx).WithTimeout(longestPause).WithPolling(300 * time.Millisecond).Should(Succeed())
		longest = max(longest, pause)
	}
	AddReportEntry("the longest time between two writes of a Pod", fmt.Sprintf("%d s", longest))
	Expect(time.Duration(longest) * time.Second).To(BeNumerically("<=", longestPause))
}

// state is what an upgrade must not change.
type state struct {
	Groups, Volumes, Physical string   // in the output of LVM, with UUIDs and tags
	Classes                   []string // of the node status
	Capacities                []string // keys of the Node
	StorageClasses            string
}

func (u *upgrade) state(ctx context.Context) state {
	GinkgoHelper()
	const format = " --noheadings --separator ' | ' --options "
	s := state{
		Groups:   u.base.OnNode1(ctx, "lvm vgs"+format+"vg_name,vg_uuid,vg_seqno,vg_size,vg_free,vg_tags"),
		Volumes:  u.base.OnNode1(ctx, "lvm lvs"+format+"vg_name,lv_name,lv_uuid,lv_size,segtype,pool_lv,lv_tags"),
		Physical: u.base.OnNode1(ctx, "lvm pvs"+format+"pv_name,pv_uuid,vg_name,pv_tags"),
		StorageClasses: u.base.Run(ctx, "get", "storageclasses,volumesnapshotclasses", "-o",
			`jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid} {.parameters}{"\n"}{end}`),
	}
	// The fields have literal JSON names: if a field is renamed in the Go type, existing clusters lose it.
	var answer struct {
		Status struct {
			NodeStatus []struct {
				Name, Status, UUID string
				Devices            []string
				OrphanCount        int
				Conditions         []struct{ Type, Status string }
			}
		}
	}
	text := u.base.Run(ctx, "get", "lvmvolumegroupnodestatus", node, "-n", story.OperatorNamespace, "-o", "json")
	Expect(json.Unmarshal([]byte(text), &answer)).To(Succeed())
	for _, class := range answer.Status.NodeStatus {
		s.Classes = append(s.Classes, fmt.Sprintf("%+v", class))
		Expect(class.Status).To(Equal("Ready"), class.Name)
		Expect(class.OrphanCount).To(BeZero(), class.Name)
	}
	n := &corev1.Node{}
	Expect(u.Get(ctx, client.ObjectKey{Name: node}, n)).To(Succeed())
	for key := range n.Annotations {
		if strings.HasPrefix(key, "capacity.topolvm.io/") {
			s.Capacities = append(s.Capacities, strings.TrimPrefix(key, "capacity.topolvm.io/"))
		}
	}
	slices.Sort(s.Classes)
	slices.Sort(s.Capacities)
	Expect(s.Capacities).To(Equal([]string{"00default", "safe", "thick", "thin", "thin-ext4"}))
	return s
}

// logicalVolumes returns the tags of the logical volumes of all device classes, without the pools, by name.
func (u *upgrade) logicalVolumes(ctx context.Context) map[string][]string {
	GinkgoHelper()
	tags := map[string][]string{}
	list := "lvm lvs --noheadings --separator ' ' --options lv_name,lv_tags --select 'segtype!=thin-pool'"
	for line := range strings.Lines(u.base.OnNode1(ctx, list)) {
		fields := strings.Fields(line)
		if len(fields) > 1 {
			tags[fields[0]] = strings.Split(fields[1], ",")
		} else if len(fields) == 1 {
			tags[fields[0]] = nil
		}
	}
	return tags
}

// checkOwnership checks that the tags of volume groups and logical volumes name their owners, that each logical volume
// has its object, and each object its logical volume and its PersistentVolume or VolumeSnapshotContent.
func (u *upgrade) checkOwnership(ctx context.Context) {
	GinkgoHelper()
	cluster := "lvms.cluster=" + u.base.Run(ctx, "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
	for _, class := range []string{"thin", "thin-ext4", "thick", "safe"} {
		tags := strings.Split(u.base.OnNode1(ctx, "lvm vgs --noheadings --options vg_tags "+class), ",")
		Expect(tags).To(ConsistOf("lvms", cluster, "lvms.class="+class, "lvms.node="+node), class)
	}

	// What a logical volume was created for: a PersistentVolume and claim, or the CSI name of a snapshot, which
	// contains the UID of the VolumeSnapshot, and the VolumeSnapshot.
	owners := map[string][]string{}
	var volumes corev1.PersistentVolumeList
	Expect(u.List(ctx, &volumes)).To(Succeed())
	for _, pv := range volumes.Items {
		claim := "lvms.pvc=" + pv.Spec.ClaimRef.Namespace + "/" + pv.Spec.ClaimRef.Name
		owners[pv.Spec.CSI.VolumeHandle] = []string{"lvms.pv=" + pv.Name, claim}
	}
	var contents snapshotv1.VolumeSnapshotContentList
	Expect(u.List(ctx, &contents)).To(Succeed())
	for _, content := range contents.Items {
		Expect(content.Status).NotTo(BeNil(), content.Name)
		Expect(content.Status.SnapshotHandle).NotTo(BeNil(), content.Name)
		snapshot := content.Spec.VolumeSnapshotRef
		claim := "lvms.pvc=" + snapshot.Namespace + "/" + snapshot.Name
		owners[*content.Status.SnapshotHandle] = []string{"lvms.pv=snapshot-" + string(snapshot.UID), claim}
	}
	Expect(volumes.Items).To(HaveLen(len(u.volumes)))
	Expect(contents.Items).NotTo(BeEmpty())

	found := u.logicalVolumes(ctx)
	var objects topolvmv1.LogicalVolumeList
	Expect(u.List(ctx, &objects)).To(Succeed())
	Expect(objects.Items).To(HaveLen(len(owners)))
	for _, object := range objects.Items {
		name := object.Status.VolumeID
		Expect(owners).To(HaveKey(name), object.Name)
		Expect(found).To(HaveKey(name), object.Name)
		want := append([]string{cluster, "lvms.uid=" + string(object.UID)}, owners[name]...)
		Expect(found[name]).To(ContainElements(want), "tags of the logical volume of %s", object.Name)
		Expect(object.Annotations).NotTo(HaveKey("lvm.topolvm.io/unclaimed"), object.Name)
		Expect(object.Annotations).NotTo(HaveKey("lvm.topolvm.io/condition"), object.Name)
		delete(found, name)
	}
	Expect(found).To(BeEmpty(), "logical volumes without an object")
}
