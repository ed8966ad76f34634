package operand

import (
	"context"
	"errors"
	"fmt"
	"slices"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

var groupSnapshotClassKind = groupsnapshotv1.SchemeGroupVersion.WithKind("VolumeGroupSnapshotClass")

// volumeGroupSnapshotClass keeps one VolumeGroupSnapshotClass for each thin device class, with the name and the
// deletionPolicy of its VolumeSnapshotClass.
type volumeGroupSnapshotClass struct{}

// GetName names the manager.
func (volumeGroupSnapshotClass) GetName() string { return "volumeGroupSnapshotClass" }

// +kubebuilder:rbac:groups=groupsnapshot.storage.k8s.io,resources=volumegroupsnapshotclasses,verbs=get;list;watch;create;patch;delete

// EnsureCreated applies the VolumeGroupSnapshotClasses and deletes those of device classes that no longer exist.
func (volumeGroupSnapshotClass) EnsureCreated(r Reconciler, ctx context.Context,
	cluster *lvmv1alpha1.LVMCluster) error {
	all := &groupsnapshotv1.VolumeGroupSnapshotClassList{}
	if err := r.Client.List(ctx, all); err != nil {
		return fmt.Errorf("list VolumeGroupSnapshotClasses: %w", err)
	}
	var errs []error
	for _, class := range cluster.Spec.Storage.DeviceClasses {
		if class.ThinPoolConfig == nil {
			continue
		}
		err := groupSnapshotClassConflict(class, all.Items)
		if err == nil {
			err = r.Applier.Apply(ctx, typed{newVolumeGroupSnapshotClass(cluster, class)})
		}
		errs = append(errs, err)
	}
	keep := func(object client.Object) bool {
		return isCopy(object) || r.Current.KeepsStorageClass(cluster, object.GetName())
	}
	return errors.Join(append(errs,
		r.Applier.Prune(ctx, r.Client, groupSnapshotClassList(), keep, ownerLabels(cluster)))...)
}

// EnsureDeleted deletes all VolumeGroupSnapshotClasses of the LVMCluster.
func (volumeGroupSnapshotClass) EnsureDeleted(r Reconciler, ctx context.Context,
	cluster *lvmv1alpha1.LVMCluster) error {
	return r.Applier.Prune(ctx, r.Live, groupSnapshotClassList(), isCopy, ownerLabels(cluster))
}

func groupSnapshotClassList() client.ObjectList {
	return &groupsnapshotv1.VolumeGroupSnapshotClassList{}
}

// groupSnapshotClassConflict returns an error if an existing VolumeGroupSnapshotClass differs from the device class, or
// nil. The operator does not change it, for the reason of snapshotClassConflict.
func groupSnapshotClassConflict(class lvmv1alpha1.DeviceClass,
	present []groupsnapshotv1.VolumeGroupSnapshotClass) error {
	name := lvmv1alpha1.StorageClassName(class.Name)
	at := slices.IndexFunc(present, func(c groupsnapshotv1.VolumeGroupSnapshotClass) bool {
		return c.Name == name && c.DeletionTimestamp.IsZero()
	})
	if at < 0 {
		return nil
	}
	existing := &present[at]
	if existing.Driver != lvmv1alpha1.DriverName {
		return fmt.Errorf("VolumeGroupSnapshotClass %s already exists with driver %s: delete it, or use another name "+
			"for device class %s", name, existing.Driver, class.Name)
	}
	desired := snapshotv1.DeletionPolicy(class.VolumeSnapshotClassOptions.Deletion())
	if existing.DeletionPolicy != desired {
		return fmt.Errorf("VolumeGroupSnapshotClass %s already exists, and its deletionPolicy is %s instead of %s; "+
			"set volumeSnapshotClassOptions.deletionPolicy of device class %s to %s, or delete the "+
			"VolumeGroupSnapshotClass, and the operator recreates it; existing group snapshots are not affected",
			name, existing.DeletionPolicy, desired, class.Name, existing.DeletionPolicy)
	}
	return nil
}

// newVolumeGroupSnapshotClass builds the VolumeGroupSnapshotClass of a device class.
func newVolumeGroupSnapshotClass(cluster *lvmv1alpha1.LVMCluster,
	class lvmv1alpha1.DeviceClass) *groupsnapshotv1.VolumeGroupSnapshotClass {
	return &groupsnapshotv1.VolumeGroupSnapshotClass{
		TypeMeta: typeMeta(groupSnapshotClassKind),
		ObjectMeta: metav1.ObjectMeta{Name: lvmv1alpha1.StorageClassName(class.Name),
			Labels: labels(cluster, "group-snapshot-class")},
		Driver:         lvmv1alpha1.DriverName,
		DeletionPolicy: snapshotv1.DeletionPolicy(class.VolumeSnapshotClassOptions.Deletion()),
	}
}
