package lvmcluster

import (
	"encoding/json"
	"fmt"
	"slices"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/text"
)

// statusLimit is what the device classes may have of the status, in bytes of JSON. etcd takes 1.5 MiB for the whole
// object (its --max-request-bytes), and the spec is in it too.
const statusLimit = 800 << 10

const (
	// reasonLimit is how many bytes of a reason are left where the status is too long.
	reasonLimit = 256
	// entriesLimit is how many volume groups are left where nothing else helps.
	entriesLimit = 1000
)

// shortenings are what is left out, in this order, until the status fits. The node statuses have all of it.
var shortenings = []func([]lvmv1alpha1.DeviceClassStatus){
	withoutExcluded,
	withoutDetails,
	withoutReady,
	onlyWorst,
}

// fit returns the device classes as the status can hold them. What it is given stays as it is.
func fit(classes []lvmv1alpha1.DeviceClassStatus) ([]lvmv1alpha1.DeviceClassStatus, error) {
	fitting := classes
	copied := false
	for _, shorten := range shortenings {
		data, err := json.Marshal(fitting)
		if err != nil {
			return nil, fmt.Errorf("measure the status: %w", err)
		}
		if len(data) <= statusLimit {
			break
		}
		if !copied {
			fitting = copyOf(classes)
			copied = true
		}
		shorten(fitting)
	}
	return fitting, nil
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

// withoutDetails leaves the state of each volume group, and the beginning of its reason.
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

// onlyWorst leaves as many volume groups as fit in any case, the worst first.
func onlyWorst(classes []lvmv1alpha1.DeviceClassStatus) {
	room := map[lvmv1alpha1.VGState]int{}
	left := entriesLimit
	for _, severity := range severities {
		found := 0
		eachEntry(classes, func(entry *lvmv1alpha1.VGStatus) {
			if stateOf(*entry) == severity.state {
				found++
			}
		})
		room[severity.state] = min(found, left)
		left -= room[severity.state]
	}
	for i := range classes {
		classes[i].NodeStatus = slices.DeleteFunc(classes[i].NodeStatus, func(n lvmv1alpha1.NodeStatus) bool {
			state := stateOf(n.VGStatus)
			room[state]--
			return room[state] < 0
		})
	}
}
