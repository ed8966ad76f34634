package lvm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// BackupDir is the directory on the node in which LVM keeps the current metadata of each volume group
// (backup/backup_dir in lvm.conf(5)).
const BackupDir = "/etc/lvm/backup/"

// ArchiveDir is the directory on the node in which LVM keeps the earlier metadata of volume groups
// (backup/archive_dir in lvm.conf(5)).
const ArchiveDir = "/etc/lvm/archive/"

// MaxArchives is the maximum number of files in LVM's archive that are searched for earlier metadata of a volume group.
// The node agent keeps no more files of a group of its own (vgmanager/lvm/lvmarchive), so they are all of them.
const MaxArchives = 130

// ArchivesOf returns those of the names of files that are archives of a volume group, the newest first. LVM counts
// them: NAME_NUMBER-RANDOM.vg. So a group vg1_x has no file that is one of vg1.
func ArchivesOf(vg string, files []string) []string {
	type archive struct {
		number uint64
		name   string
	}
	var found []archive
	for _, file := range files {
		rest, is := strings.CutPrefix(file, vg+"_")
		digits, random, two := strings.Cut(strings.TrimSuffix(rest, ".vg"), "-")
		number, err := strconv.ParseUint(digits, 10, 32)
		_, errRandom := strconv.ParseUint(random, 10, 64)
		if is && two && err == nil && errRandom == nil && strings.HasSuffix(file, ".vg") {
			found = append(found, archive{number, file})
		}
	}
	slices.SortFunc(found, func(a, b archive) int {
		return cmp.Or(cmp.Compare(b.number, a.number), strings.Compare(b.name, a.name))
	})
	var names []string
	for _, a := range found {
		names = append(names, a.name)
	}
	return names
}

// GroupRestore creates a deleted volume group again with the metadata in a file, and with the same UUIDs
// (vgcfgrestore(8)). It returns ErrExists if there is a volume group with this name, ErrNotFound if a physical volume
// of the metadata is not found without a volume group, and ErrDamaged if the metadata is of another volume group or has
// a thin pool: LVM deletes thin volumes also in the metadata of their pool, so the two no longer match.
type GroupRestore struct {
	VG, UUID string
	// File is a file on the node with the metadata of the volume group.
	File string
}

func (c GroupRestore) String() string {
	return fmt.Sprintf("restore volume group %s with %s", c.VG, c.File)
}

func (c GroupRestore) Command() Command {
	return Command{VG: c.VG, Steps: true, Args: []string{"vgcfgrestore", "--file", c.File, c.VG}}
}

// MetadataDump writes the metadata on the device of a physical volume to a file on the node, which must not exist: LVM
// does not replace a file, and does not say so. The caller checks the file.
type MetadataDump struct {
	Device, File string
}

func (c MetadataDump) String() string { return "copy the metadata on " + c.Device }

func (c MetadataDump) Command() Command {
	return Command{VG: WholeNode, Steps: true,
		Args: []string{"pvck", "--dump", "metadata", "--file", c.File, c.Device}}
}

// LabelRestore writes the label, the headers and the metadata of a physical volume again, where LVM puts them before
// the first extent (pvck(8), --repair). Volumes can be in use meanwhile. It returns ErrInUse if LVM finds the physical
// volume on another device, or another one on this device. LVM does not check what is on the device: the caller does.
// If it is called again, it writes the same.
type LabelRestore struct {
	VG string
	// PV is the UUID of the physical volume, and Device is its device.
	PV, Device string
	// File is a file on the node with the metadata of the volume group.
	File string
}

func (c LabelRestore) String() string {
	return fmt.Sprintf("restore the label of physical volume %s of volume group %s on %s", c.PV, c.VG, c.Device)
}

func (c LabelRestore) Command() Command {
	return Command{VG: c.VG, Steps: true,
		Args: []string{"pvck", "--repair", "--yes", "--file", c.File, "--settings", "pv_uuid=" + c.PV, c.Device}}
}

// MetadataRestore replaces the metadata of a volume group that exists with the metadata in a file (vgcfgrestore(8)). It
// returns ErrInUse if a volume of the group is active, ErrMoving if extents are being moved, ErrMissingPV if a physical
// volume is missing, and ErrDamaged if the metadata is of another volume group, or has other physical volumes. If it is
// called again, it writes the same.
//
// It passes --force, because LVM refuses metadata with thin volumes otherwise: it does not compare the transaction ID
// of a thin pool with the one in the metadata of the pool. The caller has compared them, right before: with an equal
// ID, the pool has the volumes of the metadata. If they differed, LVM would not activate the pool, so that it is not
// written in any case. --force skips no other check.
//
// It does not pass --yes: LVM asks whether to continue if volumes are active, and takes "no" as the answer. If the
// command is killed, LVM finds the previous metadata or the new one: it writes the new metadata next to the previous
// one on all devices before it uses it on the first. LVM does not archive the previous metadata: the caller keeps it.
type MetadataRestore struct {
	VG, UUID string
	// File is a file on the node with the metadata. Only the caller writes it.
	File string
}

func (c MetadataRestore) String() string {
	return fmt.Sprintf("restore the metadata of volume group %s with %s", c.VG, c.File)
}

func (c MetadataRestore) Command() Command {
	return Command{VG: c.VG, Whole: true, Steps: true,
		Args: []string{"vgcfgrestore", "--force", "--file", c.File, c.VG}}
}
