package operand

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	applystoragev1 "k8s.io/client-go/applyconfigurations/storage/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
)

const (
	annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"
	annotationDescription  = "description"
	descriptionOfClass     = "Provides RWO and RWOP Filesystem & Block volumes"
)

// topolvmStorageClass keeps one StorageClass for each device class.
type topolvmStorageClass struct{}

// GetName names the manager.
func (topolvmStorageClass) GetName() string { return "topolvmStorageClass" }

// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch;create;patch;delete

// EnsureCreated applies the StorageClasses and deletes those of device classes that no longer exist.
func (topolvmStorageClass) EnsureCreated(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	all := &storagev1.StorageClassList{}
	if err := r.Client.List(ctx, all); err != nil {
		return fmt.Errorf("list StorageClasses: %w", err)
	}
	otherDefault := hasOtherDefault(all.Items, cluster)
	var errs []error
	for _, class := range cluster.Spec.Storage.DeviceClasses {
		err := conflict(class, all.Items)
		if err == nil {
			err = r.Applier.Apply(ctx, newStorageClass(cluster, class, class.Default && !otherDefault))
		}
		errs = append(errs, err)
	}
	keep := func(object client.Object) bool {
		return isCopy(object) || r.Current.KeepsStorageClass(cluster, object.GetName())
	}
	return errors.Join(append(errs,
		r.Applier.Prune(ctx, r.Client, &storagev1.StorageClassList{}, keep, ownerLabels(cluster)))...)
}

// EnsureDeleted deletes all StorageClasses of the LVMCluster.
func (topolvmStorageClass) EnsureDeleted(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	return r.Applier.Prune(ctx, r.Live, &storagev1.StorageClassList{}, isCopy, ownerLabels(cluster))
}

func keepNone(client.Object) bool { return false }

// isCopy reports whether a StorageClass, VolumeSnapshotClass or VolumeGroupSnapshotClass with the operator's labels has
// a name that the operator does not use: a user copied it, with its labels.
func isCopy(object client.Object) bool {
	if class, is := object.(*storagev1.StorageClass); is {
		return class.Name != wellknown.StorageClassName(class.Parameters[wellknown.DeviceClassParameter])
	}
	return !strings.HasPrefix(object.GetName(), wellknown.StorageClassPrefix)
}

// hasOtherDefault reports whether another StorageClass than the operator's is the default. The operator's own do not
// count: whether one of them is the default now must not decide whether it remains the default.
func hasOtherDefault(classes []storagev1.StorageClass, cluster *lvmv1alpha1.LVMCluster) bool {
	for i := range classes {
		class := &classes[i]
		ours := class.Labels[wellknown.OwnerNameLabel] == observe.OwnerName(cluster) && !isCopy(class) ||
			isClassOf(cluster, class.Name)
		if !ours && class.Annotations[annotationDefaultClass] == "true" {
			return true
		}
	}
	return false
}

// isClassOf reports whether a StorageClass has the name of one of the device classes.
func isClassOf(cluster *lvmv1alpha1.LVMCluster, storageClass string) bool {
	for _, class := range cluster.Spec.Storage.DeviceClasses {
		if wellknown.StorageClassName(class.Name) == storageClass {
			return true
		}
	}
	return false
}

// conflict returns an error if a StorageClass exists and differs in an immutable field, or nil. The operator does not
// change it: a user created it like that, and claims may depend on it.
func conflict(class lvmv1alpha1.DeviceClass, present []storagev1.StorageClass) error {
	name := wellknown.StorageClassName(class.Name)
	at := slices.IndexFunc(present, func(c storagev1.StorageClass) bool {
		return c.Name == name &&
			c.DeletionTimestamp.IsZero()
	})
	if at < 0 {
		return nil
	}
	is := &present[at]
	if is.Provisioner != wellknown.DriverName {
		return fmt.Errorf("StorageClass %s already exists with provisioner %s: delete it, or use another name for "+
			"device class %s", name, is.Provisioner, class.Name)
	}
	var differ []string
	want := parametersOf(class)
	for _, key := range slices.Sorted(maps.Keys(union(want, is.Parameters))) {
		if want[key] != is.Parameters[key] {
			differ = append(differ, fmt.Sprintf("parameter %s is %q instead of %q", key, is.Parameters[key], want[key]))
		}
	}
	if policy := ptr.Deref(is.ReclaimPolicy,
		corev1.PersistentVolumeReclaimDelete); policy != classspec.Reclaim(class.StorageClassOptions) {
		differ = append(differ, fmt.Sprintf("reclaimPolicy is %s instead of %s", policy,
			classspec.Reclaim(class.StorageClassOptions)))
	}
	if mode := ptr.Deref(is.VolumeBindingMode,
		storagev1.VolumeBindingImmediate); mode != classspec.Binding(class.StorageClassOptions) {
		differ = append(differ, fmt.Sprintf("volumeBindingMode is %s instead of %s", mode,
			classspec.Binding(class.StorageClassOptions)))
	}
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("StorageClass %s already exists and is immutable: %s; set storageClassOptions of device "+
		"class %s to the existing values, or delete the StorageClass, and the operator recreates it; existing "+
		"volumes are not affected",
		name, strings.Join(differ, ", "), class.Name)
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// parametersOf returns the parameters of the StorageClass of a device class.
func parametersOf(class lvmv1alpha1.DeviceClass) map[string]string {
	parameters := maps.Clone(classspec.Parameters(class.StorageClassOptions))
	if parameters == nil {
		parameters = map[string]string{}
	}
	parameters[wellknown.DeviceClassParameter] = class.Name
	parameters[wellknown.FilesystemTypeParameter] = string(class.FilesystemType)
	return parameters
}

// newStorageClass builds the StorageClass of a device class.
func newStorageClass(cluster *lvmv1alpha1.LVMCluster, class lvmv1alpha1.DeviceClass, isDefault bool,
) *applystoragev1.StorageClassApplyConfiguration {
	options := class.StorageClassOptions
	return applystoragev1.StorageClass(wellknown.StorageClassName(class.Name)).
		WithLabels(classspec.Labels(options)).
		WithLabels(labels(cluster, "storage-class")).
		WithAnnotations(map[string]string{
			annotationDescription:  descriptionOfClass,
			annotationDefaultClass: strconv.FormatBool(isDefault),
		}).
		WithProvisioner(wellknown.DriverName).
		WithParameters(parametersOf(class)).
		WithReclaimPolicy(classspec.Reclaim(options)).
		WithVolumeBindingMode(classspec.Binding(options)).
		WithAllowVolumeExpansion(true)
}
