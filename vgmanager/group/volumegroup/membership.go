package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/clusterobjects"
)

// A node is a member of a device class from before its first change for the class until nothing of the class is left
// on the node. Its membership is recorded in its node status, as an entry with the name of the class. The operator
// keeps an LVMVolumeGroup that is being deleted while a node status has such an entry.
//
// To prevent a race, the agent writes the entry first, and then reads from the API server that the LVMVolumeGroup is
// not being deleted. The operator reads the node statuses after the deletion was requested. At least one of them
// observes what the other did.

// statusEntries are the entries of device classes in the node status of this node.
type statusEntries struct {
	*clusterobjects.Objects
	// memberships are the device classes for which this process has confirmed the membership of the node.
	memberships map[string]membership
}

// membership identifies the objects for which this process has confirmed the membership.
type membership struct{ group, nodeStatus types.UID }

// nodeStatus returns the node status of this node. If it does not exist, the result has no name.
func (e *statusEntries) nodeStatus(ctx context.Context, from client.Reader) (*v1alpha1.LVMVolumeGroupNodeStatus,
	error) {
	nodeStatus := &v1alpha1.LVMVolumeGroupNodeStatus{}
	err := from.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: e.Node}, nodeStatus)
	if apierrors.IsNotFound(err) {
		return &v1alpha1.LVMVolumeGroupNodeStatus{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read node status %s: %w", e.Node, err)
	}
	return nodeStatus, nil
}

func hasEntry(nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus, name string) bool {
	return slices.ContainsFunc(nodeStatus.Status.NodeStatus, func(entry v1alpha1.VGStatus) bool {
		return entry.Name == name
	})
}

// isHeld returns true if the agent of upstream LVMS added its finalizer to an LVMVolumeGroup.
func (e *statusEntries) isHeld(object *v1alpha1.LVMVolumeGroup) bool {
	return slices.Contains(object.Finalizers, wellknown.NodeCleanupFinalizer(e.Node))
}

// isMember returns true if this node is a member of a device class. The node status in the cache can be outdated. An
// entry that is missing there arrives with an event (SetupWithManager). An entry that this node has already removed
// must not be created again, because nothing would remove it.
func (e *statusEntries) isMember(ctx context.Context, object *v1alpha1.LVMVolumeGroup,
	cached *v1alpha1.LVMVolumeGroupNodeStatus) (bool, error) {
	if e.memberships[object.Name].group == object.UID || e.isHeld(object) {
		return true, nil
	}
	if !hasEntry(cached, object.Name) {
		return false, nil
	}
	live, err := e.nodeStatus(ctx, e.Live)
	if err != nil {
		return false, err
	}
	return hasEntry(live, object.Name), nil
}

// join makes this node a member of a device class and returns its node status. It returns nil if the class is
// being deleted; the deletion triggers another reconcile.
func (e *statusEntries) join(ctx context.Context, object *v1alpha1.LVMVolumeGroup,
	cached *v1alpha1.LVMVolumeGroupNodeStatus) (*v1alpha1.LVMVolumeGroupNodeStatus, error) {
	if e.memberships[object.Name] == (membership{object.UID, cached.UID}) {
		return cached, nil
	}
	nodeStatus, err := e.nodeStatus(ctx, e.Live)
	if err != nil {
		return nil, err
	}
	if nodeStatus.Name == "" {
		return nil,
			fmt.Errorf("node status %s was deleted: the node agent changes nothing until the operator recreates it",
				e.Node)
	}
	if nodeStatus, err = e.enter(ctx, nodeStatus, object.Name); err != nil {
		return nil, err
	}
	live := &v1alpha1.LVMVolumeGroup{}
	err = e.Live.Get(ctx, client.ObjectKeyFromObject(object), live)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read LVMVolumeGroup %s: %w", object.Name, err)
	}
	if err != nil || live.UID != object.UID || !live.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	e.memberships[object.Name] = membership{object.UID, nodeStatus.UID}
	return nodeStatus, nil
}

// enter adds the entry if it is missing. It returns a conflict if the node status has changed since it was read.
func (e *statusEntries) enter(ctx context.Context, nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus,
	name string) (*v1alpha1.LVMVolumeGroupNodeStatus, error) {
	if hasEntry(nodeStatus, name) {
		return nodeStatus, nil
	}
	next := nodeStatus.DeepCopy()
	next.Status.NodeStatus = sorted(append(next.Status.NodeStatus, v1alpha1.VGStatus{
		Name: name, Status: v1alpha1.VGStatusProgressing,
		Reason: "the node agent has not read its devices for the device class yet",
	}))
	err := e.Client.Status().Patch(ctx, next,
		client.MergeFromWithOptions(nodeStatus, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return nil, fmt.Errorf("node status %s: add the entry of device class %s: %w", e.Node, name, err)
	}
	return next, nil
}

// finish ends the membership of this node. It clears the entry before it deletes the records on the node, because the
// entry names physical volumes that would count as lost without the records (planLeaving). It removes the entry last.
func (r *Reconciler) finish(ctx context.Context, object *v1alpha1.LVMVolumeGroup,
	nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus) (ctrl.Result, error) {
	removed := &v1alpha1.VGStatus{Name: object.Name, Status: v1alpha1.VGStatusRemoved,
		ObservedGeneration: object.Generation}
	if nodeStatus.Name != "" {
		if err := r.entries.replaceEntry(ctx, nodeStatus, object.Name, removed); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := errors.Join(r.group.released.Forget(object.Name), r.group.removed.Forget(object.Name),
		r.group.additions.Forget(object.Name),
		r.recoveries.plans.forget(object.Name), r.restores.Sequences.Forget(object.Name)); err != nil {
		return ctrl.Result{}, err
	}
	delete(r.failures, object.Name)
	// If a node leaves and returns, its consent to wipe is the same, and it is valid only once.
	if !object.DeletionTimestamp.IsZero() {
		if err := r.wiper.records.Forget(object.Name); err != nil {
			return ctrl.Result{}, err
		}
	}
	if r.entries.isHeld(object) {
		// The operator removes the finalizer after it reads the entry, so the entry stays until then.
		return ctrl.Result{RequeueAfter: whileWaiting}, nil
	}
	delete(r.entries.memberships, object.Name)
	return ctrl.Result{}, r.entries.leave(ctx, object.Name)
}

// leaveDeleted handles an LVMVolumeGroup that no longer exists. It removes the entry if the node had not started. It
// keeps an entry with a volume group: the finalizers were removed manually, and the group still exists.
func (e *statusEntries) leaveDeleted(ctx context.Context, key client.ObjectKey) error {
	delete(e.memberships, key.Name)
	cached, err := e.nodeStatus(ctx, e.Client)
	if err != nil || !hasEntry(cached, key.Name) {
		return err
	}
	err = e.Live.Get(ctx, key, &v1alpha1.LVMVolumeGroup{})
	if !apierrors.IsNotFound(err) {
		return err // if it exists again, an event triggers a reconcile
	}
	live, err := e.nodeStatus(ctx, e.Live)
	if entry := entryOf(live, key.Name); err != nil || entry.UUID != "" || len(entry.PhysicalVolumes) > 0 {
		return err
	}
	return e.leave(ctx, key.Name)
}

// leave removes the entry of a device class.
func (e *statusEntries) leave(ctx context.Context, name string) error {
	live, err := e.nodeStatus(ctx, e.Live)
	if err != nil || live.Name == "" {
		return err
	}
	return client.IgnoreNotFound(e.replaceEntry(ctx, live, name, nil))
}
