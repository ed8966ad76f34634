package mounter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// Content is the content of a device.
type Content struct {
	// Kind is the name that libblkid uses, such as "ext4" or "crypto_LUKS"; "" for a blank device.
	Kind string
	// FileSystem reports whether the content can be mounted.
	FileSystem bool
}

// readable is the number of bytes that readEnds reads at both ends of a device, where file systems, RAID and partition
// tables have their signatures.
const readable = 1 << 20

// Probe reads a device and returns its content. After an error the content is unknown. It first reads the device,
// bypassing the page cache: blkid returns the same exit status for a blank device and for one with read errors.
func (m Mounter) Probe(ctx context.Context, path string) (Content, error) {
	if _, err := readEnds(path); err != nil {
		return Content{}, err
	}
	return m.signature(ctx, path)
}

// IsZero reads both ends of a device, and reports whether they have only zeros. It starts no process.
func (Mounter) IsZero(path string) (bool, error) { return readEnds(path) }

// readEnds reads both ends of a device and reports whether they have only zeros.
func readEnds(path string) (zero bool, err error) {
	zero = true
	err = readDirectly(path, readable, func(f *os.File, size int64, buffer []byte) error {
		buffer = buffer[:min(size, readable)]
		for _, at := range []int64{0, max(0, size-readable)} {
			n, err := f.ReadAt(buffer, at)
			if err != nil {
				return fmt.Errorf("read at %d: %w", at, err)
			}
			if n != len(buffer) {
				return fmt.Errorf("read at %d: got only %d bytes", at, n)
			}
			zero = zero && !slices.ContainsFunc(buffer, func(b byte) bool { return b != 0 })
		}
		return nil
	})
	return zero && err == nil, err
}

// readDirectly opens a device for reads that bypass the page cache, and passes it with its size and a buffer for them.
func readDirectly(path string, length int, read func(f *os.File, size int64, buffer []byte) error) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	// O_DIRECT needs aligned memory, which mmap returns.
	buffer, err := unix.Mmap(-1, 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(buffer) }()
	return read(f, size, buffer)
}

// Exit statuses of blkid(8).
const (
	blkidNothing   = 2
	blkidAmbiguous = 8
)

// signature returns the content of a device by its signatures.
func (m Mounter) signature(ctx context.Context, path string) (Content, error) {
	out, code, err := m.run(ctx, probeTimeout, exits(blkidNothing), sbin+"blkid", "--probe", "--output", "export", path)
	failure := (*host.Error)(nil)
	switch {
	case errors.As(err, &failure) && failure.ExitCode == blkidAmbiguous:
		return Content{}, errors.New("it has signatures of several kinds: see wipefs --no-act")
	case err != nil:
		return Content{}, err
	}
	return parseBlkid(out, code)
}

// parseBlkid parses the output and exit status of blkid --probe.
func parseBlkid(out []byte, code int) (Content, error) {
	if code == blkidNothing && len(bytes.TrimSpace(out)) == 0 {
		return Content{}, nil
	}
	if code != 0 {
		return Content{}, fmt.Errorf("blkid exited with %d and printed %q", code, out)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[key] = value
		}
	}
	switch {
	case values["TYPE"] != "":
		return Content{Kind: values["TYPE"], FileSystem: values["USAGE"] == "filesystem"}, nil
	case values["PTTYPE"] != "":
		return Content{Kind: "a partition table (" + values["PTTYPE"] + ")"}, nil
	}
	return Content{}, fmt.Errorf("blkid reports neither a blank device nor its content: %q", out)
}
