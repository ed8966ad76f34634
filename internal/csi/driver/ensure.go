package driver

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// This file creates and deletes LogicalVolumes: it creates the object once, waits for the node, and deletes the object
// if the node refuses.

// setNode sets the node of a LogicalVolume. present is the object of an earlier call that the node has not answered
// yet, or nil.
type setNode func(present *topolvmv1.LogicalVolume) error

// ensureVolume creates the volume of a LogicalVolume, or finds it if it exists. place sets the node before the object
// is created.
func (s *ControllerServer) ensureVolume(ctx context.Context, desired *topolvmv1.LogicalVolume,
	place setNode) (*topolvmv1.LogicalVolume, error) {
	waiting, cancel := withResponseMargin(ctx)
	defer cancel()
	joined := s.waiters.join(desired.Name)
	defer joined.leave()
	for {
		present, err := s.createOrGet(ctx, desired, place)
		if err != nil {
			return nil, err
		}
		if present == nil {
			return s.awaitCreation(ctx, waiting, joined, desired.DeepCopy())
		}
		again, err := s.reuse(waiting, desired, present, place)
		if err != nil {
			return nil, err
		}
		if !again {
			return s.awaitCreation(ctx, waiting, joined, present)
		}
	}
}

// createOrGet creates a LogicalVolume and returns nil. If it already exists, createOrGet returns the object of the API
// server.
func (s *ControllerServer) createOrGet(ctx context.Context, desired *topolvmv1.LogicalVolume,
	place setNode) (*topolvmv1.LogicalVolume, error) {
	err := s.Active.Get(ctx, client.ObjectKeyFromObject(desired), &topolvmv1.LogicalVolume{})
	if client.IgnoreNotFound(err) != nil {
		return nil, status.Errorf(codes.Unavailable, "read LogicalVolume %s: %v", desired.Name, err)
	}
	var refused error
	if apierrors.IsNotFound(err) {
		// The volume may have been created long ago, and the capacity may no longer be enough for it.
		if refused = place(nil); refused == nil {
			desired.UID = ""
			desired.ResourceVersion = ""
			if err := s.setFinalizer(ctx, desired); err != nil {
				return nil, err
			}
			if err := s.Client.Create(ctx, desired); err == nil {
				return nil, nil
			} else if !apierrors.IsAlreadyExists(err) {
				return nil, status.Errorf(codes.Unavailable, "create LogicalVolume %s: %v", desired.Name, err)
			}
		}
	}
	present, err := s.live(ctx, desired.Name)
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
func (s *ControllerServer) setFinalizer(ctx context.Context, desired *topolvmv1.LogicalVolume) error {
	nodes := &corev1.NodeList{}
	if err := s.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return status.Errorf(codes.Unavailable, "list Nodes: %v", err)
	}
	ready, others := false, false
	for i := range nodes.Items {
		if node := &nodes.Items[i]; node.Name == desired.Spec.NodeName {
			ready = !isNotReady(node)
		} else {
			others = others || Offers(node, desired.Spec.DeviceClass)
		}
	}
	if others || !ready {
		controllerutil.RemoveFinalizer(desired, v1alpha1.LogicalVolumeFinalizer)
		delete(desired.Labels, v1alpha1.CreatedByLabel)
		return nil
	}
	controllerutil.AddFinalizer(desired, v1alpha1.LogicalVolumeFinalizer)
	if desired.Labels == nil {
		desired.Labels = map[string]string{}
	}
	desired.Labels[v1alpha1.CreatedByLabel] = v1alpha1.CreatedByController
	return nil
}

// reuse decides what to do with an existing object. It returns true if the object no longer exists and must be created
// again.
func (s *ControllerServer) reuse(waiting context.Context, desired, present *topolvmv1.LogicalVolume,
	place setNode) (bool, error) {
	switch {
	case !present.DeletionTimestamp.IsZero():
		return true, s.awaitGone(waiting, present)
	case !compatible(desired, present):
		return false, status.Errorf(codes.AlreadyExists,
			"volume %s already exists with other properties: %s", desired.Name, differences(desired, present))
	case present.Status.VolumeID != "":
		return false, nil
	}
	// An answer to an earlier call does not apply to this one.
	if service.IsRefusal(present.Status.Code) {
		return true, s.withdraw(waiting, present)
	}
	if err := place(present); err != nil {
		return false, err
	}
	if desired.Spec.NodeName != present.Spec.NodeName {
		return true, s.withdraw(waiting, present)
	}
	return false, nil
}

func compatible(desired, present *topolvmv1.LogicalVolume) bool {
	return differences(desired, present) == ""
}

// differences describes how two volumes of the same name differ, or returns "". It ignores the size of a snapshot, and
// of a copy for the same request, which is that of its source and may have grown since.
func differences(desired, present *topolvmv1.LogicalVolume) string {
	var list []string
	add := func(what, want, have string) {
		if want != have {
			list = append(list, fmt.Sprintf("%s %q instead of %q", what, have, want))
		}
	}
	add("source", originOf(desired), originOf(present))
	if desired.Spec.DeviceClass != "" {
		add("device class", desired.Spec.DeviceClass, present.Spec.DeviceClass)
	}
	add("encryption", desired.Annotations[v1alpha1.EncryptionAnnotation],
		present.Annotations[v1alpha1.EncryptionAnnotation])
	// An earlier version recorded no file system.
	if kind := present.Annotations[v1alpha1.FileSystemAnnotation]; kind != "" {
		add("file system", cmp.Or(desired.Annotations[v1alpha1.FileSystemAnnotation], kind), kind)
	}
	add("access", desired.Spec.AccessType, present.Spec.AccessType)
	add("lvcreate option class", desired.Spec.LvcreateOptionClass, present.Spec.LvcreateOptionClass)
	if desired.Spec.AccessType != accessSnapshot && !isSameCopy(desired, present) {
		add("size", desired.Spec.Size.String(), present.Spec.Size.String())
	}
	return strings.Join(list, ", ")
}

// awaitCreation waits until the node has created a volume. If the node refuses, it deletes the LogicalVolume.
func (s *ControllerServer) awaitCreation(ctx, waiting context.Context, joined *waiter,
	desired *topolvmv1.LogicalVolume) (*topolvmv1.LogicalVolume, error) {
	lost := s.nodeNotReady(ctx, desired.Spec.NodeName)
	if lost {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(waiting, notReadyTimeout)
		defer cancel()
	}
	lv, err := s.await(waiting, joined, desired, func(lv *topolvmv1.LogicalVolume) (bool, error) {
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
		err := s.withdraw(waiting, lv)
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
		return nil, s.giveUp(ctx, lv)
	case waiting.Err() != nil:
		return nil, timeoutError(lv, "created", waiting.Err())
	}
	return nil, err
}

// notReadyTimeout is the wait for a node that is not ready. It is short, because other calls wait for a worker.
const notReadyTimeout = 10 * time.Second

// nodeNotReady reports whether a node does not exist or is not ready.
func (s *ControllerServer) nodeNotReady(ctx context.Context, name string) bool {
	node := &corev1.Node{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return apierrors.IsNotFound(err)
	}
	return isNotReady(node)
}

// giveUp returns the error of a call whose node is lost. If the agent has not added its finalizer to the object, it has
// created nothing: giveUp then deletes the object, so that another node can create the volume. An object that was
// created with the finalizer (setFinalizer) stays, because no other node could create the volume.
func (s *ControllerServer) giveUp(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	late := timeoutError(lv, "created", context.DeadlineExceeded)
	if len(lv.Finalizers) > 0 || lv.Spec.Source != "" {
		return late
	}
	// The agent adds its finalizer before it creates anything. The precondition on the resource version ensures that it
	// has not done so since.
	exact := client.Preconditions{UID: &lv.UID, ResourceVersion: &lv.ResourceVersion}
	if err := s.Client.Delete(ctx, lv, exact); err != nil {
		return late
	}
	return status.Errorf(codes.ResourceExhausted, "node %s is not ready and does not answer", lv.Spec.NodeName)
}

// withdraw deletes an object without a volume, as it was read, and waits until the node has removed what it has created
// for it. If the object has changed since, withdraw returns Aborted and deletes nothing: the node may have created the
// volume, and another operator may have created its PersistentVolume. The caller repeats the call, which reads again.
func (s *ControllerServer) withdraw(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	err := s.Client.Delete(ctx, lv, client.Preconditions{UID: &lv.UID, ResourceVersion: &lv.ResourceVersion})
	switch {
	case apierrors.IsConflict(err):
		return status.Errorf(codes.Aborted, "LogicalVolume %s of node %s has changed since it was read, so it is not "+
			"deleted: the call must be repeated", lv.Name, lv.Spec.NodeName)
	case client.IgnoreNotFound(err) != nil:
		return status.Errorf(codes.Unavailable, "delete LogicalVolume %s: %v", lv.Name, err)
	}
	return s.awaitGone(ctx, lv)
}

// remove deletes an object and its volume, and waits until the node has removed its logical volume.
func (s *ControllerServer) remove(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if err := s.Client.Delete(ctx, lv, client.Preconditions{UID: &lv.UID}); client.IgnoreNotFound(err) != nil {
		return status.Errorf(codes.Unavailable, "delete LogicalVolume %s: %v", lv.Name, err)
	}
	return s.awaitGone(ctx, lv)
}

// awaitGone waits until an object no longer exists.
func (s *ControllerServer) awaitGone(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	joined := s.waiters.join(lv.Name)
	defer joined.leave()
	now, err := s.liveByUID(ctx, lv)
	if err != nil || now == nil {
		return err
	}
	last, err := s.await(ctx, joined, now, func(now *topolvmv1.LogicalVolume) (bool, error) { return now == nil, nil })
	if err != nil && ctx.Err() != nil {
		return timeoutError(last, "removed", ctx.Err())
	}
	return err
}
