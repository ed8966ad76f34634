package device

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// What Resolve can say about a path.
var (
	// ErrMissing: nothing has the path.
	ErrMissing = errors.New("does not exist")
	// ErrNotBlock: what has the path is not a block device.
	ErrNotBlock = errors.New("is not a block device")
)

// Resolve returns the number of the block device that a path, or a chain of links, leads to.
//
// It asks this process' /dev, which is the node's: no process is started, and unlike readlink's the answers "there is
// nothing" and "it could not be read" are apart.
func (n *Node) Resolve(path string) (Number, error) { return n.resolve(path) }

func resolve(path string) (Number, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s %w", path, ErrMissing)
	case err != nil:
		return "", fmt.Errorf("resolve the device path: %w", err)
	}
	number, ok := numberOf(info)
	if !ok {
		return "", fmt.Errorf("%s %w", path, ErrNotBlock)
	}
	return number, nil
}

func numberOf(info os.FileInfo) (Number, bool) {
	const kind = fs.ModeDevice | fs.ModeCharDevice
	if info.Mode()&kind != fs.ModeDevice {
		return "", false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", false
	}
	rdev := uint64(stat.Rdev)
	return NewNumber(unix.Major(rdev), unix.Minor(rdev)), true
}

// Probe reads the device itself, right before it is given to LVM, and returns the reasons why it cannot be: udev's
// database, on which List and Explain rest, may be late, and it shows a device that cannot be read as a blank one.
// An empty list means: the device was read and is blank. ignore names signatures that the caller knows about.
func (n *Node) Probe(ctx context.Context, d Device, ignore ...string) []Reason {
	if reasons := readable(d); len(reasons) > 0 {
		return reasons
	}
	signatures, err := n.signatures(ctx, d.Name)
	if err != nil {
		return one(Unreadable, "could not be examined: %v", err)
	}
	var reasons []Reason
	for _, s := range signatures {
		if !slices.Contains(ignore, s.Type) {
			reasons = append(reasons, explainContent(d, s.Signature)...)
		}
	}
	return reasons
}

// found is a signature, and the byte of the device where it is.
type found struct {
	Signature
	offset int64
}

// signatures runs wipefs without letting it write. Its list is complete where blkid stops at the first hit, but it is
// empty, with exit code 0, for a device that gives read errors: readable comes first.
func (n *Node) signatures(ctx context.Context, path string) ([]found, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, err := n.runner.Run(ctx, wipefs, "--no-act", "--json", path)
	if err != nil {
		return nil, err
	}
	return decodeSignatures(out)
}

// decodeSignatures takes no output at all for "none": wipefs prints nothing for a blank device before util-linux 2.38.
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
		return nil, fmt.Errorf("output of wipefs is not the JSON that is expected: %w", err)
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

// readable opens the device for itself alone and reads its first and last block from the medium.
func readable(d Device) []Reason {
	// O_EXCL on a block device fails while a mount (in whichever namespace), an array or a mapping has it.
	// O_DIRECT passes by the page cache, which may still have blocks of a disk that is gone.
	f, err := os.OpenFile(d.Name, os.O_RDONLY|unix.O_EXCL|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return one(Busy, "is in use: something has it open exclusively")
	}
	if err != nil {
		return one(Unreadable, "cannot be opened: %v", err)
	}
	defer func() { _ = f.Close() }()

	info, err := f.Stat()
	if err != nil {
		return one(Unreadable, "cannot be examined: %v", err)
	}
	if number, ok := numberOf(info); !ok || number != d.Number {
		return one(Unreadable, "is another device than a moment ago (%s, it was %s)", number, d.Number)
	}
	for _, offset := range []int64{0, max(0, (d.Size-blockSize)/blockSize*blockSize)} {
		// An extended partition has two sectors.
		block, err := readDirect(f, offset, min(blockSize, d.Size-offset))
		if err != nil {
			return one(Unreadable, "cannot be read at byte %d: %v; see the kernel's log", offset, err)
		}
		if offset == 0 && bytes.HasPrefix(block, []byte(blueStore)) {
			// libblkid knows it since util-linux 2.38 only.
			return explainContent(d, Signature{Type: "ceph_bluestore"})
		}
	}
	return nil
}

// blueStore is how the storage of a Ceph OSD begins (ceph, src/os/bluestore/bluestore_types.h).
const blueStore = "bluestore block device"

const blockSize = 4096

// readDirect reads into pages of its own: O_DIRECT asks for aligned memory. Offset and size are multiples of the sector size.
func readDirect(f io.ReaderAt, offset, size int64) ([]byte, error) {
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Munmap(memory) }()
	if _, err = f.ReadAt(memory, offset); err != nil {
		return nil, err
	}
	return bytes.Clone(memory), nil
}
