package lvmcluster

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

const (
	snapshotAPIVersion = "snapshot.storage.k8s.io/v1"
	snapshotClassKind  = "VolumeSnapshotClass"
)

// topolvmVolumeSnapshotClass keeps one VolumeSnapshotClass for each thin device class: thick volumes have no snapshots.
type topolvmVolumeSnapshotClass struct{}

// GetName names the manager.
func (topolvmVolumeSnapshotClass) GetName() string { return "topolvmVolumeSnapshotClass" }

// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotclasses,verbs=get;list;watch;create;patch;delete

// EnsureCreated applies the VolumeSnapshotClasses and deletes those of device classes that are gone.
func (topolvmVolumeSnapshotClass) EnsureCreated(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	var errs []error
	for _, class := range cluster.Spec.Storage.DeviceClasses {
		if class.ThinPoolConfig != nil {
			snapshotClass := newVolumeSnapshotClass(cluster, class)
			errs = append(errs, r.Applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(snapshotClass)))
		}
	}
	keep := func(object client.Object) bool { return r.Seen.keptByName(cluster, object.GetName()) }
	return errors.Join(append(errs,
		r.Applier.Prune(ctx, r.Client, snapshotClassList(), keep, ownerLabels(cluster)))...)
}

// EnsureDeleted deletes all VolumeSnapshotClasses of the LVMCluster.
func (topolvmVolumeSnapshotClass) EnsureDeleted(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	return r.Applier.Prune(ctx, r.Live, snapshotClassList(), keepNone, ownerLabels(cluster))
}

func snapshotClassList() *metav1.PartialObjectMetadataList {
	return &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{
		APIVersion: snapshotAPIVersion, Kind: snapshotClassKind + "List",
	}}
}

// newVolumeSnapshotClass builds the VolumeSnapshotClass of a device class.
func newVolumeSnapshotClass(cluster *lvmv1alpha1.LVMCluster, class lvmv1alpha1.DeviceClass) *unstructured.Unstructured {
	snapshotClass := unstructuredOperand(snapshotAPIVersion, snapshotClassKind,
		lvmv1alpha1.StorageClassName(class.Name), labels(cluster, "snapshot-class"))
	snapshotClass.Object["driver"] = lvmv1alpha1.DriverName
	snapshotClass.Object["deletionPolicy"] = "Delete"
	return snapshotClass
}
