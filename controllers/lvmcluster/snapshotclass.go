package lvmcluster

import (
	"context"
	"errors"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

var snapshotClassKind = snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshotClass")

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
			errs = append(errs, r.Applier.Apply(ctx, typed{newVolumeSnapshotClass(cluster, class)}))
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
	return &metav1.PartialObjectMetadataList{TypeMeta: typeMeta(snapshotv1.SchemeGroupVersion.WithKind(snapshotClassKind.Kind + "List"))}
}

// newVolumeSnapshotClass builds the VolumeSnapshotClass of a device class.
func newVolumeSnapshotClass(cluster *lvmv1alpha1.LVMCluster, class lvmv1alpha1.DeviceClass) *snapshotv1.VolumeSnapshotClass {
	return &snapshotv1.VolumeSnapshotClass{
		TypeMeta:       typeMeta(snapshotClassKind),
		ObjectMeta:     metav1.ObjectMeta{Name: lvmv1alpha1.StorageClassName(class.Name), Labels: labels(cluster, "snapshot-class")},
		Driver:         lvmv1alpha1.DriverName,
		DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	}
}
