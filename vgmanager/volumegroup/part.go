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
)

// A node is a member of a device class from before it does anything for it until nothing of the class is left on it.
// That it does stands in its node status: an entry with the name of the class, even if there is nothing to tell. The
// operator keeps an LVMVolumeGroup that is being deleted for as long as a node status has such an entry.
//
// Neither forgets the other: the agent writes the entry first and reads afterwards, from the API server, that the
// LVMVolumeGroup is not being deleted; the operator reads the node statuses after the deletion was asked for. One of
// them sees what the other did.

// part is one that this process has made sure of: in these very objects.
type part struct{ group, nodeStatus types.UID }

// nodeStatus returns the node status of this node; one without a name if there is none.
func (r *Reconciler) nodeStatus(ctx context.Context, from client.Reader) (*v1alpha1.LVMVolumeGroupNodeStatus, error) {
	nodeStatus := &v1alpha1.LVMVolumeGroupNodeStatus{}
	err := from.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Node}, nodeStatus)
	if apierrors.IsNotFound(err) {
		return &v1alpha1.LVMVolumeGroupNodeStatus{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("node status %s: %w", r.Node, err)
	}
	return nodeStatus, nil
}

func hasEntry(nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus, name string) bool {
	return slices.ContainsFunc(nodeStatus.Status.NodeStatus, func(e v1alpha1.VGStatus) bool { return e.Name == name })
}

// isHeld reports whether the agent of upstream LVMS has put its finalizer on an LVMVolumeGroup.
func (r *Reconciler) isHeld(object *v1alpha1.LVMVolumeGroup) bool {
	return slices.Contains(object.Finalizers, v1alpha1.NodeCleanupFinalizer(r.Node))
}

// takesPart reports whether this node is a member of a device class. A node status from the cache may be behind: what
// is missing there comes with an event (SetupWithManager), and what this node has left already must not come back as an
// entry that nobody removes.
func (r *Reconciler) takesPart(ctx context.Context, object *v1alpha1.LVMVolumeGroup,
	cached *v1alpha1.LVMVolumeGroupNodeStatus) (bool, error) {
	if r.parts[object.Name].group == object.UID || r.isHeld(object) {
		return true, nil
	}
	if !hasEntry(cached, object.Name) {
		return false, nil
	}
	live, err := r.nodeStatus(ctx, r.Live)
	if err != nil {
		return false, err
	}
	return hasEntry(live, object.Name), nil
}

// takePart makes this node are members of a device class, and returns its node status; nil if the class is being
// removed: an event will tell.
func (r *Reconciler) takePart(ctx context.Context, object *v1alpha1.LVMVolumeGroup,
	cached *v1alpha1.LVMVolumeGroupNodeStatus) (*v1alpha1.LVMVolumeGroupNodeStatus, error) {
	if r.parts[object.Name] == (part{object.UID, cached.UID}) {
		return cached, nil
	}
	nodeStatus, err := r.nodeStatus(ctx, r.Live)
	if err != nil {
		return nil, err
	}
	if nodeStatus.Name == "" {
		return nil,
			fmt.Errorf("node status %s was deleted: nothing is done on the node until the operator has made it again",
				r.Node)
	}
	if nodeStatus, err = r.enter(ctx, nodeStatus, object.Name); err != nil {
		return nil, err
	}
	live := &v1alpha1.LVMVolumeGroup{}
	err = r.Live.Get(ctx, client.ObjectKeyFromObject(object), live)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("LVMVolumeGroup %s: %w", object.Name, err)
	}
	if err != nil || live.UID != object.UID || !live.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	r.parts[object.Name] = part{object.UID, nodeStatus.UID}
	return nodeStatus, nil
}

// enter writes the entry, if there is none, over exactly the node status that was read.
func (r *Reconciler) enter(ctx context.Context, nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus,
	name string) (*v1alpha1.LVMVolumeGroupNodeStatus, error) {
	if hasEntry(nodeStatus, name) {
		return nodeStatus, nil
	}
	next := nodeStatus.DeepCopy()
	next.Status.NodeStatus = sorted(append(next.Status.NodeStatus, v1alpha1.VGStatus{
		Name: name, Status: v1alpha1.VGStatusProgressing,
		Reason: "the node is about to look at its devices for the device class",
	}))
	err := r.Client.Status().Patch(ctx, next,
		client.MergeFromWithOptions(nodeStatus, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return nil, fmt.Errorf("node status %s: enter device class %s: %w", r.Node, name, err)
	}
	return next, nil
}

// finish ends the part of this node. The entry goes last, and what it tells of goes before the notes on the node: it
// names physical volumes, and without the notes they would count as lost (planLeaving).
func (r *Reconciler) finish(ctx context.Context, object *v1alpha1.LVMVolumeGroup,
	nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus) (ctrl.Result, error) {
	removed := &v1alpha1.VGStatus{Name: object.Name, Status: v1alpha1.VGStatusRemoved,
		ObservedGeneration: object.Generation}
	if nodeStatus.Name != "" {
		if err := r.replaceEntry(ctx, nodeStatus, object.Name, removed); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := errors.Join(r.released.forget(object.Name), r.removed.forget(object.Name)); err != nil {
		return ctrl.Result{}, err
	}
	// A node that left and comes back has the same consent, and that is for once.
	if !object.DeletionTimestamp.IsZero() {
		if err := r.wipes.forget(object.Name); err != nil {
			return ctrl.Result{}, err
		}
	}
	if r.isHeld(object) {
		// The operator reads in the entry that it may take the finalizer off, so the entry stays until it has.
		return ctrl.Result{RequeueAfter: whileWaiting}, nil
	}
	delete(r.parts, object.Name)
	return ctrl.Result{}, r.leave(ctx, object.Name)
}

// dropPart is for an LVMVolumeGroup that is gone. The entry of a node that had not begun goes with it. One that tells
// of a volume group stays: somebody took the finalizers off by hand, and the group is still there.
func (r *Reconciler) dropPart(ctx context.Context, key client.ObjectKey) error {
	delete(r.parts, key.Name)
	cached, err := r.nodeStatus(ctx, r.Client)
	if err != nil || !hasEntry(cached, key.Name) {
		return err
	}
	err = r.Live.Get(ctx, key, &v1alpha1.LVMVolumeGroup{})
	if !apierrors.IsNotFound(err) {
		return err // It is there again, and an event will tell.
	}
	live, err := r.nodeStatus(ctx, r.Live)
	if entry := entryOf(live, key.Name); err != nil || entry.UUID != "" || len(entry.PhysicalVolumes) > 0 {
		return err
	}
	return r.leave(ctx, key.Name)
}

// leave removes the entry of a device class.
func (r *Reconciler) leave(ctx context.Context, name string) error {
	live, err := r.nodeStatus(ctx, r.Live)
	if err != nil || live.Name == "" {
		return err
	}
	return client.IgnoreNotFound(r.replaceEntry(ctx, live, name, nil))
}
