package lvm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// ReadMetadata returns the current metadata of the volume group on a device.
func (l *LVM) ReadMetadata(ctx context.Context, device string) (*textmeta.Metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	object := "read the metadata on " + device
	out, err := l.executor.execute(ctx, "pvck", "--dump", "metadata", device)
	if err != nil {
		return nil, classify(object, err)
	}
	m, err := textmeta.Decode(out)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	return m, nil
}

// FindMetadata returns the newest earlier metadata of a volume group on the node for which fits returns "". It reads
// LVM's backup, which has the metadata of the last command before somebody restored other metadata, and then the
// archive, the newest first. If none fits, it returns nil, and the reasons of fits. A file that cannot be read is an
// error: an older one may lack volumes.
func (l *LVM) FindMetadata(ctx context.Context, vg string, fits func(*textmeta.Metadata) string) (*textmeta.Metadata,
	[]string, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	object := "search earlier metadata of volume group " + vg
	files, err := earlierFiles(ctx, l.runner, vg)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", object, err)
	}
	var reasons []string
	for _, file := range files {
		m, err := readMetadataInTime(ctx, l.runner, file)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", object, err)
		}
		why := fits(m)
		if why == "" {
			return m, nil, nil
		}
		if !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
	}
	return nil, reasons, nil
}

// readMetadataInTime is readMetadata with its own time limit.
func readMetadataInTime(ctx context.Context, runner host.Runner, file string) (*textmeta.Metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return readMetadata(ctx, runner, file)
}

// earlierFiles returns the files with metadata of a volume group, the newest first.
func earlierFiles(ctx context.Context, runner host.Runner, vg string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var files []string
	backups, err := runner.Run(ctx, "/usr/bin/ls", "-1", BackupDir)
	if err != nil {
		return nil, err
	}
	if slices.Contains(strings.Fields(string(backups)), vg) {
		files = append(files, BackupDir+vg)
	}
	archives, err := runner.Run(ctx, "/usr/bin/ls", "-1", ArchiveDir)
	if err != nil {
		return nil, err
	}
	for _, name := range newestOf(vg, strings.Fields(string(archives))) {
		files = append(files, ArchiveDir+name)
	}
	return files, nil
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

func (c MetadataRestore) command() command { return command{steps: c.restore} }

func (c MetadataRestore) restore(ctx context.Context, l *LVM) error {
	m, err := readMetadataInTime(ctx, l.runner, c.File)
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return l.apply(ctx, c.String(), command{vg: c.VG, whole: true, check: checkRestorable(c, m),
		args: []string{"vgcfgrestore", "--force", "--file", c.File, c.VG}})
}

// checkRestorable returns why metadata cannot replace the one of a volume group.
func checkRestorable(o MetadataRestore, m *textmeta.Metadata) func(*VG) error {
	return func(v *VG) error {
		var pvs []string
		for _, pv := range v.PVs {
			pvs = append(pvs, pv.UUID)
		}
		slices.Sort(pvs)
		active := func(lv LV) bool { return lv.Attr.Active() || lv.Attr.IsStateUnknown() }
		switch {
		case m.VG != o.VG || m.UUID != o.UUID || v.UUID != o.UUID:
			return fmt.Errorf("the file is of volume group %s (%s), want %s (%s): %w", m.VG, m.UUID, v.Name, v.UUID,
				ErrDamaged)
		case v.MissingPVs > 0 || len(m.MissingPVs) > 0:
			return fmt.Errorf("volume group %s: %w", v.Name, ErrMissingPV)
		case !slices.Equal(pvs, slices.Sorted(slices.Values(m.PVs))):
			return fmt.Errorf("the file has the physical volumes %s, and volume group %s has %s: %w",
				strings.Join(m.PVs, ", "), v.Name, strings.Join(pvs, ", "), ErrDamaged)
		case len(v.Moves()) > 0:
			return fmt.Errorf("volume group %s: %w", v.Name, ErrMoving)
		case slices.ContainsFunc(v.LVs, active) || slices.ContainsFunc(v.Hidden, active):
			return fmt.Errorf("volume group %s has active volumes: %w", v.Name, ErrInUse)
		}
		return nil
	}
}
