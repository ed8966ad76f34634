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

// Kind is the type of a change. A reconcile performs at most one.
type Kind string

// Types of changes.
const (
	Nothing      Kind = ""
	DeactivateVG Kind = "DeactivateVolumeGroup"
	WipeDevice   Kind = "WipeDevice"
	CreateVG     Kind = "CreateVolumeGroup"
	UnhideVG     Kind = "UnhideVolumeGroup"
	TagVG        Kind = "TagVolumeGroup"
	RenameVG     Kind = "RenameVolumeGroup"
	ExtendVG     Kind = "ExtendVolumeGroup"
	Activate     Kind = "ActivateVolumes"
	CreatePool   Kind = "CreateThinPool"
	ExtendPool   Kind = "ExtendThinPool"
	ExtendMeta   Kind = "ExtendThinPoolMetadata"
	SetDiscards  Kind = "SetThinPoolDiscards"
	PublishClass Kind = "PublishClass"

	Cordon     Kind = "CordonDevice"
	Uncordon   Kind = "UncordonDevice"
	SuspendPV  Kind = "SuspendDevice"
	ResumePV   Kind = "ResumeDevice"
	StartMove  Kind = "MoveExtents"
	ResumeMove Kind = "ResumeMove"
	AbortMove  Kind = "AbortMove"
	ReduceVG   Kind = "ReduceVolumeGroup"
	ReduceLost Kind = "ReduceVolumeGroupByLostDevices"
	Repair     Kind = "RepairVolume"
	Refresh    Kind = "RefreshVolume"
	Resume     Kind = "ResumeVolume"
	Rebuild    Kind = "RebuildVolume"

	Unmap            Kind = "RemoveMappedDevices"
	DeactivatePool   Kind = "DeactivateThinPool"
	RemoveUnreadable Kind = "RemoveUnreadableVolumes"
	InspectPool      Kind = "CheckThinPoolMetadata"
	CloseMetadata    Kind = "CloseThinPoolMetadata"
	CloseData        Kind = "CloseThinPoolData"
	RepairPool       Kind = "RepairThinPoolMetadata"
	ActivatePool     Kind = "ActivateThinPool"
	RemoveLost       Kind = "RemoveLostVolumes"
	RestoreLabel     Kind = "RestoreLabel"
	VerifyLabel      Kind = "VerifyLabel"
	RestoreGroup     Kind = "RestoreVolumeGroup"
	RestoreEarlier   Kind = "RestoreEarlierMetadata"
	TrimVolumes      Kind = "TrimVolumes"
	CheckVolumes     Kind = "CheckFileSystems"
	AcceptMetadata   Kind = "AcceptMetadata"
	ResizePV         Kind = "ResizePhysicalVolume"
	RepairVolumes    Kind = "RepairFileSystems"
	RemoveOrphans    Kind = "RemoveOrphans"
	RemoveDeleted    Kind = "RemoveDeletedVolumes"

	WithdrawClass Kind = "WithdrawClass"
	RemovePool    Kind = "RemoveThinPool"
	RemoveVG      Kind = "RemoveVolumeGroup"
	RemovePVs     Kind = "RemovePhysicalVolumes"
)

// Action is one change and its parameters.
type Action struct {
	Kind Kind
	// Change is what is done, if the action is exactly one change of LVM.
	Change lvm.Change
	// Devices are the blank devices of CreateVG and ExtendVG.
	Devices []device.Device
	// Hidden are the devices of UnhideVG. VGUUID is its volume group, and that of RenameVG and DeactivateVG.
	Hidden []device.Device
	VGUUID string
	// Wipe is the device of WipeDevice, and the one for which DeactivateVG deactivates a volume group.
	Wipe WipeTarget
	// Size is the used data of the pool before TrimVolumes.
	Size lvm.Bytes
	// Class is the class for PublishClass.
	Class deviceclass.Class
	// PVs are the physical volumes of RemovePVs, RemoveVG and the actions on single devices.
	PVs []lvm.PV
	// Target is the physical volume to which StartMove moves all extents. If empty, LVM chooses.
	Target string
	// Label is the physical volume of RestoreLabel and VerifyLabel.
	Label Label
	// Volume is the logical volume of Repair, Refresh, Resume and Rebuild.
	Volume string
	// Volumes are the logical volumes of DeactivatePool, RemoveUnreadable and RemovePool, their UUIDs for RemoveLost,
	// TrimVolumes, CheckVolumes, RepairVolumes, RemoveOrphans and RemoveDeleted, and the mapped devices of Unmap.
	Volumes []string
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
func PoolName(w Desired) string { return poolOf(&w.Spec) }

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
