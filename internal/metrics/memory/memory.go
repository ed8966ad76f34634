// Package memory releases memory that a program needed only at its start: heap for filling caches, and pages of the
// program's own file with code and tables that were used once. Together they are half of the resident memory of an
// operator in a small cluster.
package memory

import (
	"bufio"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// settle is the time after which the start is complete: caches are synced and their objects reconciled.
	settle = 2 * time.Minute
	// interval is the time between later releases, for memory that was needed only once: a burst of volumes, a lost
	// connection to the API server.
	interval = 10 * time.Minute
)

// Reducer releases memory after the start, and then at an interval. It implements manager.Runnable.
type Reducer struct{}

// NeedLeaderElection returns false: a process that waits to become the leader has started, too.
func (Reducer) NeedLeaderElection() bool { return false }

// Start releases memory until ctx ends. If that is not possible, it logs the error and ends without one.
func (Reducer) Start(ctx context.Context) error {
	for wait := settle; ; wait = interval {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		if err := Reduce(); err != nil {
			log.FromContext(ctx).Info("cannot release memory that only the startup needed", "cause", err.Error())
			return nil
		}
	}
}

// Reduce releases memory once. Pages that are used again are read from the page cache or the file.
func Reduce() error {
	debug.FreeOSMemory()
	if err := unchanged("/proc/self/exe"); err != nil {
		return err
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer func() { _ = maps.Close() }()
	mappings, err := readOnly(maps, exe)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range mappings {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED); errno != 0 {
			errs = append(errs, fmt.Errorf("madvise %x-%x: %w", m.from, m.to, errno))
		}
	}
	return errors.Join(errs...)
}

// unchanged returns an error for a program with relocations: the loader writes to its read-only pages, so they differ
// from the file.
func unchanged(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if file.Type != elf.ET_EXEC {
		return fmt.Errorf("%s is %s: it was built to be relocated", path, file.Type)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_GNU_RELRO {
			return fmt.Errorf("%s has relocations", path)
		}
	}
	return nil
}

type mapping struct{ from, to uintptr }

// readOnly returns the read-only mappings of a file (proc_pid_maps(5)). Writable pages differ from the file.
func readOnly(maps io.Reader, path string) ([]mapping, error) {
	var found []mapping
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || strings.Join(fields[5:], " ") != path || fields[1] != "r-xp" && fields[1] != "r--p" {
			continue
		}
		var m mapping
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &m.from, &m.to); err != nil || m.to <= m.from {
			return nil, fmt.Errorf("mapping %q: %w", lines.Text(), errors.Join(err, unix.EINVAL))
		}
		found = append(found, m)
	}
	return found, lines.Err()
}
