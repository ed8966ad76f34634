package volumemove

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumemove/plan"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
)

// podsUseVolume is a Normal event on the VolumeMove: the copy is complete, and the switch follows when no Pod uses the
// volume on the source node.
var podsUseVolume = event.Normal("PodsUseVolume", "Move",
	"volume of claim %s: node %s has a copy. The volume is switched when these Pods have ended: %s")

// podsUseThickVolume is a Normal event on the VolumeMove: the volume is thick, so it is copied only while no Pod uses
// it. Its Pods cannot start until the copy is complete.
var podsUseThickVolume = event.Normal("PodsUseThickVolume", "Move",
	"the thick volume of claim %s is copied to node %s when these Pods have ended: %s")

// volumeSwitched is a Normal event on the VolumeMove: the volume is on the target node.
var volumeSwitched = event.Normal("VolumeSwitched", "Move",
	"the volume of claim %s is on node %s, and no longer on node %s")

// podsOnOldNode is a Warning event on the VolumeMove: Pods were bound to the old node when the volume was switched.
// They cannot start there.
// What to do: delete these Pods, so that they are created again and start on the node of the volume.
var podsOnOldNode = event.Warning("PodsOnOldNode", "Move",
	"the volume of claim %s is on node %s now. These Pods are bound to another node and cannot start; delete them: %s")

// moveFailed is a Warning event on the VolumeMove: the volume cannot be moved, and stays on its node.
// What to do: as the message says; then delete the VolumeMove and create another one.
var moveFailed = event.Warning("VolumeMoveFailed", "Move", "the volume of claim %s stays on its node: %s")

// returnedToQueue is a Warning event on the VolumeMove: the node agent did not close the thick volume, its copy made no
// progress or a node was lost while a Pod waited for the volume, the thin pool of the source node fills up, or the
// target node has no room for the data. Pods can use the volume on its node, and it is copied again later.
// What to do: as the message says; repair the node that it names, extend the thin pool, or delete the VolumeMove.
var returnedToQueue = event.Warning("VolumeMoveReturnedToQueue", "Move",
	"the volume of claim %s stays open on node %s, and is copied again later: %s")

// report writes the status, if it has changed, and records events.
func (c *Controller) report(ctx context.Context, before *v1alpha1.VolumeMove, s *plan.State) error {
	move := s.Move
	if equality.Semantic.DeepEqual(before.Status, move.Status) {
		return nil
	}
	after := before.DeepCopy()
	after.Status = move.Status
	err := c.client.Status().Patch(ctx, after,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		if apierrors.IsConflict(err) {
			return err
		}
		return fmt.Errorf("write the status of VolumeMove %s: %w", move.Name, err)
	}
	move.ResourceVersion = after.ResourceVersion
	c.tell(before, move)
	return nil
}

// tell records events for a change of the phase.
func (c *Controller) tell(before, move *v1alpha1.VolumeMove) {
	status := &move.Status
	c.tellOldPods(move)
	waits := status.Phase == v1alpha1.MoveWaitingForPods && len(status.Pods) > 0
	begins := status.Phase != before.Status.Phase
	switch {
	case waits && status.Thick && status.Round == 0:
		c.events.Emit(move, podsUseThickVolume, move.Spec.Claim, status.TargetNode, strings.Join(status.Pods, ", "))
	case waits:
		c.events.Emit(move, podsUseVolume, move.Spec.Claim, status.TargetNode, strings.Join(status.Pods, ", "))
	case before.Status.SwitchTime == nil && status.SwitchTime != nil:
		c.events.Emit(move, volumeSwitched, move.Spec.Claim, status.TargetNode, status.SourceNode)
	case begins && status.Phase == v1alpha1.MovePending && status.TargetNode != "":
		c.events.Emit(move, returnedToQueue, move.Spec.Claim, status.SourceNode, status.Message)
	case begins && status.Phase == v1alpha1.MoveFailed:
		c.events.Emit(move, moveFailed, move.Spec.Claim, status.Message)
	}
}

// tellOldPods records an event for Pods that still run on the node that a volume has left.
func (c *Controller) tellOldPods(move *v1alpha1.VolumeMove) {
	status := &move.Status
	isBackRequested := move.Annotations[wellknown.MoveBackAnnotation] == status.TargetNode
	if status.SwitchTime != nil && len(status.Pods) > 0 && !isBackRequested {
		c.events.Emit(move, podsOnOldNode, move.Spec.Claim, status.TargetNode, strings.Join(status.Pods, ", "))
	}
}
