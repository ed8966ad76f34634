package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// doubt returns why the metadata of the volume group may be from an earlier time than its data, or "". Then space that
// the metadata calls free can have data, and the extents of a logical volume can have the data of another one. What
// cannot be read is doubtful too.
func doubt(w Desired, s NodeState, vg *lvm.VG) string {
	for _, why := range []string{replacementDoubt(w, s), seenDoubt(w, s, vg)} {
		if why != "" {
			return why
		}
	}
	if vg != nil && errors.Is(s.PoolFault, lvm.ErrTransaction) && !vg.IsPoolActive(poolName(w)) {
		return fmt.Sprintf("the metadata of volume group %s on node %s does not fit that of its thin pool %s: one of "+
			"them is from an earlier time", w.Name, w.Node, poolName(w))
	}
	return ""
}

// replacementDoubt is the part of doubt that follows from volumes of the API which the volume group does not have.
func replacementDoubt(w Desired, s NodeState) string {
	switch {
	case s.Replaced.Err != nil:
		return fmt.Sprintf("volume group %s on node %s does not have all volumes of the device class, and it is not "+
			"known whether its metadata was replaced with that of an earlier time: %v", w.Name, w.Node, s.Replaced.Err)
	case len(s.Replaced.Volumes) > 0:
		return fmt.Sprintf("the metadata of volume group %s on node %s was replaced with that of an earlier time, and "+
			"space that it calls free can have data: %s", w.Name, w.Node, rollbackHint(w))
	}
	return ""
}

// conditions are the conditions of a volume group in which a kind of change is made.
type conditions struct {
	// doubtful: while the metadata is in doubt. Changes are not made if they take, move, overwrite or release extents,
	// or remove a pool, a volume group or a label, and neither are changes of the metadata that can wait: they would
	// make its archive longer.
	doubtful bool
	// incomplete: while a physical volume is missing. LVM refuses other changes, or marks the physical volume as
	// missing for good.
	incomplete bool
	// first: the changes after it need it, so they wait if it fails (nextOf).
	first bool
}

// allowed has each kind of change.
var allowed = map[Kind]conditions{
	Nothing:      {doubtful: true, incomplete: true},
	DeactivateVG: {incomplete: true},
	WipeDevice:   {incomplete: true},
	CreateVG:     {},
	UnhideVG:     {doubtful: true, incomplete: true},
	TagVG:        {first: true},
	RenameVG:     {},
	// Volumes with redundancy need another device. The removal of the missing one is requested.
	ExtendVG:     {incomplete: true},
	ResizePV:     {},
	Activate:     {doubtful: true, incomplete: true},
	CreatePool:   {first: true},
	ExtendPool:   {},
	ExtendMeta:   {},
	SetDiscards:  {},
	PublishClass: {doubtful: true, incomplete: true},

	Cordon:   {},
	Uncordon: {},
	// A suspended device keeps new Pods from data that may be wrong.
	SuspendPV:  {doubtful: true},
	ResumePV:   {doubtful: true},
	StartMove:  {},
	ResumeMove: {incomplete: true},
	AbortMove:  {},
	ReduceVG:   {},
	ReduceLost: {incomplete: true},
	Repair:     {incomplete: true},
	// The same tables are loaded again.
	Refresh: {doubtful: true},
	Resume:  {doubtful: true},
	Rebuild: {},

	Unmap:            {incomplete: true},
	DeactivatePool:   {doubtful: true, incomplete: true},
	RemoveUnreadable: {incomplete: true},
	InspectPool:      {doubtful: true},
	CloseMetadata:    {doubtful: true, incomplete: true, first: true},
	RepairPool:       {},
	// The pool's own metadata is compared with that of the volume group before.
	ActivatePool: {doubtful: true},
	RemoveLost:   {},
	// Labels are restored in a volume group that misses devices. Metadata is restored to end the doubt.
	RestoreLabel:   {doubtful: true, incomplete: true},
	VerifyLabel:    {doubtful: true, incomplete: true},
	RestoreGroup:   {doubtful: true},
	RestoreEarlier: {doubtful: true},
	TrimVolumes:    {},
	AcceptMetadata: {doubtful: true},
	CheckVolumes:   {doubtful: true},
	RepairVolumes:  {},
	RemoveOrphans:  {},
	RemoveDeleted:  {},

	WithdrawClass: {doubtful: true, incomplete: true},
	RemovePool:    {},
	RemoveVG:      {},
	RemovePVs:     {},
}

// waits returns why a change of the volume group has to wait, or "". held is the result of heldBack.
func (k Kind) waits(vg *lvm.VG, held string) string {
	switch {
	case held != "" && !allowed[k].doubtful:
		return held
	case vg.MissingPVs > 0 && !allowed[k].incomplete:
		return "LVM does not change it while a device of the volume group is missing"
	}
	return ""
}

// heldBack returns why changes that are not made while the metadata is in doubt have to wait, or "". An approved
// recovery that removes lost devices does not wait: the data is lost, and the metadata cannot be restored without them.
func heldBack(w Desired, s NodeState, vg *lvm.VG) string {
	if recovers(w, s, vg) {
		return ""
	}
	return doubt(w, s, vg)
}

// unaccounted returns why the volume group must not be removed although LVM lists no volume of it, or "": objects of
// the cluster have volumes that no volume group of the node has, or the objects are not known.
func unaccounted(w Desired, s NodeState, vg *lvm.VG) string {
	if why := doubt(w, s, vg); why != "" {
		return why
	}
	where := fmt.Sprintf("volume group %s on node %s is not removed", w.Name, w.Node)
	if s.Owners.Err != nil {
		return fmt.Sprintf("%s: whether objects of the cluster have volumes in it is not known: %v", where,
			s.Owners.Err)
	}
	var names []string
	for volume, owner := range s.Owners.Volumes {
		if mayBeIn(w, owner) && !isListed(s.Report, volume) {
			names = append(names, owner.describe())
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("%s: it does not have the volumes of objects of the cluster, so its metadata may be from an "+
		"earlier time: %s: %s; if these volumes are not needed, delete their claims", where, joined(names),
		rollbackHint(w))
}

// mayBeIn returns true if the volume of an object was created in the volume group of the device class on this node, or
// may have been: a PersistentVolume without LogicalVolume has no device class.
func mayBeIn(w Desired, o VolumeOwner) bool {
	if o.LogicalVolume == "" {
		return o.PersistentVolume != "" && o.VolumeNode == w.Node
	}
	return o.Created && o.Node == w.Node && (o.DeviceClass == w.Name || o.DeviceClass == "" && w.Spec.Default)
}

// isListed returns true if a volume group of the node has the volume.
func isListed(report *lvm.Report, volume string) bool {
	return slices.ContainsFunc(report.VGs, func(vg lvm.VG) bool { return vg.LV(volume) != nil })
}
