package volumegroup

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/topolvm/topolvm/pkg/lvmd/types"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
)

// Kind is a kind of change. A reconcile makes at most one.
type Kind string

// The kinds of change.
const (
	Nothing      Kind = ""
	WipeDevice   Kind = "WipeDevice"
	CreateVG     Kind = "CreateVolumeGroup"
	UnhideVG     Kind = "UnhideVolumeGroup"
	TagVG        Kind = "TagVolumeGroup"
	ExtendVG     Kind = "ExtendVolumeGroup"
	Activate     Kind = "ActivateVolumes"
	CreatePool   Kind = "CreateThinPool"
	ExtendPool   Kind = "ExtendThinPool"
	ExtendMeta   Kind = "ExtendThinPoolMetadata"
	PublishClass Kind = "PublishClass"

	Cordon     Kind = "CordonDevice"
	Uncordon   Kind = "UncordonDevice"
	StartMove  Kind = "MoveExtents"
	ResumeMove Kind = "ResumeMove"
	AbortMove  Kind = "AbortMove"
	ReduceVG   Kind = "ReduceVolumeGroup"
	ReduceLost Kind = "ReduceVolumeGroupByLostDevices"
	Repair     Kind = "RepairVolume"
	Refresh    Kind = "RefreshVolume"

	WithdrawClass Kind = "WithdrawClass"
	RemovePool    Kind = "RemoveThinPool"
	RemoveVG      Kind = "RemoveVolumeGroup"
	RemovePVs     Kind = "RemovePhysicalVolumes"
)

// Action is one change, with what it needs.
type Action struct {
	Kind Kind
	// Devices are the blank devices of CreateVG and ExtendVG.
	Devices []device.Device
	// Hidden are the devices of UnhideVG, VGUUID is its volume group.
	Hidden []device.Device
	VGUUID string
	// Wipe is the device of WipeDevice.
	Wipe wipeTarget
	// Size is what ExtendPool gives to the pool, what ExtendMeta adds to its metadata, and the free space of the group
	// for CreatePool.
	Size lvm.Bytes
	// Class is what PublishClass publishes.
	Class lvmd.DeviceClass
	// PVs are the physical volumes of RemovePVs, RemoveVG, and of all that is done with one device.
	PVs []lvm.PV
	// Volume is the logical volume of Repair and Refresh.
	Volume string
	// AddTags and RemoveTags are those of TagVG.
	AddTags, RemoveTags []string
}

// Problem is one thing that is wrong, and what to do about it.
type Problem struct {
	// Event is the reason of the event that tells of it.
	Event EventReason
	// Condition is the type of the condition that it makes False, and Reason the reason there; both are empty for a
	// problem of the setup, which is no matter of health.
	Condition, Reason string
	Message           string
	// Unknown: it makes the condition Unknown, not False.
	Unknown bool
	// Volumes are the logical volumes at risk; WholeClass: all of the device class are, and LVM cannot list them.
	Volumes    []string
	WholeClass bool
}

// Plan is the verdict on one look at the node: the next change, and what the status says.
type Plan struct {
	Action Action
	State  v1alpha1.VGState
	// Problems, the gravest first. They are the reason in the status.
	Problems []Problem
	// Note says what goes on where nothing is wrong.
	Note string
	// Excluded are the devices that are not used.
	Excluded []v1alpha1.ExcludedDevice
	// Devices has what is to be said about physical volumes of the group, by UUID.
	Devices map[string]deviceNote
	// Waiting: something happens without the agent, and is to be looked at soon.
	Waiting bool
	// Lost: the volume group was there and is not; what the status knew about it is kept.
	Lost bool
	// Finished: nothing of a deleted LVMVolumeGroup is left on the node.
	Finished bool
}

// event is the reason of the event for the problems.
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

// NewPlan decides. It reads nothing but its arguments.
//
// The rules, in words: a volume group is made of blank devices only, and once made it shrinks only by a device that
// somebody asked to remove and that is empty. A volume group without the owner tag, or of another cluster or node, is
// never touched. One that was there and is no longer is not recreated. While a disk is missing or appears twice
// nothing is changed but what brings the redundancy of volumes back. A pool is made once, and grows when its volume
// group grew or when it is to grow by itself. A class is published when volumes can be made in it, and stays published
// while it is broken, since its volumes have to be found. Removal begins when no volume is left.
func NewPlan(w Wanted, s Seen) Plan {
	switch {
	case w.Deleting:
		return planRemoval(w, s)
	case w.Leaving:
		return planLeaving(w, s)
	}
	vg := groupOf(w, s)
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
	if hidden := hiddenGroup(w, s); vg == nil && len(hidden) > 0 {
		return planHidden(w, s, hidden, chosen)
	}
	if vg == nil && wasThere(w, s) {
		return Plan{State: v1alpha1.VGStatusDegraded, Problems: append(lostGroup(w, s), chosen.problems...),
			Excluded: chosen.excluded, Lost: true}
	}
	if vg == nil {
		return planCreation(w, s, chosen)
	}
	return planUpkeep(w, s, vg, chosen)
}

// planCreation is for a node without the volume group.
func planCreation(w Wanted, s Seen, c choice) Plan {
	p := Plan{State: v1alpha1.VGStatusFailed, Excluded: c.excluded, Problems: c.problems, Waiting: c.waiting}
	switch {
	case w.Taint != "":
		return Plan{State: v1alpha1.VGStatusReady, Excluded: c.excluded, Note: fmt.Sprintf(
			"node %s has the taint %s, which spec.tolerations of the LVMCluster does not tolerate: no volume group "+
				"of device class %s is created there", w.Node, w.Taint, w.Name)}
	case s.Hidden.Err != nil:
		// One of the name may be on a disk that LVM does not list.
		p.Problems = append(p.Problems, Problem{Event: EventObserveFailed, Message: fmt.Sprintf(
			"no volume group %s is created on node %s: %v", w.Name, w.Node, s.Hidden.Err)})
	case len(c.wipes) > 0:
		p.State = v1alpha1.VGStatusProgressing
		p.Action = Action{Kind: WipeDevice, Wipe: c.wipes[0]}
	case len(c.problems) > 0:
	case len(c.candidates) > 0 && raidProblem(w, s, len(c.candidates)) != "":
		p.Problems = []Problem{{Event: EventNoAvailableDevices, Message: raidProblem(w, s, len(c.candidates))}}
	case len(c.candidates) > 0:
		p.State = v1alpha1.VGStatusProgressing
		p.Action = Action{Kind: CreateVG, Devices: c.candidates}
	case c.waiting:
		p.State = v1alpha1.VGStatusProgressing
		p.Note = "waiting until the new devices have been there for a minute"
	case c.blocked > 0 || requires(w):
		p.Problems = []Problem{{Event: EventNoAvailableDevices, Message: fmt.Sprintf(
			"node %s has no usable device for volume group %s: attach a blank disk, or see excluded for what is "+
				"wrong with each", w.Node, w.Name)}}
	default:
		// A node that has nothing of what may be used is as the device class wants it.
		p.State, p.Note = v1alpha1.VGStatusReady,
			fmt.Sprintf("node %s has no device for device class %s, and no volume group of it", w.Node, w.Name)
	}
	return p
}

// requires tells whether the device class asks for a device on every node.
func requires(w Wanted) bool {
	return slices.ContainsFunc(w.Selectors, func(s v1alpha1.DeviceSelector) bool { return len(s.Paths) > 0 })
}

// planUpkeep is for a volume group of ours.
func planUpkeep(w Wanted, s Seen, vg *lvm.VG, c choice) Plan {
	requests := planDevices(w, s, vg)
	broken := brokenGroup(w, s, vg)
	p := Plan{Excluded: c.excluded, Devices: requests.notes, Waiting: c.waiting || requests.waiting}
	p.Problems = slices.Concat(broken, c.problems, requests.problems, brokenVolumes(w, s, vg), poolProblems(w, s, vg),
		raidProblems(w, vg), blindness(w, s))
	p.Action = nextAction(w, s, vg, c, requests, len(broken) > 0)
	p.State = stateOf(p)
	if p.State == v1alpha1.VGStatusReady {
		p.Note = requests.note
	}
	return p
}

func stateOf(p Plan) v1alpha1.VGState {
	// Synchronization passes by itself.
	passing := !slices.ContainsFunc(p.Problems, func(q Problem) bool { return q.Reason != v1alpha1.ReasonRAIDSyncing })
	switch {
	case !passing:
		return v1alpha1.VGStatusDegraded
	case len(p.Problems) > 0 || p.Action.Kind != Nothing:
		return v1alpha1.VGStatusProgressing
	}
	return v1alpha1.VGStatusReady
}

// nextAction returns the first change that is due. In a broken group nothing happens but what is read-only to LVM's
// metadata, and the repair that somebody asked for.
func nextAction(w Wanted, s Seen, vg *lvm.VG, c choice, requests deviceRequests, broken bool) Action {
	due := []Action{}
	if !broken {
		due = append(due, labelsLeft(s), tagging(w, vg))
		if len(c.wipes) > 0 {
			due = append(due, Action{Kind: WipeDevice, Wipe: c.wipes[0]})
		}
		if len(c.candidates) > 0 {
			due = append(due, Action{Kind: ExtendVG, Devices: c.candidates})
		}
	} else if w.Spec.RAIDConfig != nil && len(c.candidates) > 0 && !hasDuplicates(s, vg) && allAccepted(w, s, vg) {
		// A group that lost a device needs a new one before it can be repaired. LVM extends it, and writes down that
		// the device is missing: for good, so only if somebody gave it up.
		due = append(due, Action{Kind: ExtendVG, Devices: c.candidates})
	}
	if hasInactive(vg) {
		due = append(due, Action{Kind: Activate})
	}
	due = append(due, requests.action, refresh(s, vg))
	if w.Spec.ThinPoolConfig != nil && !broken {
		due = append(due, poolAction(w.Spec.ThinPoolConfig, vg))
	}
	if at := slices.IndexFunc(due, func(a Action) bool { return a.Kind != Nothing }); at >= 0 {
		return due[at]
	}
	if w.Spec.ThinPoolConfig != nil && vg.ThinPool(w.Spec.ThinPoolConfig.Name) == nil {
		return Action{}
	}
	return publication(w, s, vg)
}

// publication publishes the class if the engine has another one, or none.
func publication(w Wanted, s Seen, vg *lvm.VG) Action {
	class := classOf(w, s.Class, vg.UUID)
	if s.Class != nil && reflect.DeepEqual(*s.Class, class) {
		return Action{}
	}
	return Action{Kind: PublishClass, Class: class}
}

// classOf returns the class that is wanted, of the volume group with this UUID. What a present one has beyond that
// (stripes, options of lvcreate: nodes that ran another version have those) stays.
func classOf(w Wanted, present *lvmd.DeviceClass, uuid string) lvmd.DeviceClass {
	class := lvmd.DeviceClass{}
	if present != nil {
		class = *present
	}
	class.VolumeGroupUUID = uuid
	class.Name = w.Name
	class.VolumeGroup = w.Name
	class.Default = w.Spec.Default && !w.Leaving
	class.Closed = ""
	if w.Leaving {
		class.Closed = fmt.Sprintf("the device class no longer selects node %s", w.Node)
	}
	if pool := w.Spec.ThinPoolConfig; pool != nil {
		class.Type = types.TypeThin
		class.ThinPoolConfig = &lvmd.ThinPoolConfig{Name: pool.Name,
			OverprovisionRatio: float64(pool.OverprovisionRatio)}
		// The usual mark is not written down: the file stays one that other versions and a stock lvmd know.
		if pool.HighWaterMarkPercent != lvmd.DefaultHighWaterMark {
			class.ThinPoolConfig.HighWaterMarkPercent = pool.HighWaterMarkPercent
		}
		return class
	}
	var none uint64
	class.Type = types.TypeThick
	class.ThinPoolConfig = nil
	class.SpareGB = &none
	if raid := w.Spec.RAIDConfig; raid != nil {
		class.LVCreateOptions = raidOptions(raid)
	}
	return class
}

// labelsLeft removes the labels of devices that were taken out of the group.
func labelsLeft(s Seen) Action {
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

// hasInactive tells whether a volume that should be active is not. Nothing else activates them on a node without LVM's
// own autoactivation, or where the group was incomplete at boot.
func hasInactive(vg *lvm.VG) bool {
	return slices.ContainsFunc(vg.LVs, func(lv lvm.LV) bool { return shouldBeActive(lv) && !lv.Attr.Active() })
}

// shouldBeActive leaves out what LVM refuses to activate, and what an administrator marked.
func shouldBeActive(lv lvm.LV) bool { return lv.Health == "" && !lv.Attr.SkipsActivation() }

// maxNames is how many names a message has.
const maxNames = 10

func shorten(names []string) []string {
	if len(names) <= maxNames {
		return names
	}
	return append(slices.Clone(names[:maxNames]), fmt.Sprintf("and %d more", len(names)-maxNames))
}

func joined(names []string) string { return strings.Join(shorten(names), ", ") }
