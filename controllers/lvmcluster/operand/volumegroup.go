package operand

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
)

// lvmVG keeps one LVMVolumeGroup for each device class. If an LVMVolumeGroup is deleted, the node agents remove its
// volume groups, and a finalizer keeps it until they are done.
type lvmVG struct{}

// GetName names the manager.
func (lvmVG) GetName() string { return "lvmVG" }

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroups,namespace=openshift-lvm-storage,verbs=get;list;watch;create;patch;delete

// EnsureCreated applies the LVMVolumeGroups and deletes those of removed device classes without users.
func (m lvmVG) EnsureCreated(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	groups := slices.Collect(maps.Values(r.Current.VolumeGroups))
	errs := []error{r.releaseVolumeGroups(ctx, groups, r.Current.NodeStatuses)}
	for _, class := range cluster.Spec.Storage.DeviceClasses {
		present, exists := r.Current.VolumeGroups[class.Name]
		class.DeviceDiscoveryPolicy = discoveryPolicy(class, present.Spec, exists)
		group, err := newLVMVolumeGroup(cluster, class)
		if err == nil {
			setFinalizer(group, &present, wellknown.VolumeGroupFinalizer)
			err = r.Applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(group))
		}
		errs = append(errs, err)
	}
	for _, removed := range r.Current.RemovedClasses {
		errs = append(errs, m.remove(r, ctx, removed))
	}
	return errors.Join(errs...)
}

// discoveryPolicy returns the discovery policy of a device class. If the spec does not set it, an existing
// LVMVolumeGroup keeps its policy. An existing one without a policy is from an operator that added every unused device,
// so it becomes Dynamic. A new one is Static.
func discoveryPolicy(class lvmv1alpha1.DeviceClass, present lvmv1alpha1.LVMVolumeGroupSpec, exists bool,
) lvmv1alpha1.DeviceDiscoveryPolicy {
	switch {
	case class.DeviceDiscoveryPolicy != "":
		return class.DeviceDiscoveryPolicy
	case !exists:
		return lvmv1alpha1.DeviceDiscoveryStatic
	case present.DeviceDiscoveryPolicy == "":
		return lvmv1alpha1.DeviceDiscoveryDynamic
	}
	return present.DeviceDiscoveryPolicy
}

// remove deletes the LVMVolumeGroup of a device class that was removed from the spec. It checks for users again after
// the StorageClass is deleted: a claim that was created meanwhile has its volume by then.
func (lvmVG) remove(r Reconciler, ctx context.Context, removed observe.RemovedClass) error {
	group := removed.VolumeGroup.DeepCopy()
	if err := r.addFinalizer(ctx, group); err != nil {
		return err
	}
	if users := removed.Users; !users.None() {
		return r.awaitClassUsers(ctx, group.Name, users)
	}
	storageClass := wellknown.StorageClassName(group.Name)
	err := r.Live.Get(ctx, client.ObjectKey{Name: storageClass}, &storagev1.StorageClass{})
	if err == nil {
		return waitFor([]string{fmt.Sprintf("device class %s is being removed: its StorageClass %s is deleted "+
			"first",
			group.Name, storageClass)})
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("StorageClass %s: read before LVMVolumeGroup %s is deleted: %w", storageClass,
			group.Name, err)
	}
	if group.DeletionTimestamp.IsZero() {
		users, err := observe.UsersOf(ctx, r.Live, group)
		if err != nil {
			return fmt.Errorf("device class %s was removed from spec.storage.deviceClasses: check whether it is in "+
				"use: %w", group.Name, err)
		}
		if !users.None() {
			return r.awaitClassUsers(ctx, group.Name, users)
		}
	}
	return withReason(r.Applier.Delete(ctx, r.Live, group), awaitNodes(group, r.Current.NodeStatuses))
}

// withReason returns reason if err is a RemainingError and the reason is known, and err otherwise.
func withReason(err, reason error) error {
	if remaining := (*apply.RemainingError)(nil); errors.As(err, &remaining) && reason != nil {
		return reason
	}
	return err
}

// awaitClassUsers returns a WaitError for a device class that cannot be removed yet.
func (r Reconciler) awaitClassUsers(ctx context.Context, class string, users observe.Users) error {
	return r.awaitUsers(ctx, users, class, fmt.Sprintf("device class %s was removed from spec.storage.deviceClasses "+
		"but is still in use by %s; delete them to remove the device class, or restore it in the spec", class, users))
}

// EnsureDeleted deletes all LVMVolumeGroups of the LVMCluster and waits until the node agents have removed the volume
// groups.
func (lvmVG) EnsureDeleted(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	groups := &lvmv1alpha1.LVMVolumeGroupList{}
	if err := r.Live.List(ctx, groups, client.InNamespace(cluster.Namespace)); err != nil {
		return fmt.Errorf("list LVMVolumeGroups for deletion: %w", err)
	}
	statuses, err := observe.NodeStatuses(ctx, r.Client, cluster.Namespace)
	if err != nil {
		return err
	}
	keep := func(object client.Object) bool { return !observe.IsOwned(object, cluster) }
	ours := slices.DeleteFunc(groups.Items, func(group lvmv1alpha1.LVMVolumeGroup) bool { return keep(&group) })
	if err := r.releaseVolumeGroups(ctx, ours, statuses); err != nil {
		return err
	}
	var reasons []error
	for i := range ours {
		reasons = append(reasons, awaitNodes(&ours[i], statuses))
	}
	return withReason(r.Applier.Prune(ctx, r.Live, &lvmv1alpha1.LVMVolumeGroupList{}, keep,
		client.InNamespace(cluster.Namespace)), errors.Join(reasons...))
}

// newLVMVolumeGroup builds the LVMVolumeGroup of a device class: it has the fields of the device class that nodes need,
// under the same names. The only device class is the default.
func newLVMVolumeGroup(cluster *lvmv1alpha1.LVMCluster,
	class lvmv1alpha1.DeviceClass) (*unstructured.Unstructured, error) {
	converter := runtime.DefaultUnstructuredConverter
	spec := lvmv1alpha1.LVMVolumeGroupSpec{}
	fields, err := converter.ToUnstructured(&class)
	if err == nil {
		err = converter.FromUnstructured(fields, &spec)
	}
	spec.Default = class.Name == classspec.Default(cluster.Spec.Storage)
	spec.Tolerations = cluster.Spec.Tolerations
	spec.VolumeCopy = cluster.Spec.VolumeCopy
	if err == nil {
		fields, err = converter.ToUnstructured(&spec)
	}
	if err != nil {
		return nil, fmt.Errorf("LVMVolumeGroup %s: encode: %w", class.Name, err)
	}
	group := ownedOperand(cluster, "LVMVolumeGroup", class.Name, "volume-group")
	group.Object["spec"] = fields
	return group, nil
}
