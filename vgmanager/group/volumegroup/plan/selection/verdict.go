package selection

import (
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// ClassState is a device class with the observation of the node for it.
type ClassState struct {
	Desired state.Desired
	Node    state.NodeState
}

// Verdict is the result of the rules of a device class for a device.
type Verdict struct {
	Class    string
	Eligible bool
	// Codes are the reasons that only apply to this class.
	Codes []device.Code
}

// Judge returns the verdict of each device class of the node on a device. A class that names its devices has no
// verdict on other devices.
func Judge(classes []ClassState, d device.Device) []Verdict {
	var verdicts []Verdict
	for _, class := range classes {
		if reasons, meant := class.Reasons(d); meant {
			verdicts = append(verdicts, newVerdict(class.Desired.Name, reasons))
		}
	}
	return verdicts
}

// Reasons returns the Reasons of a device class against a device. It returns false if the class does not select the
// device.
func (c ClassState) Reasons(d device.Device) ([]device.Reason, bool) {
	desired := c.Desired
	s := c.Node
	pvs := state.PhysicalVolumes(s.Report)
	if isOwnPV(desired, s, pvs[d.Number]) {
		return nil, true
	}
	if at := slices.IndexFunc(s.Disks.Paths, func(p state.Path) bool {
		return p.Err == nil &&
			p.Number == d.Number
	}); at >= 0 {
		_, reasons := namedReasons(desired, s, pvs, s.Disks.Paths[at])
		_, wipeable := newWipeTarget(desired, s, s.Disks.Paths[at], d, reasons)
		return withApproval(desired, s, d, reasons, len(reasons) == 0 || wipeable), true
	}
	if desired.UsesExisting() || !state.Discovers(desired.Selectors) {
		return nil, false
	}
	if !state.Finds(desired.Selectors, d) {
		return []device.Reason{{Code: device.NotSelected}}, true
	}
	reasons, selected := discoveredReasons(desired, s, pvs, d, ownership.GroupOf(desired, s) != nil)
	return withApproval(desired, s, d, reasons, selected && len(reasons) == 0), selected
}

// ofClass are the codes that depend on the device class, not on the device.
var ofClass = []device.Code{
	device.NotSelected, device.UsedByOtherDeviceClass, device.RemovalRequested, device.NotAtCreation, device.TooYoung,
	device.AwaitingApproval, device.ChangedSinceReview,
}

func newVerdict(class string, reasons []device.Reason) Verdict {
	v := Verdict{Class: class, Eligible: len(reasons) == 0}
	for _, r := range reasons {
		if slices.Contains(ofClass, r.Code) && !slices.Contains(v.Codes, r.Code) {
			v.Codes = append(v.Codes, r.Code)
		}
	}
	return v
}
