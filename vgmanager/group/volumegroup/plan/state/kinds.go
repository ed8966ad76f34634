package state

import (
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
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
	CloseImages      Kind = "DeactivateImages"
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
	RemoveUnfinished Kind = "RemoveUnfinishedVolumes"

	WithdrawClass Kind = "WithdrawClass"
	RemovePool    Kind = "RemoveThinPool"
	RemoveVG      Kind = "RemoveVolumeGroup"
	RemovePVs     Kind = "RemovePhysicalVolumes"
)

// trait is what holds for a kind of change.
type trait struct {
	// event is the reason of the event if the change fails.
	event EventReason
	// doubtful: the change is made while the metadata is in doubt. Changes are not made if they take, move, overwrite
	// or release extents, or remove a pool, a volume group or a label, and neither are changes of the metadata that can
	// wait: they would make its archive longer.
	doubtful bool
	// incomplete: the change is made while a physical volume is missing. LVM refuses other changes, or marks the
	// physical volume as missing for good.
	incomplete bool
	// first: the changes after it need it, so they wait if it fails (NextOf).
	first bool
}

// traits has each kind of change.
var traits = map[Kind]trait{
	Nothing:      {doubtful: true, incomplete: true},
	DeactivateVG: {event: EventWipeFailed, incomplete: true},
	WipeDevice:   {event: EventWipeFailed, incomplete: true},
	CreateVG:     {event: EventVolumeGroupFailed},
	UnhideVG:     {event: EventVolumeGroupFailed, doubtful: true, incomplete: true},
	TagVG:        {event: EventVolumeGroupFailed, first: true},
	RenameVG:     {event: EventVolumeGroupFailed},
	// Volumes with redundancy need another device. The removal of the missing one is requested.
	ExtendVG:     {event: EventVolumeGroupFailed, incomplete: true},
	ResizePV:     {event: EventVolumeGroupFailed},
	Activate:     {event: EventInconsistentVolumes, doubtful: true, incomplete: true},
	CreatePool:   {event: EventThinPoolFailed, first: true},
	ExtendPool:   {event: EventThinPoolFailed},
	ExtendMeta:   {event: EventThinPoolFailed},
	SetDiscards:  {event: EventThinPoolFailed},
	PublishClass: {event: EventVolumeGroupFailed, doubtful: true, incomplete: true},

	Cordon:   {event: EventDeviceRemovalBlocked},
	Uncordon: {event: EventDeviceRemovalBlocked},
	// A suspended device keeps new Pods from data that may be wrong.
	SuspendPV:  {event: EventDeviceRemovalBlocked, doubtful: true},
	ResumePV:   {event: EventDeviceRemovalBlocked, doubtful: true},
	StartMove:  {event: EventDeviceRemovalBlocked},
	ResumeMove: {event: EventDeviceRemovalBlocked, incomplete: true},
	AbortMove:  {event: EventDeviceRemovalBlocked},
	ReduceVG:   {event: EventDeviceRemovalBlocked},
	ReduceLost: {event: EventDeviceRemovalBlocked, incomplete: true},
	Repair:     {event: EventRAIDHealthCheckFailed, incomplete: true},
	// The same tables are loaded again.
	Refresh: {event: EventRAIDHealthCheckFailed, doubtful: true},
	Resume:  {event: EventInconsistentVolumes, doubtful: true},
	Rebuild: {event: EventRAIDHealthCheckFailed},

	Unmap:            {event: EventVolumeGroupFailed, incomplete: true},
	DeactivatePool:   {event: EventInconsistentVolumes, doubtful: true, incomplete: true},
	RemoveUnreadable: {event: EventDeviceRemovalBlocked, incomplete: true},
	InspectPool:      {event: EventInconsistentVolumes, doubtful: true},
	CloseMetadata:    {event: EventInconsistentVolumes, doubtful: true, incomplete: true, first: true},
	CloseData:        {event: EventInconsistentVolumes, doubtful: true, incomplete: true, first: true},
	CloseImages:      {event: EventInconsistentVolumes, doubtful: true, incomplete: true, first: true},
	RepairPool:       {event: EventInconsistentVolumes},
	// The pool's own metadata is compared with that of the volume group before.
	ActivatePool: {event: EventInconsistentVolumes, doubtful: true},
	RemoveLost:   {event: EventInconsistentVolumes},
	// Labels are restored in a volume group that misses devices. Metadata is restored to end the doubt.
	RestoreLabel:   {event: EventDeviceRemovalBlocked, doubtful: true, incomplete: true},
	VerifyLabel:    {event: EventDeviceRemovalBlocked, doubtful: true, incomplete: true},
	RestoreGroup:   {event: EventDeviceRemovalBlocked, doubtful: true},
	RestoreEarlier: {event: EventInconsistentVolumes, doubtful: true},
	TrimVolumes:    {event: EventInconsistentVolumes},
	AcceptMetadata: {event: EventInconsistentVolumes, doubtful: true},
	CheckVolumes:   {event: EventInconsistentVolumes, doubtful: true},
	RepairVolumes:  {event: EventInconsistentVolumes},
	RemoveOrphans:  {event: EventRemovalFailed},
	RemoveDeleted:  {event: EventRemovalFailed},
	// The pool is not created beside what is left of another one.
	RemoveUnfinished: {event: EventThinPoolFailed, first: true},

	WithdrawClass: {event: EventRemovalFailed, doubtful: true, incomplete: true},
	RemovePool:    {event: EventRemovalFailed},
	RemoveVG:      {event: EventRemovalFailed},
	RemovePVs:     {event: EventRemovalFailed},
}

// Waits returns why a change of the volume group has to wait, or "". held is the result of doubt.HeldBack.
func (k Kind) Waits(vg *lvm.VG, held string) string {
	switch {
	case held != "" && !traits[k].doubtful:
		return held
	case vg.MissingPVs > 0 && !traits[k].incomplete:
		return "LVM does not change it while a device of the volume group is missing"
	}
	return ""
}

// FailureEvent returns the reason of the event if a change fails, or "" for no change.
func (k Kind) FailureEvent() EventReason { return traits[k].event }
