package device

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
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
func (n *Node) Resolve(path string) (Number, error) {
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
			reasons = append(reasons, explainContent(d, s)...)
		}
	}
	return reasons
}

type signature struct {
	Type  string `json:"type"`
	UUID  string `json:"uuid"`
	Label string `json:"label"`
}

// signatures runs wipefs without letting it write. Its list is complete where blkid stops at the first hit, but it is
// empty, with exit code 0, for a device that gives read errors: readable comes first.
func (n *Node) signatures(ctx context.Context, path string) ([]signature, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, err := n.runner.Run(ctx, wipefs, "--no-act", "--json", path)
	if err != nil {
		return nil, err
	}
	return decodeSignatures(out)
}

// decodeSignatures takes no output at all for "none": wipefs prints nothing for a blank device before util-linux 2.38.
func decodeSignatures(out []byte) ([]signature, error) {
	if len(bytes.TrimSpace(out)) == 0 {
		return nil, nil
	}
	list := struct {
		Signatures []signature `json:"signatures"`
	}{}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("output of wipefs is not the JSON that is expected: %w", err)
	}
	return list.Signatures, nil
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
	for _, offset := range []int64{0, (d.Size - blockSize) / blockSize * blockSize} {
		if err := readBlock(f, offset); err != nil {
			return one(Unreadable, "cannot be read at byte %d: %v; see the kernel's log", offset, err)
		}
	}
	return nil
}

const blockSize = 4096

// readBlock reads one block into a page of its own: O_DIRECT asks for aligned memory.
func readBlock(f *os.File, offset int64) error {
	memory, err := unix.Mmap(-1, 0, blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(memory) }()
	_, err = f.ReadAt(memory, offset)
	return err
}
