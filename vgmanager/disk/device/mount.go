package device

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/direct"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

// LastMount returns when the ext4 file system on a device was mounted last. It returns the zero time if the device has
// no ext4 file system, or if that was never mounted. XFS does not record it. The device can be in use. If the device
// does not respond, LastMount returns an error after at most 30 s.
func (n *Node) LastMount(ctx context.Context, d Device) (time.Time, error) {
	type result struct {
		time time.Time
		err  error
	}
	got, err := bounded.Do(ctx, n.reads, "superblock of "+string(d.Number), func(context.Context) result {
		block, err := firstBlock(d)
		if err != nil {
			return result{err: err}
		}
		return result{time: lastMount(block)}
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("device %s: %w", d.Name, err)
	}
	return got.time, got.err
}

func firstBlock(d Device) ([]byte, error) {
	f, err := os.OpenFile(d.Name, os.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if number, ok := direct.NumberOf(info); !ok || number != d.Number {
		return nil, fmt.Errorf("device %s was replaced by another device (%s, it was %s)", d.Name, number, d.Number)
	}
	return direct.Read(f, 0, direct.BlockSize)
}

// lastMount decodes the superblock of ext4, at byte 1024 of the device (struct ext4_super_block in fs/ext4/ext4.h).
func lastMount(block []byte) time.Time {
	const (
		superblock, magicAt, magic = 1024, 0x38, 0xEF53
		mountedAt, mountedHighAt   = 0x2C, 0x275
	)
	if len(block) < direct.BlockSize || binary.LittleEndian.Uint16(block[superblock+magicAt:]) != magic {
		return time.Time{}
	}
	seconds := int64(binary.LittleEndian.Uint32(block[superblock+mountedAt:])) |
		int64(block[superblock+mountedHighAt])<<32
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}
