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

// Wanted is what a LVMVolumeGroup asks of this node.
type Wanted struct {
	// Name of the device class and of its volume group.
	Name string
	// Node is the name of this node, for messages.
	Node       string
	Generation int64
	Spec       v1alpha1.LVMVolumeGroupSpec
	// Deleting: the volume group is to be removed from the node.
	Deleting bool
}

// Kind is a kind of change. A reconcile makes at most one.
type Kind string

// The kinds of change.
const (
	Nothing      Kind = ""
	CreateVG     Kind = "CreateVolumeGroup"
	ExtendVG     Kind = "ExtendVolumeGroup"
	Activate     Kind = "ActivateVolumes"
	CreatePool   Kind = "CreateThinPool"
	ExtendPool   Kind = "ExtendThinPool"
	PublishClass Kind = "PublishClass"

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
	// Pool is the size that ExtendPool gives to the pool.
	PoolSize lvm.Bytes
	// Class is what PublishClass publishes.
	Class lvmd.DeviceClass
	// PVs are the physical volumes of RemovePVs.
	PVs []lvm.PV
}

// Plan is the verdict on one look at the node: the next change, and what the status says.
type Plan struct {
	Action Action
	State  v1alpha1.VGState
	// Problems are sentences, each with what is wrong and what to do. They are the reason in the status.
	Problems []string
	// Event is the reason of the event that goes out when the problems change.
	Event EventReason
	// Excluded are the devices that are not used.
	Excluded []v1alpha1.ExcludedDevice
	// Finished: nothing of a deleted LVMVolumeGroup is left on the node.
	Finished bool
}

// NewPlan decides. It reads nothing but its arguments.
//
// The rules, in words: a volume group is made of blank devices only, and once made it never shrinks. A volume group without
// the owner tag is never touched. While a disk is missing or appears twice nothing is changed. A pool is made once, and
// grows when its volume group grew. A class is published when volumes can be made in it, and stays published while it is
// broken, since its volumes have to be found. Removal begins when no volume is left.
func NewPlan(w Wanted, s Seen) Plan {
	if w.Deleting {
		return planRemoval(w, s)
	}
	vg := s.Report.VG(w.Name)
	if problem := foreign(w, vg); problem != "" {
		return Plan{State: v1alpha1.VGStatusFailed, Problems: []string{problem}, Event: EventForeignVolumeGroup}
	}
	chosen := choose(w, s, vg)
	if vg == nil {
		return planCreation(w, chosen)
	}
	return planUpkeep(w, s, vg, chosen)
}

// foreign tells why a volume group of the right name must not be touched.
func foreign(w Wanted, vg *lvm.VG) string {
	switch {
	case vg == nil:
		return ""
	case !vg.HasTag(v1alpha1.OwnerTag):
		return fmt.Sprintf("volume group %s exists on node %s without the tag %q, so it belongs to somebody else: "+
			"remove it or rename the device class; if it is to be used as it is, run on the node: vgchange --addtag %s %s",
			w.Name, w.Node, v1alpha1.OwnerTag, v1alpha1.OwnerTag, w.Name)
	case vg.Attr.Exported():
		return fmt.Sprintf("volume group %s on node %s is exported: run on the node: vgimport %s", w.Name, w.Node, w.Name)
	case vg.Attr.Shared():
		return fmt.Sprintf("volume group %s on node %s is shared between hosts by a lock manager, which is not supported", w.Name, w.Node)
	case !vg.Attr.Writable():
		return fmt.Sprintf("volume group %s on node %s is read-only: run on the node: vgchange --permission rw %s", w.Name, w.Node, w.Name)
	}
	return ""
}

// planCreation is for a node without the volume group.
func planCreation(w Wanted, c choice) Plan {
	p := Plan{State: v1alpha1.VGStatusFailed, Excluded: c.excluded, Problems: c.problems}
	switch {
	case len(c.problems) > 0:
		p.Event = EventDevicePathCheckFailed
	case len(c.candidates) == 0:
		p.Event = EventNoAvailableDevices
		p.Problems = []string{noDevices(w, c)}
	default:
		p.State = v1alpha1.VGStatusProgressing
		p.Action = Action{Kind: CreateVG, Devices: c.candidates}
	}
	return p
}

func noDevices(w Wanted, c choice) string {
	if w.Spec.DeviceSelector != nil && len(c.excluded) == 0 {
		return fmt.Sprintf("node %s has none of the devices in optionalPaths: attach one, or take the node out of the nodeSelector", w.Node)
	}
	return fmt.Sprintf("node %s has no usable device for volume group %s: attach a blank disk, or see excluded for what is wrong with each", w.Node, w.Name)
}

// planUpkeep is for a volume group of ours.
func planUpkeep(w Wanted, s Seen, vg *lvm.VG, c choice) Plan {
	p := Plan{Excluded: c.excluded, Problems: c.problems}
	if len(c.problems) > 0 {
		p.Event = EventDevicePathCheckFailed
	}
	broken := brokenGroup(w, s, vg)
	health := append(brokenVolumes(w, vg), poolProblems(w, vg)...)
	if len(broken)+len(health) > 0 {
		p.Event = EventInconsistentVolumes
	}
	p.Problems = append(append(broken, p.Problems...), health...)
	p.Action = nextAction(w, s, vg, c, len(broken) > 0)
	p.State = stateOf(p)
	return p
}

func stateOf(p Plan) v1alpha1.VGState {
	switch {
	case len(p.Problems) > 0:
		return v1alpha1.VGStatusDegraded
	case p.Action.Kind != Nothing:
		return v1alpha1.VGStatusProgressing
	}
	return v1alpha1.VGStatusReady
}

// nextAction returns the first change that is due. In a broken group only what is read-only to LVM's metadata may happen.
func nextAction(w Wanted, s Seen, vg *lvm.VG, c choice, broken bool) Action {
	if !broken && len(c.candidates) > 0 {
		return Action{Kind: ExtendVG, Devices: c.candidates}
	}
	if hasInactive(vg) {
		return Action{Kind: Activate}
	}
	if w.Spec.ThinPoolConfig != nil && !broken {
		if action := poolAction(w.Spec.ThinPoolConfig, vg); action.Kind != Nothing {
			return action
		}
	}
	if w.Spec.ThinPoolConfig != nil && vg.ThinPool(w.Spec.ThinPoolConfig.Name) == nil {
		return Action{}
	}
	return publication(w, s)
}

// publication publishes the class if the engine has another one, or none.
func publication(w Wanted, s Seen) Action {
	class := classOf(w, s.Class)
	if s.Class != nil && reflect.DeepEqual(*s.Class, class) {
		return Action{}
	}
	return Action{Kind: PublishClass, Class: class}
}

// classOf returns the class that is wanted. What a present one has beyond that (stripes, options of lvcreate: nodes that ran
// another version have those) stays.
func classOf(w Wanted, present *lvmd.DeviceClass) lvmd.DeviceClass {
	class := lvmd.DeviceClass{}
	if present != nil {
		class = *present
	}
	class.Name, class.VolumeGroup, class.Default = w.Name, w.Name, w.Spec.Default
	if pool := w.Spec.ThinPoolConfig; pool != nil {
		class.Type = types.TypeThin
		class.ThinPoolConfig = &types.ThinPoolConfig{Name: pool.Name, OverprovisionRatio: float64(pool.OverprovisionRatio)}
		return class
	}
	var none uint64
	class.Type, class.ThinPoolConfig, class.SpareGB = types.TypeThick, nil, &none
	return class
}

// brokenGroup returns what keeps LVM from changing the group.
func brokenGroup(w Wanted, s Seen, vg *lvm.VG) []string {
	var problems []string
	for _, pv := range vg.PVs {
		if pv.Missing {
			problems = append(problems, missing(w, pv, s.Names[pv.UUID]))
		}
	}
	if vg.MissingPVs > 0 && len(problems) == 0 {
		problems = append(problems, fmt.Sprintf("volume group %s on node %s misses %d physical volumes", w.Name, w.Node, vg.MissingPVs))
	}
	for _, d := range s.Devices {
		if uuid, copied := copyOf(d, vg); copied {
			problems = append(problems, fmt.Sprintf("physical volume %s of volume group %s appears twice on node %s, the second time as %s: detach the copy", uuid, w.Name, w.Node, d.Name))
		}
	}
	return problems
}

func missing(w Wanted, pv lvm.PV, last string) string {
	where := ""
	if last != "" {
		where = ", last seen as " + last
	}
	return fmt.Sprintf("volume group %s on node %s misses the physical volume %s%s: attach the disk again; "+
		"if it is lost, its data is too: run on the node: vgreduce --removemissing %s", w.Name, w.Node, pv.UUID, where, w.Name)
}

// copyOf tells whether a device carries a physical volume of the group that LVM uses on another device.
func copyOf(d device.Device, vg *lvm.VG) (string, bool) {
	if d.Signature != signatureLVM || d.UUID == "" {
		return "", false
	}
	for _, pv := range vg.PVs {
		if pv.UUID == d.UUID && !pv.Missing && device.NewNumber(pv.Major, pv.Minor) != d.Number {
			return pv.UUID, true
		}
	}
	return "", false
}

const signatureLVM = "LVM2_member"

// brokenVolumes returns the volumes that LVM itself calls broken. The pool has rules of its own.
func brokenVolumes(w Wanted, vg *lvm.VG) []string {
	var names []string
	for i := range vg.LVs {
		if lv := &vg.LVs[i]; lv.Health != "" && !lv.Attr.IsThinPool() {
			names = append(names, fmt.Sprintf("%s (%s)", lv.Name, lv.Health))
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []string{fmt.Sprintf("logical volumes of volume group %s on node %s are broken: %s", w.Name, w.Node, strings.Join(shorten(names), ", "))}
}

// maxNames is how many names a message has.
const maxNames = 10

func shorten(names []string) []string {
	if len(names) <= maxNames {
		return names
	}
	return append(slices.Clone(names[:maxNames]), fmt.Sprintf("and %d more", len(names)-maxNames))
}

// hasInactive tells whether a volume that should be active is not. Nothing else activates them on a node without LVM's own
// autoactivation, or where the group was incomplete at boot.
func hasInactive(vg *lvm.VG) bool {
	return slices.ContainsFunc(vg.LVs, func(lv lvm.LV) bool { return shouldBeActive(lv) && !lv.Attr.Active() })
}

// shouldBeActive leaves out what LVM refuses to activate, and what an administrator marked.
func shouldBeActive(lv lvm.LV) bool { return lv.Health == "" && !lv.Attr.SkipsActivation() }
