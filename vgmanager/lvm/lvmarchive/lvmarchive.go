// Package lvmarchive bounds LVM's archive of the metadata of the volume groups that device classes have. LVM writes the
// whole metadata of a group to a new file before each change, and keeps every file for 30 days (lvm.conf(5),
// backup/retain_days). With many volumes, that fills the file system of the node, and slows LVM down.
//
// Files of other volume groups are never removed, and neither is a file whose content does not say that it is an
// archive of the group. No process is started.
package lvmarchive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

const (
	// interval is the time between two passes.
	interval = 10 * time.Minute
	// maxRemovals is the maximum number of files of a volume group that a pass removes.
	maxRemovals = 2000
	// maxHead is the maximum size of what LVM writes before the volume group: the command line with its filter is part
	// of it, which the kernel limits to 128 KiB for each argument.
	maxHead = 512 << 10
)

// Group is a volume group of a device class.
type Group struct{ Name, UUID string }

// Pruner removes old files from LVM's archive. It implements manager.Runnable.
type Pruner struct {
	// Dir is the directory of the archive.
	Dir string
	// Groups returns the volume groups whose archives are bounded.
	Groups func() []Group
	// Now returns the time.
	Now func() time.Time
}

// NeedLeaderElection returns false, because every node has its own archive.
func (p *Pruner) NeedLeaderElection() bool { return false }

// Start prunes the archive until ctx ends.
func (p *Pruner) Start(ctx context.Context) error {
	for {
		removed, err := p.Pass(ctx)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "cannot prune LVM's archive", "name", p.Dir)
		}
		if removed > 0 {
			log.FromContext(ctx).Info("removed old files from LVM's archive", "name", p.Dir, "dropped", removed)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// Pass prunes the archive once, and returns how many files it removed. An error with one file does not keep the others.
func (p *Pruner) Pass(ctx context.Context) (removed int, err error) {
	ctx, end := liveness.Begin(ctx, "cleanup of LVM's archive")
	defer end()
	entries, err := os.ReadDir(p.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("list LVM's archive: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			names = append(names, entry.Name())
		}
	}
	var failed []error
	for _, group := range p.Groups() {
		n, err := p.prune(ctx, group, names)
		removed += n
		failed = append(failed, err)
	}
	return removed, errors.Join(failed...)
}

func (p *Pruner) prune(ctx context.Context, group Group, names []string) (removed int, err error) {
	var files []file
	for _, name := range lvm.ArchivesOf(group.Name, names) {
		info, err := os.Lstat(filepath.Join(p.Dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read LVM's archive: %w", err)
		}
		files = append(files, file{name: name, size: info.Size(), written: info.ModTime()})
	}
	var failed []error
	for _, name := range surplus(files, p.Now()) {
		if ctx.Err() != nil || removed == maxRemovals {
			break
		}
		gone, err := p.remove(group, name)
		if gone {
			removed++
		}
		failed = append(failed, err)
	}
	return removed, errors.Join(failed...)
}

// remove removes a file if it is an archive of the volume group.
func (p *Pruner) remove(group Group, name string) (bool, error) {
	path := filepath.Join(p.Dir, name)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read LVM's archive: %w", err)
	}
	is := isArchive(f, group)
	if err := f.Close(); err != nil || !is {
		return false, err
	}
	if err := os.Remove(path); err != nil {
		return false, fmt.Errorf("prune LVM's archive: %w", err)
	}
	return true, nil
}

// isArchive returns true if a text begins as LVM's archive of a volume group (lib/format_text/export.c).
func isArchive(text io.Reader, group Group) bool {
	lines := bufio.NewScanner(io.LimitReader(text, maxHead))
	lines.Buffer(nil, maxHead)
	isText := false
	inGroup := false
	for lines.Scan() {
		line := lines.Text()
		key, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		switch {
		case inGroup:
			return isText && key == "id" && value == `"`+group.UUID+`"`
		case line == `contents = "Text Format Volume Group"`:
			isText = true
		case line == group.Name+" {":
			inGroup = true
		case strings.HasSuffix(line, " {"):
			return false
		}
	}
	return false
}
