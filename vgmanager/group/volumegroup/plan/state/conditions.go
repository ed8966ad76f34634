package state

import (
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// conditions are the conditions of a volume group in which a kind of change is made.
type conditions struct {
	// Doubtful: while the metadata is in doubt. Changes are not made if they take, move, overwrite or release extents,
	// or remove a pool, a volume group or a label, and neither are changes of the metadata that can wait: they would
	// make its archive longer.
	Doubtful bool
	// incomplete: while a physical volume is missing. LVM refuses other changes, or marks the physical volume as
	// missing for good.
	incomplete bool
	// first: the changes after it need it, so they wait if it fails (NextOf).
	first bool
}

// Allowed has each kind of change.
var Allowed = map[Kind]conditions{
	Nothing:      {Doubtful: true, incomplete: true},
	DeactivateVG: {incomplete: true},
	WipeDevice:   {incomplete: true},
	CreateVG:     {},
	UnhideVG:     {Doubtful: true, incomplete: true},
	TagVG:        {first: true},
	RenameVG:     {},
	// Volumes with redundancy need another device. The removal of the missing one is requested.
	ExtendVG:     {incomplete: true},
	ResizePV:     {},
	Activate:     {Doubtful: true, incomplete: true},
	CreatePool:   {first: true},
	ExtendPool:   {},
	ExtendMeta:   {},
	SetDiscards:  {},
	PublishClass: {Doubtful: true, incomplete: true},

	Cordon:   {},
	Uncordon: {},
	// A suspended device keeps new Pods from data that may be wrong.
	SuspendPV:  {Doubtful: true},
	ResumePV:   {Doubtful: true},
	StartMove:  {},
	ResumeMove: {incomplete: true},
	AbortMove:  {},
	ReduceVG:   {},
	ReduceLost: {incomplete: true},
	Repair:     {incomplete: true},
	// The same tables are loaded again.
	Refresh: {Doubtful: true},
	Resume:  {Doubtful: true},
	Rebuild: {},

	Unmap:            {incomplete: true},
	DeactivatePool:   {Doubtful: true, incomplete: true},
	RemoveUnreadable: {incomplete: true},
	InspectPool:      {Doubtful: true},
	CloseMetadata:    {Doubtful: true, incomplete: true, first: true},
	CloseData:        {Doubtful: true, incomplete: true, first: true},
	RepairPool:       {},
	// The pool's own metadata is compared with that of the volume group before.
	ActivatePool: {Doubtful: true},
	RemoveLost:   {},
	// Labels are restored in a volume group that misses devices. Metadata is restored to end the doubt.
	RestoreLabel:   {Doubtful: true, incomplete: true},
	VerifyLabel:    {Doubtful: true, incomplete: true},
	RestoreGroup:   {Doubtful: true},
	RestoreEarlier: {Doubtful: true},
	TrimVolumes:    {},
	AcceptMetadata: {Doubtful: true},
	CheckVolumes:   {Doubtful: true},
	RepairVolumes:  {},
	RemoveOrphans:  {},
	RemoveDeleted:  {},

	WithdrawClass: {Doubtful: true, incomplete: true},
	RemovePool:    {},
	RemoveVG:      {},
	RemovePVs:     {},
}

// waits returns why a change of the volume group has to wait, or "". held is the result of doubt.HeldBack.
func (k Kind) Waits(vg *lvm.VG, held string) string {
	switch {
	case held != "" && !Allowed[k].Doubtful:
		return held
	case vg.MissingPVs > 0 && !Allowed[k].incomplete:
		return "LVM does not change it while a device of the volume group is missing"
	}
	return ""
}
