package device

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/direct"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

// Errors of Resolve.
var (
	// ErrMissing: the path does not exist.
	ErrMissing = errors.New("does not exist")
	// ErrNotBlock: the path is not a block device.
	ErrNotBlock = errors.New("is not a block device")
)

// Resolve returns the number of the block device that a path or a chain of links leads to.
//
// It uses /dev of this process, which is the node's, and starts no process. Unlike readlink, it distinguishes a path
// that does not exist from one that cannot be read.
func (n *Node) Resolve(path string) (Number, error) { return n.resolve(path) }

func resolve(path string) (Number, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s %w", path, ErrMissing)
	case err != nil:
		return "", fmt.Errorf("resolve the device path: %w", err)
	}
	number, ok := direct.NumberOf(info)
	if !ok {
		return "", fmt.Errorf("%s %w", path, ErrNotBlock)
	}
	return number, nil
}

// Probe reads the device directly before it is given to LVM, and returns the reasons why it cannot be used. List and
// Explain depend on udev's database, which can be outdated and shows an unreadable device as blank. If Probe returns
// no reason, the device was read and is blank. ignore has the names of signatures to ignore.
//
// If a device does not respond, Probe returns Unreadable after at most 30 s, so the device is neither used nor wiped.
// While that read is pending, Probe starts no other one, and the reason has its start time.
func (n *Node) Probe(ctx context.Context, d Device, ignore ...string) []Reason {
	signatures, reasons := n.read(ctx, d, n.examine)
	for _, s := range signatures {
		if !slices.Contains(ignore, s.Type) {
			reasons = append(reasons, explainContent(d, s.Signature)...)
		}
	}
	return reasons
}

// Content reads the device directly, as Probe does, and returns its signatures. The device can be in use.
func (n *Node) Content(ctx context.Context, d Device) ([]Signature, []Reason) {
	list, reasons := n.read(ctx, d, readableShared)
	var signatures []Signature
	for _, s := range list {
		signatures = append(signatures, s.Signature)
	}
	return signatures, reasons
}

// reading is the result of a read.
type reading struct {
	found   []found
	reasons []Reason
}

// read examines a device and lists its signatures. It runs at most one read of a device at a time.
func (n *Node) read(ctx context.Context, d Device, examine func(Device) []Reason) ([]found, []Reason) {
	got, err := bounded.Do(ctx, n.reads, string(d.Number), func(ctx context.Context) reading {
		if reasons := examine(d); len(reasons) > 0 {
			return reading{reasons: reasons}
		}
		signatures, err := n.signatures(ctx, d.Name)
		if err != nil {
			return reading{reasons: one(Unreadable, "could not be examined: %v", err)}
		}
		return reading{found: signatures}
	})
	if err != nil {
		return nil, noAnswer(d, err)
	}
	return got.found, got.reasons
}

// noAnswer returns the reasons for a device that was not read.
func noAnswer(d Device, err error) []Reason {
	var late *bounded.NoAnswerError
	var tooMany *bounded.TooManyError
	reason := Reason{Code: Unreadable, Transient: true}
	switch {
	case errors.As(err, &late):
		reason.Message = late.Error() +
			", and is neither used nor wiped until it does: see the kernel's log; repair or detach it" + queueHint(d)
	case errors.As(err, &tooMany):
		reason.Message = fmt.Sprintf(
			"was not read, because %d other devices do not answer (%s): see the kernel's log; repair or detach them",
			len(tooMany.Keys), strings.Join(tooMany.Keys[:min(len(tooMany.Keys), 5)], ", "))
	default:
		reason.Message = fmt.Sprintf("was not read: %v", err)
	}
	return []Reason{reason}
}

// queueHint returns advice for a multipath device without paths, which queues I/O (queue_if_no_path).
func queueHint(d Device) string {
	if d.Type != "mpath" {
		return ""
	}
	return "; if its paths do not come back, run on the node: multipathd disablequeueing map " + filepath.Base(d.Name)
}

// found is a signature and its offset on the device in bytes.
type found struct {
	Signature
	offset int64
}

// signatures runs wipefs in read-only mode. wipefs lists all signatures, while blkid stops at the first one. For a
// device with read errors wipefs returns an empty list and exit code 0, so readable must run first.
func (n *Node) signatures(ctx context.Context, path string) ([]found, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, err := n.runner.Run(ctx, wipefs, "--no-act", "--json", path)
	if err != nil {
		return nil, err
	}
	return decodeSignatures(out)
}

// decodeSignatures treats empty output as no signatures: before util-linux 2.38, wipefs prints nothing for a blank
// device.
func decodeSignatures(out []byte) ([]found, error) {
	if len(bytes.TrimSpace(out)) == 0 {
		return nil, nil
	}
	list := struct {
		Signatures []struct {
			Signature
			Offset string `json:"offset"`
		} `json:"signatures"`
	}{}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("output of wipefs is not the expected JSON: %w", err)
	}
	var signatures []found
	for _, s := range list.Signatures {
		offset, err := strconv.ParseInt(s.Offset, 0, 64)
		if err != nil || offset < 0 || s.Type == "" {
			return nil, fmt.Errorf("output of wipefs has the signature %q at the offset %q", s.Type, s.Offset)
		}
		signatures = append(signatures, found{s.Signature, offset})
	}
	return signatures, nil
}

// readable opens the device exclusively and reads its first and last block from the medium.
//
// O_EXCL on a block device fails while a mount in any mount namespace, an array or a mapping uses the device.
func readable(d Device) []Reason { return readableWith(d, unix.O_EXCL) }

// readableShared is readable for a device that can be in use.
func readableShared(d Device) []Reason { return readableWith(d, 0) }

func readableWith(d Device, flags int) []Reason {
	// O_DIRECT bypasses the page cache, which can still have blocks of a disk that was removed.
	f, err := os.OpenFile(d.Name, flags|os.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return one(Busy, "is in use: a process or the kernel has it open exclusively")
	}
	if err != nil {
		return one(Unreadable, "cannot be opened: %v", err)
	}
	defer func() { _ = f.Close() }()

	info, err := f.Stat()
	if err != nil {
		return one(Unreadable, "cannot be examined: %v", err)
	}
	if number, ok := direct.NumberOf(info); !ok || number != d.Number {
		return one(Unreadable, "was replaced by another device (%s, it was %s)", number, d.Number)
	}
	for _, offset := range []int64{0, max(0, (d.Size-direct.BlockSize)/direct.BlockSize*direct.BlockSize)} {
		// An extended partition has only two sectors.
		block, err := direct.Read(f, offset, min(direct.BlockSize, d.Size-offset))
		if err != nil {
			return one(Unreadable, "cannot be read at byte %d: %v; see the kernel's log", offset, err)
		}
		if offset == 0 && bytes.HasPrefix(block, []byte(blueStore)) {
			// libblkid recognizes it only since util-linux 2.38.
			return explainContent(d, Signature{Type: "ceph_bluestore"})
		}
	}
	return nil
}

// blueStore is the beginning of the storage of a Ceph OSD (ceph, src/os/bluestore/bluestore_types.h).
const blueStore = "bluestore block device"
