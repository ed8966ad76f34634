// Package fsck checks and repairs file systems that are not mounted, with e2fsck and xfs_repair of the agent's image.
//
// A check changes nothing. A repair answers all questions with yes. The log of XFS is never discarded (xfs_repair -L).
package fsck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// timeLimit is the time limit of one program. A damaged file system of many TiB can take hours.
const timeLimit = 24 * time.Hour

const (
	e2fsck    = "/usr/sbin/e2fsck"
	xfsRepair = "/usr/sbin/xfs_repair"
)

// Programs runs the programs of the agent's image. *host.Local implements it. At its time limit a program gets SIGTERM,
// and a minute later SIGKILL: e2fsck writes its repairs in between.
type Programs interface {
	RunReporting(ctx context.Context, accepted func(code int) bool, name string, args ...string) (string, int, error)
}

// Volume is a logical volume with a file system.
type Volume struct {
	// Name is the name of the logical volume, which is the ID of the volume in CSI.
	Name string
	// Device is the path of its device, and Major and Minor are its number.
	Device       string
	Major, Minor uint32
	// Formatted is the file system that the agent created or found according to the volume's tags, or "". It is used
	// if the file system is too damaged to be identified.
	Formatted string
}

// Result is what a check has found.
type Result struct {
	// Errors: the file system has errors.
	Errors bool
	// Finding is the result in a line.
	Finding string
	// Moved is the number of files and directories that a repair moved to lost+found.
	Moved int
}

// NoErrors is the beginning of the finding for a file system without errors.
const NoErrors = "no errors"

var (
	// ErrInUse: something uses the volume, so its file system is not checked or repaired.
	ErrInUse = errors.New("the volume is in use")
	// ErrLocked: the CSI node service works on the volume at the moment.
	ErrLocked = errors.New("another call works on the volume")
	// ErrUnsupported: the volume has no file system that can be checked.
	ErrUnsupported = errors.New("only the file systems " + strings.Join(kinds, ", ") + " can be checked")
	// ErrUnreadable: the device returned read errors. A repair would overwrite blocks that cannot be read.
	ErrUnreadable = errors.New(
		"the device returned read errors, and a repair would overwrite what cannot be read: copy " +
			"the volume first (lvms rescue)")
	// ErrDirtyLog: the log of the XFS file system must be replayed before the repair.
	ErrDirtyLog = errors.New("the log of the file system was not replayed")
)

// kinds are the supported file systems, with the names of libblkid.
var kinds = []string{"ext2", "ext3", "ext4", xfs}

const xfs = "xfs"

// Supports returns true if a file system can be checked.
func Supports(kind string) bool { return slices.Contains(kinds, kind) }

// Program returns the name of the program for a file system.
func Program(kind string) string {
	if kind == xfs {
		return "xfs_repair"
	}
	return "e2fsck"
}

// Command describes the program that checks or repairs a file system, for messages.
func Command(kind, device string, repair bool) string {
	_, args := command(kind, device, repair)
	return strings.Join(append([]string{Program(kind)}, args...), " ")
}

func command(kind, device string, repair bool) (program string, args []string) {
	switch {
	case kind == xfs && repair:
		return xfsRepair, []string{device}
	case kind == xfs:
		return xfsRepair, []string{"-n", device}
	case repair:
		return e2fsck, []string{"-f", "-y", device}
	}
	return e2fsck, []string{"-f", "-n", device}
}

// Exit codes of e2fsck(8), which are bits, and of xfs_repair(8).
const (
	e2fsckCorrected   = 1
	e2fsckReboot      = 2
	e2fsckUncorrected = 4

	xfsCorrupt  = 1 // with -n: or the program could not go on
	xfsDirtyLog = 2
)

// Check checks a file system and changes nothing.
func Check(ctx context.Context, p Programs, kind, device string) (Result, error) {
	corrupt := e2fsckUncorrected
	if kind == xfs {
		corrupt = xfsCorrupt
	}
	out, code, err := run(ctx, p, kind, device, false, func(c int) bool { return c == corrupt })
	if err != nil {
		return Result{}, err
	}
	// With a log that is not replayed, xfs_repair returns xfsCorrupt even if it finds no error.
	onlyLog := kind == xfs && ignoredLog(kind, out, "") != "" && len(errorLines(out)) == 0
	if code == 0 || onlyLog {
		return Result{Finding: NoErrors + ignoredLog(kind, out, "")}, nil
	}
	if unrepairable(out) {
		return Result{}, fmt.Errorf("%s: %s", Command(kind, device, false), lastLine(out))
	}
	return Result{Errors: true, Finding: "errors: " + firstLines(out) +
		ignoredLog(kind, out, ", so some of the errors may disappear then")}, nil
}

// ignoredLog says that a check ignored the log of a file system, which has changes since a crash.
func ignoredLog(kind, out, effect string) string {
	switch {
	case kind == xfs && strings.Contains(out, "valuable metadata changes in a log"):
		return "; its log has changes that are replayed by the next mount" + effect
	case strings.Contains(out, "skipping journal recovery"):
		return "; its journal has changes that are replayed by the next mount" + effect
	}
	return ""
}

// Repair repairs a file system. It returns ErrDirtyLog, and has changed nothing, if the log of XFS must be replayed
// first. A repair that was interrupted is run again.
func Repair(ctx context.Context, p Programs, kind, device string) (moved int, err error) {
	accepted := func(c int) bool { return c&^(e2fsckCorrected|e2fsckReboot|e2fsckUncorrected) == 0 }
	if kind == xfs {
		accepted = func(c int) bool { return c == xfsDirtyLog }
	}
	out, code, err := run(ctx, p, kind, device, true, accepted)
	switch {
	case err != nil:
		return 0, err
	case kind == xfs && code == xfsDirtyLog:
		return 0, ErrDirtyLog
	}
	return countMoved(out), nil
}

func run(ctx context.Context, p Programs, kind, device string, repair bool,
	accepted func(int) bool) (string, int, error) {
	if !Supports(kind) {
		return "", 0, fmt.Errorf("%s: %w", kind, ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	program, args := command(kind, device, repair)
	out, code, err := p.RunReporting(ctx, accepted, program, args...)
	switch {
	case !repair && cannotRead(out):
		return "", 0, fmt.Errorf("%s: %w: %s", Command(kind, device, repair), ErrUnreadable, firstLines(out))
	case err != nil && out != "":
		return "", 0, fmt.Errorf("%w: %s", err, lastLine(out))
	case err != nil:
		return "", 0, err
	}
	return out, code, nil
}
