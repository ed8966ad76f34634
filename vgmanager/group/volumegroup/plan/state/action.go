package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// Action is one change.
type Action struct {
	Kind Kind
	// Change is what is done, if the action is one change of LVM.
	Change lvm.Change
	// Target is what the action is about, or nil.
	Target Target
}

// Target is what an action is about.
type Target interface {
	// Subject identifies the target among those of the same kind of action. It is "" if there is only one at a time.
	Subject() string
}

// Devices are the blank devices of CreateVG and ExtendVG.
type Devices []device.Device

func (t Devices) Subject() string { return strings.Join(device.Names(t), " ") }

// PVs are the physical volumes of an action on single devices, and of RemoveVG.
type PVs []lvm.PV

func (t PVs) Subject() string {
	var uuids []string
	for _, pv := range t {
		uuids = append(uuids, pv.UUID)
	}
	return strings.Join(uuids, " ")
}

// LabeledPVs are the physical volumes of RemovePVs, which have no volume group.
type LabeledPVs []lvm.PV

func (t LabeledPVs) Subject() string { return PVs(t).Subject() }

// Volume is the logical volume of Repair, Refresh, Resume and Rebuild. PVs are the physical volumes with its missing or
// unused parts.
type Volume struct {
	Name string
	PVs  PVs
}

func (t Volume) Subject() string { return strings.TrimSpace(t.Name + " " + t.PVs.Subject()) }

// Volumes are the names of the logical volumes of RemovePool and of the mapped devices of Unmap, and the UUIDs of
// logical volumes for other kinds.
type Volumes []string

// Subject returns "": the next attempt can have other volumes.
func (Volumes) Subject() string { return "" }

// HiddenGroup is the volume group of UnhideVG. Devices are the devices that LVM does not list.
type HiddenGroup struct {
	UUID    string
	Devices []device.Device
}

func (t HiddenGroup) Subject() string { return t.UUID }

// Publication is the class of PublishClass.
type Publication struct{ Class deviceclass.Class }

func (Publication) Subject() string { return "" }

// Subject returns the devices or volumes that the action is for, as text.
func (a Action) Subject() string {
	if a.Target == nil {
		return ""
	}
	return a.Target.Subject()
}

// Devices returns the blank devices that become part of the volume group.
func (a Action) Devices() []device.Device {
	devices, _ := a.Target.(Devices)
	return devices
}

// Taken returns the devices that the action takes, and to which it writes without regard to what other nodes wrote.
func (a Action) Taken() []device.Device {
	if wipe, is := a.Target.(WipeTarget); is {
		return []device.Device{wipe.Device}
	}
	return a.Devices()
}

// PVs returns the physical volumes that the action is about.
func (a Action) PVs() []lvm.PV {
	switch t := a.Target.(type) {
	case PVs:
		return t
	case LabeledPVs:
		return t
	case Volume:
		return t.PVs
	}
	return nil
}

// Problem describes what is wrong and what to do about it.
type Problem struct {
	// Event is the reason of the event for the problem.
	Event EventReason
	// Condition is the type of the condition that becomes False, and Reason is its reason. Both are empty for a
	// problem of the configuration that does not affect the health.
	Condition, Reason string
	Message           string
	// Unknown: the condition becomes Unknown, not False.
	Unknown bool
	// Volumes are the logical volumes at risk. AffectsClass: all volumes of the device class are at risk, and LVM
	// cannot list them.
	Volumes      []string
	AffectsClass bool
}

// Plan is the result of an observation of the node: the next change and the status.
type Plan struct {
	Action Action
	State  v1alpha1.VGState
	// Problems are sorted by severity, the most severe first. They are the reason in the status.
	Problems []Problem
	// Note describes the current activity if there is no problem.
	Note string
	// Excluded are the devices that are not used.
	Excluded []v1alpha1.ExcludedDevice
	// Doubtful are devices that seem to have changed since they were approved, and must be read to decide it.
	Doubtful []device.Device
	// Notes are the states of physical volumes of the group that are not from LVM, by UUID.
	Notes map[string]DeviceNote
	// Waiting: something happens without the agent, so the next reconcile comes soon.
	Waiting bool
	// LookedAtHealth: a health condition that no problem is about is True. Otherwise it is Unknown.
	LookedAtHealth bool
	// AwaitsListing: new devices are not in the node status yet.
	AwaitsListing bool
	// Lost: the volume group is missing. The status keeps its last known state.
	Lost bool
	// Finished: nothing of a deleted LVMVolumeGroup is left on the node.
	Finished bool
}

// Event returns the reason of the Event for the problems.
func (p Plan) Event() EventReason {
	for _, problem := range p.Problems {
		if problem.Event != "" {
			return problem.Event
		}
	}
	return ""
}

// Messages returns the messages of the problems, each once.
func (p Plan) Messages() []string {
	var list []string
	for _, problem := range p.Problems {
		if !slices.Contains(list, problem.Message) {
			list = append(list, problem.Message)
		}
	}
	return list
}

// StateOf returns the state of a volume group that exists.
func StateOf(p Plan) v1alpha1.VGState {
	// Synchronization ends without action.
	passing := !slices.ContainsFunc(p.Problems, func(q Problem) bool { return q.Reason != v1alpha1.ReasonRAIDSyncing })
	switch {
	case !passing:
		return v1alpha1.VGStatusDegraded
	case len(p.Problems) > 0 || p.Action.Kind != Nothing:
		return v1alpha1.VGStatusProgressing
	}
	return v1alpha1.VGStatusReady
}

// PoolName returns the name of the thin pool of a device class, or "".
func PoolName(d Desired) string { return poolOf(&d.Spec) }

// maxNames is the maximum number of names in a message.
const maxNames = 10

// Shorten returns at most maxNames names, and the number of the others.
func Shorten(names []string) []string {
	if len(names) <= maxNames {
		return names
	}
	return append(slices.Clone(names[:maxNames]), fmt.Sprintf("and %d more", len(names)-maxNames))
}

// Joined returns names as text, shortened.
func Joined(names []string) string { return strings.Join(Shorten(names), ", ") }

// Withdrawn withdraws the class before any other change, so that no volume is created in a group that is being
// removed.
func Withdrawn(s NodeState, p Plan) Plan {
	if s.Class == nil {
		return p
	}
	return Plan{State: v1alpha1.VGStatusProgressing, Action: Action{Kind: WithdrawClass}}
}
