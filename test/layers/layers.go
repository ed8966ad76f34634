// Package layers creates encrypted devices and RAID arrays for tests on a bare node, with the interfaces of the kernel
// that cryptsetup and mdadm use: most nodes of the lab have neither program. It also has content of devices that LVM
// and blkid of a host recognize.
package layers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/nodelvm"
)

// LUKSUUID is the UUID in LUKSHeader.
const LUKSUUID = "7c3ab2ac-6f0e-4d40-9d0c-2a4b8a5e0b11"

// luksData is the offset of the data in a container, in sectors of 512 bytes. It is the default of cryptsetup.
const luksData = 32768

// LUKSHeader returns what libblkid checks of a LUKS header of version 1 or 2 (cryptsetup, docs/on-disk-format). Version
// 2 has a second header, which is found if the first one is wiped.
func LUKSHeader(version uint16) []byte {
	first := make([]byte, 592)
	copy(first, "LUKS\xba\xbe")
	binary.BigEndian.PutUint16(first[6:], version)
	copy(first[168:], LUKSUUID)
	if version == 1 {
		copy(first[8:], "aes")
		return first
	}
	const size = 16 << 10
	binary.BigEndian.PutUint64(first[8:], size)
	both := make([]byte, size+len(first))
	copy(both, first)
	second := both[size:]
	copy(second, first)
	copy(second, "SKUL\xba\xbe")
	binary.BigEndian.PutUint64(second[256:], size)
	return both
}

// OpenLUKS2 opens a container as `cryptsetup open` does: /dev/mapper/NAME is its data.
func OpenLUKS2(disk, name string) error {
	sectors, err := sectorsOf(disk)
	if err != nil {
		return err
	}
	table := fmt.Sprintf("0 %d crypt aes-xts-plain64 %s 0 %s %d", sectors-luksData, strings.Repeat("1f", 64), disk,
		luksData)
	return run(nodelvm.Command("/usr/sbin/dmsetup", "create", name, "--uuid", LUKSMappingUUID(name), "--table", table))
}

// LUKSMappingUUID returns the UUID of an open container, as cryptsetup sets it. udev has it in the link
// /dev/disk/by-id/dm-uuid-UUID.
func LUKSMappingUUID(name string) string {
	return "CRYPT-LUKS2-" + strings.ReplaceAll(LUKSUUID, "-", "") + "-" + name
}

// CloseLUKS closes a container. It fails if the container is in use.
func CloseLUKS(name string) error {
	return run(nodelvm.Command("/usr/sbin/dmsetup", "remove", "--retry", name))
}

func sectorsOf(disk string) (int64, error) {
	f, err := os.Open(disk)
	if err != nil {
		return 0, fmt.Errorf("size of a disk: %w", err)
	}
	defer func() { _ = f.Close() }()
	bytes, err := f.Seek(0, unix.SEEK_END)
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", disk, err)
	}
	return bytes / 512, nil
}

func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	return nil
}

// MemberOffset is where a member of an array has its superblock of version 1.2, in bytes.
const MemberOffset = 4096

// MemberSuperblock returns the superblock of version 1.2 of a member (Linux, include/uapi/linux/raid/md_p.h).
func MemberSuperblock() []byte {
	sb := make([]byte, 512)
	binary.LittleEndian.PutUint32(sb, 0xa92b4efc)
	binary.LittleEndian.PutUint32(sb[4:], 1)
	copy(sb[16:], "0123456789abcdef")
	copy(sb[32:], "node:0")
	binary.LittleEndian.PutUint64(sb[144:], 8)
	// blkid of util-linux 2.41 ignores superblocks with a wrong checksum.
	var sum uint64
	for at := 0; at < 256; at += 4 {
		sum += uint64(binary.LittleEndian.Uint32(sb[at:]))
	}
	binary.LittleEndian.PutUint32(sb[216:], uint32(sum)+uint32(sum>>32))
	return sb
}

// StartMirror starts a mirror /dev/NAME of two disks (Linux, Documentation/admin-guide/md.rst). The disks must have
// their superblocks. bytes is its size.
func StartMirror(name string, bytes int64, members ...string) error {
	if err := run(exec.Command("/usr/sbin/modprobe", "raid1")); err != nil {
		return err
	}
	dir := "/sys/block/" + name + "/md/"
	type setting struct{ file, value string }
	settings := []setting{
		{"/sys/module/md_mod/parameters/new_array", name},
		{dir + "metadata_version", "none"},
		{dir + "level", "raid1"},
		{dir + "raid_disks", strconv.Itoa(len(members))},
	}
	for slot, member := range members {
		number, err := os.ReadFile("/sys/class/block/" + filepath.Base(member) + "/dev")
		if err != nil {
			return fmt.Errorf("array %s: %w", name, err)
		}
		of := dir + "dev-" + filepath.Base(member) + "/"
		settings = append(settings, setting{dir + "new_dev", strings.TrimSpace(string(number))},
			setting{of + "offset", "2048"}, setting{of + "slot", strconv.Itoa(slot)})
	}
	settings = append(settings, setting{dir + "component_size", strconv.FormatInt(bytes>>10, 10)},
		setting{dir + "array_state", "active"})
	for _, s := range settings {
		if err := os.WriteFile(s.file, []byte(s.value), 0o200); err != nil {
			return fmt.Errorf("array %s: %w", name, err)
		}
	}
	return nil
}

// StopArray stops an array, or does nothing if it does not exist. It fails if the array is in use.
func StopArray(name string) error {
	err := os.WriteFile("/sys/block/"+name+"/md/array_state", []byte("clear"), 0o200)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("stop array %s: %w", name, err)
	}
	return nil
}
