package orphans

import (
	"slices"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/doubt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// RemovalTimes returns when the logical volumes of deleted LogicalVolumes are removed, by name. The record must be
// about the LogicalVolume for which the logical volume was last tagged: a logical volume that was imported since has
// the UID of another LogicalVolume, and is kept even if etcd is restored from a backup without that object.
func RemovalTimes(d state.Desired, s state.NodeState) map[string]time.Time {
	retention, set := classspec.Retention(d.Spec.DeletedVolumeRetention)
	vg := ownership.GroupOf(d, s)
	if !set || vg == nil {
		return nil
	}
	times := map[string]time.Time{}
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		record, deleted := s.Orphans.Deletions[lv.Name]
		if deleted && state.TagOf(lv, wellknown.VolumeUIDTagPrefix) == string(record.UID) &&
			d.IsThisCluster(state.TagOf(lv, wellknown.ClusterTagPrefix)) {
			times[lv.Name] = record.Time.Add(retention)
		}
	}
	return times
}

// Expired returns the names of the logical volumes of deleted LogicalVolumes that are to be removed now. It omits those
// that must not be removed, for example because they are in use. An open recovery comes first. If the metadata of the
// volume group may be that of an earlier time, nothing is removed: extents of the logical volume can have other data
// since, and LVM can discard them.
func Expired(d state.Desired, s state.NodeState, now time.Time) []string {
	vg := ownership.GroupOf(d, s)
	if vg == nil || d.Deleting || hasRecovery(d) || doubt.DeletionProblem(d, s, vg) != "" {
		return nil
	}
	var names []string
	for name, removal := range RemovalTimes(d, s) {
		if !now.Before(removal) && orphanProblem(d, s, vg, vg.LV(name)) == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// hasRecovery returns true if a recovery of the volume group is open, approved or not.
func hasRecovery(d state.Desired) bool {
	open := []v1alpha1.RecoveryAction{v1alpha1.RecoveryRestoreMetadata, v1alpha1.RecoveryRestoreLabels,
		v1alpha1.RecoveryRepairThinPool, v1alpha1.RecoveryFreePoolSpace}
	return d.Open.Approved != nil || slices.Contains(open, d.Open.Action) ||
		len(d.Open.Orphans) > 0 || d.Open.Import != nil || d.Open.Check != nil
}

// DeletedAction removes the logical volumes of deleted LogicalVolumes whose time is over.
func DeletedAction(s state.NodeState, vg *lvm.VG) state.Action {
	if len(s.Orphans.Expired) == 0 || s.Orphans.Waits != "" {
		return state.Action{}
	}
	var uuids state.Volumes
	for _, name := range s.Orphans.Expired[:min(len(s.Orphans.Expired), state.MaxNamesOfCommand)] {
		uuids = append(uuids, vg.LV(name).UUID)
	}
	return state.Action{Kind: state.RemoveDeleted, Target: uuids}
}
