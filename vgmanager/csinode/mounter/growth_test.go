package mounter

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestGrowthRunsTheProgramOfTheFileSystem(t *testing.T) {
	const vfat = 0x4d44
	for name, test := range map[string]struct {
		magic  int64
		always bool
		ran    string
		fails  bool
	}{
		"ext4, at staging":     {magic: unix.EXT4_SUPER_MAGIC, ran: "/usr/sbin/resize2fs /dev/vg1/a"},
		"ext4":                 {magic: unix.EXT4_SUPER_MAGIC, always: true, ran: "/usr/sbin/resize2fs /dev/vg1/a"},
		"xfs, at staging":      {magic: unix.XFS_SUPER_MAGIC, ran: "/usr/sbin/xfs_growfs -d /staging"},
		"xfs":                  {magic: unix.XFS_SUPER_MAGIC, always: true, ran: "/usr/sbin/xfs_growfs -d /staging"},
		"another, at staging":  {magic: vfat},
		"another, on a demand": {magic: vfat, always: true, fails: true},
	} {
		programs := &fakePrograms{}
		err := Mounter{Programs: programs}.growWith(t.Context(), test.magic, "/dev/vg1/a", "/staging", test.always)
		if (err != nil) != test.fails || strings.Join(programs.commands, ";") != test.ran {
			t.Errorf("%s: ran %q, %v", name, programs.commands, err)
		}
	}
}

// extSuperblock returns the beginning of a device with an ext4 file system.
func extSuperblock(blocks uint64, logSize uint32, is64Bit bool) []byte {
	block := make([]byte, superblockSize)
	super := block[extSuperblockAt:]
	binary.LittleEndian.PutUint32(super[0x4:], uint32(blocks))
	binary.LittleEndian.PutUint32(super[0x18:], logSize)
	binary.LittleEndian.PutUint16(super[0x38:], unix.EXT4_SUPER_MAGIC)
	binary.LittleEndian.PutUint32(super[0x150:], uint32(blocks>>32))
	if is64Bit {
		binary.LittleEndian.PutUint32(super[0x60:], ext64Bit)
	}
	return block
}

func xfsSuperblock(blocks uint64, size uint32) []byte {
	block := make([]byte, superblockSize)
	copy(block, "XFSB")
	binary.BigEndian.PutUint32(block[4:], size)
	binary.BigEndian.PutUint64(block[8:], blocks)
	return block
}

func TestTheSizeInASuperblock(t *testing.T) {
	const gib = uint64(1) << 30
	for name, test := range map[string]struct {
		magic int64
		block []byte
		want  uint64
	}{
		"ext4":                  {unix.EXT4_SUPER_MAGIC, extSuperblock(gib/4096, 2, true), gib},
		"ext4 of 1 KiB blocks":  {unix.EXT4_SUPER_MAGIC, extSuperblock(gib/1024, 0, false), gib},
		"ext4 of 20 TiB":        {unix.EXT4_SUPER_MAGIC, extSuperblock(20<<40/4096, 2, true), 20 << 40},
		"ext3, no upper half":   {unix.EXT4_SUPER_MAGIC, extSuperblock(1<<32+5, 2, false), 5 * 4096},
		"ext4, a strange size":  {unix.EXT4_SUPER_MAGIC, extSuperblock(gib/4096, 200, true), 0},
		"ext4, a huge number":   {unix.EXT4_SUPER_MAGIC, extSuperblock(1<<63, 6, true), 0},
		"ext4, zeros":           {unix.EXT4_SUPER_MAGIC, make([]byte, superblockSize), 0},
		"xfs":                   {unix.XFS_SUPER_MAGIC, xfsSuperblock(gib/4096, 4096), gib},
		"xfs, a huge number":    {unix.XFS_SUPER_MAGIC, xfsSuperblock(1<<63, 65536), 0},
		"xfs, zeros":            {unix.XFS_SUPER_MAGIC, make([]byte, superblockSize), 0},
		"xfs, but has ext4":     {unix.XFS_SUPER_MAGIC, extSuperblock(gib/4096, 2, true), 0},
		"another, but has ext4": {0x4d44, extSuperblock(gib/4096, 2, true), 0},
	} {
		if got := sizeInSuperblock(test.magic, test.block); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}

// TestAFullDeviceNeedsNoGrowth compares superblocks with the size of a file. Any doubt means that the program runs.
func TestAFullDeviceNeedsNoGrowth(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	const size = 4 << 20
	for name, test := range map[string]struct {
		block []byte
		want  bool
	}{
		"full":     {extSuperblock(size/4096, 2, true), true},
		"smaller":  {extSuperblock(size/4096-1, 2, true), false},
		"larger":   {extSuperblock(size/4096+1, 2, true), false},
		"not ext4": {make([]byte, superblockSize), false},
	} {
		if err := os.WriteFile(path, append(test.block, make([]byte, size-superblockSize)...), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			got, err := fillsDevice(unix.EXT4_SUPER_MAGIC, path)
			// Some file systems do not support O_DIRECT.
			if err != nil && !strings.Contains(err.Error(), "invalid argument") || err == nil && got != test.want {
				t.Errorf("%s: got %t, %v", name, got, err)
			}
		}
	}
	for _, path := range []string{path + "none", os.DevNull} {
		if got, err := fillsDevice(unix.EXT4_SUPER_MAGIC, path); err == nil || got {
			t.Errorf("%s: got %t, %v", path, got, err)
		}
	}
}
