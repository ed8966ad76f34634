package volumemove

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
)

// accessSnapshot and accessVolume are spec.accessType of a snapshot and of a volume (TopoLVM).
const (
	accessSnapshot = "ro"
	accessVolume   = "rw"
)

// act performs the action of a step. A conflict means that an object has just changed: the state is read again.
func (c *Controller) act(ctx context.Context, s *state, st step) error {
	switch st.action {
	case createSnapshot:
		return c.createSnapshot(ctx, s, st.round)
	case createTarget:
		return c.createTarget(ctx, s, st.snapshot)
	case copyRound:
		return c.copyRound(ctx, s, st.snapshot)
	case resizeTarget:
		before := s.target.DeepCopy()
		s.target.Spec.Size = s.volume.Spec.Size.DeepCopy()
		return c.patch(ctx, "extend", s.target, before)
	case remove:
		return c.remove(ctx, st.object)
	case closeVolume:
		return c.fence(ctx, s)
	case unfence:
		return c.unfence(ctx, s)
	case switchVolume:
		return c.switchVolume(ctx, s, s.target)
	case switchBack:
		return c.switchVolume(ctx, s, s.old)
	case keepOld:
		return c.keepOld(ctx, s)
	case swapNodes:
		wayBack{s}.swapNodes()
	case rebind:
		return c.rebind(ctx, s)
	case createOld:
		return c.createOld(ctx, s)
	case end:
		return c.release(ctx, s.move)
	case wait, begin:
	}
	return nil
}

// newVolume returns a LogicalVolume for the move, with the properties of the volume that is moved.
func (s *state) newVolume(name, node string) *topolvmv1.LogicalVolume {
	lv := &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{v1alpha1.MoveLabel: string(s.move.UID)},
			Annotations: map[string]string{v1alpha1.MoveAnnotation: string(s.move.UID),
				v1alpha1.ClaimAnnotation: s.move.Spec.Claim.String()}},
		Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: node, DeviceClass: s.move.Status.DeviceClass},
	}
	// The volume may have been deleted since the switch.
	for _, like := range append([]*topolvmv1.LogicalVolume{s.volume, s.target}, s.snapshots...) {
		if like == nil {
			continue
		}
		lv.Spec.Size = like.Spec.Size.DeepCopy()
		if encryption := like.Annotations[v1alpha1.EncryptionAnnotation]; encryption != "" {
			lv.Annotations[v1alpha1.EncryptionAnnotation] = encryption
		}
		break
	}
	return lv
}

// createSnapshot creates the snapshot of a round. If the node agent has confirmed the fence, it is the last one.
func (c *Controller) createSnapshot(ctx context.Context, s *state, round int) error {
	lv := s.newVolume(snapshotName(s.move, round), s.volume.Spec.NodeName)
	lv.Spec.Source = s.volume.Name
	lv.Spec.AccessType = accessSnapshot
	if s.isFenceConfirmed() {
		lv.Annotations[v1alpha1.FenceTimeAnnotation] = fence.Name(s.volume)
	}
	return c.create(ctx, lv)
}

// createTarget creates the copy on the target node. Volumes of the spread group keep away from it. The source is a
// snapshot, or the volume itself if it is thick and fenced: then the target is for the present fence only.
func (c *Controller) createTarget(ctx context.Context, s *state, source *topolvmv1.LogicalVolume) error {
	lv := s.newVolume(targetName(s.move), s.move.Status.TargetNode)
	lv.Spec.Source = source.Name
	if source == s.volume {
		lv.Spec.Size = thickCopy{s}.sizeOfThick()
		lv.Annotations[v1alpha1.FenceTimeAnnotation] = fence.Name(s.volume)
	}
	lv.Spec.AccessType = accessVolume
	lv.Spec.LvcreateOptionClass = s.volume.Spec.LvcreateOptionClass
	lv.Annotations[v1alpha1.MoveVolumeAnnotation] = s.volume.Status.VolumeID
	if spread := s.volume.Annotations[v1alpha1.SpreadAnnotation]; spread != "" {
		lv.Annotations[v1alpha1.SpreadAnnotation] = spread
		lv.Labels[v1alpha1.SpreadGroupHashLabel] = s.volume.Labels[v1alpha1.SpreadGroupHashLabel]
	}
	return c.create(ctx, lv)
}

// copyRound has the target copy the changes from the snapshot that it has to another one.
func (c *Controller) copyRound(ctx context.Context, s *state, snapshot *topolvmv1.LogicalVolume) error {
	before := s.target.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.target.ObjectMeta, v1alpha1.CopyBaseAnnotation, s.target.Spec.Source)
	s.target.Spec.Source = snapshot.Name
	return c.patch(ctx, "start the next round of", s.target, before)
}

// fence requests that the node agent closes the volume.
func (c *Controller) fence(ctx context.Context, s *state) error {
	before := s.volume.DeepCopy()
	fence.Request(s.volume, string(s.move.UID), "", c.now())
	return c.patch(ctx, "fence", s.volume, before)
}

// unfence requests that the node agent opens the volume again.
func (c *Controller) unfence(ctx context.Context, s *state) error {
	before := s.volume.DeepCopy()
	fence.Withdraw(s.volume)
	// If Pods use the volume, the end of the last one is what the next fence waits for.
	if len(s.pods) == 0 {
		c.delayFence(s.move.UID)
	}
	return c.patch(ctx, "unfence", s.volume, before)
}

// switchVolume moves the LogicalVolume to the target node. The same request writes the new PersistentVolume to an
// annotation, from which package volumeimport recreates it. The plan has just checked that the node agent of the source
// node has closed the volume, that the copy is complete since then, and that no Pod uses the volume. The request fails
// if the LogicalVolume has changed since it was read, which was before that.
func (c *Controller) switchVolume(ctx context.Context, s *state, to *topolvmv1.LogicalVolume) error {
	data, err := json.Marshal(relocate.PersistentVolume(s.pv, to.Spec.NodeName))
	if err != nil {
		return fmt.Errorf("PersistentVolume %s: %w", s.pv.Name, err)
	}
	before := s.volume.DeepCopy()
	s.volume.Spec.NodeName = to.Spec.NodeName
	s.volume.Spec.DeviceClass = to.Spec.DeviceClass
	fence.Remove(s.volume)
	metav1.SetMetaDataAnnotation(&s.volume.ObjectMeta, v1alpha1.MovedVolumeAnnotation, string(data))
	metav1.SetMetaDataAnnotation(&s.volume.ObjectMeta, v1alpha1.AdoptAnnotation, string(to.UID))
	if back := (wayBack{s}); to == s.old && !back.isOldRetired() {
		// The logical volume still is that of the volume, and has the fence of the move.
		delete(s.volume.Annotations, v1alpha1.AdoptAnnotation)
		metav1.SetMetaDataAnnotation(&s.volume.ObjectMeta, v1alpha1.UnfenceAnnotation, string(s.move.UID))
	}
	if err := c.patch(ctx, "switch", s.volume, before); err != nil {
		return err
	}
	log.FromContext(ctx).Info("switched a volume to another node", "lv", s.volume.Status.VolumeID, "claim",
		s.move.Spec.Claim.String(), "from", before.Spec.NodeName, "to", s.volume.Spec.NodeName)
	return nil
}

// rebind changes the claim, so that kube-controller-manager compares it with its PersistentVolume at once. It does so
// for a claim that changes, and otherwise only periodically, every 15 seconds by default: it looks at a claim when its
// PersistentVolume is deleted, but not when it is created again (pkg/controller/volume/persistentvolume, Kubernetes).
func (c *Controller) rebind(ctx context.Context, s *state) error {
	before := s.claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.claim.ObjectMeta, v1alpha1.RecreatedVolumeAnnotation, string(s.pv.UID))
	err := c.client.Patch(ctx, s.claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("set annotation %s of claim %s: %w", v1alpha1.RecreatedVolumeAnnotation, s.move.Spec.Claim,
			err)
	}
	return err
}

// createOld creates the owner of the logical volume on the source node.
func (c *Controller) createOld(ctx context.Context, s *state) error {
	if s.sourceNode() == "" {
		return fmt.Errorf("VolumeMove %s: the node of the old logical volume is not known", s.move.Name)
	}
	volume := ""
	switch {
	case s.volume != nil:
		volume = s.volume.Status.VolumeID
	case s.isMovedBack():
		volume, _, _ = strings.Cut(s.target.Annotations[v1alpha1.RetireAnnotation], "/")
	case s.target != nil:
		volume = s.target.Annotations[v1alpha1.MoveVolumeAnnotation]
	}
	if volume == "" {
		return fmt.Errorf("VolumeMove %s: the name of the old logical volume is not known", s.move.Name)
	}
	lv := s.newVolume(s.newOldName(), s.sourceNode())
	if s.isMovedBack() {
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, v1alpha1.MoveBackAnnotation, s.sourceNode())
	}
	lv.Spec.Source = v1alpha1.RetiredSource
	lv.Spec.AccessType = accessVolume
	lv.Annotations[v1alpha1.RetireAnnotation] = volume + "/" + string(s.move.UID)
	return c.create(ctx, lv)
}

func (c *Controller) create(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if err := c.client.Create(ctx, lv); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create LogicalVolume %s: %w", lv.Name, err)
	}
	return nil
}

// patch changes a LogicalVolume, if it has not changed since it was read.
func (c *Controller) patch(ctx context.Context, verb string, after, before *topolvmv1.LogicalVolume) error {
	if maps.Equal(after.Annotations, before.Annotations) && after.Spec.Source == before.Spec.Source &&
		after.Spec.Size.Equal(before.Spec.Size) {
		return nil
	}
	err := c.client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("%s LogicalVolume %s on node %s: %w", verb, before.Name, before.Spec.NodeName, err)
	}
	return err
}

// remove deletes a LogicalVolume, if it is still the one that was read.
func (c *Controller) remove(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	err := c.client.Delete(ctx, lv, client.Preconditions{UID: &lv.UID, ResourceVersion: &lv.ResourceVersion})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete LogicalVolume %s on node %s: %w", lv.Name, lv.Spec.NodeName, err)
	}
	return client.IgnoreNotFound(err)
}

// release removes the finalizer of a move.
func (c *Controller) release(ctx context.Context, move *v1alpha1.VolumeMove) error {
	before := move.DeepCopy()
	if controllerutil.RemoveFinalizer(move, v1alpha1.VolumeMoveFinalizer) {
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
