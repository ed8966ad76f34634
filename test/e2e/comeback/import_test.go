//go:build e2e

package comeback

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// importOn creates an LVMRecovery that imports volumes of the device class on a node, all if none are named. It returns
// the volumes in its plan, which is not approved yet.
func importOn(ctx context.Context, node string, volumes ...string) []lvmv1alpha1.RecoveryVolume {
	GinkgoHelper()
	recovery := &lvmv1alpha1.LVMRecovery{
		ObjectMeta: metav1.ObjectMeta{Namespace: story.OperatorNamespace, Name: "import"},
		Spec: lvmv1alpha1.LVMRecoverySpec{NodeName: node, DeviceClassName: class,
			Action: lvmv1alpha1.RecoveryImportVolumes, Volumes: volumes},
	}
	// After a node was lost, the connection of the API server to the operator there may be broken.
	Eventually(cluster.Create).WithArguments(ctx, recovery).Should(Succeed())
	status := waitImport(ctx, lvmv1alpha1.RecoveryAwaitingApproval)
	Expect(status.Plan).NotTo(BeNil())
	Expect(status.Plan.LostVolumeCount).To(BeZero(), "an import loses nothing")
	for _, v := range status.Plan.ImportedVolumes {
		Expect(v.Created).NotTo(BeNil(), "LVM records when it creates a volume: %+v", v)
		Expect(v.Created.Time).To(BeTemporally("~", time.Now(), 24*time.Hour))
	}
	return status.Plan.ImportedVolumes
}

// approveImport approves the plan of importOn, and waits until all volumes are imported. It returns how long this took.
func approveImport(ctx context.Context) time.Duration {
	GinkgoHelper()
	recovery := &lvmv1alpha1.LVMRecovery{}
	key := client.ObjectKey{Namespace: story.OperatorNamespace, Name: "import"}
	Expect(cluster.Get(ctx, key, recovery)).To(Succeed())
	base := recovery.DeepCopy()
	recovery.Spec.ApprovedPlan = recovery.Status.Plan.ID
	start := time.Now()
	Expect(cluster.Patch(ctx, recovery, client.MergeFrom(base))).To(Succeed())
	status := waitImport(ctx, lvmv1alpha1.RecoverySucceeded)
	took := time.Since(start)
	Expect(meta.IsStatusConditionTrue(status.Conditions, lvmv1alpha1.ConditionObjectsCreated)).To(BeTrue(), "%v",
		status.Conditions)
	return took
}

func waitImport(ctx context.Context, phase lvmv1alpha1.RecoveryPhase) lvmv1alpha1.LVMRecoveryStatus {
	GinkgoHelper()
	recovery := &lvmv1alpha1.LVMRecovery{}
	Eventually(func() lvmv1alpha1.RecoveryPhase {
		key := client.ObjectKey{Namespace: story.OperatorNamespace, Name: "import"}
		Expect(cluster.Get(ctx, key, recovery)).To(Succeed())
		return recovery.Status.Phase
	}).WithContext(ctx).Should(Equal(phase),
		func() string { return recovery.Status.Message })
	return recovery.Status
}

// isBound waits until the claim is bound, shortly after the import has ended.
func (w written) isBound(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() corev1.PersistentVolumeClaimPhase { return w.claim(ctx).Status.Phase }).WithContext(ctx).
		Should(Equal(corev1.ClaimBound))
}

// isDeletedWithItsClaim deletes the claim of an imported volume after its reclaim policy was changed as documented.
func isDeletedWithItsClaim(ctx context.Context, w written, node string) {
	GinkgoHelper()
	pv := w.volume(ctx)
	Expect(pv.Spec.PersistentVolumeReclaimPolicy).To(Equal(corev1.PersistentVolumeReclaimRetain))
	cluster.Run(ctx, "patch", "pv", pv.Name, "--patch", `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	Expect(cluster.StopPod(ctx, w.Namespace, w.pod())).To(Succeed())
	Expect(cluster.Unclaim(ctx, w.Volume)).To(Succeed())
	Eventually(volumesOn).WithArguments(ctx, node).ShouldNot(
		ContainElement(ContainSubstring(pv.Spec.CSI.VolumeHandle)))
}
