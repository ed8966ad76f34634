package operand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotclasses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=groupsnapshot.storage.k8s.io,resources=volumegroupsnapshotclasses,verbs=get;list;watch;create;patch;delete

// snapshotClasses keeps one class of snapshots for each thin device class: thick volumes have no snapshots.
type snapshotClasses struct {
	// name is the name of the manager, and component that of the objects in their labels.
	name, component string
	kind            schema.GroupVersionKind
	// snapshots names the snapshots in messages.
	snapshots string
	list      func() client.ObjectList
	// build returns the object of the kind with the fields of a VolumeSnapshotClass.
	build func(*snapshotv1.VolumeSnapshotClass) client.Object
}

var (
	volumeSnapshotClasses = snapshotClasses{
		name: "topolvmVolumeSnapshotClass", component: "snapshot-class", snapshots: "snapshots",
		kind:  snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshotClass"),
		list:  func() client.ObjectList { return &snapshotv1.VolumeSnapshotClassList{} },
		build: func(class *snapshotv1.VolumeSnapshotClass) client.Object { return class },
	}
	// A VolumeGroupSnapshotClass has the name and the deletionPolicy of the VolumeSnapshotClass of its device class.
	volumeGroupSnapshotClasses = snapshotClasses{
		name: "volumeGroupSnapshotClass", component: "group-snapshot-class", snapshots: "group snapshots",
		kind: groupsnapshotv1.SchemeGroupVersion.WithKind("VolumeGroupSnapshotClass"),
		list: func() client.ObjectList { return &groupsnapshotv1.VolumeGroupSnapshotClassList{} },
		build: func(class *snapshotv1.VolumeSnapshotClass) client.Object {
			return &groupsnapshotv1.VolumeGroupSnapshotClass{TypeMeta: class.TypeMeta, ObjectMeta: class.ObjectMeta,
				Driver: class.Driver, DeletionPolicy: class.DeletionPolicy}
		},
	}
)

// GetName names the manager.
func (s snapshotClasses) GetName() string { return s.name }

// EnsureCreated applies the classes and deletes those of device classes that no longer exist.
func (s snapshotClasses) EnsureCreated(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	present, err := s.present(ctx, r)
	if err != nil {
		return err
	}
	var errs []error
	for _, class := range cluster.Spec.Storage.DeviceClasses {
		if class.ThinPoolConfig == nil {
			continue
		}
		err := s.conflict(class, present)
		if err == nil {
			err = r.Applier.Apply(ctx, typed{s.of(cluster, class)})
		}
		errs = append(errs, err)
	}
	keep := func(object client.Object) bool {
		return isCopy(object) || r.Current.KeepsStorageClass(cluster, object.GetName())
	}
	return errors.Join(append(errs, r.Applier.Prune(ctx, r.Client, s.list(), keep, ownerLabels(cluster)))...)
}

// EnsureDeleted deletes all classes of the LVMCluster.
func (s snapshotClasses) EnsureDeleted(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	return r.Applier.Prune(ctx, r.Live, s.list(), isCopy, ownerLabels(cluster))
}

// present returns the classes of the cluster, as VolumeSnapshotClasses.
func (s snapshotClasses) present(ctx context.Context, r Reconciler) ([]*snapshotv1.VolumeSnapshotClass, error) {
	all := s.list()
	if err := r.Client.List(ctx, all); err != nil {
		return nil, fmt.Errorf("list %ses: %w", s.kind.Kind, err)
	}
	objects, err := meta.ExtractList(all)
	if err != nil {
		return nil, err
	}
	var classes []*snapshotv1.VolumeSnapshotClass
	for _, object := range objects {
		switch class := object.(type) {
		case *snapshotv1.VolumeSnapshotClass:
			classes = append(classes, class)
		case *groupsnapshotv1.VolumeGroupSnapshotClass:
			classes = append(classes, &snapshotv1.VolumeSnapshotClass{ObjectMeta: class.ObjectMeta,
				Driver: class.Driver, DeletionPolicy: class.DeletionPolicy})
		}
	}
	return classes, nil
}

// conflict returns an error if an existing class differs from the device class, or nil. The operator does not change
// the class: with deletionPolicy Delete instead of Retain, later snapshots would be destroyed together with their
// VolumeSnapshot.
func (s snapshotClasses) conflict(class lvmv1alpha1.DeviceClass, present []*snapshotv1.VolumeSnapshotClass) error {
	name := wellknown.StorageClassName(class.Name)
	at := slices.IndexFunc(present, func(c *snapshotv1.VolumeSnapshotClass) bool {
		return c.Name == name && c.DeletionTimestamp.IsZero()
	})
	if at < 0 {
		return nil
	}
	existing := present[at]
	if existing.Driver != wellknown.DriverName {
		return fmt.Errorf("%s %s already exists with driver %s: delete it, or use another name for device class %s",
			s.kind.Kind, name, existing.Driver, class.Name)
	}
	desired := deletionPolicy(class)
	if existing.DeletionPolicy != desired {
		return fmt.Errorf("%s %s already exists, and its deletionPolicy is %s instead of %s; set "+
			"volumeSnapshotClassOptions.deletionPolicy of device class %s to %s, or delete the %s, and the operator "+
			"recreates it; existing %s are not affected", s.kind.Kind, name, existing.DeletionPolicy, desired,
			class.Name, existing.DeletionPolicy, s.kind.Kind, s.snapshots)
	}
	return nil
}

// deletionPolicy returns the deletion policy of the class of a device class.
func deletionPolicy(class lvmv1alpha1.DeviceClass) snapshotv1.DeletionPolicy {
	policy := ptr.Deref(class.VolumeSnapshotClassOptions, lvmv1alpha1.VolumeSnapshotClassOptions{}).DeletionPolicy
	return snapshotv1.DeletionPolicy(cmp.Or(policy, lvmv1alpha1.SnapshotDeletionDelete))
}

// of builds the class of a device class.
func (s snapshotClasses) of(cluster *lvmv1alpha1.LVMCluster, class lvmv1alpha1.DeviceClass) client.Object {
	return s.build(&snapshotv1.VolumeSnapshotClass{
		TypeMeta: typeMeta(s.kind),
		ObjectMeta: metav1.ObjectMeta{Name: wellknown.StorageClassName(class.Name),
			Labels: labels(cluster, s.component)},
		Driver:         wellknown.DriverName,
		DeletionPolicy: deletionPolicy(class),
	})
}
