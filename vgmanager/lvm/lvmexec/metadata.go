package lvmexec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/output"
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
		return nil, output.Classify(object, err)
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
	backups, err := runner.Run(ctx, "/usr/bin/ls", "-1", lvm.BackupDir)
	if err != nil {
		return nil, err
	}
	if slices.Contains(strings.Fields(string(backups)), vg) {
		files = append(files, lvm.BackupDir+vg)
	}
	archives, err := runner.Run(ctx, "/usr/bin/ls", "-1", lvm.ArchiveDir)
	if err != nil {
		return nil, err
	}
	for _, name := range newestOf(vg, strings.Fields(string(archives))) {
		files = append(files, lvm.ArchiveDir+name)
	}
	return files, nil
}

// ReadBackup returns LVM's backup of the metadata of a volume group on the node. LVM writes it after each change.
func (l *LVM) ReadBackup(ctx context.Context, vg string) (*textmeta.Metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	m, err := readMetadata(ctx, l.runner, lvm.BackupDir+vg)
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
	m.File = file
	m.Text = out
	return m, nil
}

// ReadArchive returns the newest metadata of the volume group with this name and UUID in LVM's archive on the node. LVM
// writes the metadata to the archive before each change (lib/format_text/archive.c). ReadArchive returns ErrNotFound if
// the archive does not have it. A file that cannot be read is an error: an older one may lack volumes.
func (l *LVM) ReadArchive(ctx context.Context, vg, uuid string) (*textmeta.Metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	object := "LVM's archive of the metadata of volume group " + vg
	out, err := l.runner.Run(ctx, "/usr/bin/ls", "-1", lvm.ArchiveDir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	for _, name := range newestOf(vg, strings.Fields(string(out))) {
		m, err := readMetadata(ctx, l.runner, lvm.ArchiveDir+name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", object, err)
		}
		if m.VG == vg && m.UUID == uuid {
			return m, nil
		}
	}
	return nil, fmt.Errorf("%s: none of the newest %d files in %s has the UUID %s: %w", object, lvm.MaxArchives,
		lvm.ArchiveDir, uuid, lvm.ErrNotFound)
}

// newestOf returns the archives of a volume group that are searched, the newest first.
func newestOf(vg string, files []string) []string {
	names := lvm.ArchivesOf(vg, files)
	return names[:min(len(names), lvm.MaxArchives)]
}

// LabelCheck returns ErrDamaged if the label or the headers of the physical volume on a device are damaged (pvck(8)).
func (l *LVM) LabelCheck(ctx context.Context, device string) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, err := l.executor.execute(ctx, "pvck", device)
	var failure *host.Error
	if errors.As(err, &failure) && failure.ExitCode == failedExit {
		return fmt.Errorf("the headers of the physical volume on %s: %w: %w", device, lvm.ErrDamaged, err)
	}
	return output.Classify("check the headers on "+device, err)
}

// failedExit is LVM's exit code for a command that failed (ECMD_FAILED in lib/commands/errors.h).
const failedExit = 5
