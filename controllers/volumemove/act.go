package volumemove

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumemove/plan"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// accessSnapshot and accessVolume are spec.accessType of a snapshot and of a volume (TopoLVM).
const (
	accessSnapshot = "ro"
	accessVolume   = "rw"
)

// act performs the action of a step. A conflict means that an object has just changed: the state is read again.
func (c *Controller) act(ctx context.Context, s *plan.State, st plan.Step) error {
	do := actions{client: c.client, now: c.now}
	switch st.Action {
	case plan.CreateSnapshot:
		return do.createSnapshot(ctx, s, st.Round)
	case plan.CreateTarget:
		return do.createTarget(ctx, s, st.Snapshot)
	case plan.CopyRound:
		return do.copyRound(ctx, s, st.Snapshot)
	case plan.ResizeTarget:
		before := s.Target.DeepCopy()
		s.Target.Spec.Size = s.Volume.Spec.Size.DeepCopy()
		return do.patch(ctx, "extend", s.Target, before)
	case plan.Remove:
		return do.remove(ctx, st.Object)
	case plan.CloseVolume:
		return do.fence(ctx, s)
	case plan.Unfence:
		// If Pods use the volume, the end of the last one is what the next fence waits for.
		if len(s.Pods) == 0 {
			c.delayFence(s.Move.UID)
		}
		return do.unfence(ctx, s)
	case plan.End:
		return c.release(ctx, s.Move)
	}
	return do.changeNode(ctx, s, st.Action)
}

// changeNode performs an action by which a volume changes its node, there or back.
func (do actions) changeNode(ctx context.Context, s *plan.State, action plan.Action) error {
	switch action {
	case plan.SwitchVolume:
		return do.switchVolume(ctx, s, s.Target)
	case plan.SwitchBack:
		return do.switchVolume(ctx, s, s.Old)
	case plan.KeepOld:
		return do.keepOld(ctx, s)
	case plan.SwapNodes:
		plan.WayBack{State: s}.SwapNodes()
	case plan.Rebind:
		return do.rebind(ctx, s)
	case plan.CreateOld:
		return do.createOld(ctx, s)
	}
	return nil
}

// release removes the finalizer of a move.
func (c *Controller) release(ctx context.Context, move *v1alpha1.VolumeMove) error {
	before := move.DeepCopy()
	if controllerutil.RemoveFinalizer(move, wellknown.VolumeMoveFinalizer) {
		err := c.client.Patch(ctx, move, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			return err
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove the finalizer of VolumeMove %s: %w", move.Name, err)
		}
	}
	c.forget(move)
	return nil
}

// actions change objects for moves.
type actions struct {
	client client.Client
	now    func() time.Time
}

// createSnapshot creates the snapshot of a round. If the node agent has confirmed the fence, it is the last one.
func (a actions) createSnapshot(ctx context.Context, s *plan.State, round int) error {
	lv := s.NewVolume(plan.SnapshotName(s.Move, round), s.Volume.Spec.NodeName)
	lv.Spec.Source = s.Volume.Name
	lv.Spec.AccessType = accessSnapshot
	if s.IsFenceConfirmed() {
		lv.Annotations[wellknown.FenceTimeAnnotation] = fence.Name(s.Volume)
	}
	return a.create(ctx, lv)
}

// createTarget creates the copy on the target node. Volumes of the spread group keep away from it. The source is a
// snapshot, or the volume itself if it is thick and fenced: then the target is for the present fence only.
func (a actions) createTarget(ctx context.Context, s *plan.State, source *topolvmv1.LogicalVolume) error {
	lv := s.NewVolume(plan.TargetName(s.Move), s.Move.Status.TargetNode)
	lv.Spec.Source = source.Name
	if source == s.Volume {
		lv.Spec.Size = s.SizeOfThick()
		lv.Annotations[wellknown.FenceTimeAnnotation] = fence.Name(s.Volume)
	}
	lv.Spec.AccessType = accessVolume
	lv.Spec.LvcreateOptionClass = s.Volume.Spec.LvcreateOptionClass
	lv.Annotations[wellknown.MoveVolumeAnnotation] = s.Volume.Status.VolumeID
	if spread := s.Volume.Annotations[wellknown.SpreadAnnotation]; spread != "" {
		lv.Annotations[wellknown.SpreadAnnotation] = spread
		lv.Labels[wellknown.SpreadGroupHashLabel] = s.Volume.Labels[wellknown.SpreadGroupHashLabel]
	}
	return a.create(ctx, lv)
}

// copyRound has the target copy the changes from the snapshot that it has to another one.
func (a actions) copyRound(ctx context.Context, s *plan.State, snapshot *topolvmv1.LogicalVolume) error {
	before := s.Target.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.Target.ObjectMeta, wellknown.CopyBaseAnnotation, s.Target.Spec.Source)
	s.Target.Spec.Source = snapshot.Name
	return a.patch(ctx, "start the next round of", s.Target, before)
}

// fence requests that the node agent closes the volume.
func (a actions) fence(ctx context.Context, s *plan.State) error {
	before := s.Volume.DeepCopy()
	fence.Request(s.Volume, string(s.Move.UID), "", a.now())
	return a.patch(ctx, "fence", s.Volume, before)
}

// unfence requests that the node agent opens the volume again.
func (a actions) unfence(ctx context.Context, s *plan.State) error {
	before := s.Volume.DeepCopy()
	fence.Withdraw(s.Volume)
	return a.patch(ctx, "unfence", s.Volume, before)
}

// switchVolume moves the LogicalVolume to the target node. The same request writes the new PersistentVolume to an
// annotation, from which package volumeimport recreates it. The plan has just checked that the node agent of the source
// node has closed the volume, that the copy is complete since then, and that no Pod uses the volume. The request fails
// if the LogicalVolume has changed since it was read, which was before that.
func (a actions) switchVolume(ctx context.Context, s *plan.State, to *topolvmv1.LogicalVolume) error {
	data, err := json.Marshal(relocate.PersistentVolume(s.PV, to.Spec.NodeName))
	if err != nil {
		return fmt.Errorf("PersistentVolume %s: %w", s.PV.Name, err)
	}
	before := s.Volume.DeepCopy()
	s.Volume.Spec.NodeName = to.Spec.NodeName
	s.Volume.Spec.DeviceClass = to.Spec.DeviceClass
	fence.Remove(s.Volume)
	metav1.SetMetaDataAnnotation(&s.Volume.ObjectMeta, wellknown.MovedVolumeAnnotation, string(data))
	metav1.SetMetaDataAnnotation(&s.Volume.ObjectMeta, wellknown.AdoptAnnotation, string(to.UID))
	if back := (plan.WayBack{State: s}); to == s.Old && !back.IsOldRetired() {
		// The logical volume still is that of the volume, and has the fence of the move.
		delete(s.Volume.Annotations, wellknown.AdoptAnnotation)
		metav1.SetMetaDataAnnotation(&s.Volume.ObjectMeta, wellknown.UnfenceAnnotation, string(s.Move.UID))
	}
	if err := a.patch(ctx, "switch", s.Volume, before); err != nil {
		return err
	}
	log.FromContext(ctx).Info("switched a volume to another node", "lv", s.Volume.Status.VolumeID, "claim",
		s.Move.Spec.Claim.String(), "from", before.Spec.NodeName, "to", s.Volume.Spec.NodeName)
	return nil
}

// rebind changes the claim, so that kube-controller-manager compares it with its PersistentVolume at once. It does so
// for a claim that changes, and otherwise only periodically, every 15 seconds by default: it looks at a claim when its
// PersistentVolume is deleted, but not when it is created again (pkg/controller/volume/persistentvolume, Kubernetes).
func (a actions) rebind(ctx context.Context, s *plan.State) error {
	before := s.Claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.Claim.ObjectMeta, wellknown.RecreatedVolumeAnnotation, string(s.PV.UID))
	err := a.client.Patch(ctx, s.Claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("set annotation %s of claim %s: %w", wellknown.RecreatedVolumeAnnotation, s.Move.Spec.Claim,
			err)
	}
	return err
}

// createOld creates the owner of the logical volume on the source node.
func (a actions) createOld(ctx context.Context, s *plan.State) error {
	if s.SourceNode() == "" {
		return fmt.Errorf("VolumeMove %s: the node of the old logical volume is not known", s.Move.Name)
	}
	volume := ""
	switch {
	case s.Volume != nil:
		volume = s.Volume.Status.VolumeID
	case s.IsMovedBack():
		volume, _, _ = view.Retired(s.Target)
	case s.Target != nil:
		volume = view.MoveVolume(s.Target)
	}
	if volume == "" {
		return fmt.Errorf("VolumeMove %s: the name of the old logical volume is not known", s.Move.Name)
	}
	lv := s.NewVolume(s.NewOldName(), s.SourceNode())
	if s.IsMovedBack() {
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.MoveBackAnnotation, s.SourceNode())
	}
	lv.Spec.Source = wellknown.RetiredSource
	lv.Spec.AccessType = accessVolume
	view.SetRetired(lv, volume, string(s.Move.UID))
	return a.create(ctx, lv)
}

func (a actions) create(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if err := a.client.Create(ctx, lv); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create LogicalVolume %s: %w", lv.Name, err)
	}
	return nil
}

// patch changes a LogicalVolume, if it has not changed since it was read.
func (a actions) patch(ctx context.Context, verb string, after, before *topolvmv1.LogicalVolume) error {
	if maps.Equal(after.Annotations, before.Annotations) && after.Spec.Source == before.Spec.Source &&
		after.Spec.Size.Equal(before.Spec.Size) {
		return nil
	}
	err := a.client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("%s LogicalVolume %s on node %s: %w", verb, before.Name, before.Spec.NodeName, err)
	}
	return err
}

// remove deletes a LogicalVolume, if it is still the one that was read.
func (a actions) remove(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	err := a.client.Delete(ctx, lv, client.Preconditions{UID: &lv.UID, ResourceVersion: &lv.ResourceVersion})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete LogicalVolume %s on node %s: %w", lv.Name, lv.Spec.NodeName, err)
	}
	return client.IgnoreNotFound(err)
}

// keepOld has the node agent keep the old logical volume, or withdraws that. It fails if the owner has changed since it
// was read: its deletion may have been requested.
func (a actions) keepOld(ctx context.Context, s *plan.State) error {
	before := s.Old.DeepCopy()
	if back := (plan.WayBack{State: s}); back.IsOldKept() {
		delete(s.Old.Annotations, wellknown.MoveBackAnnotation)
	} else {
		metav1.SetMetaDataAnnotation(&s.Old.ObjectMeta, wellknown.MoveBackAnnotation, s.TargetNode())
	}
	return a.patch(ctx, "keep", s.Old, before)
}
