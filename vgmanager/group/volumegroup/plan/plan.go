// Package plan decides the next change of a volume group on this node and the status to report.
//
// Its functions depend only on their arguments: the desired state (Desired) and an observation of the node (NodeState).
// They read no files, run no programs and have no clock; the rules of test/arch ensure that. Package volumegroup
// observes the node, performs the action of the plan and writes the status.
//
// New is the entry point. Each subject has a file:
//
//   - desired.go, state.go: the arguments: desired state and observation
//   - doubt.go, seen.go: whether the metadata is current, and which changes wait while it is in doubt
//   - unmatched.go: requests, labels and approvals whose device has another identity now
//   - choose.go, verdict.go: which devices a device class uses, and why it excludes others
//   - peers.go: which devices other nodes see as well
//   - approval.go: which devices are approved for a device class that requires it
//   - wipe.go, hidden.go: what protects a device from a wipe, and physical volumes that LVM does not list
//   - destroy.go: volume groups that are destroyed with consent
//   - owner.go, namesake.go: whether a volume group belongs to this node, and several with the same name
//   - recovery.go, repair.go, freespace.go, recovery_status.go: approved recoveries and their status
//   - filesystems.go: the check and the repair of file systems, and its status
//   - deleted.go, rollback.go, extents.go: earlier metadata of a volume group, and what its restore changes
//   - existing.go: device classes on volume groups that an administrator created
//   - pool.go, stripes.go, raid.go: size and problems of the thin pool, with and without stripes, and of volumes with
//     redundancy
//   - drain.go: requests to cordon, drain and remove devices, with the check of the free space on the others
//   - metadataarea.go, cached.go: the space for LVM's metadata, and caches that an administrator attached
//   - suspend.go: requests to suspend devices
//   - removal.go: the removal of the volume group
//   - doubt.go: which changes are not made while the metadata may be from an earlier time, or a device is missing
//   - health.go, status.go, events.go: problems, the entry in the node status, and events
package plan

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/topolvm/topolvm/pkg/lvmd/types"

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
	// Devices are the blank devices of CreateVG and ExtendVG.
	Devices []device.Device
	// Hidden are the devices of UnhideVG. VGUUID is its volume group, and that of RenameVG and DeactivateVG.
	Hidden []device.Device
	VGUUID string
	// Wipe is the device of WipeDevice, and the one for which DeactivateVG deactivates a volume group.
	Wipe WipeTarget
	// Size is the new size of the pool for ExtendPool, and the size to add to its metadata for ExtendMeta.
	Size lvm.Bytes
	// Pool is the thin pool of CreatePool.
	Pool lvm.LVCreateThinPool
	// Discards is LVM's mode of discards for SetDiscards.
	Discards string
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
	// AddTags and RemoveTags are the tags of TagVG.
	AddTags, RemoveTags []string
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
	// notes are the states of physical volumes of the group that are not from LVM, by UUID.
	notes map[string]deviceNote
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

// event returns the reason of the event for the problems.
func (p Plan) event() EventReason {
	for _, problem := range p.Problems {
		if problem.Event != "" {
			return problem.Event
		}
	}
	return ""
}

func (p Plan) messages() []string {
	var list []string
	for _, problem := range p.Problems {
		if !slices.Contains(list, problem.Message) {
			list = append(list, problem.Message)
		}
	}
	return list
}

// New returns the plan. It depends only on its arguments.
//
// Rules: A volume group is created only on blank devices. After that, it shrinks only by an empty device whose
// removal was requested. A volume group without the owner tag, or of another cluster or node, is never changed. A
// missing volume group is not recreated. While a disk is missing or duplicate, the only changes are those that
// restore the redundancy of volumes. A pool is created once. It is extended when its volume group was extended, or by
// automatic extension. A class is published when volumes can be created in it. It stays published while it is broken,
// because requests must find its volumes. Removal starts when no volume is left.
func New(w Desired, s NodeState) Plan {
	switch {
	case w.UsesExisting():
		return planExisting(w, s)
	case w.Deleting:
		return planRemoval(w, s)
	case w.Leaving:
		return planLeaving(w, s)
	}
	if p := planNamesake(w, s); p != nil {
		return *p
	}
	vg := GroupOf(w, s)
	if problems := namesakes(w, s); len(problems) > 0 {
		return Plan{State: v1alpha1.VGStatusDegraded, Problems: problems, Lost: vg == nil}
	}
	if problem := foreign(w, s.Report.VG(w.Name)); problem != "" {
		return Plan{
			State: v1alpha1.VGStatusFailed, Problems: []Problem{{Event: EventForeignVolumeGroup, Message: problem}},
			Lost: vg == nil && wasThere(w, s),
		}
	}
	chosen := choose(w, s, vg)
	if p := planRename(w, s, vg); p != nil {
		p.Excluded = chosen.excluded
		return *p
	}
	if hidden := hiddenGroup(w, s); vg == nil && len(hidden) > 0 {
		return planHidden(w, s, hidden, chosen)
	}
	if vg == nil && wasThere(w, s) {
		return Plan{State: v1alpha1.VGStatusDegraded, Problems: append(lostGroup(w, s), chosen.problems...),
			Excluded: chosen.excluded, Lost: true, Action: restoreAction(w, s)}
	}
	if vg == nil {
		p := planCreation(w, s, chosen)
		// The status keeps the lost devices until the group exists again.
		p.Lost = w.Recovery != nil && wasThere(withoutRecovery(w), s)
		return p
	}
	return planUpkeep(w, s, vg, chosen)
}

// planCreation is the plan for a node without the volume group.
func planCreation(w Desired, s NodeState, c choice) Plan {
	p := Plan{State: v1alpha1.VGStatusFailed, Excluded: c.excluded, Problems: c.problems, Waiting: c.waiting,
		Doubtful: c.doubtful, AwaitsListing: len(c.unlisted) > 0}
	switch {
	case w.Taint != "":
		return Plan{State: v1alpha1.VGStatusReady, Excluded: c.excluded, Note: fmt.Sprintf(
			"node %s has the taint %s, which spec.tolerations of the LVMCluster does not tolerate: no volume group "+
				"of device class %s is created there", w.Node, w.Taint, w.Name)}
	case s.Hidden.Err != nil:
		// A disk that LVM does not list may have a group with the name.
		p.Problems = append(p.Problems, Problem{Event: EventObserveFailed, Message: fmt.Sprintf(
			"volume group %s is not created on node %s: %v", w.Name, w.Node, s.Hidden.Err)})
	case len(s.Mapped) > 0:
		// The removal of all devices of the previous group was requested or approved. LVM does not create a group
		// while its volumes are mapped.
		p.Action = Action{Kind: Unmap, Volumes: s.Mapped}
	case len(c.unlisted) > 0:
		// A group gets all its devices when it is created: policy Static adds none later.
		p.State, p.Note = v1alpha1.VGStatusProgressing, waitForListing(w, c)
	case len(c.wipes) > 0:
		p.State = v1alpha1.VGStatusProgressing
		p.Action = nextOf(s, wipeActions(c.wipes))
	case len(c.problems) > 0:
	case len(c.unapproved) > 0 && (len(c.candidates) == 0 || startProblem(w, s, len(c.candidates)) != ""):
		p.State = v1alpha1.VGStatusProgressing
		p.Note = waitForApproval(w, c)
	case len(c.candidates) > 0 && startProblem(w, s, len(c.candidates)) != "":
		p.Problems = []Problem{{Event: EventNoAvailableDevices, Message: startProblem(w, s, len(c.candidates))}}
	case len(c.candidates) > 0:
		p.State = v1alpha1.VGStatusProgressing
		p.Action = Action{Kind: CreateVG, Devices: c.candidates}
	case c.waiting:
		p.State = v1alpha1.VGStatusProgressing
		p.Note = "waiting until the new devices have been attached for a minute"
	case c.blocked > 0 || requires(w):
		p.Problems = []Problem{{Event: EventNoAvailableDevices, Message: fmt.Sprintf(
			"volume group %s does not exist on node %s, because there were no available devices to create it: attach "+
				"a blank disk, or see excluded for why each device cannot be used", w.Name, w.Node)}}
	default:
		// If the node has no usable device and the device class requires none, the node is ready.
		p.State, p.Note = v1alpha1.VGStatusReady,
			fmt.Sprintf("node %s has no volume group of device class %s, and needs none: there were no available "+
				"devices to create it", w.Node, w.Name)
	}
	return p
}

// requires returns true if the device class requires a device on every node.
func requires(w Desired) bool {
	return slices.ContainsFunc(w.Selectors, func(s v1alpha1.DeviceSelector) bool { return len(s.Paths) > 0 })
}

// planUpkeep is the plan for a volume group of this node.
func planUpkeep(w Desired, s NodeState, vg *lvm.VG, c choice) Plan {
	requests := planDevices(w, s, vg)
	broken := brokenGroup(w, s, vg)
	p := Plan{Excluded: c.excluded, notes: requests.notes, LookedAtHealth: true,
		Waiting:  c.waiting || requests.waiting || s.ErasingWaits != "",
		Doubtful: c.doubtful, AwaitsListing: len(c.unlisted) > 0}
	p.Problems = slices.Concat(broken, c.problems, requests.problems, brokenVolumes(w, s, vg),
		replacedProblems(w, s, vg), seenProblems(w, s, vg), poolProblems(w, s, vg), stripesProblems(w, vg),
		thickProblems(w, vg), raidProblems(w, vg), metadataAreaProblems(w, vg), unknownHealth(w, s))
	due := dueActions(w, s, vg, c, requests, len(broken) > 0)
	p.Action = nextOf(s, due)
	p.Problems = append(p.Problems, failures(s, due, p.Action)...)
	p.State = stateOf(p)
	if p.State == v1alpha1.VGStatusReady {
		p.Note = cmp.Or(requests.note, unmatched(w, s, vg), cacheNote(vg))
	}
	return p
}

func stateOf(p Plan) v1alpha1.VGState {
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

// dueActions returns the changes that are due, in their order. In a broken group it only returns changes that do not
// write LVM's metadata, requested repairs and removals, and the extension that a requested repair requires.
func dueActions(w Desired, s NodeState, vg *lvm.VG, c choice, requests deviceRequests, broken bool) []Action {
	held := heldBack(w, s, vg)
	if closing := publication(w, s, vg); held != "" && s.Class != nil && closing.Kind != Nothing {
		return []Action{closing} // before an activation, which can take long
	}
	due := []Action{}
	if rollsBack(w, s, vg) {
		return []Action{componentLeft(w, s, vg), rollbackAction(w, s, vg)}
	}
	if !broken {
		due = append(due, labelsLeft(s), tagging(w, vg))
		due = append(due, wipeActions(c.wipes)...)
		if len(c.candidates) > 0 {
			due = append(due, Action{Kind: ExtendVG, Devices: c.candidates})
		}
		due = append(due, resizeActions(w, s, vg)...)
	} else if w.Spec.RAIDConfig != nil && len(c.candidates) > 0 && !hasDuplicates(s, vg) && allAccepted(w, s, vg) {
		// A group that lost a device requires a new one before it can be repaired. LVM extends the group and
		// permanently marks the device as missing, so the removal of the device must have been requested.
		due = append(due, Action{Kind: ExtendVG, Devices: c.candidates})
	}
	due = append(due, acceptAction(w, s), labelAction(w, s, vg), componentLeft(w, s, vg), resume(s, vg))
	repairing := repairs(w, s, vg)
	switch {
	case repairing:
		due = append(due, repairAction(w, s, vg))
	case HasInactive(vg) && !s.Attempts[poolName(w)].Waiting:
		due = append(due, Action{Kind: Activate})
	}
	due = append(append(due, requests.actions...), refresh(s, vg))
	if w.Spec.ThinPoolConfig != nil && !broken && !repairing && !hasLostPool(w, s, vg) {
		due = append(due, poolAction(w.Spec.ThinPoolConfig, vg), trimAction(w, s, vg))
	}
	if !broken && !repairing {
		due = append(due, orphanAction(w, s, vg), deletedAction(s, vg), checkAction(w, s, vg))
	}
	due = slices.DeleteFunc(due, func(a Action) bool { return a.Kind == Nothing || a.Kind.waits(vg, held) != "" })
	if w.Spec.ThinPoolConfig != nil && vg.ThinPool(w.Spec.ThinPoolConfig.Name) == nil {
		return due
	}
	return append(due, publication(w, s, vg))
}

// poolName returns the name of the thin pool of a device class, or "".
func poolName(w Desired) string { return poolOf(&w.Spec) }

// publication publishes the class if the engine does not have it, or has a different one.
func publication(w Desired, s NodeState, vg *lvm.VG) Action {
	class := classOf(w, s.Class, vg.UUID)
	if why := doubt(w, s, vg); why != "" {
		// New volumes could overwrite those that the metadata does not have, and so could the erasure of a volume.
		class.Closed, class.NoRemoval = why, why
	}
	if s.Class != nil && reflect.DeepEqual(*s.Class, class) {
		return Action{}
	}
	return Action{Kind: PublishClass, Class: class}
}

// classOf returns the desired class for the volume group with this UUID. Without thickConfig, it keeps additional
// settings of a present class (stripes, lvcreate options), which nodes that ran another version have.
func classOf(w Desired, present *deviceclass.Class, uuid string) deviceclass.Class {
	class := deviceclass.Class{}
	if present != nil {
		class = *present
	}
	class.VolumeGroupUUID = uuid
	class.Name = w.Name
	class.VolumeGroup = w.Group()
	class.ExistingVolumeGroup = w.UsesExisting()
	class.Default = w.Spec.Default && !w.Leaving
	class.Closed, class.NoRemoval = "", ""
	class.EraseOnDelete = string(w.Spec.EraseOnDelete)
	class.NamespaceLimits = namespaceLimits(w.Spec.NamespaceLimits)
	switch {
	case w.Leaving:
		class.Closed = fmt.Sprintf("the device class no longer selects node %s", w.Node)
	case w.Deleting:
		class.Closed = fmt.Sprintf("device class %s is being deleted", w.Name)
	}
	if pool := w.Spec.ThinPoolConfig; pool != nil {
		class.Type = types.TypeThin
		class.ThinPoolConfig = &deviceclass.ThinPool{Name: pool.Name,
			OverprovisionRatio: float64(pool.OverprovisionRatio)}
		// The default mark is omitted, so that other versions and TopoLVM's lvmd can read the file.
		if pool.HighWaterMarkPercent != deviceclass.DefaultHighWaterMark {
			class.ThinPoolConfig.HighWaterMarkPercent = pool.HighWaterMarkPercent
		}
		return class
	}
	var none uint64
	class.Type = types.TypeThick
	class.ThinPoolConfig = nil
	class.SpareGB = &none
	setPlacement(&class, w.Spec.ThickConfig)
	if raid := w.Spec.RAIDConfig; raid != nil {
		class.LVCreateOptions = raidOptions(raid)
	}
	return class
}

// labelsLeft removes the labels of devices that were removed from the group.
func labelsLeft(s NodeState) Action {
	a := Action{}
	for _, pv := range s.Report.Unassigned {
		if slices.Contains(s.Released, pv.UUID) {
			a.PVs = append(a.PVs, pv)
		}
	}
	if len(a.PVs) > 0 {
		a.Kind = RemovePVs
	}
	return a
}

// HasInactive returns true if a volume is inactive that should be active. The agent activates such volumes on a node
// without LVM's autoactivation, or if the group was incomplete at boot.
func HasInactive(vg *lvm.VG) bool {
	return slices.ContainsFunc(vg.LVs, func(lv lvm.LV) bool { return shouldBeActive(lv) && !lv.Attr.Active() })
}

// shouldBeActive returns false for volumes that LVM refuses to activate, and for volumes with the activation-skip
// flag.
func shouldBeActive(lv lvm.LV) bool { return lv.Health == "" && !lv.Attr.SkipsActivation() }

// maxNames is the maximum number of names in a message.
const maxNames = 10

func shorten(names []string) []string {
	if len(names) <= maxNames {
		return names
	}
	return append(slices.Clone(names[:maxNames]), fmt.Sprintf("and %d more", len(names)-maxNames))
}

func joined(names []string) string { return strings.Join(shorten(names), ", ") }
