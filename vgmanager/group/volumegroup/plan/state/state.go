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
	"github.com/lvm-storage/lvm-operator/internal/cluster/removednode"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// NodeState is an observation of the node. Each part of it is read by the package that it is about.
type NodeState struct {
	Report  *lvm.Report
	Devices []device.Device
	// Before is the last status.
	Before v1alpha1.VGStatus
	// Class is the published class, or nil.
	Class       *deviceclass.Class
	Disks       Disks
	Health      Health
	Records     Records
	Pool        Pool
	Metadata    Metadata
	FileSystems FileSystems
	Orphans     Orphans
	// Owners are the objects of the cluster to which logical volumes belong, while a recovery deletes orphans or
	// imports volumes, and before the volume group is removed.
	Owners Owners
}

// Disks is what is known about the devices, besides their list.
type Disks struct {
	// Identities are the stable identities of the devices.
	Identities map[device.Number]string
	// Fingerprints returns the fingerprints of the devices.
	Fingerprints device.Fingerprints
	// Paths are the resolved paths of the selectors. OtherPaths are those of the other device classes.
	Paths      []Path
	OtherPaths map[string][]Path
	// Peers is what the other nodes list, or nil if that was not read. It is read right before devices are taken.
	Peers *Peers
	// Probed has the devices that were read in this observation, with the reasons found.
	Probed map[device.Number][]device.Reason
	// Watched is how long this agent has observed a device, for devices that udev does not know.
	Watched map[device.Number]time.Duration
	// UnmatchedLabels are the identities to which an administrator gave labels and which no device has. It is empty if
	// labels do not decide which devices the device class uses.
	UnmatchedLabels []string
	// Hidden has the physical volumes that LVM on this node does not list.
	Hidden Hidden
}

// Health is what the kernel reports about devices and volumes.
type Health struct {
	// Failing are the devices that return errors or do not respond.
	Failing map[device.Number]error
	// Held are the logical volumes that have been suspended for longer than LVM's operations take.
	Held map[device.Number]bool
	// Unknown is set if the health of the volume group is not known.
	Unknown error
	// Stale are the logical volumes that the kernel still maps to a removed device, although the device returned with
	// another number.
	Stale []string
	// Mapped are the device-mapper devices of a volume group that is missing.
	Mapped []string
	// NoRAID is set if the kernel does not support RAID.
	NoRAID error
}

// Records is what the agent remembers, in files of the node or since it was started.
type Records struct {
	// Released are the UUIDs of physical volumes that this product is removing from the volume group, or removed
	// together with the group.
	Released []string
	// Adding are the identities of the blank devices to which the last command wrote that created or extended the
	// volume group. They are known until the volume group is as desired.
	Adding []string
	// Removed are the devices that were removed from the volume group on request.
	Removed []Removal
	// Wiped are the wipes for the device class.
	Wiped []WipeRecord
	// Names are the last known devices of physical volumes, by UUID. LVM has no name for a missing one.
	Names map[string]string
	// Failures are the changes that failed at their last attempt, the latest one last.
	Failures []Failure
	// Attempts are the attempts to refresh, resume or rebuild volumes, by volume.
	Attempts map[string]Attempt
	// Unattended are the moves that no process polls.
	Unattended map[string]bool
}

// Pool is what is known about a thin pool that is not active.
type Pool struct {
	// Fault is why LVM did not activate the thin pool at the last attempt.
	Fault error
	// Inspection is what is known about the metadata of the pool while a recovery repairs it, or nil.
	Inspection *PoolInspection
}

// Metadata is what is known about LVM's metadata of the volume group at other times.
type Metadata struct {
	// Seen is the highest change of the metadata that was seen on this node.
	Seen Seen
	// Replaced is what is known about metadata that was replaced with that of an earlier time.
	Replaced Replaced
	// Absent are the volumes of the API that the volume group does not have, if it lacks the thin pool that it had.
	Absent []string
	// Backup is LVM's backup, while a recovery restores the labels of a volume group that is missing.
	Backup Backup
	// Archive is the newest metadata in LVM's archive, while a recovery restores a deleted volume group.
	Archive Backup
	// Rollback is earlier metadata of the volume group, while a recovery restores it.
	Rollback Rollback
	// Verified are the UUIDs of the physical volumes whose restored headers were checked.
	Verified []string
}

// FileSystems is what is known about the file systems of volumes, while a recovery is about them.
type FileSystems struct {
	// Mounted are the mounted file systems of the thin pool, if a recovery frees space of the pool and has no approved
	// plan. Trim is the progress of an approved one, or nil.
	Mounted Mounted
	Trim    *Trim
	// Users are what uses the volumes whose file systems a recovery checks. Run is the progress of the check or the
	// repair, or nil.
	Users Users
	Run   *FileSystemRun
	// LastMounts is when ext4 file systems were mounted last, by the name of the logical volume, while a recovery that
	// is not approved imports volumes.
	LastMounts map[string]time.Time
}

// Orphans is what is known about logical volumes that are removed because no object of the cluster has them.
type Orphans struct {
	// Deletions has the LogicalVolumes that were deleted while their node did not exist, by the name of the logical
	// volume, if deletedVolumeRetention is set and there are orphans. Expired are the names of the logical volumes that
	// are to be removed because of it.
	Deletions map[string]removednode.DeletedVolume
	Expired   []string
	// Erasing are the names of the logical volumes that the agent is erasing before their removal, and so has open.
	// Waits is what a removal that was begun in this reconcile waits for, or "".
	Erasing []string
	Waits   string
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
func (d *Disks) ResolvePaths(desired Desired, resolve func(string) (device.Number, error)) {
	d.Paths = pathsOf(desired.Selectors, resolve)
	d.OtherPaths = map[string][]Path{}
	for _, o := range desired.Others {
		d.OtherPaths[o.Name] = pathsOf(o.Selectors, resolve)
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
	seen := NodeState{Report: report, Devices: devices, Health: Health{Failing: failing}}
	seen.Disks.Identities = device.Identities(devices)
	seen.Disks.Fingerprints = device.NewFingerprints(devices, PhysicalVolumes(report))
	return NodeSnapshot{seen: seen, resolve: resolve}
}

// For returns the observation for one device class.
func (v NodeSnapshot) For(d Desired) NodeState {
	s := v.seen
	s.Disks.ResolvePaths(d, v.resolve)
	return s
}
