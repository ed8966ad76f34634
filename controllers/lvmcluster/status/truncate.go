package status

import (
	"encoding/json"
	"fmt"
	"slices"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
)

// statusLimit is the maximum size of the device class statuses, in bytes of JSON. etcd limits the whole object,
// including the spec, to 1.5 MiB (--max-request-bytes).
const statusLimit = 800 << 10

const (
	// reasonLimit is the length, in bytes, to which reasons are truncated if the status is too long.
	reasonLimit = 256
	// entriesLimit is the number of volume groups that remain if nothing else is enough.
	entriesLimit = 1000
)

// reductions are applied in this order until the status fits. The node statuses remain complete.
var reductions = []func([]lvmv1alpha1.DeviceClassStatus){
	withoutExcluded,
	withoutDetails,
	withoutReady,
	keepWorst,
}

// truncate returns the device class statuses, shortened to statusLimit. It does not modify its argument.
func truncate(classes []lvmv1alpha1.DeviceClassStatus) ([]lvmv1alpha1.DeviceClassStatus, error) {
	truncated := classes
	copied := false
	for _, reduce := range reductions {
		data, err := json.Marshal(truncated)
		if err != nil {
			return nil, fmt.Errorf("determine the size of the status: %w", err)
		}
		if len(data) <= statusLimit {
			break
		}
		if !copied {
			truncated = copyOf(classes)
			copied = true
		}
		reduce(truncated)
	}
	return truncated, nil
}

func copyOf(classes []lvmv1alpha1.DeviceClassStatus) []lvmv1alpha1.DeviceClassStatus {
	var all []lvmv1alpha1.DeviceClassStatus
	for i := range classes {
		all = append(all, *classes[i].DeepCopy())
	}
	return all
}

func eachEntry(classes []lvmv1alpha1.DeviceClassStatus, change func(*lvmv1alpha1.VGStatus)) {
	for i := range classes {
		for j := range classes[i].NodeStatus {
			change(&classes[i].NodeStatus[j].VGStatus)
		}
	}
}

func withoutExcluded(classes []lvmv1alpha1.DeviceClassStatus) {
	eachEntry(classes, func(entry *lvmv1alpha1.VGStatus) { entry.Excluded = nil })
}

// withoutDetails keeps only the state and a truncated reason of each volume group.
func withoutDetails(classes []lvmv1alpha1.DeviceClassStatus) {
	eachEntry(classes, func(entry *lvmv1alpha1.VGStatus) {
		*entry = lvmv1alpha1.VGStatus{
			Name: entry.Name, Status: entry.Status, Reason: text.Truncate(entry.Reason, reasonLimit),
			ObservedGeneration: entry.ObservedGeneration,
		}
	})
}

func withoutReady(classes []lvmv1alpha1.DeviceClassStatus) {
	for i := range classes {
		classes[i].NodeStatus = slices.DeleteFunc(classes[i].NodeStatus, func(n lvmv1alpha1.NodeStatus) bool {
			return stateOf(n.VGStatus) == lvmv1alpha1.VGStatusReady
		})
	}
}

// keepWorst keeps entriesLimit volume groups, the worst first.
func keepWorst(classes []lvmv1alpha1.DeviceClassStatus) {
	quota := map[lvmv1alpha1.VGState]int{}
	left := entriesLimit
	for _, severity := range severities {
		found := 0
		eachEntry(classes, func(entry *lvmv1alpha1.VGStatus) {
			if stateOf(*entry) == severity.state {
				found++
			}
		})
		quota[severity.state] = min(found, left)
		left -= quota[severity.state]
	}
	for i := range classes {
		classes[i].NodeStatus = slices.DeleteFunc(classes[i].NodeStatus, func(n lvmv1alpha1.NodeStatus) bool {
			state := stateOf(n.VGStatus)
			quota[state]--
			return quota[state] < 0
		})
	}
}
