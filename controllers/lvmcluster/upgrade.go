package lvmcluster

import (
	"fmt"
	"slices"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// upgradeObstacles returns the operations that should end before the operator and its agents are replaced: data is
// being moved, redundancy is being restored, or devices are being wiped and prepared. All of them continue after a
// restart, but their manager should not change meanwhile. A degraded volume group is not an obstacle: a large cluster
// always has one, and an upgrade may repair it.
func upgradeObstacles(seen Observation) []string {
	var all []string
	for node, status := range seen.NodeStatuses {
		for i := range status.Status.NodeStatus {
			entry := &status.Status.NodeStatus[i]
			if what := unsettled(seen, entry); what != "" {
				all = append(all, fmt.Sprintf("device class %s on node %s: %s", entry.Name, node, what))
			}
		}
	}
	slices.Sort(all)
	return all
}

// unsettled describes the operation that is in progress in a volume group, or returns "".
func unsettled(seen Observation, entry *lvmv1alpha1.VGStatus) string {
	for _, pv := range entry.PhysicalVolumes {
		if pv.State == lvmv1alpha1.PhysicalVolumeDraining {
			return fmt.Sprintf("device %s is being drained", pv.Name)
		}
	}
	if raid := entry.RAIDStatus; raid != nil && raid.MinSyncPercent != nil && *raid.MinSyncPercent < 100 {
		return fmt.Sprintf("redundancy is being restored (%d%%)", *raid.MinSyncPercent)
	}
	if entry.Status == lvmv1alpha1.VGStatusProgressing && stays(seen, entry.Name) {
		return "its devices are being prepared"
	}
	return ""
}

// stays reports whether a device class is in the spec and not being deleted. One that waits for its last volume may do
// so for weeks.
func stays(seen Observation, class string) bool {
	group, known := seen.VolumeGroups[class]
	leaving := slices.ContainsFunc(seen.Leaving, func(l Leaving) bool { return l.VolumeGroup.Name == class })
	return known && group.DeletionTimestamp.IsZero() && !leaving
}
