package operand

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// EnsureCreated applies the VolumeSnapshotClasses and deletes those of device classes that no longer exist.
func (topolvmVolumeSnapshotClass) EnsureCreated(r Reconciler, ctx context.Context,
	cluster *lvmv1alpha1.LVMCluster) error {
	all := &snapshotv1.VolumeSnapshotClassList{}
	if err := r.Client.List(ctx, all); err != nil {
		return fmt.Errorf("list VolumeSnapshotClasses: %w", err)
	}
	var errs []error
	for _, class := range cluster.Spec.Storage.DeviceClasses {
		if class.ThinPoolConfig == nil {
			continue
		}
		err := snapshotClassConflict(class, all.Items)
		if err == nil {
			err = r.Applier.Apply(ctx, typed{newVolumeSnapshotClass(cluster, class)})
		}
		errs = append(errs, err)
	}
	keep := func(object client.Object) bool {
		return isCopy(object) || r.Current.KeepsStorageClass(cluster, object.GetName())
	}
	return errors.Join(append(errs,
		r.Applier.Prune(ctx, r.Client, snapshotClassList(), keep, ownerLabels(cluster)))...)
}

// EnsureDeleted deletes all VolumeSnapshotClasses of the LVMCluster.
func (topolvmVolumeSnapshotClass) EnsureDeleted(r Reconciler, ctx context.Context,
	cluster *lvmv1alpha1.LVMCluster) error {
	return r.Applier.Prune(ctx, r.Live, snapshotClassList(), isCopy, ownerLabels(cluster))
}

func snapshotClassList() client.ObjectList { return &snapshotv1.VolumeSnapshotClassList{} }

// snapshotClassConflict returns an error if an existing VolumeSnapshotClass differs from the device class, or nil. The
// operator does not change the VolumeSnapshotClass: with deletionPolicy Delete instead of Retain, later snapshots would
// be destroyed together with their VolumeSnapshot.
func snapshotClassConflict(class lvmv1alpha1.DeviceClass, present []snapshotv1.VolumeSnapshotClass) error {
	name := lvmv1alpha1.StorageClassName(class.Name)
	at := slices.IndexFunc(present, func(c snapshotv1.VolumeSnapshotClass) bool {
		return c.Name == name && c.DeletionTimestamp.IsZero()
	})
	if at < 0 {
		return nil
	}
	existing := &present[at]
	if existing.Driver != lvmv1alpha1.DriverName {
		return fmt.Errorf("VolumeSnapshotClass %s already exists with driver %s: delete it, or use another name "+
			"for device class %s", name, existing.Driver, class.Name)
	}
	desired := snapshotv1.DeletionPolicy(class.VolumeSnapshotClassOptions.Deletion())
	if existing.DeletionPolicy != desired {
		return fmt.Errorf("VolumeSnapshotClass %s already exists, and its deletionPolicy is %s instead of %s; set "+
			"volumeSnapshotClassOptions.deletionPolicy of device class %s to %s, or delete the "+
			"VolumeSnapshotClass, and the operator recreates it; existing snapshots are not affected",
			name, existing.DeletionPolicy, desired, class.Name, existing.DeletionPolicy)
	}
	return nil
}

// newVolumeSnapshotClass builds the VolumeSnapshotClass of a device class.
func newVolumeSnapshotClass(cluster *lvmv1alpha1.LVMCluster,
	class lvmv1alpha1.DeviceClass) *snapshotv1.VolumeSnapshotClass {
	return &snapshotv1.VolumeSnapshotClass{
		TypeMeta: typeMeta(snapshotClassKind),
		ObjectMeta: metav1.ObjectMeta{Name: lvmv1alpha1.StorageClassName(class.Name),
			Labels: labels(cluster, "snapshot-class")},
		Driver:         lvmv1alpha1.DriverName,
		DeletionPolicy: snapshotv1.DeletionPolicy(class.VolumeSnapshotClassOptions.Deletion()),
	}
}
