//go:build e2e

package comeback

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/docs"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
)

// areRestoredAsObjects replaces etcd and the system of an OpenShift node, keeps its disk and its cluster ID, and
// restores the objects of the volumes as OADP does: this is what an image-based upgrade does to a cluster. Then it
// creates the objects of a snapshot as docs/how-to/backup.md says.
func areRestoredAsObjects(ctx SpecContext) {
	const node = "node1"
	options := lab.Options{Name: "comeback-image", OpenShift: true, Snapshots: true}
	cluster = suite.Up(ctx, options)
	cluster.PrepareOpenShift(ctx)
	addDisk(ctx, nodeOf(node))
	install(ctx)
	createClasses(ctx, thinClass)
	volumes := writeTwo(ctx)
	before := takeSnapshot(ctx, &volumes[0])
	content := volumesOn(ctx, node)
	id := cluster.Run(ctx, "get", "clusterversion", "version", "-o", "jsonpath={.spec.clusterID}")
	const seed = "5eed5eed-5eed-45ee-85ee-d5eed5eed5ee"
	Expect(id).NotTo(Equal(seed))
	uid := cluster.Run(ctx, "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
	expectIdentity(ctx, node, id)
	backup := backUp(ctx)
	taken := takeDisk(ctx, nodeOf(node))
	endCluster(ctx)

	By("starting the system of another image with the disk, and with the cluster ID of that image")
	cluster = suite.UpAndRecord(ctx, options)
	cluster.PrepareOpenShift(ctx)
	setClusterID(ctx, seed)
	install(ctx)
	Expect(cluster.Run(ctx, "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")).NotTo(Equal(uid))
	taken.insert(ctx, nodeOf(node))

	By("restoring the objects")
	for _, object := range backup {
		Expect(cluster.Create(ctx, object)).To(Succeed())
	}
	Expect(cluster.ApplyManifest(ctx, thinClass)).To(Succeed())
	Eventually(reasonOf(node)).WithContext(ctx).Should(
		ContainSubstring("OtherClusterVG"))
	Expect(volumesOn(ctx, node)).To(ConsistOf(content), "nothing is created, removed or wiped")

	By("restoring the cluster ID")
	setClusterID(ctx, id)
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
	for _, w := range volumes {
		w.isBound(ctx)
		w.isReadAgain(ctx, node)
	}
	Expect(volumesOn(ctx, node)).To(ConsistOf(content), "nothing is created, removed or wiped")
	before.isRestored(ctx, node)
	Eventually(volumesOn).WithArguments(ctx, node).Should(
		ConsistOf(content), "no snapshot is taken, and the restored volume is removed")
	expectOrphansGone(ctx, node)

	By("deleting the claims and the snapshot")
	before.isDeleted(ctx, node)
	for _, w := range volumes {
		handle := w.volume(ctx).Spec.CSI.VolumeHandle
		Expect(cluster.StopPod(ctx, w.Namespace, w.pod())).To(Succeed())
		Expect(cluster.Unclaim(ctx, w.Volume)).To(Succeed())
		Eventually(volumesOn).WithArguments(ctx, node).ShouldNot(
			ContainElement(ContainSubstring(handle)))
	}
}

// snapshotted is a snapshot of a volume.
type snapshotted struct {
	name, logicalVolume string
	// before is the name of its logical volume.
	before string
	// source is the volume with the content at the time of the snapshot.
	source written
}

// takeSnapshot takes a snapshot of a volume, and then writes something else to the volume.
func takeSnapshot(ctx context.Context, w *written) snapshotted {
	GinkgoHelper()
	s := snapshotted{name: "before", source: *w}
	Expect(cluster.Snapshot(ctx, w.Volume, s.name)).To(Succeed())
	s.logicalVolume = "snapshot-" + cluster.Run(ctx, "-n", w.Namespace, "get", "volumesnapshot", s.name, "-o",
		"jsonpath={.metadata.uid}")
	s.before = s.handle(ctx)
	Expect(s.before).NotTo(BeEmpty())
	var err error
	w.sum, err = cluster.Write(ctx, w.Volume, w.pod())
	Expect(err).NotTo(HaveOccurred())
	Expect(w.sum).NotTo(Equal(s.source.sum))
	return s
}

// isRestored creates the objects of the snapshot with its handle, and restores a claim from it.
func (s snapshotted) isRestored(ctx context.Context, node string) {
	GinkgoHelper()
	By("creating the objects of the snapshot")
	var handle string
	Eventually(func() string { handle = s.handle(ctx); return handle }).WithContext(ctx).ShouldNot(BeEmpty())
	Expect(handle).To(Equal(s.before))
	Expect(volumesOn(ctx, node)).To(ContainElement(HaveSuffix(" " + handle)))
	Expect(cluster.ApplyManifest(ctx, s.manifest(handle))).To(Succeed())
	Expect(cluster.WaitSnapshot(ctx, namespace, s.name)).To(Succeed())
	Expect(s.handle(ctx)).To(Equal(handle))

	restored := s.source
	restored.Name, restored.Snapshot = "restored", s.name
	Expect(cluster.Claim(ctx, restored.Volume)).To(Succeed())
	restored.isReadAgain(ctx, node)
	Expect(cluster.StopPod(ctx, namespace, restored.pod())).To(Succeed())
	Expect(cluster.Unclaim(ctx, restored.Volume)).To(Succeed())
}

// handle returns the handle of the snapshot, as the page reads it.
func (s snapshotted) handle(ctx context.Context) string {
	GinkgoHelper()
	return cluster.Run(ctx, "get", "logicalvolume", s.logicalVolume, "-o", "jsonpath={.status.volumeID}")
}

// manifest returns the objects for the snapshot on the page.
func (s snapshotted) manifest(handle string) string {
	GinkgoHelper()
	page, err := docs.Files.ReadFile("how-to/backup.md")
	Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(page), "Create both objects for each VolumeSnapshot")
	Expect(found).To(BeTrue(), "the page has the objects")
	_, section, found = strings.Cut(section, "```yaml\n")
	Expect(found).To(BeTrue(), "the page has the objects")
	block, _, _ := strings.Cut(section, "```")
	return strings.NewReplacer("\n   ", "\n", "NAMESPACE", namespace, "NAME", s.name, "HANDLE", handle).Replace(
		"\n" + block)
}

// isDeleted deletes the VolumeSnapshot, and waits until its logical volume no longer exists.
func (s snapshotted) isDeleted(ctx context.Context, node string) {
	GinkgoHelper()
	handle := s.handle(ctx)
	Expect(cluster.RemoveSnapshot(ctx, namespace, s.name)).To(Succeed())
	Eventually(volumesOn).WithArguments(ctx, node).ShouldNot(
		ContainElement(ContainSubstring(handle)))
}

// backUp returns the LogicalVolumes, PersistentVolumes and claims as Velero restores them: with other UIDs, and without
// their status and the annotations of the binding.
func backUp(ctx context.Context) []client.Object {
	GinkgoHelper()
	kept := func(m metav1.ObjectMeta) metav1.ObjectMeta {
		delete(m.Annotations, "pv.kubernetes.io/bind-completed")
		delete(m.Annotations, "pv.kubernetes.io/bound-by-controller")
		return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: m.Labels, Annotations: m.Annotations,
			Finalizers: m.Finalizers}
	}
	var all []client.Object
	pvs, claims := &corev1.PersistentVolumeList{}, &corev1.PersistentVolumeClaimList{}
	lvs := &topolvmv1.LogicalVolumeList{}
	Expect(cluster.List(ctx, pvs)).To(Succeed())
	Expect(cluster.List(ctx, claims, client.InNamespace(namespace))).To(Succeed())
	Expect(cluster.List(ctx, lvs)).To(Succeed())
	for _, pv := range pvs.Items {
		pv.Spec.ClaimRef.UID, pv.Spec.ClaimRef.ResourceVersion = "", ""
		all = append(all, &corev1.PersistentVolume{ObjectMeta: kept(pv.ObjectMeta), Spec: pv.Spec})
	}
	for _, claim := range claims.Items {
		all = append(all, &corev1.PersistentVolumeClaim{ObjectMeta: kept(claim.ObjectMeta), Spec: claim.Spec})
	}
	for _, lv := range lvs.Items {
		all = append(all, &topolvmv1.LogicalVolume{ObjectMeta: kept(lv.ObjectMeta), Spec: lv.Spec})
	}
	Expect(all).To(HaveLen(7), "two volumes with three objects, and the LogicalVolume of the snapshot")
	return all
}
