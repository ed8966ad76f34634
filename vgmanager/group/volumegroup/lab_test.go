//go:build lab

package volumegroup

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/fscheck"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mountedfs"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/erase"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// labBench is the agent on a real node. Only the API server is simulated.
type labBench struct {
	*bench
	runner *nodelvm.Runner
	real   *lvmexec.LVM
	disks  []string
	before map[string]uint64
	// programs runs the programs that check file systems; nil for runner. locks are those of the agent's volumes.
	programs fscheck.Programs
	locks    *service.Locks
	// attachedLonger makes the agents read olderDevices.
	attachedLonger bool
}

func newLabBench(t *testing.T, spec func(disks []string) v1alpha1.LVMVolumeGroupSpec) *labBench {
	t.Helper()
	disks := strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")
	if len(disks) < 3 {
		t.Fatal("LVMS_TEST_DISKS must name three blank disks of a lab node")
	}
	l := &labBench{runner: nodelvm.New(), disks: disks}
	l.bench = newBench(t, spec(disks))
	l.boot()
	return l
}

// listOf returns the list of the devices that LVM may read.
func listOf(devices *device.Node) func() (lvm.Devices, error) {
	return func() (lvm.Devices, error) {
		readable, guests, err := devices.ForLVM()
		return lvm.Devices{Readable: readable, Guests: guests}, err
	}
}

// boot starts a new process on the node, with real LVM and real devices.
func (l *labBench) boot() {
	l.Helper()
	l.bootOver(l.runner)
}

// bootOver is boot with another runner for LVM's commands.
func (l *labBench) bootOver(runner host.Runner) {
	l.Helper()
	if l.programs == nil {
		l.programs = l.runner
	}
	real := lvmexec.New(runner)
	l.real = real
	volumes, err := engine.New(real, nil, filepath.Join(l.dir, "lvmd.yaml"))
	l.ok(err)
	l.engine = volumes
	devices := device.New(l.runner)
	real.SkipSilent(func(ctx context.Context) map[string][]string {
		silent, err := devices.Silent(ctx)
		l.ok(err)
		return silent
	})
	devices.UseGroups(volumes.VolumeGroups)
	real.UseDevices(listOf(devices))
	real.FlushWith(devices.Flush)
	real.ReadGroupsWith(devices.ReadPhysicalVolumes)
	real.PoolsWith(engine.PoolsOf(devicemapper.New()))
	options := l.options(real, devices)
	if l.attachedLonger {
		options.Devices = olderDevices{devices}
	}
	options.Inspect = func(ctx context.Context, pool thinmeta.Pool) (*thinmeta.Metadata, error) {
		return thinmeta.Inspect(ctx, l.runner, pool)
	}
	options.Salvage = func(ctx context.Context, pool thinmeta.Pool, file string) (map[uint64]thinmeta.Device, error) {
		return thinmeta.Salvage(ctx, l.runner, pool, file)
	}
	options.IsBlank = thinmeta.IsBlank
	options.FileSystems = mountedfs.New(nodeName)
	l.locks = &service.Locks{}
	options.Eraser = erase.New(l.Context())
	options.Checker = fscheck.New(nodeName, l.locks, l.programs, l.engine.TagsOf)
	l.agent = New(options)
}

// count logs and returns the processes since the last call.
func (l *labBench) count(what string) map[string]uint64 {
	l.Helper()
	now := l.runner.ByCommand()
	since := map[string]uint64{}
	for command, n := range now {
		if n > l.before[command] {
			since[command] = n - l.before[command]
		}
	}
	l.before = maps.Clone(now)
	l.Logf("%s: %v", what, since)
	return since
}

func (l *labBench) sh(name string, args ...string) {
	l.Helper()
	if out, err := nodelvm.Command(name, args...).CombinedOutput(); err != nil {
		l.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// cleanUp removes the volume group with the agent and checks that the disks are as before.
func (l *labBench) cleanUp() {
	l.Helper()
	l.remove()
	l.settle()
	if !l.gone() {
		l.Fatalf("the LVMVolumeGroup is still there: %+v", l.entry())
	}
	l.count("removal")
	for _, disk := range l.disks {
		out, err := exec.Command("/usr/sbin/wipefs", "--no-act", disk).CombinedOutput()
		if err != nil || len(out) != 0 {
			l.Errorf("%s is not blank: %v: %s", disk, err, out)
		}
	}
	if entries, err := os.ReadDir(l.dir); err != nil || len(entries) != 0 {
		l.Errorf("files are left: %v, %v", entries, err)
	}
}

func selectingDisks(paths []string, spec v1alpha1.LVMVolumeGroupSpec) v1alpha1.LVMVolumeGroupSpec {
	spec.DeviceSelector = &v1alpha1.DeviceSelector{}
	for _, p := range paths {
		spec.DeviceSelector.Paths = append(spec.DeviceSelector.Paths, v1alpha1.DevicePath(p))
	}
	return spec
}

// ext4On returns the arguments of mkfs.ext4 for a whole disk. With blocks of 1 KiB, the default for small disks, the
// group descriptors are where an Acorn partition table has its checksum of one byte, and the kernel mistakes one file
// system in 256 for such a table.
func ext4On(disk string) []string { return []string{"-q", "-F", "-b", "4096", disk} }

func firstTwo(spec v1alpha1.LVMVolumeGroupSpec) func([]string) v1alpha1.LVMVolumeGroupSpec {
	return func(disks []string) v1alpha1.LVMVolumeGroupSpec { return selectingDisks(disks[:2], spec) }
}

func TestLabLifeOfAThinClass(t *testing.T) {
	l := newLabBench(t, firstTwo(thinOf(80)))
	ctx := t.Context()
	l.settle()
	entry := l.wantState(v1alpha1.VGStatusReady)
	if !cmp.Equal(entry.Devices, l.disks[:2]) || entry.ThinPool == nil {
		t.Errorf("got %+v", entry)
	}
	l.count("setup")
	l.settle()
	if since := l.count("at rest"); len(since) != 0 {
		t.Errorf("a look within the minute started %v", since)
	}

	_, err := l.engine.ListLVs(ctx, "vg1")
	l.ok(err)
	created, err := l.engine.CreateLV(ctx,
		engine.NewVolume{Name: "a", Class: "vg1", Size: 300<<20 + 1})
	l.ok(err)
	if since := l.count("create a thin volume"); since["lvm fullreport"] > 1 || since["lvm lvcreate"] != 1 ||
		len(since) > 2 {
		t.Errorf("got %v", since)
	}
	list, err := l.engine.ListLVs(ctx, "vg1")
	l.ok(err)
	v := list[0]
	expect.Equal(t, "Size", v.Size, 304<<20)
	expect.Equal(t, "Size", v.Size, created.Size)
	expect.NotZero(t, "Major", v.Major)
	expect.Equal(t, "Path", v.Path, "/dev/vg1/a")
	expect.Equal(t, "len(v.Attr)", len(v.Attr), 10)
	l.count("list")
	_, err = l.engine.CreateLVSnapshot(ctx,
		engine.NewSnapshot{Name: "s", Class: "vg1", Source: "a", ReadOnly: true,
			Size: 400 << 20})
	l.ok(err)
	l.count("create a larger snapshot")
	resized, err := l.engine.ResizeLV(ctx, "vg1", "a", 500<<20)
	l.ok(err)
	if resized != 500<<20 {
		t.Errorf("got %v", resized)
	}
	l.count("resize")
	_, err = l.engine.CreateLV(ctx, engine.NewVolume{Name: "huge", Class: "vg1", Size: 1 << 40})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}

	// A boot without autoactivation.
	l.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
	l.boot()
	l.count("")
	l.settle()
	l.count("activation after a boot")
	list, err = l.engine.ListLVs(ctx, "vg1")
	l.ok(err)
	for _, v := range list {
		if !v.Attr.Active() {
			t.Errorf("inactive: %v", v)
		}
	}

	l.remove()
	l.settle()
	l.wantState(v1alpha1.VGStatusProgressing, "a, s")
	for _, name := range []string{"a", "s"} {
		err = l.engine.RemoveLV(ctx, "vg1", name)
		l.ok(err)
	}
	l.count("delete two volumes")
	l.settle()
	if !l.gone() {
		t.Fatalf("still there: %+v", l.entry())
	}
	l.count("removal")
	for _, disk := range l.disks[:2] {
		if out, err := exec.Command("/usr/sbin/wipefs", "--no-act",
			disk).CombinedOutput(); err != nil || len(out) != 0 {
			t.Errorf("%s is not blank: %v: %s", disk, err, out)
		}
	}
}

func TestLabDiscoveryGrowsAGroup(t *testing.T) {
	spec := thinOf(90)
	spec.DeviceDiscoveryPolicy = v1alpha1.DeviceDiscoveryDynamic
	l := newLabBench(t, func([]string) v1alpha1.LVMVolumeGroupSpec { return spec })
	for _, disk := range l.disks[1:] {
		l.sh("/usr/sbin/mkfs.ext4", ext4On(disk)...)
	}
	l.settleUdev()
	l.attachedLonger = true
	l.boot()
	l.settle()
	before := l.wantState(v1alpha1.VGStatusReady)
	if len(before.Devices) != 1 || !excludedFor(before, l.disks[1], "ext4") {
		t.Errorf("got %+v", before)
	}
	for _, disk := range l.disks[1:] {
		l.sh("/usr/sbin/wipefs", "--quiet", "--all", disk)
	}
	l.settleUdev()
	l.boot()
	l.settle()
	after := l.wantState(v1alpha1.VGStatusReady)
	if len(after.Devices) != len(l.disks) || after.ThinPool.Size.Cmp(before.ThinPool.Size) <= 0 {
		t.Errorf("got %+v, was %+v", after, before)
	}
	l.cleanUp()
}

// olderDevices reports disks as attached for a minute longer than they are: the node may have just booted.
type olderDevices struct{ *device.Node }

func (n olderDevices) List(ctx context.Context) ([]device.Device, error) {
	list, err := n.Node.List(ctx)
	return older(list), err
}

func (n olderDevices) Recent(ctx context.Context, maxAge time.Duration) ([]device.Device, error) {
	list, err := n.Node.Recent(ctx, maxAge)
	return older(list), err
}

func older(list []device.Device) []device.Device {
	list = slices.Clone(list)
	for i := range list {
		list[i].Appeared += time.Minute
		list[i].AppearedKnown = true
	}
	return list
}

// excludedFor returns true if a disk is excluded for a reason that contains a text.
func excludedFor(entry v1alpha1.VGStatus, disk, says string) bool {
	for _, e := range entry.Excluded {
		if (e.Name == disk || disk == "") && strings.Contains(strings.Join(e.Reasons, " "), says) {
			return true
		}
	}
	return false
}

func (l *labBench) settleUdev() { l.sh("/usr/bin/udevadm", "settle") }

func TestLabDisksThatAreNotBlank(t *testing.T) {
	l := newLabBench(t, firstTwo(thinOf(80)))
	disk := l.disks[0]
	node := device.New(l.runner)
	find := func(name string) device.Device {
		devices, err := node.List(t.Context())
		l.ok(err)
		for _, d := range devices {
			if d.Name == name {
				return d
			}
		}
		t.Fatalf("%s is not listed", name)
		return device.Device{}
	}
	code := func(name string) device.Code {
		reasons := node.Probe(t.Context(), find(name))
		if len(reasons) == 0 {
			return ""
		}
		return reasons[0].Code
	}
	if got := code(disk); got != "" {
		t.Errorf("a blank disk: %s", got)
	}

	l.sh("/usr/sbin/mkfs.ext4", ext4On(disk)...)
	if got := code(disk); got != device.HasSignature {
		t.Errorf("a file system: %q", got)
	}
	l.settle()
	l.wantState(v1alpha1.VGStatusFailed, "ext4", disk)
	mount := t.TempDir()
	l.sh("/bin/mount", disk, mount)
	if got := code(disk); got != device.Busy {
		t.Errorf("a mounted disk: %q", got)
	}
	l.sh("/bin/umount", mount)
	l.sh("/usr/sbin/wipefs", "--quiet", "--all", disk)

	// wipefs and blkid find nothing on a disk that cannot be read.
	l.sh("/usr/sbin/dmsetup", "create", "bad", "--table", "0 409600 error")
	defer l.sh("/usr/sbin/dmsetup", "remove", "--retry", "bad")
	l.settleUdev()
	if got := code("/dev/mapper/bad"); got != device.Unreadable {
		t.Errorf("a disk with read errors: %q", got)
	}
	number, err := node.Resolve("/dev/mapper/bad")
	l.ok(err)
	if number != find("/dev/mapper/bad").Number {
		t.Errorf("the link leads to %s", number)
	}
}

func TestLabFullPoolAndLostDisk(t *testing.T) {
	l := newLabBench(t, firstTwo(thinOf(50)))
	ctx := t.Context()
	// The second disk can be removed. It starts after the label of the disk below it.
	l.sh("/usr/sbin/dmsetup", "create", "disk", "--table", "0 409600 linear "+l.disks[2]+" 2048")
	l.settleUdev()
	object := l.object()
	object.Spec.DeviceSelector.Paths[1] = "/dev/mapper/disk"
	l.ok(l.client.Update(ctx, object))
	l.settle()
	l.wantState(v1alpha1.VGStatusReady)

	_, err := l.engine.CreateLV(ctx, engine.NewVolume{Name: "a", Class: "vg1", Size: 1 << 30})
	l.ok(err)
	l.sh("/usr/sbin/lvm", "lvchange", "--errorwhenfull", "y", "vg1/pool")
	_ = exec.Command("/bin/dd", "if=/dev/zero", "of=/dev/vg1/a", "bs=1M", "oflag=direct").Run()
	l.boot()
	l.settle()
	l.wantState(v1alpha1.VGStatusDegraded, "is full")
	_, err = l.engine.CreateLV(ctx, engine.NewVolume{Name: "b", Class: "vg1", Size: 1 << 20})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}
	err = l.engine.RemoveLV(ctx, "vg1", "a")
	l.ok(err)
	l.settle()
	l.wantState(v1alpha1.VGStatusReady)

	// With the error target the label of the device cannot be read, so LVM treats the device as missing.
	l.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
	l.sh("/usr/sbin/dmsetup", "load", "disk", "--table", "0 409600 error")
	l.sh("/usr/sbin/dmsetup", "resume", "disk")
	l.boot()
	l.settle()
	l.wantState(v1alpha1.VGStatusDegraded, "is missing the physical volume")
	_, err = l.engine.CreateLV(ctx, engine.NewVolume{Name: "b", Class: "vg1", Size: 1 << 20})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}

	l.sh("/usr/sbin/dmsetup", "load", "disk", "--table", "0 409600 linear "+l.disks[2]+" 2048")
	l.sh("/usr/sbin/dmsetup", "resume", "disk")
	l.boot()
	l.remove()
	l.settle()
	if !l.gone() {
		t.Errorf("still there: %+v", l.entry())
	}
	l.sh("/usr/sbin/dmsetup", "remove", "--retry", "disk")
}
