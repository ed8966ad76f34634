package plan

import (
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/doubt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/filesystems"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/labels"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/members"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/orphans"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/poolrepair"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/poolspace"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/publication"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/redundancy"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/rollback"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// situation is a volume group of this node, with what was decided about its devices.
type situation struct {
	desired  state.Desired
	s        state.NodeState
	vg       *lvm.VG
	choice   selection.Choice
	requests members.Requests
	// broken: a device is missing, copied, failing or smaller. repairing: a recovery repairs the thin pool.
	broken, repairing bool
}

// due are the changes of a subject that are due.
type due []state.Action

// subject decides about one part of a volume group. It is asked only in the groups for which in returns true.
type subject struct {
	in      func(situation) bool
	changes func(situation) due
}

func always(situation) bool         { return true }
func isWhole(n situation) bool      { return !n.broken }
func isRepairing(n situation) bool  { return n.repairing }
func isSettled(n situation) bool    { return !n.broken && !n.repairing }
func notRepairing(n situation) bool { return !n.repairing }

// lacksDevice returns true if volumes with redundancy need a new device. LVM extends the group and permanently marks
// the missing device as missing, so the removal of that device must have been requested.
func lacksDevice(n situation) bool {
	return n.broken && n.desired.Spec.RAIDConfig != nil && !ownership.HasDuplicates(n.s, n.vg) &&
		members.AllAccepted(n.desired, n.s, n.vg)
}

// hasPool returns true if the thin pool can be changed or created.
func hasPool(n situation) bool {
	return isSettled(n) && n.desired.Spec.ThinPoolConfig != nil && !thinpool.HasLost(n.desired, n.s, n.vg)
}

// order are the subjects of a volume group in the order in which their changes are made. In a broken group, only
// changes are made that do not write LVM's metadata, requested repairs and removals, and the extension that a requested
// repair requires.
var order = []subject{
	// The labels of removed devices, whose records are kept until they are gone.
	{isWhole, func(n situation) due { return due{labelsLeft(n.s)} }},
	// Tags name the owner, so they come before all that relies on the group being this node's.
	{isWhole, func(n situation) due { return due{ownership.Tagging(n.desired, n.vg)} }},
	// A device is wiped before the group can be extended by it.
	{isWhole, func(n situation) due { return selection.WipeActions(n.choice.Wipes) }},
	{isWhole, extension},
	{isWhole, func(n situation) due { return health.ResizeActions(n.desired, n.s, n.vg) }},
	// A group that lost a device requires a new one before it can be repaired.
	{lacksDevice, extension},
	// What an approved recovery restores comes before activation: volumes must not be used with wrong metadata.
	{always, func(n situation) due { return due{doubt.AcceptAction(n.desired, n.s)} }},
	{always, func(n situation) due { return due{labels.Action(n.desired, n.s, n.vg)} }},
	// LVM does not activate a pool or RAID volume while a part of it is active, which a killed command leaves.
	{always, func(n situation) due { return due{poolrepair.ComponentLeft(n.desired, n.s, n.vg)} }},
	{always, func(n situation) due { return due{redundancy.CloseImages(n.vg)} }},
	{always, func(n situation) due { return due{health.Resume(n.s, n.vg)} }},
	// A pool that is being repaired stays inactive.
	{isRepairing, func(n situation) due { return due{poolrepair.Action(n.desired, n.s, n.vg)} }},
	{notRepairing, activation},
	// Requests for single devices, and the removal of lost ones, once the volumes are active.
	{always, func(n situation) due { return n.requests.Actions }},
	{always, func(n situation) due { return due{redundancy.Refresh(n.s, n.vg)} }},
	{hasPool, func(n situation) due { return due{thinpool.Unfinished(n.desired.Spec.ThinPoolConfig, n.s, n.vg)} }},
	// The pool gets space before anything frees some of it.
	{hasPool, func(n situation) due { return due{thinpool.Action(n.desired.Spec.ThinPoolConfig, n.s, n.vg)} }},
	{hasPool, func(n situation) due { return due{poolspace.Action(n.desired, n.s, n.vg)} }},
	// What takes long, or removes volumes, is last.
	{isSettled, func(n situation) due { return due{orphans.Action(n.desired, n.s, n.vg)} }},
	{isSettled, func(n situation) due { return due{orphans.DeletedAction(n.s, n.vg)} }},
	{isSettled, func(n situation) due { return due{filesystems.Action(n.desired, n.s, n.vg)} }},
}

func extension(n situation) due {
	if len(n.choice.Candidates) == 0 {
		return nil
	}
	devices := n.choice.Candidates
	return due{{Kind: state.ExtendVG, Target: state.Devices(devices), Change: lvm.VGExtend{Name: n.desired.Name,
		Devices: device.Names(devices), MetadataSize: members.MetadataSize(devices, n.vg)}}}
}

func activation(n situation) due {
	if !HasInactive(n.vg) || n.s.Records.Attempts[state.PoolName(n.desired)].Waiting {
		return nil
	}
	return due{{Kind: state.Activate, Change: lvm.VGActivate{VG: n.desired.Name}}}
}

// dueActions returns the changes that are due, in their order. The class is published last, when volumes can be created
// in it. It is closed first, before an activation, which can take long.
func dueActions(n situation) []state.Action {
	held := doubt.HeldBack(n.desired, n.s, n.vg)
	published := publication.Action(n.desired, n.s, n.vg)
	if held != "" && n.s.Class != nil && published.Kind != state.Nothing {
		return []state.Action{published}
	}
	if rollback.RollsBack(n.desired, n.s, n.vg) {
		return []state.Action{poolrepair.ComponentLeft(n.desired, n.s, n.vg), redundancy.CloseImages(n.vg),
			rollback.Action(n.desired, n.s, n.vg)}
	}
	actions := []state.Action{}
	for _, subject := range order {
		if subject.in(n) {
			actions = append(actions, subject.changes(n)...)
		}
	}
	actions = slices.DeleteFunc(actions, func(a state.Action) bool {
		return a.Kind == state.Nothing || a.Kind.Waits(n.vg, held) != ""
	})
	if config := n.desired.Spec.ThinPoolConfig; config != nil && n.vg.ThinPool(config.Name) == nil {
		return actions
	}
	return append(actions, published)
}
