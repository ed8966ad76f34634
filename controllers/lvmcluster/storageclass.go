package lvmcluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	applystoragev1 "k8s.io/client-go/applyconfigurations/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
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

// EnsureCreated applies the StorageClasses and deletes those of device classes that are gone.
func (topolvmStorageClass) EnsureCreated(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	all := &storagev1.StorageClassList{}
	if err := r.Client.List(ctx, all); err != nil {
		return fmt.Errorf("list StorageClasses: %w", err)
	}
	otherDefault := hasOtherDefault(all.Items, cluster)
	var errs []error
	for _, class := range cluster.Spec.Storage.DeviceClasses {
		errs = append(errs, r.Applier.Apply(ctx, newStorageClass(cluster, class, class.Default && !otherDefault)))
	}
	keep := func(object client.Object) bool { return r.Seen.keptByName(cluster, object.GetName()) }
	return errors.Join(append(errs,
		r.Applier.Prune(ctx, r.Client, &storagev1.StorageClassList{}, keep, ownerLabels(cluster)))...)
}

// EnsureDeleted deletes all StorageClasses of the LVMCluster.
func (topolvmStorageClass) EnsureDeleted(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	return r.Applier.Prune(ctx, r.Live, &storagev1.StorageClassList{}, keepNone, ownerLabels(cluster))
}

func keepNone(client.Object) bool { return false }

// hasOtherDefault reports whether the cluster has a default StorageClass that is not ours. Ours do not count: whether
// one of them is the default now must not decide whether it is the default next.
func hasOtherDefault(classes []storagev1.StorageClass, cluster *lvmv1alpha1.LVMCluster) bool {
	for _, class := range classes {
		ours := class.Labels[lvmv1alpha1.OwnerNameLabel] == labelValue(cluster.Name) || isClassOf(cluster, class.Name)
		if !ours && class.Annotations[annotationDefaultClass] == "true" {
			return true
		}
	}
	return false
}

// isClassOf reports whether a StorageClass has the name of one of the device classes.
func isClassOf(cluster *lvmv1alpha1.LVMCluster, storageClass string) bool {
	for _, class := range cluster.Spec.Storage.DeviceClasses {
		if lvmv1alpha1.StorageClassName(class.Name) == storageClass {
			return true
		}
	}
	return false
}

// newStorageClass builds the StorageClass of a device class.
func newStorageClass(cluster *lvmv1alpha1.LVMCluster, class lvmv1alpha1.DeviceClass, isDefault bool,
) *applystoragev1.StorageClassApplyConfiguration {
	return applystoragev1.StorageClass(lvmv1alpha1.StorageClassName(class.Name)).
		WithLabels(labels(cluster, "storage-class")).
		WithAnnotations(map[string]string{
			annotationDescription:  descriptionOfClass,
			annotationDefaultClass: strconv.FormatBool(isDefault),
		}).
		WithProvisioner(lvmv1alpha1.DriverName).
		WithParameters(map[string]string{
			lvmv1alpha1.DeviceClassParameter:    class.Name,
			lvmv1alpha1.FilesystemTypeParameter: string(class.FilesystemType),
		}).
		WithReclaimPolicy(corev1.PersistentVolumeReclaimDelete).
		WithVolumeBindingMode(storagev1.VolumeBindingWaitForFirstConsumer).
		WithAllowVolumeExpansion(true)
}
