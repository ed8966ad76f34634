//go:build lab

package device

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/test/layers"
	"github.com/lvm-storage/lvm-operator/test/limit"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/direct"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// lab is a node with unused disks. Tests use the first one. The others have content, and each test checks at its end
// that no byte of it changed.
type lab struct {
	*testing.T
	n      *Node
	runner *editedRunner
	disk   string
}

// editedRunner runs programs on the node, except those that a test replaces.
type editedRunner struct {
	host.Runner
	instead func(name string, args []string) (taken bool, err error)
}

func (r *editedRunner) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	if r.instead != nil {
		if taken, err := r.instead(name, args); taken {
			return nil, err
		}
	}
	return r.Runner.Run(ctx, name, args...)
}

// newLab requires a first disk of 128 MiB or more. The others must have 16 MiB.
func newLab(t *testing.T) *lab {
	t.Helper()
	disks := strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")
	if len(disks) < 3 {
		t.Fatal("LVMS_TEST_DISKS must name three blank disks of a lab node")
	}
	l := &lab{T: t, runner: &editedRunner{Runner: nodelvm.New()}, disk: disks[0]}
	l.n = New(l.runner)
	sums := map[string]string{}
	for _, other := range disks[1:3] {
		l.fill(other)
		sums[other] = l.sum(other)
	}
	l.blank()
	t.Cleanup(func() {
		l.blank()
		for other, sum := range sums {
			if l.sum(other) != sum {
				t.Errorf("the content of %s changed, which nobody named", other)
			}
		}
	})
	return l
}

// each runs a part of the test on a blank disk.
func (l *lab) each(name string, part func(l *lab)) {
	l.Helper()
	l.Run(name, func(t *testing.T) {
		own := &lab{T: t, runner: &editedRunner{Runner: l.runner.Runner}, disk: l.disk}
		own.n = New(own.runner)
		t.Cleanup(own.blank)
		part(own)
	})
}

func (l *lab) sh(name string, args ...string) string {
	l.Helper()
	out, err := nodelvm.Command(name, args...).CombinedOutput()
	if err != nil {
		l.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (l *lab) ok(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *lab) settle() {
	l.Helper()
	l.sh("/usr/bin/udevadm", "settle", "--timeout=30")
}

// write writes bytes to a disk and syncs them.
func (l *lab) write(disk string, offset int64, content []byte) {
	l.Helper()
	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	l.ok(err)
	_, err = f.WriteAt(content, offset)
	l.ok(errors.Join(err, f.Sync(), f.Close()))
}

// fill writes content to both ends of a disk.
func (l *lab) fill(disk string) {
	l.Helper()
	l.write(disk, 0, noise(8<<20))
	l.write(disk, l.size(disk)-8<<20, noise(8<<20))
}

func noise(size int) []byte {
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(content)
	return content
}

// blank makes the first disk blank at the ends and where a partition can start, and writes noise between them that a
// wipe must not change.
func (l *lab) blank() {
	l.Helper()
	const edge = 8 << 20
	l.write(l.disk, 0, make([]byte, edge))
	for start := int64(edge); start < 100<<20; start += edge {
		l.write(l.disk, start, make([]byte, 2<<20))
	}
	l.write(l.disk, l.size(l.disk)-edge, make([]byte, edge))
	l.write(l.disk, 100<<20, noise(4<<20))
	l.settle()
	_ = rereadPartitions(Device{Name: l.disk})
	l.settle()
	if out := l.sh("/usr/sbin/wipefs", "--no-act", l.disk); out != "" {
		l.Fatalf("%s is not blank: %s", l.disk, out)
	}
}

func (l *lab) size(disk string) int64 {
	l.Helper()
	f, err := os.Open(disk)
	l.ok(err)
	size, err := f.Seek(0, 2)
	l.ok(errors.Join(err, f.Close()))
	return size
}

// sector returns the logical sector size of a disk.
func (l *lab) sector(disk string) int64 {
	l.Helper()
	size, err := strconv.ParseInt(strings.TrimSpace(l.sh("/usr/sbin/blockdev", "--getss", disk)), 10, 64)
	l.ok(err)
	return size
}

// sum returns a checksum of a device, read past the page cache.
func (l *lab) sum(disk string) string {
	l.Helper()
	f, err := os.OpenFile(disk, os.O_RDONLY|unix.O_DIRECT, 0)
	l.ok(err)
	defer func() { _ = f.Close() }()
	unix.Sync()
	memory, err := unix.Mmap(-1, 0, 4<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	l.ok(err)
	defer func() { _ = unix.Munmap(memory) }()
	sum := sha256.New()
	for {
		n, err := f.Read(memory)
		if n == 0 {
			return hex.EncodeToString(sum.Sum(nil))
		}
		l.ok(err)
		sum.Write(memory[:n])
	}
}

// device returns the current state of a device.
func (l *lab) device(name string) Device {
	l.Helper()
	devices, err := l.n.List(l.Context())
	l.ok(err)
	at := slices.IndexFunc(devices, func(d Device) bool { return d.Name == name })
	if at < 0 {
		l.Fatalf("%s is not in the list", name)
	}
	return devices[at]
}

func (l *lab) options(name string) WipeOptions {
	l.Helper()
	return WipeOptions{
		Device: l.device(name), BackupDir: filepath.Join(l.TempDir(), "backup"),
		Protected: func(PV) string { return "" },
		Carried:   func(context.Context, Device, bool) (string, error) { return "", nil },
	}
}

// gpt writes a GUID partition table with partitions of 32 MiB, starting at 16 MiB (UEFI, 5.3).
func (l *lab) gpt(disk string, partitions int) {
	l.Helper()
	sector := uint64(l.sector(disk))
	sectors := uint64(l.size(disk)) / sector
	entries := make([]byte, 128*128)
	// table is the size of the entries in sectors.
	table := uint64(len(entries)) / sector
	for i := range partitions {
		e := entries[i*128:]
		copy(e, guid("0fc63daf-8483-4772-8e79-3d69d8477de4"))
		copy(e[16:], []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, byte(i)})
		first := uint64(16+i*32) << 20 / sector
		binary.LittleEndian.PutUint64(e[32:], first)
		binary.LittleEndian.PutUint64(e[40:], first+32<<20/sector-1)
	}
	header := func(own, other, entriesAt uint64) []byte {
		h := make([]byte, sector)
		copy(h, "EFI PART\x00\x00\x01\x00")
		binary.LittleEndian.PutUint32(h[12:], 92)
		for offset, value := range map[int]uint64{24: own, 32: other, 40: 2 + table, 48: sectors - 2 - table,
			72: entriesAt} {
			binary.LittleEndian.PutUint64(h[offset:], value)
		}
		copy(h[56:], guid("6a1f4b0e-5d4c-4f3a-9b52-6f3c1d2e4a5b"))
		binary.LittleEndian.PutUint32(h[80:], 128)
		binary.LittleEndian.PutUint32(h[84:], 128)
		binary.LittleEndian.PutUint32(h[88:], crc32.ChecksumIEEE(entries))
		binary.LittleEndian.PutUint32(h[16:], crc32.ChecksumIEEE(h[:92]))
		return h
	}
	l.write(disk, int64((sectors-1-table)*sector), entries)
	l.write(disk, int64((sectors-1)*sector), header(sectors-1, 1, sectors-1-table))
	l.write(disk, int64(2*sector), entries)
	l.write(disk, int64(sector), header(1, sectors-1, 2))
	l.write(disk, 0, mbr(1, entryOf(0xee, 1, uint32(sectors-1))))
	l.partitionsAppear(disk, partitions)
}

func guid(text string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil {
		panic(err)
	}
	slices.Reverse(b[:4])
	slices.Reverse(b[4:6])
	slices.Reverse(b[6:8])
	return b
}

func entryOf(kind byte, first, sectors uint32) []byte {
	e := make([]byte, 16)
	e[4] = kind
	binary.LittleEndian.PutUint32(e[8:], first)
	binary.LittleEndian.PutUint32(e[12:], sectors)
	return e
}

func mbr(id uint32, entries ...[]byte) []byte {
	sector := make([]byte, 512)
	binary.LittleEndian.PutUint32(sector[440:], id)
	for i, e := range entries {
		copy(sector[446+16*i:], e)
	}
	sector[510] = 0x55
	sector[511] = 0xaa
	return sector
}

// dos writes a DOS table: a primary partition, and an extended one that contains a logical one.
func (l *lab) dos(disk string) {
	l.Helper()
	mib := uint32((1 << 20) / l.sector(disk))
	l.write(disk, 64<<20, mbr(0, entryOf(0x83, mib, 32*mib)))
	l.write(disk, 0, mbr(0x1234, entryOf(0x83, 16*mib, 32*mib), entryOf(0x05, 64*mib, 40*mib)))
	l.partitionsAppear(disk, 3)
}

func (l *lab) partitionsAppear(disk string, count int) {
	l.Helper()
	l.settle()
	l.ok(rereadPartitions(Device{Name: disk}))
	l.settle()
	if left, err := (wipe{node: l.n}).partitionsLeft(Device{KernelName: disk}); err != nil || len(left) != count {
		l.Fatalf("%s has the partitions %v (%v), want %d", disk, left, err, count)
	}
}

// luks writes a LUKS header.
func (l *lab) luks(disk string) { l.write(disk, 0, layers.LUKSHeader(1)) }

// raid writes a member's superblock.
func (l *lab) raid(disk string) { l.write(disk, layers.MemberOffset, layers.MemberSuperblock()) }

// contents are types of content of a disk. Each is created with the tool of the node, if there is one.
var contents = map[string]struct {
	make func(l *lab, disk string)
	want []string
}{
	"nothing": {func(*lab, string) {}, nil},
	"ext4":    {func(l *lab, disk string) { l.sh("/usr/sbin/mkfs.ext4", "-F", "-q", disk) }, []string{"ext4"}},
	"xfs": {func(l *lab, disk string) { l.sh("/usr/sbin/mkfs.xfs", "--unsupported", "-f", "-q", disk) },
		[]string{"xfs"}},
	"swap":   {func(l *lab, disk string) { l.sh("/usr/sbin/mkswap", disk) }, []string{"swap"}},
	"LUKS":   {func(l *lab, disk string) { l.luks(disk) }, []string{"crypto_LUKS"}},
	"LUKS 2": {func(l *lab, disk string) { l.write(disk, 0, layers.LUKSHeader(2)) }, []string{"crypto_LUKS"}},
	"RAID":   {func(l *lab, disk string) { l.raid(disk) }, []string{"linux_raid_member"}},
	"Ceph": {func(l *lab, disk string) {
		l.write(disk, 0, []byte("bluestore block device\n7c3ab2ac-6f0e-4d40-9d0c-2a4b8a5e0b11\n"))
	}, []string{"ceph_bluestore"}},
	"PV of no group": {func(l *lab, disk string) { l.sh("/usr/sbin/pvcreate", "-qq", disk) }, []string{"LVM2_member"}},
	"PV of a group": {func(l *lab, disk string) { l.sh("/usr/sbin/vgcreate", "-qq", "foreign", disk) },
		[]string{"LVM2_member"}},
	"GPT, empty": {func(l *lab, disk string) { l.gpt(disk, 0) }, []string{"gpt", "PMBR"}},
	"GPT": {func(l *lab, disk string) {
		l.gpt(disk, 3)
		l.sh("/usr/sbin/mkfs.ext4", "-F", "-q", disk+"1")
		l.sh("/usr/sbin/pvcreate", "-qq", disk+"2")
	}, []string{"ext4", "LVM2_member", "gpt", "PMBR"}},
	"DOS": {func(l *lab, disk string) {
		l.dos(disk)
		l.sh("/usr/sbin/mkfs.ext4", "-F", "-q", disk+"1")
		l.sh("/usr/sbin/mkswap", disk+"5")
	}, []string{"ext4", "swap", "dos"}},
	"two file systems, one over the other": {func(l *lab, disk string) {
		l.sh("/usr/sbin/mkfs.ext4", "-F", "-q", disk)
		l.raid(disk)
	}, []string{"ext4", "linux_raid_member"}},
}

// TestLabWipe wipes a disk, checks that it is blank, and restores the saved data: every byte is as before.
func TestLabWipe(t *testing.T) {
	l := newLab(t)
	for name, content := range contents {
		l.each(name, func(l *lab) {
			content.make(l, l.disk)
			l.settle()
			before := l.sum(l.disk)
			options := l.options(l.disk)
			if name == "PV of a group" {
				options.PVs = map[Number]PV{options.Device.Number: {UUID: options.Device.UUID, Group: "foreign"}}
			}
			begun := time.Now()
			result, reasons, err := l.n.Wipe(l.Context(), options)
			if err != nil || len(reasons) != 0 {
				l.Fatalf("got %v, %v", reasons, err)
			}
			l.Logf("wiped %v in %v", result.Found, time.Since(begun).Round(time.Millisecond))
			for _, want := range content.want {
				if !slices.ContainsFunc(result.Found, func(s Signature) bool { return s.Type == want }) {
					l.Errorf("found %v, want %s", result.Found, want)
				}
			}
			l.wantBlank()
			l.wipeAgain()
			l.sh("/bin/sh", result.Restore)
			l.settle()
			if l.sum(l.disk) != before {
				l.Error("what was saved is not all that was overwritten")
			}
		})
	}
}

func (l *lab) wantBlank() {
	l.Helper()
	l.settle()
	d := l.device(l.disk)
	if reasons := append(Explain(d, nil), l.n.Probe(l.Context(), d)...); len(reasons) != 0 {
		l.Errorf("%s is not blank: %v", l.disk, reasons)
	}
	if nodes, err := filepath.Glob(l.disk + "[0-9]*"); err != nil || len(nodes) != 0 {
		l.Errorf("there are still %v (%v)", nodes, err)
	}
	// Warnings are ignored: the devices file keeps the entry of a removed physical volume.
	out, err := nodelvm.Command("/usr/sbin/pvs", "--noheadings", "-o", "pv_name", "-a", "-S",
		"pv_name="+l.disk+"&&pv_uuid!=\"\"").Output()
	l.ok(err)
	if name := strings.TrimSpace(string(out)); name != "" {
		l.Errorf("LVM still knows %s", name)
	}
}

func (l *lab) wipeAgain() {
	l.Helper()
	result, reasons, err := l.n.Wipe(l.Context(), l.options(l.disk))
	if err != nil || len(reasons) != 0 || len(result.Found) != 0 {
		l.Errorf("called again: %+v, %v, %v", result, reasons, err)
	}
}

// inUse are ways in which a device can be in use. Each returns the name of the device to wipe.
var inUse = map[string]struct {
	use  func(l *lab) string
	want Code
}{
	"mounted": {func(l *lab) string {
		l.sh("/usr/sbin/mkfs.ext4", "-F", "-q", l.disk)
		l.mount(l.disk)
		return l.disk
	}, Mounted},
	"mounted in another namespace": {func(l *lab) string {
		l.sh("/usr/sbin/mkfs.ext4", "-F", "-q", l.disk)
		l.settle()
		l.background("/usr/bin/unshare", "--mount", "--propagation=private", "/bin/sh", "-c",
			"mount -o ro "+l.disk+" "+l.TempDir()+" && echo ready && sleep 1000")
		return l.disk
	}, Busy},
	"a partition is mounted": {func(l *lab) string {
		l.gpt(l.disk, 2)
		l.sh("/usr/sbin/mkfs.ext4", "-F", "-q", l.disk+"2")
		l.mount(l.disk + "2")
		return l.disk
	}, Mounted},
	"swap": {func(l *lab) string {
		l.sh("/usr/sbin/mkswap", l.disk)
		l.sh("/usr/sbin/swapon", l.disk)
		l.Cleanup(func() { l.sh("/usr/sbin/swapoff", l.disk) })
		return l.disk
	}, SwapInUse},
	"held by a mapping": {func(l *lab) string {
		l.luks(l.disk)
		l.mapping("held", fmt.Sprintf("0 2048 linear %s 4096", l.disk))
		return l.disk
	}, HasHolders},
	"encrypted and open": {func(l *lab) string {
		l.luks(l.disk)
		l.mapping("open", fmt.Sprintf("0 2048 crypt aes-xts-plain64 %s 0 %s 4096", strings.Repeat("1f", 64), l.disk))
		return l.disk
	}, HasHolders},
	"a partition is held": {func(l *lab) string {
		l.gpt(l.disk, 1)
		l.mapping("held", fmt.Sprintf("0 2048 linear %s1 0", l.disk))
		return l.disk
	}, HasHolders},
	"open exclusively": {func(l *lab) string {
		l.exclusively(l.disk)
		return l.disk
	}, Busy},
	"a partition is open exclusively": {func(l *lab) string {
		l.gpt(l.disk, 1)
		l.exclusively(l.disk + "1")
		return l.disk
	}, Busy},
	"a logical volume on it": {func(l *lab) string {
		l.sh("/usr/sbin/vgcreate", "-qq", "foreign", l.disk)
		l.sh("/usr/sbin/lvcreate", "-qq", "-y", "-n", "v", "-L", "8M", "foreign")
		l.Cleanup(func() { l.sh("/usr/sbin/vgremove", "-qq", "-ff", "-y", "foreign") })
		return l.disk
	}, HasHolders},
	"behind a loop device": {func(l *lab) string {
		l.loop(l.disk)
		return l.disk
	}, HasHolders},
	"behind a loop device of another mount namespace": {func(l *lab) string {
		l.sh("/usr/bin/unshare", "--mount", "/bin/bash", "-c",
			"mount -t tmpfs none /mnt && cp -a "+l.disk+" /mnt/block && losetup --find /mnt/block")
		loop := strings.TrimSpace(l.sh("/usr/sbin/losetup", "--list", "--noheadings", "--output", "NAME"))
		l.Cleanup(func() { l.sh("/usr/sbin/losetup", "--detach", loop) })
		file, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(loop), "loop/backing_file"))
		l.ok(err)
		if _, err := os.Stat(strings.TrimSpace(string(file))); err == nil {
			l.Fatalf("%s leads somewhere here: this shows nothing", file)
		}
		return l.disk
	}, HasHolders},
	"a loop device that is mounted": {func(l *lab) string {
		file := filepath.Join(l.TempDir(), "image")
		l.ok(os.WriteFile(file, nil, 0o600))
		l.ok(os.Truncate(file, 64<<20))
		loop := l.loop(file)
		l.sh("/usr/sbin/mkfs.ext4", "-F", "-q", loop)
		l.mount(loop)
		return loop
	}, Mounted},
	"read-only": {func(l *lab) string {
		l.sh("/usr/sbin/mkswap", l.disk)
		l.sh("/usr/sbin/blockdev", "--setro", l.disk)
		l.Cleanup(func() { l.sh("/usr/sbin/blockdev", "--setrw", l.disk) })
		return l.disk
	}, ReadOnly},
	"suspended": {func(l *lab) string {
		name := l.mapping("still", fmt.Sprintf("0 200000 linear %s 0", l.disk))
		l.sh("/usr/sbin/dmsetup", "suspend", "still")
		l.Cleanup(func() { l.sh("/usr/sbin/dmsetup", "resume", "still") })
		return name
	}, Suspended},
	"cannot be read at its end": {func(l *lab) string {
		return l.mapping("broken", fmt.Sprintf("0 100000 linear %s 0\n100000 100000 error", l.disk))
	}, Unreadable},
}

func (l *lab) mount(disk string) {
	l.Helper()
	l.settle()
	dir := l.TempDir()
	// Read-only, because changes by the file system are not part of the test.
	l.sh("/usr/bin/mount", "-o", "ro", disk, dir)
	l.Cleanup(func() { l.sh("/usr/bin/umount", dir) })
}

// mapping creates a device-mapper device and returns its name.
func (l *lab) mapping(name, table string) string {
	l.Helper()
	l.sh("/usr/sbin/dmsetup", "create", name, "--table", table)
	l.Cleanup(func() {
		l.settle()
		l.sh("/usr/sbin/dmsetup", "remove", "--retry", name)
	})
	return "/dev/mapper/" + name
}

func (l *lab) loop(file string) string {
	l.Helper()
	name := strings.TrimSpace(l.sh("/usr/sbin/losetup", "--find", "--show", file))
	l.Cleanup(func() { l.sh("/usr/sbin/losetup", "--detach", name) })
	return name
}

func (l *lab) exclusively(disk string) {
	l.Helper()
	f, err := os.OpenFile(disk, os.O_RDONLY|unix.O_EXCL, 0)
	l.ok(err)
	l.Cleanup(func() { l.ok(f.Close()) })
}

// background starts a program, waits until it is ready, and ends it with the test.
func (l *lab) background(name string, args ...string) {
	l.Helper()
	cmd := nodelvm.Command(name, args...)
	out, err := cmd.StdoutPipe()
	l.ok(err)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	l.ok(cmd.Start())
	l.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
	if n, err := out.Read(make([]byte, 10)); n == 0 {
		l.Fatalf("%s is not ready: %v", name, err)
	}
}

func TestLabWipeIsRefused(t *testing.T) {
	l := newLab(t)
	for name, tt := range inUse {
		l.each(name, func(l *lab) {
			subject := tt.use(l)
			l.settle()
			options := l.options(subject)
			before := l.sum(l.disk)
			for range 2 {
				result, reasons, err := l.n.Wipe(l.Context(), options)
				if err != nil || len(result.Found) != 0 ||
					!slices.ContainsFunc(reasons, func(r Reason) bool { return r.Code == tt.want }) {
					l.Errorf("got %+v, %v, %v; want %s", result, reasons, err, tt.want)
				}
			}
			if l.sum(l.disk) != before {
				l.Error("the disk was changed")
			}
			if _, err := os.Stat(options.BackupDir); !errors.Is(err, os.ErrNotExist) {
				l.Errorf("something was saved: %v", err)
			}
		})
	}
}

// TestLabWipeOfSomethingElse: the device is no longer the one that the decision was about.
func TestLabWipeOfSomethingElse(t *testing.T) {
	tests := map[string]func(l *lab, o *WipeOptions){
		"a file system was made meanwhile": func(l *lab, _ *WipeOptions) {
			l.sh("/usr/sbin/mkfs.ext4", "-F",
				"-q", l.disk)
		},
		"it was mounted meanwhile": func(l *lab, _ *WipeOptions) { l.mount(l.disk) },
		"another disk": func(_ *lab, o *WipeOptions) {
			o.Device.Serial = "another"
			o.Device.WWN = "another"
		},
		"another number": func(_ *lab, o *WipeOptions) { o.Device.Number = "8:4711" },
		"it carries what is protected": func(_ *lab, o *WipeOptions) {
			o.Carried = func(context.Context, Device, bool) (string, error) { return "belongs to vg1", nil }
		},
		"what it carries cannot be read": func(_ *lab, o *WipeOptions) {
			o.Carried = func(context.Context, Device, bool) (string, error) {
				return "",
					errors.New("input/output error")
			}
		},
		"protected": func(_ *lab, o *WipeOptions) {
			o.PVs = map[Number]PV{o.Device.Number: {UUID: "p", Group: "vg1"}}
			o.Protected = func(PV) string { return "belongs to vg1" }
		},
	}
	l := newLab(t)
	for name, change := range tests {
		l.each(name, func(l *lab) {
			l.sh("/usr/sbin/mkfs.ext4", "-F", "-q", l.disk)
			l.settle()
			options := l.options(l.disk)
			change(l, &options)
			l.settle()
			before := l.sum(l.disk)
			result, reasons, err := l.n.Wipe(l.Context(), options)
			if err != nil || len(reasons) == 0 || len(result.Found) != 0 || l.sum(l.disk) != before {
				l.Errorf("got %+v, %v, %v", result, reasons, err)
			}
			l.Log(reasons)
		})
	}
}

// TestLabWipeThatFails checks that an error says how far the wipe came.
func TestLabWipeThatFails(t *testing.T) {
	l := newLab(t)
	isWipe := func(name string, args []string) bool { return name == wipefs && slices.Contains(args, "--all") }
	l.each("the backup cannot be written", func(l *lab) {
		l.sh("/usr/sbin/mkswap", l.disk)
		l.settle()
		options := l.options(l.disk)
		before := l.sum(l.disk)
		l.ok(os.WriteFile(options.BackupDir, nil, 0o600))
		if _, reasons, err := l.n.Wipe(l.Context(), options); err == nil || len(reasons) != 0 ||
			!strings.Contains(err.Error(), "nothing was changed") || l.sum(l.disk) != before {
			l.Errorf("got %v, %v", reasons, err)
		}
	})
	l.each("the signatures cannot be listed", func(l *lab) {
		options := l.options(l.disk)
		before := l.sum(l.disk)
		l.runner.instead = func(name string, _ []string) (bool, error) {
			return name == wipefs,
				errors.New("no wipefs")
		}
		if _, reasons, err := l.n.Wipe(l.Context(), options); err != nil || len(reasons) != 1 ||
			reasons[0].Code != Unreadable || l.sum(l.disk) != before {
			l.Errorf("got %v, %v", reasons, err)
		}
	})
	l.each("in the middle", func(l *lab) {
		l.gpt(l.disk, 2)
		l.settle()
		options := l.options(l.disk)
		wipes := 0
		l.runner.instead = func(name string, args []string) (bool, error) {
			if !isWipe(name, args) {
				return false, nil
			}
			wipes++
			return wipes == 2, errors.New("no luck")
		}
		result, _, err := l.n.Wipe(l.Context(), options)
		if err == nil || !strings.Contains(err.Error(), "no luck") ||
			!strings.Contains(err.Error(), "already wiped: "+l.disk+"1") || len(result.Backup) == 0 {
			l.Errorf("got %+v, %v", result, err)
		}
	})
	l.each("wipefs does nothing", func(l *lab) {
		l.sh("/usr/sbin/mkswap", l.disk)
		l.settle()
		options := l.options(l.disk)
		l.runner.instead = func(name string, args []string) (bool, error) { return isWipe(name, args), nil }
		if _, _, err := l.n.Wipe(l.Context(), options); err == nil || !strings.Contains(err.Error(), "not blank") {
			l.Errorf("got %v", err)
		}
	})
}

// TestLabContentIsExplained checks that List and Probe report the same for each content.
func TestLabContentIsExplained(t *testing.T) {
	want := map[string][]Code{
		"ext4": {HasSignature}, "xfs": {HasSignature}, "swap": {HasSignature}, "LUKS": {LUKSLocked},
		"LUKS 2": {LUKSLocked},
		"RAID":   {RAIDMember}, "Ceph": {CephBlueStore},
		"PV of no group": {UnassignedPV}, "PV of a group": {InVolumeGroup}, "GPT, empty": {HasPartitions},
		"GPT": {HasPartitions}, "DOS": {HasPartitions},
	}
	l := newLab(t)
	for name, codes := range want {
		l.each(name, func(l *lab) {
			contents[name].make(l, l.disk)
			l.settle()
			d := l.device(l.disk)
			pvs := map[Number]PV{}
			switch name {
			case "PV of no group":
				pvs[d.Number] = PV{UUID: d.UUID}
			case "PV of a group":
				pvs[d.Number] = PV{UUID: d.UUID, Group: "foreign"}
			}
			explained := Explain(d, pvs)
			probed := l.n.Probe(l.Context(), d)
			for _, code := range codes {
				if !slices.ContainsFunc(explained, func(r Reason) bool { return r.Code == code }) {
					l.Errorf("explained by %v, want %s", explained, code)
				}
			}
			if len(probed) == 0 {
				l.Error("it was read and taken for blank")
			}
		})
	}
}

// scsi creates simulated SCSI disks that can be removed, and returns their names.
func (l *lab) scsi(options ...string) []string {
	l.Helper()
	before, err := filepath.Glob("/sys/block/sd*")
	l.ok(err)
	l.sh("/usr/sbin/modprobe", append([]string{"scsi_debug", "dev_size_mb=64", "delay=0", "add_host=2",
		"per_host_store=1"}, options...)...)
	l.settle()
	l.Cleanup(func() {
		l.settle()
		l.sh("/usr/sbin/modprobe", "--remove", "scsi_debug")
		l.settle()
	})
	after, err := filepath.Glob("/sys/block/sd*")
	l.ok(err)
	var names []string
	for _, dir := range after {
		if !slices.Contains(before, dir) {
			names = append(names, "/dev/"+filepath.Base(dir))
		}
	}
	if len(names) != 2 {
		l.Fatalf("got the SCSI disks %v, want two", names)
	}
	return names
}

// array starts a mirror of two disks, and returns its name.
func (l *lab) array(members []string) string {
	l.Helper()
	const array = "md9"
	for _, member := range members {
		l.raid(member)
		l.settle()
	}
	l.ok(layers.StartMirror(array, 32<<20, members...))
	l.Cleanup(func() {
		l.settle()
		l.ok(layers.StopArray(array))
	})
	l.settle()
	return "/dev/" + array
}

// TestLabArrayThatRuns checks that the members are never changed, even with consent, and that the array is a normal
// disk.
func TestLabArrayThatRuns(t *testing.T) {
	l := newLab(t)
	members := l.scsi()
	array := l.array(members)
	for _, member := range members {
		l.isLeftAlone(member, HasHolders, RAIDMember)
	}
	l.canBeUsed(array, "raid1")
}

// TestLabMultipath has one disk that appears twice.
func TestLabMultipath(t *testing.T) {
	l := newLab(t)
	paths := l.scsi("per_host_store=0", "vpd_use_hostno=0")
	l.sh("/usr/sbin/modprobe", "--all", "dm-multipath", "dm-round-robin")
	table := "0 131072 multipath 0 0 1 1 round-robin 0 2 1"
	for _, path := range paths {
		table += " " + string(l.device(path).Number) + " 1000"
	}
	l.sh("/usr/sbin/dmsetup", "create", "mpatha", "--uuid", "mpath-36001", "--table", table)
	l.Cleanup(func() {
		l.settle()
		l.sh("/usr/sbin/dmsetup", "remove", "--retry", "mpatha")
	})
	l.settle()
	for _, path := range paths {
		l.isLeftAlone(path, HasHolders, MultipathMember)
	}
	l.canBeUsed("/dev/mapper/mpatha", "mpath")
	// Each path shows the content of the disk, and the multipath device must still be used.
	l.sh("/usr/sbin/mkfs.ext4", "-F", "-q", "/dev/mapper/mpatha")
	l.settle()
	for _, path := range paths {
		l.isLeftAlone(path, HasHolders, MultipathMember)
	}
	if d := l.device("/dev/mapper/mpatha"); d.Identity() != "dm:mpath-36001" {
		t.Errorf("got the identity %q", d.Identity())
	}
	if _, reasons, err := l.n.Wipe(t.Context(), l.options("/dev/mapper/mpatha")); err != nil || len(reasons) != 0 {
		t.Errorf("wipe of the disk: %v, %v", reasons, err)
	}
	l.settle() // udev's record of the device is outdated after the wipe
	l.canBeUsed("/dev/mapper/mpatha", "mpath")
}

// isLeftAlone checks that a device is neither eligible nor wiped, for all of these reasons.
func (l *lab) isLeftAlone(name string, codes ...Code) {
	l.Helper()
	d := l.device(name)
	before := l.sum(name)
	reasons := Explain(d, nil)
	_, refused, err := l.n.Wipe(l.Context(), l.options(name))
	l.ok(err)
	for _, code := range codes {
		is := func(r Reason) bool { return r.Code == code }
		if !slices.ContainsFunc(reasons, is) || len(refused) == 0 {
			l.Errorf("%s: explained by %v, wipe refused for %v; want %s", name, reasons, refused, code)
		}
	}
	if l.sum(name) != before {
		l.Errorf("%s was changed", name)
	}
}

// canBeUsed checks that there is no reason against a device.
func (l *lab) canBeUsed(name, kind string) {
	l.Helper()
	d := l.device(name)
	if reasons := append(Explain(d, nil), l.n.Probe(l.Context(), d)...); d.Type != kind || len(reasons) != 0 {
		l.Errorf("%s is of type %s, and not used for %v", name, d.Type, reasons)
	}
}

func TestLabFlush(t *testing.T) {
	l := newLab(t)
	disk := l.scsi()[0]
	before := l.flushes(disk)
	for range 2 {
		l.ok(l.n.Flush(t.Context(), disk))
	}
	if after := l.flushes(disk); after < before+2 {
		t.Errorf("the disk was told to flush its cache %d times, want 2", after-before)
	}
	if err := l.n.Flush(t.Context(), "/dev/absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a device that does not exist: got %v", err)
	}
}

// flushes returns how many flush requests a disk has completed (Linux, Documentation/block/stat.rst).
func (l *lab) flushes(disk string) int {
	l.Helper()
	const field = 15
	text, err := os.ReadFile("/sys/block/" + filepath.Base(disk) + "/stat")
	l.ok(err)
	fields := strings.Fields(string(text))
	if len(fields) <= field {
		l.Fatalf("%s has %d statistics: %s", disk, len(fields), text)
	}
	count, err := strconv.Atoi(fields[field])
	l.ok(err)
	return count
}

func TestLabIdentityOfADiskThatIsPulled(t *testing.T) {
	l := newLab(t)
	disk := l.scsi()[0]
	l.gpt(disk, 1)
	d := l.device(disk)
	part := l.device(disk + "1")
	id := d.Identity()
	expect.Equal(t, `HasPrefix(id, "wwn:0x")`, strings.HasPrefix(id, "wwn:0x"), true)
	expect.Equal(t, "Identity()", part.Identity(), id+"-part1")
	expect.Equal(t, "Parent", part.Parent, disk)
	expect.NotZero(t, "len(d.ByID)", len(d.ByID))
	expect.Equal(t, "AppearedKnown", d.AppearedKnown, true)
	for _, link := range slices.Concat(d.ByID, d.ByPath, d.Links, part.ByID) {
		if number, err := l.n.Resolve(link); err != nil || (number != d.Number && number != part.Number) {
			t.Errorf("%s leads to %s, %v", link, number, err)
		}
	}
	time.Sleep(2 * time.Second)
	older := l.device(disk)
	if older.Appeared < d.Appeared+time.Second {
		t.Errorf("it appeared %v ago, and %v ago two seconds later", d.Appeared, older.Appeared)
	}
	if Digest(older) != Digest(d) {
		t.Error("the digest changes with time")
	}
	sysfs, err := filepath.EvalSymlinks("/sys/block/" + filepath.Base(disk) + "/device")
	l.ok(err)
	l.ok(os.WriteFile(sysfs+"/delete", []byte("1"), 0o200))
	l.settle()
	host := strings.Split(filepath.Base(sysfs), ":")[0]
	l.ok(os.WriteFile("/sys/class/scsi_host/host"+host+"/scan", []byte("- - -"), 0o200))
	l.settle()
	devices, err := l.n.List(t.Context())
	l.ok(err)
	at := slices.IndexFunc(devices, func(d Device) bool { return d.Identity() == id })
	if at < 0 || devices[at].Appeared >= older.Appeared || Digest(devices[at]) != Digest(d) {
		t.Errorf("after it came back: %d, %+v", at, devices)
	}
}

func TestLabIdentityOfClones(t *testing.T) {
	l := newLab(t)
	clones := l.scsi("vpd_use_hostno=0")
	a := l.device(clones[0])
	b := l.device(clones[1])
	devices, err := l.n.List(t.Context())
	l.ok(err)
	identities := Identities(devices)
	if a.Identity() == "" || a.Identity() != b.Identity() || identities[a.Number] != "" || identities[b.Number] != "" {
		t.Errorf("got %s and %s, and then %v", a.Identity(), b.Identity(), identities)
	}
	if identities[l.device(l.disk).Number] == "" {
		t.Error("a disk that has nothing to do with it has no identity")
	}
}

func TestLabRemovableDisk(t *testing.T) {
	l := newLab(t)
	d := l.device(l.scsi("removable=1")[0])
	if reasons := Explain(d, nil); !slices.ContainsFunc(reasons, func(r Reason) bool { return r.Code == Removable }) {
		t.Errorf("got %v", reasons)
	}
}

// TestLabWhatTheNodeRunsFrom checks that swap on a mapping makes the disk below an OS disk.
func TestLabWhatTheNodeRunsFrom(t *testing.T) {
	l := newLab(t)
	if d := l.device(l.disk); d.OSDisk {
		t.Fatalf("a blank disk is the system's: %+v", d)
	}
	name := l.mapping("under", fmt.Sprintf("0 200000 linear %s 0", l.disk))
	l.sh("/usr/sbin/mkswap", name)
	l.sh("/usr/sbin/swapon", name)
	l.Cleanup(func() { l.sh("/usr/sbin/swapoff", name) })
	l.settle()
	d := l.device(l.disk)
	if !d.OSDisk || !slices.ContainsFunc(Explain(d, nil), func(r Reason) bool { return r.Code == IsOSDisk }) {
		t.Errorf("got %+v", d)
	}
	if reasons := Explain(l.device(name), nil); !slices.ContainsFunc(reasons,
		func(r Reason) bool { return r.Code == SwapInUse }) {
		t.Errorf("the swap space: %v", reasons)
	}
}

func TestLabPulse(t *testing.T) {
	l := newLab(t)
	name := l.mapping("pulse", fmt.Sprintf("0 200000 linear %s 0", l.disk))
	p := direct.NewPulse()
	const patience = 3 * time.Second
	p.Reads = bounded.New(patience, math.MaxInt)
	device := l.device(name)
	beats := []direct.Beat{{Number: device.Number, Path: device.KernelName},
		{Number: l.device(l.disk).Number, Path: l.disk}}
	check := func(what string, want string) {
		t.Helper()
		got := returns(l, "the check", func() map[Number]error { return p.Check(t.Context(), beats) })
		switch {
		case want == "" && len(got) != 0:
			t.Errorf("%s: %v", what, got)
		case want != "" && (len(got) != 1 || got[device.Number] == nil ||
			!strings.Contains(got[device.Number].Error(), want)):
			t.Errorf("%s: got %v, want %q", what, got, want)
		}
		t.Logf("%s: %v", what, got)
	}
	check("healthy", "")
	l.sh("/usr/sbin/dmsetup", "suspend", "pulse")
	check("suspended", "has not answered for 3s")
	check("suspended still", "has not answered for ")
	if n := len(p.Reads.Late()); n != 1 {
		t.Errorf("%d questions are open", n)
	}
	l.sh("/usr/sbin/dmsetup", "resume", "pulse")
	limit.Wait(t, "the open question is answered", func() bool { return len(p.Reads.Late()) == 0 })
	check("resumed", "")
	for table, want := range map[string]string{"0 200000 error": "cannot be read",
		fmt.Sprintf("0 200000 flakey %s 0 0 600", l.disk): "cannot be read"} {
		l.table("pulse", table)
		check(table, want)
	}
	l.table("pulse", fmt.Sprintf("0 200000 linear %s 0", l.disk))
	check("healed", "")
}

// table replaces the table of a mapping.
func (l *lab) table(name, table string) {
	l.Helper()
	l.sh("/usr/sbin/dmsetup", "suspend", name)
	l.sh("/usr/sbin/dmsetup", "reload", name, "--table", table)
	l.sh("/usr/sbin/dmsetup", "resume", name)
}

func TestLabPulseOfADiskThatIsOffline(t *testing.T) {
	l := newLab(t)
	disk := l.scsi()[0]
	d := l.device(disk)
	p := direct.NewPulse()
	state := "/sys/block/" + filepath.Base(disk) + "/device/state"
	l.ok(os.WriteFile(state, []byte("offline\n"), 0o644))
	got := p.Check(t.Context(), []direct.Beat{{Number: d.Number, Path: disk}})
	l.ok(os.WriteFile(state, []byte("running\n"), 0o644))
	if got[d.Number] == nil || !strings.Contains(got[d.Number].Error(), "offline") {
		t.Errorf("got %v", got)
	}
	if got := p.Check(t.Context(), []direct.Beat{{Number: d.Number, Path: disk}}); len(got) != 0 {
		t.Errorf("running again: %v", got)
	}
}
