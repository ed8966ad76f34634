package audit

import (
	"context"
	"fmt"
	"slices"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
)

// maxAdopted is the maximum number of volumes to tag in one audit. Each one requires a command.
const maxAdopted = 10

// adopt tags the logical volumes that an older version created without tags, or whose tags name another UID or cluster:
// the object was restored from a backup, or the cluster has another identity since. It leaves a logical volume alone
// that two objects name, because one of them is wrong.
func (a *Auditor) adopt(ctx context.Context, volumes []engine.VolumeState, objects []topolvmv1.LogicalVolume) error {
	owners := map[string]*topolvmv1.LogicalVolume{}
	for i := range objects {
		lv := &objects[i]
		if lv.Status.VolumeID == "" || !lv.DeletionTimestamp.IsZero() {
			continue
		}
		volume := lv.Status.VolumeID
		if _, another := owners[volume]; another {
			lv = nil
		}
		owners[volume] = lv
	}
	adopted := 0
	for _, v := range volumes {
		owner := owners[v.Name]
		// The logical volume of a target of a move gets the tags of the volume when all its data is there.
		if owner == nil || lvtag.IsCopying(v.Tags) ||
			slices.Contains(v.Tags, wellknown.VolumeUIDTagPrefix+string(owner.UID)) &&
				slices.Contains(v.Tags, wellknown.ClusterTagPrefix+a.Cluster) {
			continue
		}
		if adopted++; adopted > maxAdopted {
			a.Wake()
			return nil
		}
		claim, err := a.claim(ctx, owner)
		if err != nil {
			return err
		}
		if claim == "" {
			claim = identity.ClaimOf(v.Tags)
		}
		add, remove := identity.ChangedTags(v.Tags, identity.Tags(owner, a.Cluster, claim))
		if err := a.States.TagLV(ctx, v.Class, v.Name, add, remove); err != nil {
			return fmt.Errorf("tag logical volume %s: %w", v.Name, err)
		}
		log.FromContext(ctx).Info("tagged a logical volume with its object", "deviceClass", v.Class, "lv",
			v.Name, "claim", claim)
	}
	return nil
}

// claim returns the claim of a volume. If the object does not have it, claim reads the PersistentVolume with the same
// name.
func (a *Auditor) claim(ctx context.Context, lv *topolvmv1.LogicalVolume) (string, error) {
	if claim := view.Claim(lv); claim != "" {
		return claim, nil
	}
	volume := &corev1.PersistentVolume{}
	err := a.Live.Get(ctx, client.ObjectKey{Name: lv.Name}, volume)
	if err != nil || volume.Spec.ClaimRef == nil {
		return "", client.IgnoreNotFound(err)
	}
	return volume.Spec.ClaimRef.Namespace + "/" + volume.Spec.ClaimRef.Name, nil
}
