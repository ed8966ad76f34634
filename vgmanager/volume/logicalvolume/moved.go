package logicalvolume

import (
	"cmp"
	"context"
	"errors"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
)

// Moves are the operations on the logical volumes of volumes that are moved between nodes. engine.Engine implements it.
type Moves interface {
	AbandonTarget(ctx context.Context, class, name, uid string) error
	Adopt(ctx context.Context, class, name, target string, tags []string) (size int64, err error)
	Retire(ctx context.Context, r engine.Retirement) (size int64, err error)
}

// Events about moves.
var (
	// adoptFailed is a Warning event on the LogicalVolume: the volume was moved to this node, which cannot use the
	// logical volume to which the data was copied. Nothing is created in its place, and the logical volume on the
	// earlier node is kept.
	// What to do: see the error in the note; the agent tries again.
	adoptFailed = event.Warning("AdoptFailed", "Adopt", "node %s cannot use the copied logical volume %s: %s")
	// retireFailed is a Warning event on the LogicalVolume: the node cannot give it the logical volume that a volume
	// had here before it was moved. The logical volume takes up space until then.
	// What to do: see the error in the note; the agent tries again.
	retireFailed = event.Warning("RetireFailed", "Retire",
		"node %s cannot retire the earlier logical volume %s of a moved volume: %s")
)

// move does what is required for a move. The object was read from the API server just now.
func (r *Reconciler) move(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	switch {
	case identity.IsTarget(lv):
		return r.receive(ctx, lv)
	case identity.IsRetired(lv):
		return r.retire(ctx, lv)
	}
	return r.adopt(ctx, lv)
}

// adopt makes the logical volume of the target that of the volume, which was moved to this node. It removes the
// annotation last, so that a process that is killed in between can continue.
func (r *Reconciler) adopt(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	size, err := r.adoptVolume(ctx, lv)
	if err != nil {
		r.events.Emit(lv, adoptFailed, r.Node, identity.Name(lv), message(err))
		return r.fail(ctx, lv, err)
	}
	r.events.Clear(lv, adoptFailed.Reason)
	if err := r.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) {
		s.CurrentSize = resource.NewQuantity(size, resource.BinarySI)
		s.Code, s.Message = codes.OK, ""
	}); err != nil {
		return ctrl.Result{}, err
	}
	before := lv.DeepCopy()
	delete(lv.Annotations, v1alpha1.AdoptAnnotation)
	err = r.Client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

func (r *Reconciler) adoptVolume(ctx context.Context, lv *topolvmv1.LogicalVolume) (int64, error) {
	if lv.Status.VolumeID == "" {
		return 0, status.Errorf(codes.FailedPrecondition, "LogicalVolume %s has no volume ID", lv.Name)
	}
	if err := r.stopCopy(ctx, lv); err != nil {
		return 0, err
	}
	target := lv.Annotations[v1alpha1.AdoptAnnotation]
	found, err := r.Volumes.FindLV(ctx, lv.Spec.DeviceClass, identity.Name(lv))
	if status.Code(err) == codes.NotFound {
		found, err = r.Volumes.FindLV(ctx, lv.Spec.DeviceClass, target)
	}
	if status.Code(err) == codes.NotFound {
		return 0, status.Errorf(codes.Unavailable, "device class %s on node %s has no logical volume %s: nothing is "+
			"created in its place", lv.Spec.DeviceClass, r.Node, identity.Name(lv))
	}
	if err != nil {
		return 0, err
	}
	claim := cmp.Or(lv.Annotations[v1alpha1.ClaimAnnotation], identity.ClaimOf(found.Tags))
	tags := append(identity.Tags(lv, r.Cluster, claim), identity.SpreadTags(lv)...)
	return r.Volumes.Adopt(ctx, lv.Spec.DeviceClass, identity.Name(lv), target, tags)
}

// takenBack returns an error if a logical volume was retired and is to be that of the volume again, or if that is
// unknown. The volume that has adopted it gave it its own name, and a volume that no longer exists needs none.
func (r *Reconciler) takenBack(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if lv.Annotations[v1alpha1.RetireAnnotation] == "" || lv.Annotations[v1alpha1.MoveBackAnnotation] == "" ||
		lv.Annotations[v1alpha1.MoveBackAnnotation] == r.Node {
		return nil
	}
	_, err := r.Volumes.FindLV(ctx, lv.Spec.DeviceClass, identity.Name(lv))
	if status.Code(err) == codes.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	volume, _, _ := strings.Cut(lv.Annotations[v1alpha1.RetireAnnotation], "/")
	err = r.noOther(ctx, "the volume of the retired logical volume "+identity.Name(lv),
		func(other *topolvmv1.LogicalVolume) error {
			if other.UID == lv.UID || identity.Name(other) != volume {
				return nil
			}
			return status.Errorf(codes.Unavailable, "volume %s is moved back to this node: its logical volume %s is "+
				"not removed", other.Name, identity.Name(lv))
		})
	if err != nil {
		return err
	}
	moved := lv.DeepCopy()
	moved.Status.VolumeID = volume
	return r.unboundInList(ctx, moved)
}

// noOther returns the first error that check returns for a LogicalVolume, or an error if they cannot be listed. what is
// what is searched for.
func (r *Reconciler) noOther(ctx context.Context, what string, check func(*topolvmv1.LogicalVolume) error) error {
	var problem error
	err := paging.Until(ctx, r.Live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) bool {
		for i := range list.Items {
			if problem = check(&list.Items[i]); problem != nil {
				return true
			}
		}
		return false
	})
	if err != nil {
		return status.Errorf(codes.Unavailable, "list LogicalVolumes, to find %s: %v", what, err)
	}
	return problem
}

// removeTarget removes the logical volume of a target, unless it was adopted, and then the finalizer.
func (r *Reconciler) removeTarget(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	progress, err := r.eraseTarget(ctx, lv)
	gone := status.Code(err) == codes.NotFound || errors.Is(err, engine.ErrNotTarget)
	if err != nil && !gone && !r.neverMade(ctx, lv) {
		r.events.Emit(lv, removeFailed, r.Node, message(err))
		return r.fail(ctx, lv, err)
	}
	if progress != "" {
		return ctrl.Result{RequeueAfter: erasePoll}, r.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) {
			s.Code, s.Message = codes.Aborted, progress
		})
	}
	// The records of the node about the logical volume's name are those of the volume.
	return ctrl.Result{}, r.removeFinalizer(ctx, lv)
}

// eraseTarget erases and removes the logical volume of a target. Each step checks again that it is still the target's.
func (r *Reconciler) eraseTarget(ctx context.Context, lv *topolvmv1.LogicalVolume) (progress string, err error) {
	class, uid := lv.Spec.DeviceClass, string(lv.UID)
	if err := r.unadopted(ctx, lv); err != nil {
		return "", err
	}
	if err := r.Volumes.AbandonTarget(ctx, class, identity.Name(lv), uid); err != nil {
		return "", err
	}
	progress, err = r.Volumes.EraseVolume(ctx, r.Eraser, class, identity.Name(lv))
	if err != nil || progress != "" {
		return progress, err
	}
	return "", r.Volumes.RemoveTarget(ctx, class, identity.Name(lv), uid)
}

// unadopted returns an error if the volume was moved to this node, and so to the logical volume of the target.
func (r *Reconciler) unadopted(ctx context.Context, target *topolvmv1.LogicalVolume) error {
	what := "one that was moved to logical volume " + identity.Name(target)
	return r.noOther(ctx, what, func(lv *topolvmv1.LogicalVolume) error {
		owns := lv.Status.VolumeID == identity.Name(target) && lv.Spec.NodeName == r.Node &&
			lv.Annotations[v1alpha1.AdoptAnnotation] != ""
		if !owns && lv.Annotations[v1alpha1.AdoptAnnotation] != string(target.UID) {
			return nil
		}
		return status.Errorf(codes.Unavailable, "LogicalVolume %s was moved to logical volume %s and has not adopted "+
			"it yet, so it is not removed", lv.Name, identity.Name(target))
	})
}

// errNotMoved says that a volume is on this node, so that its logical volume is not retired.
var errNotMoved = errors.New("it was not moved")

// retire gives the earlier logical volume of a moved volume to an object that was created for it.
func (r *Reconciler) retire(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	size, err := r.retireVolume(ctx, lv)
	if err != nil {
		r.events.Emit(lv, retireFailed, r.Node, lv.Annotations[v1alpha1.RetireAnnotation], message(err))
		return r.fail(ctx, lv, status.Error(codes.Unavailable, message(err)))
	}
	r.events.Clear(lv, retireFailed.Reason)
	log.FromContext(ctx).Info("retired the earlier logical volume of a moved volume", "deviceClass",
		lv.Spec.DeviceClass, "lv", identity.Name(lv))
	return r.created(ctx, lv, size)
}

// retireBeforeRemoval retires the logical volume of an object that is deleted, so that it is removed with the object.
// done: the object was released, because there is nothing to remove.
func (r *Reconciler) retireBeforeRemoval(ctx context.Context, lv *topolvmv1.LogicalVolume) (done bool, err error) {
	if !identity.IsRetired(lv) {
		return false, nil
	}
	_, err = r.retireVolume(ctx, lv)
	switch {
	case err == nil, status.Code(err) == codes.NotFound:
		return false, nil
	case errors.Is(err, errNotMoved):
		return true, r.removeFinalizer(ctx, lv)
	}
	r.events.Emit(lv, removeFailed, r.Node, message(err))
	_, failed := r.fail(ctx, lv, err)
	return true, failed
}

// retireVolume renames the logical volume that RetireAnnotation names and replaces its tags, if the volume is on
// another node now and has its logical volume there. It returns the size in bytes, NotFound if there is no such logical
// volume, or errNotMoved.
func (r *Reconciler) retireVolume(ctx context.Context, lv *topolvmv1.LogicalVolume) (int64, error) {
	volume, move, valid := strings.Cut(lv.Annotations[v1alpha1.RetireAnnotation], "/")
	if !valid || volume == "" || move == "" {
		return 0, status.Errorf(codes.InvalidArgument, "annotation %s of LogicalVolume %s is %q, must be VOLUME-ID/UID",
			v1alpha1.RetireAnnotation, lv.Name, lv.Annotations[v1alpha1.RetireAnnotation])
	}
	found, err := r.Volumes.FindLV(ctx, lv.Spec.DeviceClass, string(lv.UID))
	if status.Code(err) == codes.NotFound {
		found, err = r.Volumes.FindLV(ctx, lv.Spec.DeviceClass, volume)
	}
	if err != nil {
		return 0, err
	}
	if owner := identity.ObjectOf(found.Tags); owner != lv.Name {
		if err := r.movedAway(ctx, owner, volume); err != nil {
			return 0, err
		}
		if err := r.Removed(volume); err != nil {
			return 0, status.Errorf(codes.Unavailable, "logical volume %s is retired: %v", volume, err)
		}
	}
	if lv.Annotations[v1alpha1.MoveBackAnnotation] == r.Node {
		move = "" // This node was lost: it could not fence the volume.
	}
	return r.Volumes.Retire(ctx, engine.Retirement{Class: lv.Spec.DeviceClass, Name: volume, NewName: string(lv.UID),
		Move: move, Tags: r.ownTags(lv)})
}

// movedAway returns an error unless a volume is on another node, or does not exist.
func (r *Reconciler) movedAway(ctx context.Context, owner, volume string) error {
	lv := &topolvmv1.LogicalVolume{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: owner}, lv)
	if apierrors.IsNotFound(err) {
		return r.withoutHandle(ctx, owner, volume)
	}
	if err != nil {
		return status.Errorf(codes.Unavailable, "read LogicalVolume %s: %v", owner, err)
	}
	switch {
	case identity.Name(lv) != volume:
		return status.Errorf(codes.FailedPrecondition, "LogicalVolume %s has the logical volume %s, not %s", owner,
			identity.Name(lv), volume)
	case lv.Spec.NodeName == r.Node:
		return &notMovedError{text: "LogicalVolume " + owner + " is on node " + r.Node +
			", so its logical volume " + volume + " is not retired"}
	case lv.Annotations[v1alpha1.AdoptAnnotation] != "":
		return status.Errorf(codes.Unavailable, "node %s does not use its logical volume of LogicalVolume %s yet",
			lv.Spec.NodeName, owner)
	}
	return nil
}

type notMovedError struct{ text string }

func (e *notMovedError) Error() string        { return e.text }
func (e *notMovedError) Is(target error) bool { return target == errNotMoved }

// withoutHandle returns an error if a PersistentVolume has a volume whose LogicalVolume does not exist: the
// LogicalVolume may have been deleted by mistake, and the volume may be this one.
func (r *Reconciler) withoutHandle(ctx context.Context, owner, volume string) error {
	pv := &corev1.PersistentVolume{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: owner}, pv)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return status.Errorf(codes.Unavailable, "read PersistentVolume %s: %v", owner, err)
	}
	return status.Errorf(codes.Unavailable, "LogicalVolume %s does not exist, and PersistentVolume %s does: it may "+
		"need logical volume %s", owner, owner, volume)
}
