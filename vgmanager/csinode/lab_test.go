//go:build lab

package csinode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	mount "k8s.io/mount-utils"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mountedfs"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// mapping is a device-mapper device on a disk of a lab node. Tests change its table.
type mapping struct {
	*testing.T
	disk string
	host mounter.Mounter
	// records has the records of volumes that are being formatted.
	records volume.Directory
}

const (
	mapped = "/dev/mapper/volume"
	size   = 700 << 11 // in sectors
)

func newMapping(t *testing.T) *mapping {
	t.Helper()
	disk, _, _ := strings.Cut(os.Getenv("LVMS_TEST_DISKS"), ",")
	if disk == "" {
		t.Fatal("LVMS_TEST_DISKS must name a blank disk of a lab node, of 800 MiB")
	}
	m := &mapping{T: t, disk: disk, host: mounter.Mounter{Programs: host.NewLocal()},
		records: volume.Directory(t.TempDir())}
	m.sh("modprobe", "dm-mod")
	m.sh("dd", "if=/dev/zero", "of="+disk, "bs=1M", "count=8", "conv=fsync")
	m.sh("dmsetup", "create", "volume", "--table", m.linear(0, size))
	t.Cleanup(func() {
		_ = exec.Command("umount", "--all-targets", mapped).Run()
		m.sh("dmsetup", "remove", "--retry", "--force", "volume")
	})
	return m
}

func (m *mapping) linear(start, length int) string {
	return fmt.Sprintf("%d %d linear %s %d", start, length, m.disk, start)
}

func (m *mapping) sh(program string, args ...string) {
	m.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		m.Fatalf("%s %s: %v: %s", program, strings.Join(args, " "), err, out)
	}
}

// table replaces the table and drops buffered blocks of the device.
func (m *mapping) table(lines ...string) {
	m.Helper()
	file := filepath.Join(m.TempDir(), "table")
	m.ok(os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	m.sh("udevadm", "settle")
	m.sh("dmsetup", "suspend", "volume")
	m.sh("dmsetup", "load", "volume", file)
	m.sh("dmsetup", "resume", "volume")
	_ = exec.Command("blockdev", "--flushbufs", mapped).Run()
}

func (m *mapping) ok(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *mapping) wantContent(want mounter.Content) {
	m.Helper()
	got, err := m.host.Probe(m.Context(), mapped)
	if err != nil || got != want {
		m.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestLabProbe(t *testing.T) {
	m := newMapping(t)
	m.wantContent(mounter.Content{})
	for _, kind := range []string{"ext4", "xfs"} {
		m.ok(m.host.Format(t.Context(), service.FileSystems[kind].Mkfs, mapped))
		m.wantContent(contentOf(kind))
		m.sh("wipefs", "--all", mapped)
	}
	f, err := os.OpenFile(mapped, os.O_WRONLY, 0)
	m.ok(err)
	_, err = f.WriteAt(append([]byte("LUKS\xba\xbe\x00\x01"), make([]byte, 584)...), 0)
	m.ok(err)
	m.ok(f.Sync())
	m.ok(f.Close())
	m.wantContent(mounter.Content{Kind: "crypto_LUKS"})
}

// TestLabAVolumeThatCannotBeReadIsNotBlank checks the direct read: the exit status of blkid is the same for a device
// with read errors and for a blank one.
func TestLabAVolumeThatCannotBeReadIsNotBlank(t *testing.T) {
	m := newMapping(t)
	m.ok(m.host.Format(t.Context(), service.FileSystems["ext4"].Mkfs, mapped))
	const some = 2048
	for name, table := range map[string][]string{
		"nothing can be read":   {fmt.Sprintf("0 %d error", size)},
		"not the beginning":     {fmt.Sprintf("0 %d error", some), m.linear(some, size-some)},
		"not the end":           {m.linear(0, size-some), fmt.Sprintf("%d %d error", size-some, some)},
		"not the first few MiB": {m.linear(0, 8), fmt.Sprintf("8 %d error", some), m.linear(some+8, size-some-8)},
	} {
		t.Run(name, func(t *testing.T) {
			m.table(table...)
			if got, err := m.host.Probe(t.Context(), mapped); err == nil {
				t.Errorf("got %+v", got)
			}
		})
	}
	m.table(m.linear(0, size))
	m.wantContent(contentOf("ext4"))
}

// noPrograms records commands and runs none.
type noPrograms struct{ commands []string }

func (p *noPrograms) RunAccepting(_ context.Context, _ func(int) bool, name string,
	args ...string) ([]byte, int, error) {
	p.commands = append(p.commands, strings.Join(append([]string{name}, args...), " "))
	return nil, 0, nil
}

func TestLabLifeOfAFileSystem(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			m := newMapping(t)
			m.table(m.linear(0, size/2))
			m.sh("wipefs", "--all", mapped)
			m.ok(m.host.Format(t.Context(), service.FileSystems[kind].Mkfs, mapped))
			folder := t.TempDir()
			if number, err := m.host.Mounted(folder); err != nil || number != (mounter.Number{}) {
				t.Errorf("before the mount: %s, %v", number, err)
			}
			m.ok(m.host.Mount(t.Context(), mapped, folder, kind, service.FileSystems[kind].MountOptions))
			number, err := m.host.Number(mapped)
			m.ok(err)
			for what, f := range map[string]func(string) (mounter.Number, error){"mounted": m.host.Mounted,
				"backingDevice": m.host.BackingDevice} {
				if got, err := f(folder); err != nil || got != number {
					t.Errorf("%s: %s, %v, want %s", what, got, err, number)
				}
			}
			m.ok(m.host.SetMode(folder, rootMode))
			m.ok(os.WriteFile(filepath.Join(folder, "a"), []byte("data"), 0o600))
			m.ok(os.Chmod(folder, 0o700))
			before, err := mountedfs.UsageOf(folder)
			m.ok(err)

			// While it is mounted, the check is skipped.
			m.ok(m.host.Check(t.Context(), mapped, kind))
			m.table(m.linear(0, size))
			m.ok(m.host.Grow(t.Context(), mapped, folder, false))
			// The superblock on the device is written some time later.
			unix.Sync()
			m.sh("fsfreeze", "--freeze", folder)
			m.sh("fsfreeze", "--unfreeze", folder)
			programs := &noPrograms{}
			m.ok(mounter.Mounter{Programs: programs}.Grow(t.Context(), mapped, folder, false))
			if len(programs.commands) > 0 {
				t.Errorf("ran %q, although the file system has the size of its device", programs.commands)
			}
			m.ok(m.host.Grow(t.Context(), mapped, folder, true))
			after, err := mountedfs.UsageOf(folder)
			m.ok(err)
			if after[0].Total < before[0].Total*3/2 {
				t.Errorf("it had %d bytes and has %d", before[0].Total, after[0].Total)
			}
			for range 2 {
				m.ok(m.host.Unmount(t.Context(), folder))
			}
			m.ok(m.host.Check(t.Context(), mapped, kind))
			m.ok(os.MkdirAll(folder, 0o750))
			m.ok(m.host.Mount(t.Context(), mapped, folder, kind, service.FileSystems[kind].MountOptions))
			info, err := os.Stat(folder)
			m.ok(err)
			if data, err := os.ReadFile(filepath.Join(folder, "a")); err != nil || string(data) != "data" ||
				info.Mode().Perm() != 0o700 {
				t.Errorf("got %q, %v, mode %s", data, err, info.Mode())
			}
			m.ok(m.host.Unmount(t.Context(), folder))
		})
	}
}

// TestLabABindMountHasItsOptions checks a bind mount, for which mount runs twice.
func TestLabABindMountHasItsOptions(t *testing.T) {
	m := newMapping(t)
	m.ok(m.host.Format(t.Context(), service.FileSystems["ext4"].Mkfs, mapped))
	staging := t.TempDir()
	m.ok(m.host.Mount(t.Context(), mapped, staging, "ext4", []string{"noatime", "nosuid"}))
	for option, want := range map[string]string{"ro": "ro,nosuid,noatime", "": "rw,nosuid,noatime"} {
		target := filepath.Join(t.TempDir(), "target")
		m.ok(os.Mkdir(target, 0o750))
		m.ok(m.host.Mount(t.Context(), staging, target, "", append([]string{"bind"}, strings.Fields(option)...)))
		table, err := mount.ParseMountInfo(mounter.MountInfo)
		m.ok(err)
		at := slices.IndexFunc(table, func(i mount.MountInfo) bool { return i.MountPoint == target })
		if at < 0 || strings.Join(table[at].MountOptions, ",") != want {
			t.Errorf("%q: got %+v", option, table)
		}
		// As after an agent that ended between the two steps.
		for range 2 {
			m.ok(m.host.SetReadOnly(t.Context(), staging, target))
			if err := os.WriteFile(filepath.Join(target, "file"), nil, 0o600); !errors.Is(err, unix.EROFS) {
				t.Errorf("%q: a write to the read-only mount: %v", option, err)
			}
		}
		m.ok(os.WriteFile(filepath.Join(staging, "file"), nil, 0o600))
		m.ok(m.host.Unmount(t.Context(), target))
		m.ok(m.host.RemoveMountPoint(target))
		if _, err := os.Stat(target); !os.IsNotExist(err) {
			t.Errorf("the mount point remains: %v", err)
		}
	}
	// umount says of a folder that it is not mounted.
	plain := filepath.Join(t.TempDir(), "plain")
	m.ok(os.Mkdir(plain, 0o750))
	m.ok(m.host.Unmount(t.Context(), plain))
	m.ok(m.host.RemoveMountPoint(plain))
	m.ok(m.host.Unmount(t.Context(), staging))
}

func TestLabABrokenExt4IsNotCalledRepaired(t *testing.T) {
	m := newMapping(t)
	m.ok(m.host.Format(t.Context(), service.FileSystems["ext4"].Mkfs, mapped))
	m.ok(m.host.Check(t.Context(), mapped, "ext4"))
	// The root directory is not a directory: e2fsck does not repair that automatically.
	m.sh("debugfs", "-w", "-R", "clri <2>", mapped)
	m.sh("debugfs", "-w", "-R", "ssv state 2", mapped) // what the kernel writes when it finds errors
	if err := m.host.Check(t.Context(), mapped, "ext4"); err == nil {
		t.Error("a file system without a root is called well")
	}
}

// TestLabALongCheckOutlivesItsCall checks that e2fsck of a slow disk, which takes longer than the call, continues and
// runs once.
func TestLabALongCheckOutlivesItsCall(t *testing.T) {
	m := newMapping(t)
	m.sh("modprobe", "dm-delay")
	m.ok(m.host.Format(t.Context(), service.FileSystems["ext4"].Mkfs, mapped))
	m.sh("tune2fs", "-c", "1", "-C", "2", mapped) // the next check is a full one
	m.table(fmt.Sprintf("0 %d delay %s 0 100", size, m.disk))
	number, err := m.host.Number(mapped)
	m.ok(err)
	b := newBench(t)
	lv := b.volumes.lv
	lv.Path = mapped
	lv.Major = number.Major
	lv.Minor = number.Minor
	b.rebuild(m.host, b.luks, m.records)
	request := &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: b.staging, VolumeCapability: capability("ext4", writer),
	}
	call := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := b.server.NodeStageVolume(ctx, request)
		return err
	}
	b.wantCode(call(), codes.Aborted, id, mapped, "since")
	var running []string
	for deadline := time.Now().Add(time.Minute); len(running) == 0; time.Sleep(50 * time.Millisecond) {
		if running = processesOf("e2fsck"); time.Now().After(deadline) {
			t.Fatal("no process of e2fsck was seen")
		}
	}
	calls := 1
	for err = call(); status.Code(err) == codes.Aborted; err = call() {
		calls++
		if now := processesOf("e2fsck"); len(now) > 0 && !slices.Equal(now, running) {
			t.Fatalf("e2fsck was started again: %q, then %q", running, now)
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.wantCode(err, codes.OK)
	t.Logf("%d calls came while it ran", calls)
	if got, err := m.host.Mounted(b.staging); err != nil || got != number {
		t.Errorf("mounted: %s, %v", got, err)
	}
	m.ok(m.host.Unmount(t.Context(), b.staging))
}

// TestLabAKilledFormatIsRepeated kills mkfs on a slow disk. Because of the record on the node, the next call formats
// the volume again, also if the superblock was written and the rest was not, as after a power failure.
func TestLabAKilledFormatIsRepeated(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			m := newMapping(t)
			m.sh("modprobe", "dm-delay")
			m.table(fmt.Sprintf("0 %d delay %s 0 20", size, m.disk))
			number, err := m.host.Number(mapped)
			m.ok(err)
			b := newBench(t)
			b.volumes.lv.Path, b.volumes.lv.Tags = mapped, []string{wellknown.NewTag}
			b.volumes.lv.Major, b.volumes.lv.Minor = number.Major, number.Minor
			b.rebuild(m.host, b.luks, m.records)
			ended := make(chan error, 1)
			go func() { ended <- b.stage(kind, writer) }()
			program := "mkfs." + kind
			for deadline := time.Now().Add(time.Minute); len(processesOf(program)) == 0; {
				if time.Now().After(deadline) {
					t.Fatalf("no process of %s was seen", program)
				}
				time.Sleep(time.Millisecond)
			}
			m.sh("pkill", "-KILL", "-x", program)
			b.wantCode(<-ended, codes.Internal, program)
			b.wantRecorded(m, true)
			found, err := m.host.Probe(t.Context(), mapped)
			t.Logf("the killed %s left %+v, %v", program, found, err)
			m.table(m.linear(0, size))
			m.ok(m.host.Format(t.Context(), service.FileSystems[kind].Mkfs, mapped))
			m.sh("dd", "if=/dev/zero", "of="+mapped, "bs=64K", "seek=1", "count=100", "conv=fsync")
			b.wantCode(b.stage(kind, writer), codes.OK)
			if got, err := m.host.Mounted(b.staging); err != nil || got != number {
				t.Errorf("mounted: %s, %v", got, err)
			}
			b.wantRecorded(m, false)
			if got := b.volumes.lv.Tags; !slices.Equal(got, []string{wellknown.FormattedTagPrefix + kind}) {
				t.Errorf("got the tags %q", got)
			}
			m.ok(m.host.Unmount(t.Context(), b.staging))
		})
	}
}

func (b *bench) wantRecorded(m *mapping, want bool) {
	b.Helper()
	if recorded, err := m.records.Recorded(id); err != nil || (recorded != nil) != want {
		b.Errorf("recorded: %+v, %v, want %t", recorded, err, want)
	}
}

// processesOf returns the process IDs of a program.
func processesOf(program string) []string {
	out, _ := exec.Command("pgrep", "-x", program).Output() // It exits with 1 if there is none.
	return strings.Fields(string(out))
}
