package operand

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applystoragev1 "k8s.io/client-go/applyconfigurations/storage/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// csiDriver keeps the CSIDriver object.
type csiDriver struct{}

// GetName names the manager.
func (csiDriver) GetName() string { return "csiDriver" }

// +kubebuilder:rbac:groups=storage.k8s.io,resources=csidrivers,verbs=get;list;watch;create;patch;delete

// EnsureCreated applies the CSIDriver.
func (csiDriver) EnsureCreated(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	return r.Applier.Apply(ctx, newCSIDriver(cluster))
}

// EnsureDeleted deletes the CSIDriver.
func (csiDriver) EnsureDeleted(r Reconciler, ctx context.Context, _ *lvmv1alpha1.LVMCluster) error {
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: wellknown.DriverName}}
	return r.Applier.Delete(ctx, r.Live, driver)
}

// newCSIDriver builds the CSIDriver: no attach, storage capacity, and Pod information on mount.
func newCSIDriver(cluster *lvmv1alpha1.LVMCluster) *applystoragev1.CSIDriverApplyConfiguration {
	return applystoragev1.CSIDriver(wellknown.DriverName).
		WithLabels(labels(cluster, "csi-driver")).
		WithSpec(applystoragev1.CSIDriverSpec().
			WithAttachRequired(false).
			WithPodInfoOnMount(true).
			WithStorageCapacity(true).
			// The kubelet applies the fsGroup of a Pod regardless of the file system in the StorageClass, and sets
			// SELinux contexts with a mount option.
			WithFSGroupPolicy(storagev1.FileFSGroupPolicy).
			WithSELinuxMount(true).
			WithVolumeLifecycleModes(storagev1.VolumeLifecyclePersistent))
}
