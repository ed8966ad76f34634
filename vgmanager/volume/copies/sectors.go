package copies

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// startLength is how many bytes at the start of a volume say what its content is. It is a multiple of all logical
// sectors.
const startLength = 4096

// Positions in the start of a volume: fs/xfs/libxfs/xfs_format.h (xfs_dsb) and fs/ext4/ext4.h (ext4_super_block) of
// Linux, and the GPT header of UEFI, which is in the second logical sector.
const (
	xfsSectorAt   = 102
	ext4At        = 1024
	ext4BlockAt   = ext4At + 24
	ext4MagicAt   = ext4At + 56
	ext4Magic     = 0xef53
	maxExt4Shift  = 6
	smallestBlock = 1024
	gptAt         = 512
)

// maxSector returns the size in bytes of the largest logical sectors of a disk on which the content of a volume can be
// used, or 0 if nothing is known to limit it. The content of an encrypted volume is not known.
func maxSector(start []byte) uint64 {
	shift := binary.LittleEndian.Uint32(start[ext4BlockAt:])
	switch {
	case bytes.HasPrefix(start, []byte("XFSB")):
		return uint64(binary.BigEndian.Uint16(start[xfsSectorAt:]))
	case binary.LittleEndian.Uint16(start[ext4MagicAt:]) == ext4Magic && shift <= maxExt4Shift:
		return smallestBlock << shift
	case bytes.HasPrefix(start[gptAt:], []byte("EFI PART")):
		return gptAt
	}
	return 0
}

// checkSector returns an error if the content of the source cannot be used on the disks of the target, before the first
// byte of it is written.
func checkSector(d device, largest uint64) error {
	if largest == 0 {
		return nil
	}
	sector, err := d.SectorSize()
	if err != nil {
		return fmt.Errorf("read the size of the logical sectors: %w", err)
	}
	if sector <= largest {
		return nil
	}
	return fmt.Errorf("%w: its disk has logical sectors of %d bytes, and the file system or partition table of the "+
		"source can be used with at most %d: use a node or device class whose disks have smaller sectors, or copy the "+
		"files with a Pod to a new volume", ErrUnsuitable, sector, largest)
}
