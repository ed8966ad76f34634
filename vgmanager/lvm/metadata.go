package lvm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
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

// ReadBackup returns LVM's backup of the metadata of a volume group on the node. LVM writes it after each change.
func (l *LVM) ReadBackup(ctx context.Context, vg string) (*textmeta.Metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	m, err := readMetadata(ctx, l.runner, BackupDir+vg)
	if err != nil {
		return nil, fmt.Errorf("LVM's backup of the metadata of volume group %s: %w", vg, err)
	}
	return m, nil
}

func readMetadata(ctx context.Context, runner host.Runner, file string) (*textmeta.Metadata, error) {
	out, err := runner.Run(ctx, "/usr/bin/cat", file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	m, err := textmeta.Decode(out)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	m.File, m.Text = file, out
	return m, nil
}

// ReadArchive returns the newest metadata of the volume group with this name and UUID in LVM's archive on the node. LVM
// writes the metadata to the archive before each change (lib/format_text/archive.c). ReadArchive returns ErrNotFound if
// the archive does not have it. A file that cannot be read is an error: an older one may lack volumes.
func (l *LVM) ReadArchive(ctx context.Context, vg, uuid string) (*textmeta.Metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	object := "LVM's archive of the metadata of volume group " + vg
	out, err := l.runner.Run(ctx, "/usr/bin/ls", "-1", ArchiveDir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	for _, name := range newestOf(vg, strings.Fields(string(out))) {
		m, err := readMetadata(ctx, l.runner, ArchiveDir+name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", object, err)
		}
		if m.VG == vg && m.UUID == uuid {
			return m, nil
		}
	}
	return nil, fmt.Errorf("%s: none of the newest %d files in %s has the UUID %s: %w", object, MaxArchives, ArchiveDir,
		uuid, ErrNotFound)
}

// newestOf returns the archives of a volume group that are searched, the newest first.
func newestOf(vg string, files []string) []string {
	names := ArchivesOf(vg, files)
	return names[:min(len(names), MaxArchives)]
}

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

func (c GroupRestore) command() command { return command{steps: c.restore} }

func (c GroupRestore) restore(ctx context.Context, l *LVM) error {
	m, err := readMetadataInTime(ctx, l.runner, c.File)
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	if m.VG != c.VG || m.UUID != c.UUID || len(m.ThinPools) > 0 {
		return fmt.Errorf("%s: the file is of volume group %s (%s) with %d thin pools: %w", c, m.VG, m.UUID,
			len(m.ThinPools), ErrDamaged)
	}
	report, err := l.Report(ctx)
	if err != nil {
		return err
	}
	if len(report.Named(c.VG)) > 0 {
		return fmt.Errorf("%s: %w", c, ErrExists)
	}
	for _, uuid := range m.PVs {
		if !report.isUnassigned(uuid) {
			return fmt.Errorf("%s: physical volume %s: %w", c, uuid, ErrNotFound)
		}
	}
	return l.apply(ctx, c.String(), command{vg: c.VG, args: []string{"vgcfgrestore", "--file", c.File, c.VG}})
}

func (r *Report) isUnassigned(uuid string) bool {
	return slices.ContainsFunc(r.Unassigned, func(pv PV) bool { return pv.UUID == uuid })
}

// MetadataDump writes the metadata on the device of a physical volume to a file on the node, which must not exist: LVM
// does not replace a file, and does not say so. The caller checks the file.
type MetadataDump struct {
	Device, File string
}

func (c MetadataDump) String() string { return "copy the metadata on " + c.Device }

func (c MetadataDump) command() command { return command{steps: c.write} }

func (c MetadataDump) write(ctx context.Context, l *LVM) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, err := l.executor.execute(ctx, "pvck", "--dump", "metadata", "--file", c.File, c.Device)
	return classify(c.String(), err)
}

// LabelCheck returns ErrDamaged if the label or the headers of the physical volume on a device are damaged (pvck(8)).
func (l *LVM) LabelCheck(ctx context.Context, device string) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, err := l.executor.execute(ctx, "pvck", device)
	var failure *host.Error
	if errors.As(err, &failure) && failure.ExitCode == failedExit {
		return fmt.Errorf("the headers of the physical volume on %s: %w: %w", device, ErrDamaged, err)
	}
	return classify("check the headers on "+device, err)
}

// failedExit is LVM's exit code for a command that failed (ECMD_FAILED in lib/commands/errors.h).
const failedExit = 5

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

func (c LabelRestore) command() command { return command{steps: c.restore} }

func (c LabelRestore) restore(ctx context.Context, l *LVM) error {
	report, err := l.Report(ctx)
	if err != nil {
		return err
	}
	for _, pv := range report.PVs() {
		if pv.UUID == c.PV && !pv.Missing && pv.VGName != "" && pv.Name != c.Device {
			return fmt.Errorf("%s: LVM finds it on %s: %w", c, pv.Name, ErrInUse)
		}
		if pv.Name == c.Device && pv.UUID != c.PV {
			return fmt.Errorf("%s: physical volume %s is on the device: %w", c, pv.UUID, ErrInUse)
		}
	}
	return l.apply(ctx, c.String(), command{vg: c.VG,
		args: []string{"pvck", "--repair", "--yes", "--file", c.File, "--settings", "pv_uuid=" + c.PV, c.Device}})
}
