package lvmcluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
)

// maxObstacle is how long one operation can prevent an upgrade. Moving the data of a large disk takes hours; what takes
// longer than this needs attention, and perhaps the upgrade.
const maxObstacle = 24 * time.Hour

// Reasons of excluded devices that only a person changes (package device of the node agent).
const (
	awaitingApproval   = "AwaitingApproval"
	changedSinceReview = "ChangedSinceReview"
)

// obstacle is an operation that should end before the operator and its agents are replaced.
type obstacle struct{ class, node, what, detail string }

func (o obstacle) String() string {
	return fmt.Sprintf("device class %s on node %s: %s%s", o.class, o.node, o.what, o.detail)
}

// upgradeGate remembers since when each operation is in progress. This begins again when the operator restarts. The
// zero value is ready for use.
type upgradeGate struct{ since map[obstacle]time.Time }

// obstacles returns the operations in progress that should end before an upgrade and have not prevented it for longer
// than maxObstacle.
func (g *upgradeGate) obstacles(current observe.State, now time.Time) []string {
	since := map[obstacle]time.Time{}
	var all []string
	for _, found := range upgradeObstacles(current) {
		key := found
		key.detail = "" // The progress is no other operation.
		first, known := g.since[key]
		if !known {
			first = now
		}
		since[key] = first
		if now.Sub(first) < maxObstacle {
			all = append(all, found.String())
		}
	}
	g.since = since
	slices.Sort(all)
	return all
}

// upgradeObstacles returns the operations of running node agents that should end before the operator and its agents are
// replaced: data is being moved, redundancy is being restored, or devices are being wiped and prepared. All of them
// continue after a restart, but their manager should not change meanwhile. These are not obstacles: a degraded volume
// group, which an upgrade may repair; an operation that waits for an administrator; and the last report of a node that
// is not ready, because nobody knows when the node returns.
func upgradeObstacles(current observe.State) []obstacle {
	var all []obstacle
	for i := range current.Nodes {
		node := &current.Nodes[i]
		if observe.NotReady(node) != "" || current.IsStale(node.Name) {
			continue
		}
		status := current.NodeStatuses[node.Name]
		for j := range status.Status.NodeStatus {
			entry := &status.Status.NodeStatus[j]
			if what, detail := unsettled(current, entry); what != "" {
				all = append(all, obstacle{class: entry.Name, node: node.Name, what: what, detail: detail})
			}
		}
	}
	return all
}

// unsettled describes the operation that is in progress in a volume group, and how far it is, or returns "". A drain
// that waits for space has the state Blocked.
func unsettled(current observe.State, entry *lvmv1alpha1.VGStatus) (what, detail string) {
	for _, pv := range entry.PhysicalVolumes {
		if pv.State == lvmv1alpha1.PhysicalVolumeDraining {
			return fmt.Sprintf("device %s is being drained", pv.Name), ""
		}
	}
	if raid := entry.RAIDStatus; raid != nil && raid.MinSyncPercent != nil && *raid.MinSyncPercent < 100 {
		return "redundancy is being restored", fmt.Sprintf(" (%d%%)", *raid.MinSyncPercent)
	}
	if entry.Status == lvmv1alpha1.VGStatusProgressing && isKept(current, entry.Name) && !awaitsApproval(entry) {
		return "its devices are being prepared", ""
	}
	return "", ""
}

// awaitsApproval reports whether a volume group is created only after somebody has approved its devices.
func awaitsApproval(entry *lvmv1alpha1.VGStatus) bool {
	return len(entry.PhysicalVolumes) == 0 &&
		slices.ContainsFunc(entry.Excluded, func(d lvmv1alpha1.ExcludedDevice) bool {
			return slices.ContainsFunc(d.Reasons, func(reason string) bool {
				code, _, _ := strings.Cut(reason, ":")
				return code == awaitingApproval || code == changedSinceReview
			})
		})
}

// isKept reports whether a device class is in the spec and not being deleted. One that waits for its last volume may do
// so for weeks.
func isKept(current observe.State, class string) bool {
	group, known := current.VolumeGroups[class]
	removed := slices.ContainsFunc(current.RemovedClasses,
		func(r observe.RemovedClass) bool { return r.VolumeGroup.Name == class })
	return known && group.DeletionTimestamp.IsZero() && !removed
}
