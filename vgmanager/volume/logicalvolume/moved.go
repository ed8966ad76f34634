package logicalvolume

import (
	"cmp"
	"context"
	"errors"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
)

// Moves are the operations on the logical volumes of volumes that are moved between nodes. engine.Engine implements it.
type Moves interface {
	Adopt(ctx context.Context, class, name, target string, tags []string) (size int64, err error)
	Retire(ctx context.Context, r engine.Retirement) (size int64, err error)
}

// mover gives logical volumes other objects when a volume is moved between nodes.
type mover struct{ *objects }

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

// adopt makes the logical volume of the target that of the volume, which was moved to this node. It removes the
// annotation last, so that a process that is killed in between can continue.
func (m *mover) adopt(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	size, err := m.adoptVolume(ctx, lv)
	if err != nil {
		m.events.Emit(lv, adoptFailed, m.Node, identity.Name(lv), message(err))
		return m.fail(ctx, lv, err)
	}
	m.events.Clear(lv, adoptFailed.Reason)
	if err := m.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) {
		s.CurrentSize = resource.NewQuantity(size, resource.BinarySI)
		s.Code = codes.OK
		s.Message = ""
	}); err != nil {
		return ctrl.Result{}, err
	}
	before := lv.DeepCopy()
	delete(lv.Annotations, wellknown.AdoptAnnotation)
	err = m.Client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

func (m *mover) adoptVolume(ctx context.Context, lv *topolvmv1.LogicalVolume) (int64, error) {
	if lv.Status.VolumeID == "" {
		return 0, status.Errorf(codes.FailedPrecondition, "LogicalVolume %s has no volume ID", lv.Name)
	}
	if err := m.stopCopy(ctx, lv); err != nil {
		return 0, err
	}
	target := view.Adopts(lv)
	found, err := m.Volumes.FindLV(ctx, lv.Spec.DeviceClass, identity.Name(lv))
	if status.Code(err) == codes.NotFound {
		found, err = m.Volumes.FindLV(ctx, lv.Spec.DeviceClass, target)
	}
	if status.Code(err) == codes.NotFound {
		return 0, status.Errorf(codes.Unavailable, "device class %s on node %s has no logical volume %s: nothing is "+
			"created in its place", lv.Spec.DeviceClass, m.Node, identity.Name(lv))
	}
	if err != nil {
		return 0, err
	}
	claim := cmp.Or(view.Claim(lv), identity.ClaimOf(found.Tags))
	tags := append(identity.Tags(lv, m.Cluster, claim), identity.SpreadTags(lv)...)
	return m.Volumes.Adopt(ctx, lv.Spec.DeviceClass, identity.Name(lv), target, tags)
}

// errNotMoved says that a volume is on this node, so that its logical volume is not retired.
var errNotMoved = errors.New("it was not moved")

// retire gives the earlier logical volume of a moved volume to an object that was created for it.
func (m *mover) retire(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	size, err := m.retireVolume(ctx, lv)
	if err != nil {
		volume, _, _ := view.Retired(lv) // "" if the annotation is invalid, which the error says
		m.events.Emit(lv, retireFailed, m.Node, volume, message(err))
		return m.fail(ctx, lv, status.Error(codes.Unavailable, message(err)))
	}
	m.events.Clear(lv, retireFailed.Reason)
	log.FromContext(ctx).Info("retired the earlier logical volume of a moved volume", "deviceClass",
		lv.Spec.DeviceClass, "lv", identity.Name(lv))
	return m.created(ctx, lv, size)
}

// retireBeforeRemoval retires the logical volume of an object that is deleted, so that it is removed with the object.
// done: the object was released, because there is nothing to remove.
func (m *mover) retireBeforeRemoval(ctx context.Context, lv *topolvmv1.LogicalVolume) (done bool, err error) {
	if !identity.IsRetired(lv) {
		return false, nil
	}
	_, err = m.retireVolume(ctx, lv)
	switch {
	case err == nil, status.Code(err) == codes.NotFound:
		return false, nil
	case errors.Is(err, errNotMoved):
		return true, m.removeFinalizer(ctx, lv)
	}
	m.events.Emit(lv, removeFailed, m.Node, message(err))
	_, failed := m.fail(ctx, lv, err)
	return true, failed
}

// retireVolume renames the logical volume that RetireAnnotation names and replaces its tags, if the volume is on
// another node now and has its logical volume there. It returns the size in bytes, NotFound if there is no such logical
// volume, or errNotMoved.
func (m *mover) retireVolume(ctx context.Context, lv *topolvmv1.LogicalVolume) (int64, error) {
	volume, move, err := view.Retired(lv)
	if err != nil {
		return 0, status.Error(codes.InvalidArgument, err.Error())
	}
	found, err := m.Volumes.FindLV(ctx, lv.Spec.DeviceClass, string(lv.UID))
	if status.Code(err) == codes.NotFound {
		found, err = m.Volumes.FindLV(ctx, lv.Spec.DeviceClass, volume)
	}
	if err != nil {
		return 0, err
	}
	if owner := identity.ObjectOf(found.Tags); owner != lv.Name {
		if err := m.movedAway(ctx, owner, volume); err != nil {
			return 0, err
		}
		if err := m.Removed(volume); err != nil {
			return 0, status.Errorf(codes.Unavailable, "logical volume %s is retired: %v", volume, err)
		}
	}
	if view.MoveBack(lv) == m.Node {
		move = "" // This node was lost: it could not fence the volume.
	}
	return m.Volumes.Retire(ctx, engine.Retirement{Class: lv.Spec.DeviceClass, Name: volume, NewName: string(lv.UID),
		Move: move, Tags: m.ownTags(lv)})
}

// movedAway returns an error unless a volume is on another node, or does not exist.
func (m *mover) movedAway(ctx context.Context, owner, volume string) error {
	lv := &topolvmv1.LogicalVolume{}
	err := m.Live.Get(ctx, client.ObjectKey{Name: owner}, lv)
	if apierrors.IsNotFound(err) {
		return m.withoutHandle(ctx, owner, volume)
	}
	if err != nil {
		return status.Errorf(codes.Unavailable, "read LogicalVolume %s: %v", owner, err)
	}
	switch {
	case identity.Name(lv) != volume:
		return status.Errorf(codes.FailedPrecondition, "LogicalVolume %s has the logical volume %s, not %s", owner,
			identity.Name(lv), volume)
	case lv.Spec.NodeName == m.Node:
		return &notMovedError{text: "LogicalVolume " + owner + " is on node " + m.Node +
			", so its logical volume " + volume + " is not retired"}
	case view.Adopts(lv) != "":
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
func (m *mover) withoutHandle(ctx context.Context, owner, volume string) error {
	pv := &corev1.PersistentVolume{}
	err := m.Live.Get(ctx, client.ObjectKey{Name: owner}, pv)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return status.Errorf(codes.Unavailable, "read PersistentVolume %s: %v", owner, err)
	}
	return status.Errorf(codes.Unavailable, "LogicalVolume %s does not exist, and PersistentVolume %s does: it may "+
		"need logical volume %s", owner, owner, volume)
}
