package plan

import (
	"slices"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// RemovalTimes returns when the logical volumes of deleted LogicalVolumes are removed, by name. The record must be
// about the LogicalVolume for which the logical volume was last tagged: a logical volume that was imported since has
// the UID of another LogicalVolume, and is kept even if etcd is restored from a backup without that object.
func RemovalTimes(w Desired, s NodeState) map[string]time.Time {
	retention, set := w.Spec.DeletedVolumeRetention.Duration()
	vg := GroupOf(w, s)
	if !set || vg == nil {
		return nil
	}
	times := map[string]time.Time{}
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		record, deleted := s.Deletions[lv.Name]
		if deleted && tagOf(lv, v1alpha1.VolumeUIDTagPrefix) == string(record.UID) &&
			w.isThisCluster(tagOf(lv, v1alpha1.ClusterTagPrefix)) {
			times[lv.Name] = record.Time.Add(retention)
		}
	}
	return times
}

// Expired returns the names of the logical volumes of deleted LogicalVolumes that are to be removed now. It omits those
// that must not be removed, for example because they are in use. An open recovery comes first. If the metadata of the
// volume group may be that of an earlier time, nothing is removed: extents of the logical volume can have other data
// since, and LVM can discard them.
func Expired(w Desired, s NodeState, now time.Time) []string {
	vg := GroupOf(w, s)
	if vg == nil || w.Deleting || hasRecovery(w) || deletionProblem(w, s, vg) != "" {
		return nil
	}
	var names []string
	for name, removal := range RemovalTimes(w, s) {
		if !now.Before(removal) && orphanProblem(w, s, vg, vg.LV(name)) == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// hasRecovery returns true if a recovery of the volume group is open, approved or not.
func hasRecovery(w Desired) bool {
	return w.Recovery != nil || w.RestoringGroup || w.Restoring || w.Repairing || w.FreeingSpace ||
		len(w.Orphans) > 0 || w.Import != nil || w.Check != nil
}

// deletedAction removes the logical volumes of deleted LogicalVolumes whose time is over.
func deletedAction(s NodeState, vg *lvm.VG) Action {
	if len(s.Expired) == 0 || s.ErasingWaits != "" {
		return Action{}
	}
	a := Action{Kind: RemoveDeleted}
	for _, name := range s.Expired[:min(len(s.Expired), maxNamesOfCommand)] {
		a.Volumes = append(a.Volumes, vg.LV(name).UUID)
	}
	return a
}
