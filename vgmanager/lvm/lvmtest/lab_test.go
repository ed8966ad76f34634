//go:build lab

package lvmtest_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest/contract"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// command runs a program of the lab node that the product does not use.
func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := nodelvm.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// labDisks returns three blank disks of a bare lab node. All data on them is lost.
func labDisks(t *testing.T) [3]string {
	t.Helper()
	disks := strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")
	if len(disks) < 3 {
		t.Fatal("LVMS_TEST_DISKS must name three blank disks of a lab node")
	}
	return [3]string(disks[:3])
}

func TestRealLVMFulfilsTheContract(t *testing.T) {
	runner := nodelvm.New()
	l := lvmexec.New(runner)
	l.ReadGroupsWith(device.New(runner).ReadPhysicalVolumes)
	l.PoolsWith(engine.PoolsOf(devicemapper.New()))
	contract.Check(t, contract.Bench{
		LVM: l, Disks: labDisks(t),
		Sign:  func(t *testing.T, disk string) { command(t, "/usr/sbin/mkfs.ext4", "-q", "-F", "-b", "4096", disk) },
		Clear: func(t *testing.T, disk string) { command(t, "/usr/sbin/wipefs", "--quiet", "--all", disk) },
	})
	t.Logf("%d processes: %v", runner.Started().Total(), runner.ByCommand())
}

// mapped returns devices on the lab's disks that can fail and become slow. They omit the beginning of a disk, so that
// LVM does not find the same label on two devices.
func mapped(t *testing.T) [3]string {
	t.Helper()
	command(t, "/usr/sbin/modprobe", "dm-delay")
	var paths [3]string
	for i, disk := range labDisks(t) {
		name := "contract" + string(rune('0'+i))
		tabled(t, table(t, disk, "linear"), "create", name)
		paths[i] = "/dev/mapper/" + name
	}
	return paths
}

const (
	// leftOut is the number of omitted sectors at the beginning of a disk.
	leftOut = 4096
	// label is the number of sectors for LVM's metadata, which stay fast.
	label = 2048
)

// table returns the table of a device on a disk: "linear"; "slow", with a delay of one second for each write; or
// "error".
func table(t *testing.T, disk, kind string) string {
	t.Helper()
	out, err := exec.Command("/usr/sbin/blockdev", "--getsz", disk).Output()
	if err != nil {
		t.Fatal(err)
	}
	sectors, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	sectors -= leftOut
	switch kind {
	case "error":
		return fmt.Sprintf("0 %d error\n", sectors)
	case "slow":
		return fmt.Sprintf("0 %d linear %s %d\n%d %d delay %s %d 0 %s %d 1000\n", label, disk, leftOut,
			label, sectors-label, disk, leftOut+label, disk, leftOut+label)
	}
	return fmt.Sprintf("0 %d linear %s %d\n", sectors, disk, leftOut)
}

// tabled runs dmsetup with a table.
func tabled(t *testing.T, table string, args ...string) {
	t.Helper()
	cmd := nodelvm.Command("/usr/sbin/dmsetup", args...)
	cmd.Stdin = strings.NewReader(table)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("dmsetup %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// reload replaces the table of a mapped device.
func reload(t *testing.T, path, kind string) {
	t.Helper()
	name := strings.TrimPrefix(path, "/dev/mapper/")
	disk := labDisks(t)[name[len(name)-1]-'0']
	command(t, "/usr/sbin/dmsetup", "suspend", "--noflush", "--nolockfs", name)
	tabled(t, table(t, disk, kind), "reload", name)
	command(t, "/usr/sbin/dmsetup", "resume", name)
}

func TestRealLVMFulfilsTheContractOfDevices(t *testing.T) {
	runner := nodelvm.New()
	l := lvmexec.New(runner)
	disks := mapped(t)
	t.Cleanup(func() { unmap(t, disks) })
	contract.CheckDevices(t, contract.Bench{
		LVM: l, Disks: disks,
		Detach: func(t *testing.T, disk string) { reload(t, disk, "error") },
		Attach: func(t *testing.T, disk string) { reload(t, disk, "linear") },
		Slow: func(t *testing.T, disk string, slow bool) {
			if slow {
				reload(t, disk, "slow")
				return
			}
			reload(t, disk, "linear")
		},
		Copied: func(t *testing.T, group string) { waitUntilCopied(t, l, group) },
	})
	t.Logf("%d processes: %v", runner.Started().Total(), runner.ByCommand())
}

// unmap also removes the labels: if a detached disk returned with old metadata, udev's rules would activate a group
// that was removed meanwhile.
func unmap(t *testing.T, disks [3]string) {
	t.Helper()
	for _, disk := range disks {
		command(t, "/usr/sbin/dmsetup", "remove", "--retry", strings.TrimPrefix(disk, "/dev/mapper/"))
	}
	for _, disk := range labDisks(t) {
		command(t, "/usr/bin/dd", "if=/dev/zero", "of="+disk, "bs=512",
			"count="+strconv.Itoa(leftOut+label), "conv=fsync")
	}
}

func waitUntilCopied(t *testing.T, l *lvmexec.LVM, group string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(300 * time.Millisecond) {
		report, err := l.Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		vg := report.VG(group)
		done := len(vg.Moves()) == 0
		for _, lv := range vg.LVs {
			done = done && (!lv.IsRAID() || lv.SyncPercent != nil && *lv.SyncPercent == 100)
		}
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not copied: %+v", vg.Moves())
		}
	}
}
