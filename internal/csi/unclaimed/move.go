package unclaimed

import (
	"context"
	"fmt"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// This file cleans up after VolumeMoves that no longer exist, although their finalizer keeps them until they have
// ended: somebody has removed it. As long as the VolumeMove exists, its controller decides.

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=volumemoves,namespace=openshift-lvm-storage,verbs=list

// moves returns the UIDs of the VolumeMoves.
func (a *Auditor) moves(ctx context.Context) (map[string]bool, error) {
	moves := map[string]bool{}
	err := paging.Each(ctx, a.Live, &v1alpha1.VolumeMoveList{}, func(list *v1alpha1.VolumeMoveList) {
		for i := range list.Items {
			moves[string(list.Items[i].UID)] = true
		}
	}, client.InNamespace(a.Namespace))
	return moves, err
}

// judgeMove deletes a snapshot or target of a VolumeMove that no longer exists, and removes its fence from a volume.
// The owner of an old logical volume is judged like a volume: it is only marked, because it has data. judged reports
// whether the other rules do not apply. A VolumeMove that is created after moves was read is known the next time, which
// is before settleTime ends. Package clone removes the fence of a clone.
func (a *Auditor) judgeMove(ctx context.Context, lv *topolvmv1.LogicalVolume, moves map[string]bool,
	since map[types.UID]time.Time) (early, judged bool, err error) {
	move := moveOf(lv)
	holder := fence.Holder(lv)
	switch {
	case move == "" && (holder == "" || moves[holder] || fence.IsOfClone(holder)):
		return false, false, nil
	case move != "" && (moves[move] || !lv.DeletionTimestamp.IsZero()):
		return false, true, nil
	case view.IsRetired(lv):
		return false, lv.Status.VolumeID == "", nil
	}
	first, before := a.since[lv.UID]
	if !before {
		first = a.now()
	}
	since[lv.UID] = first
	switch {
	case a.now().Sub(first) < settleTime:
		return true, true, nil
	case move == "":
		return false, true, a.unfence(ctx, lv, holder)
	}
	err = a.Client.Delete(ctx, lv, client.Preconditions{UID: &lv.UID, ResourceVersion: &lv.ResourceVersion})
	if apierrors.IsConflict(err) || client.IgnoreNotFound(err) == nil {
		return false, true, nil
	}
	return false, true, fmt.Errorf("delete LogicalVolume %s of VolumeMove %s, which no longer exists: %w", lv.Name,
		move, err)
}

// moveOf returns the UID of the VolumeMove for which a LogicalVolume was created, or "". The name of a target or
// snapshot must show this too: whoever can write the annotation must not have another volume deleted.
func moveOf(lv *topolvmv1.LogicalVolume) string {
	move := view.Move(lv)
	name := wellknown.MoveTargetPrefix + move
	if !view.IsRetired(lv) && lv.Name != name && !strings.HasPrefix(lv.Name, name+"-") {
		return ""
	}
	return move
}

// unfence removes the fence of a VolumeMove that no longer exists, so that the volume can be used on its node.
func (a *Auditor) unfence(ctx context.Context, lv *topolvmv1.LogicalVolume, move string) error {
	before := lv.DeepCopy()
	fence.Withdraw(lv)
	err := a.Client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove the fence of VolumeMove %s, which no longer exists, from LogicalVolume %s: %w", move,
			lv.Name, err)
	}
	log.FromContext(ctx).Info("removed the fence of a VolumeMove that no longer exists", "logicalVolume", lv.Name,
		"node", lv.Spec.NodeName)
	return nil
}
