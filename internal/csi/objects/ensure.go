package objects

import (
	"context"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/csi/volumespec"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// This file creates and deletes LogicalVolumes: it creates the object once, waits for the node, and deletes the object
// if the node refuses.

// setNode sets the node of a LogicalVolume. present is the object of an earlier call that the node has not answered
// yet, or nil.
type setNode func(present *topolvmv1.LogicalVolume) error

// Ensure creates the volume of a LogicalVolume, or finds it if it exists. place sets the node before the object is
// created.
func (v *Volumes) Ensure(ctx context.Context, desired *topolvmv1.LogicalVolume,
	place setNode) (*topolvmv1.LogicalVolume, error) {
	waiting, cancel := WithResponseMargin(ctx)
	defer cancel()
	joined := v.waiters.join(desired.Name)
	defer joined.Leave()
	for {
		present, err := v.createOrGet(ctx, desired, place)
		if err != nil {
			return nil, err
		}
		if present == nil {
			return v.awaitCreation(ctx, waiting, joined, desired.DeepCopy())
		}
		again, err := v.reuse(waiting, desired, present, place)
		if err != nil {
			return nil, err
		}
		if !again {
			return v.awaitCreation(ctx, waiting, joined, present)
		}
	}
}

// createOrGet creates a LogicalVolume and returns nil. If it already exists, createOrGet returns the object of the API
// server.
func (v *Volumes) createOrGet(ctx context.Context, desired *topolvmv1.LogicalVolume,
	place setNode) (*topolvmv1.LogicalVolume, error) {
	err := v.Active.Get(ctx, client.ObjectKeyFromObject(desired), &topolvmv1.LogicalVolume{})
	if client.IgnoreNotFound(err) != nil {
		return nil, status.Errorf(codes.Unavailable, "read LogicalVolume %s: %v", desired.Name, err)
	}
	var refused error
	if apierrors.IsNotFound(err) {
		// The volume may have been created long ago, and the capacity may no longer be enough for it.
		if refused = place(nil); refused == nil {
			desired.UID = ""
			desired.ResourceVersion = ""
			if err := v.setFinalizer(ctx, desired); err != nil {
				return nil, err
			}
			if err := v.Client.Create(ctx, desired); err == nil {
				return nil, nil
			} else if !apierrors.IsAlreadyExists(err) {
				return nil, status.Errorf(codes.Unavailable, "create LogicalVolume %s: %v", desired.Name, err)
			}
		}
	}
	present, err := v.Read(ctx, desired.Name)
	switch {
	case present != nil || err != nil:
		return present, err
	case refused != nil:
		return nil, refused
	}
	return nil, status.Errorf(codes.Aborted, "LogicalVolume %s has just been deleted", desired.Name)
}

// setFinalizer gives a new LogicalVolume the finalizer and the label that its agent would add before it creates
// anything, if no other node offers the device class, and removes them otherwise. This saves a write to the API server.
// If another node can create the volume, the agent adds them: giveUp needs to know whether it has begun.
func (v *Volumes) setFinalizer(ctx context.Context, desired *topolvmv1.LogicalVolume) error {
	nodes := &corev1.NodeList{}
	if err := v.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return status.Errorf(codes.Unavailable, "list Nodes: %v", err)
	}
	ready, others := false, false
	for i := range nodes.Items {
		if node := &nodes.Items[i]; node.Name == desired.Spec.NodeName {
			ready = !supply.IsNotReady(node)
		} else {
			others = others || supply.Offers(node, desired.Spec.DeviceClass)
		}
	}
	if others || !ready {
		controllerutil.RemoveFinalizer(desired, wellknown.LogicalVolumeFinalizer)
		delete(desired.Labels, wellknown.CreatedByLabel)
		return nil
	}
	controllerutil.AddFinalizer(desired, wellknown.LogicalVolumeFinalizer)
	if desired.Labels == nil {
		desired.Labels = map[string]string{}
	}
	desired.Labels[wellknown.CreatedByLabel] = wellknown.CreatedByController
	return nil
}

// reuse decides what to do with an existing object. It returns true if the object no longer exists and must be created
// again.
func (v *Volumes) reuse(waiting context.Context, desired, present *topolvmv1.LogicalVolume,
	place setNode) (bool, error) {
	differs := volumespec.Differences(desired, present)
	switch {
	case !present.DeletionTimestamp.IsZero():
		return true, v.AwaitGone(waiting, present)
	case differs != "":
		return false, status.Errorf(codes.AlreadyExists,
			"volume %s already exists with other properties: %s", desired.Name, differs)
	case present.Status.VolumeID != "":
		return false, nil
	}
	// An answer to an earlier call does not apply to this one.
	if service.IsRefusal(present.Status.Code) {
		return true, v.Withdraw(waiting, present)
	}
	if err := place(present); err != nil {
		return false, err
	}
	if desired.Spec.NodeName != present.Spec.NodeName {
		return true, v.Withdraw(waiting, present)
	}
	return false, nil
}

// awaitCreation waits until the node has created a volume. If the node refuses, it deletes the LogicalVolume.
func (v *Volumes) awaitCreation(ctx, waiting context.Context, joined *Waiter,
	desired *topolvmv1.LogicalVolume) (*topolvmv1.LogicalVolume, error) {
	lost := v.NodeNotReady(ctx, desired.Spec.NodeName)
	if lost {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(waiting, notReadyTimeout)
		defer cancel()
	}
	lv, err := v.Await(waiting, joined, desired, func(lv *topolvmv1.LogicalVolume) (bool, error) {
		if lv == nil {
			return false, status.Errorf(codes.Aborted,
				"LogicalVolume %s was deleted while its volume was being created", desired.Name)
		}
		return lv.Status.VolumeID != "" || service.IsRefusal(lv.Status.Code), nil
	})
	switch {
	case err == nil && lv.Status.VolumeID != "":
		return lv, nil
	case err == nil:
		refusal := status.Errorf(lv.Status.Code, "node %s: %s", lv.Spec.NodeName, lv.Status.Message)
		err := v.Withdraw(waiting, lv)
		switch {
		case status.Code(err) == codes.Aborted:
			return nil, err // The refusal may no longer be the answer of the node.
		case err != nil:
			// The next call finds this answer and withdraws the object.
			log.FromContext(ctx).Info("cannot delete a refused LogicalVolume yet", "logicalVolume", lv.Name,
				"cause", err.Error())
		}
		return nil, refusal
	case waiting.Err() != nil && ctx.Err() == nil && lost:
		return nil, v.giveUp(ctx, lv)
	case waiting.Err() != nil:
		return nil, TimeoutError(lv, "created", waiting.Err())
	}
	return nil, err
}

// notReadyTimeout is the wait for a node that is not ready. It is short, because other calls wait for a worker.
const notReadyTimeout = 10 * time.Second

// NodeNotReady reports whether a node does not exist or is not ready.
func (v *Volumes) NodeNotReady(ctx context.Context, name string) bool {
	node := &corev1.Node{}
	if err := v.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return apierrors.IsNotFound(err)
	}
	return supply.IsNotReady(node)
}

// giveUp returns the error of a call whose node is lost. If the agent has not added its finalizer to the object, it has
// created nothing: giveUp then deletes the object, so that another node can create the volume. An object that was
// created with the finalizer (setFinalizer) stays, because no other node could create the volume.
func (v *Volumes) giveUp(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	late := TimeoutError(lv, "created", context.DeadlineExceeded)
	if len(lv.Finalizers) > 0 || lv.Spec.Source != "" {
		return late
	}
	// The agent adds its finalizer before it creates anything. The precondition on the resource version ensures that it
	// has not done so since.
	exact := client.Preconditions{UID: &lv.UID, ResourceVersion: &lv.ResourceVersion}
	if err := v.Client.Delete(ctx, lv, exact); err != nil {
		return late
	}
	return status.Errorf(codes.ResourceExhausted, "node %s is not ready and does not answer", lv.Spec.NodeName)
}

// Withdraw deletes an object without a volume, as it was read, and waits until the node has removed what it has created
// for it. If the object has changed since, withdraw returns Aborted and deletes nothing: the node may have created the
// volume, and another operator may have created its PersistentVolume. The caller repeats the call, which reads again.
func (v *Volumes) Withdraw(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	err := v.Client.Delete(ctx, lv, client.Preconditions{UID: &lv.UID, ResourceVersion: &lv.ResourceVersion})
	switch {
	case apierrors.IsConflict(err):
		return status.Errorf(codes.Aborted, "LogicalVolume %s of node %s has changed since it was read, so it is not "+
			"deleted: the call must be repeated", lv.Name, lv.Spec.NodeName)
	case client.IgnoreNotFound(err) != nil:
		return status.Errorf(codes.Unavailable, "delete LogicalVolume %s: %v", lv.Name, err)
	}
	return v.AwaitGone(ctx, lv)
}

// Remove deletes an object and its volume, and waits until the node has removed its logical volume.
func (v *Volumes) Remove(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if err := v.Client.Delete(ctx, lv, client.Preconditions{UID: &lv.UID}); client.IgnoreNotFound(err) != nil {
		return status.Errorf(codes.Unavailable, "delete LogicalVolume %s: %v", lv.Name, err)
	}
	return v.AwaitGone(ctx, lv)
}

// AwaitGone waits until an object no longer exists.
func (v *Volumes) AwaitGone(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	joined := v.waiters.join(lv.Name)
	defer joined.Leave()
	now, err := v.ReadByUID(ctx, lv)
	if err != nil || now == nil {
		return err
	}
	last, err := v.Await(ctx, joined, now, func(now *topolvmv1.LogicalVolume) (bool, error) { return now == nil, nil })
	if err != nil && ctx.Err() != nil {
		return TimeoutError(last, "removed", ctx.Err())
	}
	return err
}
