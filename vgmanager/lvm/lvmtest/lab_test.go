//go:build lab

package lvmtest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
)

// command runs a program of the lab node that the product has no use for.
func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// labDisks are three blank disks of a bare lab node. Everything on them is lost.
func labDisks(t *testing.T) [3]string {
	t.Helper()
	disks := strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")
	if len(disks) < 3 {
		t.Fatal("LVMS_TEST_DISKS must name three blank disks of a lab node")
	}
	return [3]string(disks[:3])
}

func TestRealLVMFulfilsTheContract(t *testing.T) {
	runner := host.NewLocal()
	lvmtest.Contract(t, lvmtest.Bench{
		LVM: lvm.New(runner), Disks: labDisks(t),
		Sign:  func(t *testing.T, disk string) { command(t, "/usr/sbin/mkfs.ext4", "-q", "-F", disk) },
		Clear: func(t *testing.T, disk string) { command(t, "/usr/sbin/wipefs", "--quiet", "--all", disk) },
	})
	t.Logf("%d processes: %v", runner.Started().Total(), runner.Started().ByCommand())
}
