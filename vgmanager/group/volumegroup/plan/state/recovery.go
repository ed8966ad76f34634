package state

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/fsck"
)

// Check is an open recovery that checks file systems, approved or not.
type Check struct {
	// Recovery identifies the LVMRecovery. Volumes are the names of the logical volumes.
	Recovery string
	Volumes  []string
	// Planned: there is a plan.
	Planned bool
}

// Users are what uses some volumes, by their UUIDs.
type Users struct {
	// Open are the volumes whose devices are open. MountPoints is where volumes are mounted or published.
	Open        map[string]bool
	MountPoints map[string][]string
	// Err is why the users are not known.
	Err error
}

// FileSystemRun is the progress of a check of file systems, or of a repair.
type FileSystemRun struct {
	Running bool
	// Repairing: the run is the repair of an approved plan.
	Repairing bool
	// Current is the volume with which the run is busy, Program what runs, and Since when it started.
	Current, Program, Since string
	// Results are those of the volumes that were checked or repaired, by UUID.
	Results map[string]FileSystemResult
	// Err is why the run stopped. The agent tries again later.
	Err error
	// Other is another device class of the node whose file systems are being checked or repaired, or "". Then the other
	// fields are not set.
	Other string
}

// FileSystemResult is the result of the check or the repair of one file system.
type FileSystemResult struct {
	Kind string
	fsck.Result
	// Problem is why the file system was not checked or repaired, or "".
	Problem string
}

// HasEnded returns true if all volumes were checked or repaired.
func (r *FileSystemRun) HasEnded() bool {
	return r != nil && !r.Running && r.Err == nil && r.Other == ""
}

// Mounted has the mounted file systems of the volumes of a thin pool.
type Mounted struct {
	// Used is what each file system uses in bytes, by the UUID of its volume. It is 0 if a file system does not
	// respond.
	Used map[string]int64
	// Err is why they are not known.
	Err error
}

// Trim is the progress of trimming the file systems of an approved plan.
type Trim struct {
	Running bool
	// Tried is the number of volumes that were tried. Failed says which of them were not trimmed, and why.
	Tried  int
	Failed []string
	// Before is the used data of the pool at the start.
	Before lvm.Bytes
	// Err is why trimming stopped. The agent tries again later.
	Err error
	// Other is another device class of the node whose file systems are being trimmed, or "". Then the other fields are
	// not set.
	Other string
}

// HasEnded returns true if all volumes were tried.
func (t *Trim) HasEnded() bool { return t != nil && !t.Running && t.Err == nil && t.Other == "" }

// Import is an open recovery that imports volumes, approved or not.
type Import struct {
	// Volumes are the names of the logical volumes. If it is empty, all volumes of the volume group that have a claim
	// and lack objects are imported.
	Volumes []string
	// Claims are the claims that replace those in the tags, as NAMESPACE/NAME, by the name of the logical volume.
	Claims map[string]string
}

// VolumeOwner has the objects of the cluster for a logical volume. Fields of objects that do not exist are empty.
type VolumeOwner struct {
	// LogicalVolume is the name of the LogicalVolume, Node is its node, and DeviceClass its device class, which is
	// empty for the default one. Created is set if its volume was created, and the LogicalVolume is not being deleted.
	LogicalVolume, Node, DeviceClass string
	Created                          bool
	// PersistentVolume is the name of the PersistentVolume, VolumeNode the node of its node affinity, and Claim its
	// claim, as NAMESPACE/NAME.
	PersistentVolume, VolumeNode, Claim string
	// Earlier describes the object of TopoLVM before 0.15 to which the volume belongs, or is "".
	Earlier string
}

// Describe names the objects.
func (o VolumeOwner) Describe() string {
	switch {
	case o.PersistentVolume == "":
		return "LogicalVolume " + o.LogicalVolume
	case o.Claim == "":
		return "PersistentVolume " + o.PersistentVolume
	}
	return fmt.Sprintf("PersistentVolume %s (claim %s)", o.PersistentVolume, o.Claim)
}

// TagOf returns the value of the tag of a logical volume with a prefix, or "".
func TagOf(lv *lvm.LV, prefix string) string {
	for _, tag := range lv.Tags {
		if value, ok := strings.CutPrefix(tag, prefix); ok {
			return value
		}
	}
	return ""
}

// DeviceOf returns the device of an active logical volume, or nil.
func DeviceOf(s NodeState, lv *lvm.LV) *device.Device {
	for i := range s.Devices {
		if lv.Major != 0 && s.Devices[i].Number == device.NewNumber(lv.Major, lv.Minor) {
			return &s.Devices[i]
		}
	}
	return nil
}

// Label is a physical volume whose label is not on its device.
type Label struct {
	// UUID is the UUID of the physical volume.
	UUID   string
	Device device.Device
}

// Subject returns the physical volume.
func (l Label) Subject() string { return l.UUID }

// Backup is LVM's backup of the metadata of a volume group that is missing.
type Backup struct {
	*textmeta.Metadata
	// Err is why it could not be read.
	Err error
}

// Owners are the objects of the cluster to which logical volumes belong.
type Owners struct {
	// Of describes an object, by the name of the logical volume. Volumes has all objects.
	Of      map[string]string
	Volumes map[string]VolumeOwner
	// Names has the logical volume, or "" if it is not known, by the name of a LogicalVolume or PersistentVolume.
	Names map[string]string
	// Err is why the objects are not known.
	Err error
}

// Recovery is an approved recovery. It allows the loss of these devices, pools and volumes, and of nothing else.
type Recovery struct {
	// Name is the name of the LVMRecovery.
	Name   string
	Action v1alpha1.RecoveryAction
	// PlanID is the ID of the approved plan, and Created is its creation time.
	PlanID  string
	Created metav1.Time
	// Devices are the UUIDs of missing physical volumes. Pools and Volumes are UUIDs of logical volumes. Trim are the
	// UUIDs of the volumes whose file systems are trimmed.
	Devices, Pools, Volumes, Trim []string
	// Names are the names of the lost logical volumes. Those of a whole group have no known UUID.
	Names []string
	// Checked are the volumes with file systems, with what a check has found.
	Checked []v1alpha1.RecoveryVolume
	// WholeGroup: no device of the volume group was present.
	WholeGroup bool
	// Replaces: the metadata of a volume group that exists is replaced.
	Replaces bool
	// Unattended: the approval was given while no agent ran on the node, or before the agent was restarted. A lost
	// device can have returned meanwhile.
	Unattended bool
}

// NewRecovery returns the recovery that an approved plan allows.
func NewRecovery(name string, action v1alpha1.RecoveryAction, approved *v1alpha1.RecoveryPlan) *Recovery {
	r := &Recovery{Name: name, Action: action, PlanID: approved.ID, Created: approved.CreationTime,
		Pools: UUIDsOf(approved.ThinPools), Volumes: UUIDsOf(approved.LostVolumes),
		Trim: UUIDsOf(approved.MountedVolumes), Checked: approved.CheckedVolumes,
		WholeGroup: approved.VolumeGroupUUID == "", Replaces: approved.ReplacesMetadata}
	for _, v := range approved.LostVolumes {
		r.Names = append(r.Names, v.Name)
	}
	for _, d := range approved.Devices {
		r.Devices = append(r.Devices, d.UUID)
	}
	return r
}

// UUIDsOf returns the UUIDs of the volumes of a plan.
func UUIDsOf(volumes []v1alpha1.RecoveryVolume) []string {
	var uuids []string
	for _, v := range volumes {
		uuids = append(uuids, v.UUID)
	}
	return uuids
}

// WithoutRecovery returns the desired state without an approved recovery.
func WithoutRecovery(d Desired) Desired {
	d.Open.Approved = nil
	return d
}

// IsAttached returns true if a physical volume with LVM's mark for missing ones is on a device.
func IsAttached(pv lvm.PV) bool { return pv.Name != "" && !strings.HasPrefix(pv.Name, "[") }

// MaxNamesOfCommand is the maximum number of volumes that one command changes.
const MaxNamesOfCommand = 50

// OpenVolumes returns the names of the logical volumes that are open.
func OpenVolumes(lvs []*lvm.LV) []string {
	var names []string
	for _, lv := range lvs {
		if lv.Attr.Open() {
			names = append(names, lv.Name)
		}
	}
	return names
}

// PoolInspection is what the agent knows about the metadata of an inactive thin pool.
type PoolInspection struct {
	// Running: the metadata is being read.
	Running bool
	// Metadata is the result, or nil. Err is why there is none.
	Metadata *thinmeta.Metadata
	Err      error
	// IDs are the thin device IDs of the volumes, by the UUID of the volume.
	IDs map[string]uint64
}

// Pointers returns pointers to logical volumes.
func Pointers(lvs []lvm.LV) []*lvm.LV {
	var list []*lvm.LV
	for i := range lvs {
		list = append(list, &lvs[i])
	}
	return list
}

// UUIDs returns the UUIDs of logical volumes.
func UUIDs(lvs []*lvm.LV) []string {
	var list []string
	for _, lv := range lvs {
		list = append(list, lv.UUID)
	}
	return list
}

// Replaced is what is known about metadata of a volume group that was replaced with that of an earlier time.
type Replaced struct {
	// Volumes are the volumes of the API that the volume group lost with the replacement. File is the file on the node
	// that has them.
	Volumes []string
	File    string
	// Err is why it is not known whether the metadata was replaced.
	Err error
}

// Rollback is what is known about earlier metadata of a volume group that exists, while a recovery restores it.
type Rollback struct {
	// Absent are the names of the volumes of the API that the volume group does not have.
	Absent []string
	// Present is the metadata of the volume group. Earlier is the newest earlier metadata that fits (FitsRollback), or
	// nil. Rejected is why others do not fit.
	Present, Earlier *textmeta.Metadata
	Rejected         []string
	// Err is why they could not be read.
	Err error
}

// Seen is the highest change of a volume group's metadata that was seen on a node. LVM counts the changes and never
// goes back (seqno in lib/metadata/metadata.c), so a lower one is proof that earlier metadata was restored, even if
// LVM's archive has no file of the later one and no object of the cluster is missing its volume. The restore itself is
// a change, so metadata of one change before is not noticed.
type Seen struct {
	// Seqno is 0 if no change was seen before.
	Seqno uint64
	// Err is why it is not known.
	Err error
}
