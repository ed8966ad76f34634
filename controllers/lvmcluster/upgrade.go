package lvmcluster

import (
	"fmt"
	"slices"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
)

// upgradeObstacles returns the operations that should end before the operator and its agents are replaced: data is
// being moved, redundancy is being restored, or devices are being wiped and prepared. All of them continue after a
// restart, but their manager should not change meanwhile. A degraded volume group is not an obstacle: a large cluster
// always has one, and an upgrade may repair it.
func upgradeObstacles(current observe.State) []string {
	var all []string
	for node, status := range current.NodeStatuses {
		for i := range status.Status.NodeStatus {
			entry := &status.Status.NodeStatus[i]
			if what := unsettled(current, entry); what != "" {
				all = append(all, fmt.Sprintf("device class %s on node %s: %s", entry.Name, node, what))
			}
		}
	}
	slices.Sort(all)
	return all
}

// unsettled describes the operation that is in progress in a volume group, or returns "".
func unsettled(current observe.State, entry *lvmv1alpha1.VGStatus) string {
	for _, pv := range entry.PhysicalVolumes {
		if pv.State == lvmv1alpha1.PhysicalVolumeDraining {
			return fmt.Sprintf("device %s is being drained", pv.Name)
		}
	}
	if raid := entry.RAIDStatus; raid != nil && raid.MinSyncPercent != nil && *raid.MinSyncPercent < 100 {
		return fmt.Sprintf("redundancy is being restored (%d%%)", *raid.MinSyncPercent)
	}
	if entry.Status == lvmv1alpha1.VGStatusProgressing && isKept(current, entry.Name) {
		return "its devices are being prepared"
	}
	return ""
}

// isKept reports whether a device class is in the spec and not being deleted. One that waits for its last volume may do
// so for weeks.
func isKept(current observe.State, class string) bool {
	group, known := current.VolumeGroups[class]
	removed := slices.ContainsFunc(current.RemovedClasses,
		func(r observe.RemovedClass) bool { return r.VolumeGroup.Name == class })
	return known && group.DeletionTimestamp.IsZero() && !removed
}
