//go:build e2e

package tenants

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/story"
)

var _ = Describe("A tenant's request", Ordered, ContinueOnFailure, func() {
	within := NodeTimeout(15 * time.Minute)
	DescribeTable("is refused, and takes no capacity from others, if it is a claim of", refusesSize,
		Entry("8Ei", within, "8Ei", "the maximum is 4611686018427387904 (4Ei)"),
		Entry("4Ei, the maximum", within, "4Ei", "ResourceExhausted"),
	)
	It("to expand a volume to 8Ei is refused, and a smaller one is fulfilled afterwards", recoversFrom8Ei, within)
	It("with annotations of the product on a claim gets an ordinary volume", ignoresAnnotations, within)
	It("with the labels of another tenant's claim gets an ordinary volume", ignoresLabels, within)
	It("for the data of another namespace is not fulfilled", refusesDataOfOthers, within)
	DescribeTable("is refused if the StorageClass of a storage administrator has", refusesParameters,
		Entry("options of mkfs.ext4 that read a directory of the node", within,
			storageClassOf("ext4", `lvm.topolvm.io/mkfs-options: "-d/proc/1/root/etc"`, ""),
			`"-d/proc/1/root/etc", which is not an option of mkfs.ext4`),
		Entry("options of mkfs.xfs that write to a device of the node", within,
			storageClassOf("xfs", `lvm.topolvm.io/mkfs-options: "-llogdev=`+disk+`,size=64m"`, ""),
			`"logdev=`+disk+`,size=64m" as the value of option -l`),
		Entry("the mount option loop", within, storageClassOf("ext4", "", "loop"), `mount option "loop" is not allowed`),
		Entry("the mount option logdev", within, storageClassOf("xfs", "", "logdev="+disk),
			`mount option "logdev=`+disk+`" is not allowed`),
		Entry("a path as file system", within, storageClassOf("../ext4", "", ""), "file system ../ext4 is not supported"),
		Entry("options of lvcreate", within,
			storageClassOf("ext4", `topolvm.io/lvcreate-option-class: "--addtag=x"`, ""),
			`lvcreate option class "--addtag=x" does not exist`),
		Entry("another volume group", within,
			storageClassOf("ext4", `topolvm.io/device-class: "../vg1"`, ""), `device class "../vg1"`),
	)
	DescribeTable("delays nobody if it is one of a flood of", delaysNobody,
		Entry("requests for metrics with random tokens", within, metricsPorts),
		Entry("connections without a certificate", within, internalPorts),
		Entry("requests for changed blocks with random tokens", within, backupPorts),
	)
})

// claim is a claim of the tenant that names the node, so that the volume is created without a Pod.
const claim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: NAME
  namespace: attacker
  annotations:
    volume.kubernetes.io/selected-node: node1
spec: {storageClassName: CLASS, accessModes: [ReadWriteOnce], resources: {requests: {storage: SIZE}}}
`

// claimOnNode creates a claim of the tenant that names the node.
func claimOnNode(ctx context.Context, name, class, size string) {
	GinkgoHelper()
	Expect(tenant.ApplyManifest(ctx, strings.NewReplacer("NAME", name, "CLASS", class, "SIZE", size).Replace(claim))).To(
		Succeed())
	DeferCleanup(func(ctx SpecContext) { forget(ctx, inTenant(name, class, size)) })
}

func inTenant(name, class, size string) story.Volume {
	return story.Volume{Namespace: attacker, Name: name, Class: class, Size: size}
}

// isPending checks that a claim of the tenant has no volume.
func isPending(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(tenant.Run(ctx, "get", "pvc", "-n", attacker, name, "-o", "jsonpath={.status.phase}")).To(Equal("Pending"))
}

func deleteClaim(ctx context.Context, name string) {
	GinkgoHelper()
	tenant.Run(ctx, "delete", "pvc", "-n", attacker, name, story.Timeout)
}

// refusesSize creates a claim of an impossible size. The capacity of the node never changes.
func refusesSize(ctx SpecContext, size, reason string) {
	claimOnNode(ctx, "huge", storageClass, size)
	Consistently(func() string { return capacityOf(ctx) }).WithContext(ctx).WithTimeout(8 * time.Second).
		WithPolling(200 * time.Millisecond).Should(Equal(capacity))
	Eventually(eventsOf(attacker, "huge")).WithContext(ctx).Should(ContainSubstring(reason))
	isPending(ctx, "huge")
	deleteClaim(ctx, "huge")
	leavesNothing(ctx)
}

// recoversFrom8Ei requests 8Ei for a volume in use, and then a possible size. Kubernetes allows that as long as the
// request remains larger than the volume (RecoverVolumeExpansionFailure).
func recoversFrom8Ei(ctx SpecContext) {
	v := inTenant("greedy", storageClass, "300Mi")
	Expect(tenant.Claim(ctx, v)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { forget(ctx, v, "greedy") })
	Expect(tenant.StartPod(ctx, v, "greedy")).To(Succeed())
	sum, err := tenant.Write(ctx, v, "greedy")
	Expect(err).NotTo(HaveOccurred())
	request := func(size string) {
		GinkgoHelper()
		tenant.Run(ctx, "patch", "pvc", "-n", attacker, v.Name, "-p",
			`{"spec":{"resources":{"requests":{"storage":"`+size+`"}}}}`)
	}
	request("8Ei")
	Eventually(eventsOf(attacker, v.Name)).WithContext(ctx).Should(
		ContainSubstring("the maximum is 4611686018427387904 (4Ei)"))
	size := func() string {
		return tenant.Run(ctx, "get", "pvc", "-n", attacker, v.Name, "-o", "jsonpath={.status.capacity.storage}")
	}
	Expect(size()).To(Equal("300Mi"))

	By("requesting less")
	request("400Mi")
	Eventually(size).WithContext(ctx).Should(Equal("400Mi"))
	mib, err := tenant.Shell(ctx, attacker, "greedy", "df -P -m /data | awk 'NR == 2 {print $2}'")
	Expect(err).NotTo(HaveOccurred())
	var seen int
	Expect(fmt.Sscan(mib, &seen)).To(Equal(1))
	Expect(seen).To(BeNumerically(">", 330), "the file system has grown")
	Expect(onTheDisk(ctx, "lvs", "lv_size", class+"/"+handleOf(ctx, v))).To(Equal("400.00m"))
	Expect(tenant.Checksum(ctx, v, "greedy")).To(Equal(sum))
	Eventually(tenant.Run).WithArguments(ctx, "get", "pvc", "-n", attacker, v.Name, "-o",
		"jsonpath={.status.allocatedResourceStatuses}{.status.conditions}").Should(BeEmpty())
	Expect(tenant.StopPod(ctx, attacker, "greedy")).To(Succeed())
	deleteClaim(ctx, v.Name)
	leavesNothing(ctx)
}

// reserved are annotations that mean something on other objects, or for the operator alone.
var reserved = []string{wellknown.AdoptAnnotation, wellknown.AllowDeletionAnnotation,
	wellknown.CloneVolumeAnnotation, wellknown.ClaimAnnotation, wellknown.ConditionAnnotation,
	wellknown.CopiedAnnotation, wellknown.CopyForAnnotation, wellknown.CopyOfAnnotation,
	wellknown.EarlierDriverAnnotation, wellknown.EncryptionAnnotation, wellknown.ExistingVolumeAnnotation,
	wellknown.FenceAnnotation, wellknown.FencedAnnotation, wellknown.IOLimitsAnnotation,
	wellknown.ImportAnnotation, wellknown.MigrateAnnotation, wellknown.MoveAnnotation,
	wellknown.MovedVolumeAnnotation, wellknown.PendingDeletionAnnotation, wellknown.RecreatedVolumeAnnotation,
	wellknown.ReleaseClaimsAnnotation, wellknown.RetireAnnotation, wellknown.SpreadAnnotation,
	wellknown.SuspendedAnnotation, wellknown.UnclaimedAnnotation}

// ignoresAnnotations sets all annotations of the product on a claim. The volume has none of them, but the name of its
// claim.
func ignoresAnnotations(ctx SpecContext) {
	const name = "annotated"
	v := inTenant(name, storageClass, "64Mi")
	annotations := "  annotations:\n"
	for _, key := range reserved {
		annotations += fmt.Sprintf("    %s: %s/data\n", key, bystander)
	}
	manifest := strings.NewReplacer("NAME", name, "CLASS", v.Class, "SIZE", v.Size, "  annotations:\n", annotations)
	Expect(tenant.ApplyManifest(ctx, manifest.Replace(claim))).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { forget(ctx, v, name) })
	Expect(tenant.StartPod(ctx, v, name)).To(Succeed())
	objects := objectsOf(ctx, name)
	Expect(objects).To(HaveLen(1))
	Expect(objects[0].Annotations).To(HaveKeyWithValue(wellknown.ClaimAnnotation, attacker+"/"+name))
	for _, value := range objects[0].Annotations {
		Expect(value).NotTo(ContainSubstring(bystander))
	}
	Expect(tagsOf(ctx, v)).NotTo(ContainSubstring(bystander))
	Expect(tenant.StopPod(ctx, attacker, name)).To(Succeed())
	deleteClaim(ctx, name)
	leavesNothing(ctx)
}

// objectsOf returns the LogicalVolumes of a claim of the tenant.
func objectsOf(ctx context.Context, name string) []topolvmv1.LogicalVolume {
	GinkgoHelper()
	var list topolvmv1.LogicalVolumeList
	Expect(cluster.List(ctx, &list)).To(Succeed())
	var found []topolvmv1.LogicalVolume
	for _, lv := range list.Items {
		if lv.Annotations[wellknown.ClaimAnnotation] == attacker+"/"+name {
			found = append(found, lv)
		}
	}
	return found
}

// tagsOf returns the tags of the logical volume of a claim.
func tagsOf(ctx context.Context, v story.Volume) string {
	GinkgoHelper()
	return onTheDisk(ctx, "lvs", "lv_tags", class+"/"+handleOf(ctx, v))
}

// spreadOver returns the labels of a claim whose volume must not be on a node with another one of the group.
func spreadOver(group string) map[string]string {
	return map[string]string{wellknown.SpreadGroupLabel: group, wellknown.SpreadLabel: wellknown.SpreadNode,
		wellknown.SpreadPolicyLabel: wellknown.SpreadRequired}
}

// ignoresLabels uses the spread group of the bystander, which is another group in another namespace, and labels that
// the product sets on its own objects.
func ignoresLabels(ctx SpecContext) {
	v := inTenant("labeled", storageClass, "64Mi")
	v.Labels = spreadOver("shared")
	for _, key := range []string{wellknown.GroupLabel, wellknown.SpreadGroupHashLabel} {
		v.Labels[key] = bystander
	}
	Expect(tenant.Claim(ctx, v)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { forget(ctx, v, v.Name) })
	Expect(tenant.StartPod(ctx, v, v.Name)).To(Succeed(), "the volumes of the bystander are in another spread group")
	objects := objectsOf(ctx, v.Name)
	Expect(objects).To(HaveLen(1))
	for _, value := range objects[0].Labels {
		Expect(value).NotTo(Equal(bystander))
	}
	Expect(tagsOf(ctx, v)).To(ContainSubstring("lvms.spread=node:required:" + attacker + "/shared"))
	Expect(tenant.StopPod(ctx, attacker, v.Name)).To(Succeed())
	deleteClaim(ctx, v.Name)
	leavesNothing(ctx)
}

// stolen are requests for the data of the bystander: by its snapshot and claim, in a reference to another namespace and
// in one to the own namespace, by the content of its snapshot, and by its PersistentVolume.
const stolen = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: of-snapshot, namespace: attacker, annotations: {volume.kubernetes.io/selected-node: node1}}
spec: {storageClassName: lvms-vg1, accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}, dataSourceRef: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: snap, namespace: bystander}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: of-claim, namespace: attacker, annotations: {volume.kubernetes.io/selected-node: node1}}
spec: {storageClassName: lvms-vg1, accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}, dataSourceRef: {kind: PersistentVolumeClaim, name: data, namespace: bystander}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: of-same-snapshot, namespace: attacker, annotations: {volume.kubernetes.io/selected-node: node1}}
spec: {storageClassName: lvms-vg1, accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}, dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: snap}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: of-same-claim, namespace: attacker, annotations: {volume.kubernetes.io/selected-node: node1}}
spec: {storageClassName: lvms-vg1, accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}, dataSource: {kind: PersistentVolumeClaim, name: data}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: of-volume, namespace: attacker}
spec: {storageClassName: lvms-vg1, volumeName: VOLUME, accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: of-content, namespace: attacker}
spec: {source: {volumeSnapshotContentName: CONTENT}}
`

// emptied are the claims whose reference the API server removes, because it has a namespace and the feature gate
// CrossNamespaceVolumeDataSource is off. They get an empty volume. The other claims get none.
var emptied = []string{"of-snapshot", "of-claim"}

func refusesDataOfOthers(ctx SpecContext) {
	theirs := story.Volume{Namespace: bystander, Name: "data", Class: storageClass}
	Expect(cluster.Snapshot(ctx, theirs, "snap")).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { _ = cluster.RemoveSnapshot(ctx, bystander, "snap") })
	none := []string{"of-same-snapshot", "of-same-claim", "of-volume"}
	DeferCleanup(func(ctx SpecContext) {
		for _, name := range slices.Concat(emptied, none) {
			forget(ctx, inTenant(name, storageClass, ""))
		}
		_ = cluster.RemoveSnapshot(ctx, attacker, "of-content")
	})
	content := cluster.Run(ctx, "get", "volumesnapshot", "-n", bystander, "snap", "-o",
		"jsonpath={.status.boundVolumeSnapshotContentName}")
	volume := cluster.Run(ctx, "get", "pvc", "-n", bystander, "data", "-o", "jsonpath={.spec.volumeName}")
	// A cluster may also refuse some of these when they are created.
	_ = tenant.ApplyManifest(ctx, strings.NewReplacer("VOLUME", volume, "CONTENT", content).Replace(stolen))
	Consistently(func(g Gomega) {
		for _, name := range none {
			g.Expect(objectsOf(ctx, name)).To(BeEmpty(), name)
		}
	}).WithContext(ctx).WithTimeout(20 * time.Second).Should(Succeed())
	for _, name := range none {
		phase, err := tenant.Kubectl(ctx, nil, "get", "pvc", "-n", attacker, name, "--ignore-not-found", "-o",
			"jsonpath={.status.phase}")
		Expect(err).NotTo(HaveOccurred())
		Expect(phase).To(BeElementOf("Pending", ""), name)
	}
	for _, name := range emptied {
		for _, lv := range objectsOf(ctx, name) {
			Expect(lv.Spec.Source).To(BeEmpty(), "%s gets an empty volume", name)
			Expect(onTheDisk(ctx, "lvs", "origin", class+"/"+lv.Status.VolumeID)).To(BeEmpty(), name)
		}
	}
	Expect(tenant.Run(ctx, "get", "volumesnapshot", "-n", attacker, "of-content", "--ignore-not-found", "-o",
		"jsonpath={.status.readyToUse}")).To(BeElementOf("false", ""))
	Expect(cluster.Run(ctx, "get", "pvc", "-n", bystander, "data", "-o", "jsonpath={.status.phase}")).To(Equal("Bound"))
	tenant.Run(ctx, "delete", "pvc", "-n", attacker, "--all", story.Timeout)
	tenant.Run(ctx, "delete", "volumesnapshot", "-n", attacker, "--all", story.Timeout)
	Expect(cluster.RemoveSnapshot(ctx, bystander, "snap")).To(Succeed())
	leavesNothing(ctx)
}

const storageClassManifest = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: hostile}
provisioner: topolvm.io
volumeBindingMode: WaitForFirstConsumer
mountOptions: [OPTIONS]
parameters:
  csi.storage.k8s.io/fstype: FSTYPE
  PARAMETER
`

// storageClassOf returns a StorageClass for the device class, unless the parameter names another one.
func storageClassOf(fstype, parameter, mountOption string) string {
	if !strings.Contains(parameter, wellknown.DeviceClassParameter) {
		parameter = strings.Trim(wellknown.DeviceClassParameter+": "+class+"\n  "+parameter, "\n ")
	}
	return strings.NewReplacer("FSTYPE", fstype, "PARAMETER", parameter, "OPTIONS", mountOption).Replace(
		storageClassManifest)
}

// refusesParameters creates a StorageClass as a user who may create nothing else, and a claim of the tenant.
func refusesParameters(ctx SpecContext, manifest, reason string) {
	_, err := storage.Kubectl(ctx, strings.NewReader(manifest), "create", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { cluster.Run(ctx, "delete", "storageclass", "hostile") })
	// An event of the same claim is still there when the next claim has its name.
	name := fmt.Sprint("hostile-", time.Now().UnixNano())
	claimOnNode(ctx, name, "hostile", "400Mi")
	Eventually(eventsOf(attacker, name)).WithContext(ctx).Should(ContainSubstring(reason))
	isPending(ctx, name)
	Expect(logicalVolumes(ctx)).To(HaveLen(1))
	deleteClaim(ctx, name)
	leavesNothing(ctx)
}

// addressesOf returns the addresses of the Pods with a name.
func addressesOf(ctx context.Context, name string) []string {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(cluster.List(ctx, &pods, client.InNamespace(story.OperatorNamespace),
		client.MatchingLabels{"app.kubernetes.io/name": name})).To(Succeed())
	var addresses []string
	for _, pod := range pods.Items {
		if pod.Status.PodIP != "" && pod.DeletionTimestamp.IsZero() {
			addresses = append(addresses, pod.Status.PodIP)
		}
	}
	Expect(addresses).NotTo(BeEmpty())
	return addresses
}
