package operand

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
)

// One finalizer on the LVMVolumeGroup covers all nodes that are members of its device class, so that a thousand of them
// do not have to write the same object.

// setFinalizer sets a finalizer on an operand. The API server accepts no new finalizer on an object that is being
// deleted; such an object keeps the finalizer if it has it.
func setFinalizer(operand *unstructured.Unstructured, present client.Object, finalizer string) {
	if present.GetDeletionTimestamp().IsZero() || slices.Contains(present.GetFinalizers(), finalizer) {
		operand.SetFinalizers([]string{finalizer})
	}
}

// addFinalizer adds the finalizer to an LVMVolumeGroup that the operator no longer applies because an earlier version
// removed its device class.
func (r Reconciler) addFinalizer(ctx context.Context, group *lvmv1alpha1.LVMVolumeGroup) error {
	if !group.DeletionTimestamp.IsZero() || slices.Contains(group.Finalizers, wellknown.VolumeGroupFinalizer) {
		return nil
	}
	before := group.DeepCopy()
	group.Finalizers = append(group.Finalizers, wellknown.VolumeGroupFinalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, group, patch, client.FieldOwner(FieldOwner)); err != nil {
		return fmt.Errorf("LVMVolumeGroup %s: add finalizer: %w", group.Name, err)
	}
	return nil
}

// releaseVolumeGroups removes finalizers that are no longer necessary from LVMVolumeGroups.
func (r Reconciler) releaseVolumeGroups(ctx context.Context, groups []lvmv1alpha1.LVMVolumeGroup,
	statuses map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus) error {
	var errs []error
	for _, group := range groups {
		releasable := func(finalizer string) bool {
			node, ofNode := strings.CutPrefix(finalizer, wellknown.NodeCleanupPrefix)
			status, known := statuses[node]
			return ofNode && known && replacesFinalizer(&group, observe.Entry(&status, group.Name))
		}
		err := r.releaseVolumeGroup(ctx, &group, statuses)
		if err == nil {
			_, err = r.Applier.Release(ctx, &group, releasable)
		}
		if apierrors.IsConflict(err) {
			err = nil // The conflicting change triggers another reconcile.
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// replacesFinalizer reports whether an entry replaces the finalizer of a node of upstream LVMS. It does if the entry is
// from an agent of this product (upstream's agents set no generation) and the LVMVolumeGroup has the finalizer for it.
// An LVMVolumeGroup that was already being deleted accepts no new finalizer: then the entry must have the state
// Removed.
func replacesFinalizer(group *lvmv1alpha1.LVMVolumeGroup, entry *lvmv1alpha1.VGStatus) bool {
	switch {
	case entry == nil || entry.ObservedGeneration == 0:
		return false
	case slices.Contains(group.Finalizers, wellknown.VolumeGroupFinalizer):
		return true
	}
	return !group.DeletionTimestamp.IsZero() && entry.Status == lvmv1alpha1.VGStatusRemoved
}

// releaseVolumeGroup removes the finalizer from an LVMVolumeGroup that is being deleted if no node is a member of it,
// after the approvals of devices for its device class. It queries the API server only if the cache has no member.
func (r Reconciler) releaseVolumeGroup(ctx context.Context, group *lvmv1alpha1.LVMVolumeGroup,
	cached map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus) error {
	if group.DeletionTimestamp.IsZero() || !slices.Contains(group.Finalizers, wellknown.VolumeGroupFinalizer) ||
		len(observe.Members(cached, group.Name)) > 0 {
		return nil
	}
	members := 0
	err := paging.Each(ctx, r.Live, &lvmv1alpha1.LVMVolumeGroupNodeStatusList{},
		func(page *lvmv1alpha1.LVMVolumeGroupNodeStatusList) {
			for i := range page.Items {
				if observe.Entry(&page.Items[i], group.Name) != nil {
					members++
				}
			}
		}, client.InNamespace(group.Namespace))
	if err != nil {
		return fmt.Errorf("LVMVolumeGroup %s: list its nodes: %w", group.Name, err)
	}
	if members > 0 {
		return nil // The cache does not have these node statuses yet.
	}
	if err := r.deleteApprovals(ctx, group); err != nil {
		return err
	}
	_, err = r.Applier.Release(ctx, group,
		func(finalizer string) bool { return finalizer == wellknown.VolumeGroupFinalizer })
	return err
}

// awaitNodes returns a WaitError with the nodes that block the deletion of an LVMVolumeGroup, or nil if there are none.
func awaitNodes(group *lvmv1alpha1.LVMVolumeGroup, statuses map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus) error {
	nodes := sets.New(observe.Members(statuses, group.Name)...)
	for _, finalizer := range group.Finalizers {
		if node, ofNode := strings.CutPrefix(finalizer, wellknown.NodeCleanupPrefix); ofNode {
			nodes.Insert(node)
		}
	}
	if nodes.Len() == 0 {
		return nil
	}
	return waitFor([]string{fmt.Sprintf("LVMVolumeGroup %s is being deleted: its volume group is being removed from %s",
		group.Name, text.List("node", sets.List(nodes)))})
}

// releaseNodeStatuses removes the finalizer from node statuses that are being deleted and have no entries. A node
// status with an entry for a volume group stays even if a user deletes it, because the LVMVolumeGroup depends on it.
// The update has the resource version that was read, so it fails if an agent has added an entry since.
func (r Reconciler) releaseNodeStatuses(ctx context.Context,
	statuses map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus) error {
	var errs []error
	for _, node := range slices.Sorted(maps.Keys(statuses)) {
		status := statuses[node]
		if status.DeletionTimestamp.IsZero() || len(status.Status.NodeStatus) > 0 {
			continue
		}
		if _, err := r.Applier.Release(ctx, status.DeepCopy(),
			isNodeStatusFinalizer); err != nil && !apierrors.IsConflict(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ReleaseOrphans handles a namespace without an LVMCluster, whose finalizer a user removed: it removes finalizers that
// would otherwise stay forever.
func (r Reconciler) ReleaseOrphans(ctx context.Context, namespace string) error {
	statuses, err := observe.NodeStatuses(ctx, r.Client, namespace)
	if err != nil {
		return err
	}
	groups := &lvmv1alpha1.LVMVolumeGroupList{}
	if err := r.Client.List(ctx, groups, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list LVMVolumeGroups: %w", err)
	}
	return errors.Join(r.releaseVolumeGroups(ctx, groups.Items, statuses), r.releaseNodeStatuses(ctx, statuses))
}
