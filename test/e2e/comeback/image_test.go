//go:build e2e

package comeback

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
)

// areRestoredAsObjects replaces etcd and the system of an OpenShift node, keeps its disk and its cluster ID, and
// restores the objects of the volumes as OADP does: this is what an image-based upgrade does to a cluster.
func areRestoredAsObjects(ctx SpecContext) {
	const node = "node1"
	options := lab.Options{Name: "comeback-image", OpenShift: true}
	cluster = suite.Up(ctx, options)
	cluster.PrepareOpenShift(ctx)
	addDisk(ctx, nodeOf(node))
	install(ctx)
	createClasses(ctx, thinClass)
	volumes := writeTwo(ctx)
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
	Eventually(reasonOf(node)).WithContext(ctx).WithTimeout(soon).WithPolling(time.Second).Should(
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
	expectNoOrphan(ctx, node)

	By("deleting the claims")
	for _, w := range volumes {
		handle := w.volume(ctx).Spec.CSI.VolumeHandle
		Expect(cluster.StopPod(ctx, w.Namespace, w.pod())).To(Succeed())
		Expect(cluster.Unclaim(ctx, w.Volume)).To(Succeed())
		Eventually(volumesOn).WithArguments(ctx, node).WithTimeout(soon).WithPolling(time.Second).ShouldNot(
			ContainElement(ContainSubstring(handle)))
	}
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
	Expect(all).To(HaveLen(6))
	return all
}
