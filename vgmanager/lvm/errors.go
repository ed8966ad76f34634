package lvm

import (
	"context"
	"errors"
	"fmt"
)

// Errors of LVM commands that a caller can act on. Each error of this package wraps at most one of them, and the
// *host.Error that caused it.
var (
	// ErrNotFound: the volume group, logical volume, thin pool, physical volume or device does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists: an object with this name already exists.
	ErrExists = errors.New("already exists")
	// ErrPathExists: /dev has a file or directory with the name of the new volume group.
	ErrPathExists = errors.New("/dev already has a file or directory with this name")
	// ErrNoSpace: the volume group or the thin pool does not have enough free space.
	ErrNoSpace = errors.New("not enough free space")
	// ErrMetadataFull: the text metadata of the volume group does not fit into its metadata area (MetadataArea).
	ErrMetadataFull = errors.New("LVM's metadata area of the volume group is full: delete volumes or snapshots that " +
		"are not needed; its size cannot be changed")
	// ErrInUse: a device is open, because it is mounted or a process uses it.
	ErrInUse = errors.New("in use")
	// ErrNotEmpty: the object to remove still contains volumes or physical volumes, or belongs to a volume group.
	ErrNotEmpty = errors.New("not empty")
	// ErrSignature: the device has a file system, a partition table or another signature that LVM recognizes.
	ErrSignature = errors.New("device has a signature")
	// ErrUnusable: LVM rejects the device. It is too small, unreadable, read-only, or excluded by the node's
	// lvm.conf.
	ErrUnusable = errors.New("device is not usable for LVM")
	// ErrMissingPV: the volume group misses physical volumes, so LVM does not change it.
	ErrMissingPV = errors.New("physical volumes are missing")
	// ErrDuplicatePV: the same physical volume is on two devices, so LVM does not change its volume group.
	ErrDuplicatePV = errors.New("a physical volume appears on several devices")
	// ErrDuplicateVG: several volume groups have this name, so LVM does not change any of them by name.
	ErrDuplicateVG = errors.New("several volume groups have this name")
	// ErrPoolCheck: thin_check found errors in the metadata of a thin pool, so LVM does not activate the pool.
	ErrPoolCheck = errors.New("the metadata of the thin pool is damaged")
	// ErrTransaction: the metadata of a thin pool and that of its volume group are from different times, so LVM does
	// not activate the pool.
	ErrTransaction = errors.New("the metadata of the thin pool does not match that of the volume group")
	// ErrNoData: a thin volume is not in the metadata of its pool, so it cannot be activated.
	ErrNoData = errors.New("the volume is not in the metadata of its thin pool")
	// ErrLeftover: the thin pool has a thin device with the ID of the new snapshot, which LVM does not know.
	ErrLeftover = errors.New("the thin pool has a thin device that LVM does not know")
	// ErrDamaged: the label or the headers of a physical volume are damaged.
	ErrDamaged = errors.New("damaged")
	// ErrNotLarger: the volume already has the requested size or is larger.
	ErrNotLarger = errors.New("requested size is not larger than the current size")
	// ErrInvalid: LVM rejects the arguments.
	ErrInvalid = errors.New("invalid")
	// ErrNotEnabled: the LVM feature is not enabled on the node.
	ErrNotEnabled = errors.New("not enabled")
	// ErrMoving: a pvmove is moving the extents of the logical volume. LVM does not change the volume until it ends.
	ErrMoving = errors.New("its extents are being moved: try again after the move")
	// ErrNoTarget: the node's kernel does not have a module that the LVM operation requires.
	ErrNoTarget = errors.New("the node's kernel lacks a required module")
	// ErrBusy: another LVM command has not ended, so this one was not started. It wraps context.DeadlineExceeded.
	ErrBusy = fmt.Errorf("not started: %w", context.DeadlineExceeded)
	// ErrRunning: the command runs longer than its caller waits, and continues.
	ErrRunning = errors.New("is still running")
	// ErrNotInstalled: LVM is not installed on the node.
	ErrNotInstalled = errors.New("LVM is not installed on the node: install the package lvm2")
)
