package mounter

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"

	"golang.org/x/sys/unix"
)

// Grow expands a mounted file system to the size of its device. Unless always is true, it does nothing if the file
// system is known to have this size, or cannot be expanded. It does not end with its context.
func (m Mounter) Grow(ctx context.Context, device, path string, always bool) error {
	var fs unix.Statfs_t
	if err := Retry(func() error { return unix.Statfs(path, &fs) }); err != nil {
		return fmt.Errorf("read the type of the file system at %s: %w", path, err)
	}
	magic := int64(fs.Type) //nolint:unconvert // Its type depends on the architecture.
	if !always {
		if readOnly, err := isReadOnly(device); err != nil || readOnly {
			return err
		}
		// If the superblock cannot be read, the program says what is wrong.
		if full, err := fillsDevice(magic, device); err == nil && full {
			return nil
		}
	}
	return m.growWith(ctx, magic, device, path, always)
}

// growWith expands a file system with the type of statfs(2). It leaves the check whether the file system has the size
// of its device to resize2fs and xfs_growfs.
func (m Mounter) growWith(ctx context.Context, magic int64, device, path string, always bool) error {
	ctx = context.WithoutCancel(ctx)
	var err error
	switch {
	case magic == unix.EXT4_SUPER_MAGIC: // also that of ext2 and ext3
		_, _, err = m.run(ctx, growTimeout, exits(0), sbin+"resize2fs", device)
	case magic == unix.XFS_SUPER_MAGIC:
		_, _, err = m.run(ctx, growTimeout, exits(0), sbin+"xfs_growfs", "-d", path)
	case always:
		err = fmt.Errorf("the file system on %s (type %#x) cannot be expanded: only ext4 and xfs are supported", device,
			magic)
	}
	return err
}

const (
	// superblockSize is the size of the beginning of a device with a superblock of ext4 or XFS.
	superblockSize = 4096
	// extSuperblockAt is the offset of the superblock of ext4.
	extSuperblockAt = 1024
	// ext64Bit is the feature of ext4 that gives the number of blocks an upper half.
	ext64Bit = 0x80
	// maxExtLogSize is that of the largest block of ext4, 64 KiB.
	maxExtLogSize = 6
)

// fillsDevice reports whether the superblock of a file system says that it has exactly the size of its device. The
// kernel may write a superblock some time after it has expanded the file system, but never before.
func fillsDevice(magic int64, path string) (full bool, err error) {
	err = readDirectly(path, superblockSize, func(f *os.File, size int64, block []byte) error {
		n, err := f.ReadAt(block, 0)
		if n != superblockSize {
			return fmt.Errorf("read the superblock on %s: got %d bytes: %w", path, n, err)
		}
		found := sizeInSuperblock(magic, block)
		full = found != 0 && found == uint64(size)
		return nil
	})
	return full, err
}

// sizeInSuperblock returns the size in bytes that the superblock of a file system with the type of statfs(2) has, or 0
// if it is unknown. See fs/ext4/ext4.h and fs/xfs/libxfs/xfs_format.h of the kernel for the formats.
func sizeInSuperblock(magic int64, block []byte) uint64 {
	var blocks, size uint64
	switch magic {
	case unix.EXT4_SUPER_MAGIC:
		super := block[extSuperblockAt:]
		logSize := binary.LittleEndian.Uint32(super[0x18:])
		if binary.LittleEndian.Uint16(super[0x38:]) != unix.EXT4_SUPER_MAGIC || logSize > maxExtLogSize {
			return 0
		}
		size = 1024 << logSize
		blocks = uint64(binary.LittleEndian.Uint32(super[0x4:]))
		if binary.LittleEndian.Uint32(super[0x60:])&ext64Bit != 0 {
			blocks |= uint64(binary.LittleEndian.Uint32(super[0x150:])) << 32
		}
	case unix.XFS_SUPER_MAGIC:
		if string(block[:4]) != "XFSB" {
			return 0
		}
		size = uint64(binary.BigEndian.Uint32(block[4:]))
		blocks = binary.BigEndian.Uint64(block[8:])
	}
	high, low := bits.Mul64(blocks, size)
	if high != 0 {
		return 0
	}
	return low
}

// isReadOnly reports whether a device refuses writes.
func isReadOnly(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	value, err := unix.IoctlGetUint32(int(f.Fd()), unix.BLKROGET)
	if err != nil {
		return false, fmt.Errorf("BLKROGET of %s: %w", path, err)
	}
	return value != 0, nil
}
