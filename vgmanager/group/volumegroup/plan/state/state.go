// Package state has what the decisions about a volume group depend on, and what they result in: the desired state
// (Desired), the observation of the node (NodeState), the next change (Action), and the plan with its problems
// (Plan).
//
// It imports no subject, and every subject may import it. What it computes follows from a single argument, or has no
// other place because several subjects need it.
package state

import (
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// NodeState is an observation of the node.
type NodeState struct {
	Report  *lvm.Report
	Devices []device.Device
	// Identities are the stable identities of the devices.
	Identities map[device.Number]string
	// Fingerprints returns the fingerprints of the devices.
	Fingerprints device.Fingerprints
	// Paths are the resolved paths of the selectors.
	Paths []Path
	// OtherPaths are the resolved paths of the other device classes.
	OtherPaths map[string][]Path
	// Peers is what the other nodes list, or nil if that was not read. It is read right before devices are taken.
	Peers *Peers
	// Probed has the devices that were read in this observation, with the reasons found.
	Probed map[device.Number][]device.Reason
	// Watched is how long this agent has observed a device, for devices that udev does not know.
	Watched map[device.Number]time.Duration
	// Failing are the devices that return errors or do not respond.
	Failing map[device.Number]error
	// Held are the logical volumes that have been suspended for longer than LVM's operations take.
	Held map[device.Number]bool
	// HealthUnknown is set if the health of the volume group is not known.
	HealthUnknown error
	// Stale are the logical volumes that the kernel still maps to a removed device, although the device returned with
	// another number.
	Stale []string
	// Mapped are the device-mapper devices of a volume group that is missing.
	Mapped []string
	// Attempts are the attempts to refresh, resume or rebuild volumes, by volume.
	Attempts map[string]Attempt
	// PoolFault is why LVM did not activate the thin pool at the last attempt. Inspection is what is known about the
	// metadata of the pool while a recovery repairs it, or nil.
	PoolFault  error
	Inspection *PoolInspection
	// Backup is LVM's backup of the metadata, while a recovery restores the labels of a volume group that is missing.
	Backup Backup
	// Archive is the newest metadata in LVM's archive, while a recovery restores a deleted volume group.
	Archive Backup
	// Rollback is earlier metadata of the volume group, while a recovery restores it.
	Rollback Rollback
	// Verified are the UUIDs of the physical volumes whose restored headers were checked.
	Verified []string
	// Mounted are the mounted file systems of the thin pool, if a recovery frees space of the pool and has no approved
	// plan. Trim is the progress of an approved one, or nil.
	Mounted Mounted
	Trim    *Trim
	// Users are what uses the volumes whose file systems a recovery checks. FileSystems is the progress of the check or
	// the repair, or nil.
	Users       Users
	FileSystems *FileSystemRun
	// Owners are the objects of the cluster to which logical volumes belong, while a recovery deletes orphans or
	// imports volumes, and before the volume group is removed.
	Owners Owners
	// LastMounts is when ext4 file systems were mounted last, by the name of the logical volume, while a recovery that
	// is not approved imports volumes.
	LastMounts map[string]time.Time
	// Deletions has the LogicalVolumes that were deleted while their node did not exist, by the name of the logical
	// volume, if deletedVolumeRetention is set and there are orphans. Expired are the names of the logical volumes that
	// are to be removed because of it.
	Deletions map[string]v1alpha1.DeletedVolume
	Expired   []string
	// Erasing are the names of the logical volumes that the agent is erasing before their removal, and so has open.
	// ErasingWaits is what a removal that was begun in this reconcile waits for, or "".
	Erasing      []string
	ErasingWaits string
	// Absent are the volumes of the API that the volume group does not have, if it lacks the thin pool that it had.
	Absent []string
	// Replaced is what is known about metadata of the volume group that was replaced with that of an earlier time.
	Replaced Replaced
	// UnmatchedLabels are the identities to which an administrator gave labels and which no device has. It is empty if
	// labels do not decide which devices the device class uses.
	UnmatchedLabels []string
	// Seen is the highest change of the volume group's metadata that was seen on this node.
	Seen Seen
	// Unattended are the moves that no process polls.
	Unattended map[string]bool
	// NoRAID is set if the kernel does not support RAID.
	NoRAID error
	// Class is the published class, or nil.
	Class *deviceclass.Class
	// Hidden has the physical volumes that LVM on this node does not list.
	Hidden Hidden
	// Released are the UUIDs of physical volumes that this product is removing from the volume group, or removed
	// together with the group.
	Released []string
	// Removed are the devices that were removed from the volume group on request.
	Removed []Removal
	// Wiped are the wipes for the device class.
	Wiped []WipeRecord
	// Names are the last known devices of physical volumes, by UUID. LVM has no name for a missing one.
	Names map[string]string
	// Before is the last status.
	Before v1alpha1.VGStatus
	// Failures are the changes that failed at their last attempt, the latest one last.
	Failures []Failure
}

// Attempt describes the attempts to refresh, resume or rebuild a volume.
type Attempt struct {
	// Ineffective is the number of consecutive attempts that did not help.
	Ineffective int
	// Waiting: the next attempt is not due yet.
	Waiting bool
}

// Path is a path of a selector and the device that it leads to.
type Path struct {
	Path     string
	Optional bool
	// Selector is the index of the selector in Desired.Selectors.
	Selector int
	Number   device.Number
	Err      error
}

// ResolvePaths sets the paths of a device class and those of the other device classes. resolve returns the device that
// a path leads to.
func (s *NodeState) ResolvePaths(w Desired, resolve func(string) (device.Number, error)) {
	s.Paths = pathsOf(w.Selectors, resolve)
	s.OtherPaths = map[string][]Path{}
	for _, o := range w.Others {
		s.OtherPaths[o.Name] = pathsOf(o.Selectors, resolve)
	}
}

func pathsOf(selectors []v1alpha1.DeviceSelector, resolve func(string) (device.Number, error)) []Path {
	var paths []Path
	add := func(i int, list []v1alpha1.DevicePath, optional bool) {
		for _, p := range list {
			number, err := resolve(string(p))
			paths = append(paths, Path{Path: string(p), Optional: optional, Selector: i, Number: number, Err: err})
		}
	}
	for i := range selectors {
		add(i, selectors[i].Paths, false)
		add(i, selectors[i].OptionalPaths, true)
	}
	return paths
}

// NodeSnapshot is an observation of the node for several device classes.
type NodeSnapshot struct {
	seen    NodeState
	resolve func(string) (device.Number, error)
}

// NewNodeSnapshot returns an observation from data of the caller, for the evaluation of devices.
func NewNodeSnapshot(report *lvm.Report, devices []device.Device, failing map[device.Number]error,
	resolve func(string) (device.Number, error)) NodeSnapshot {
	seen := NodeState{Report: report, Devices: devices, Identities: device.Identities(devices), Failing: failing,
		Fingerprints: device.NewFingerprints(devices, PhysicalVolumes(report))}
	return NodeSnapshot{seen: seen, resolve: resolve}
}

// For returns the observation for one device class.
func (v NodeSnapshot) For(w Desired) NodeState {
	s := v.seen
	s.ResolvePaths(w, v.resolve)
	return s
}
