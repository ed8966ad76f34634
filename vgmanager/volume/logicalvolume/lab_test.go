//go:build lab

package logicalvolume

import (
	"os"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/erase"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// TestLabKilledAtEveryPoint is TestKilledAtEveryPoint on real LVM. It stops before and after LVM's commands.
func TestLabKilledAtEveryPoint(t *testing.T) {
	newWorld := realWorld(t)
	ofLVM := func(point string) bool { return strings.Contains(point, " lv") }
	killAtEveryPoint(t, newWorld, ofLVM)
	t.Run("move", func(t *testing.T) { moveAtEveryPoint(t, newWorld, ofLVM) })
	t.Run("import", func(t *testing.T) { importAtEveryPoint(t, newWorld) })
	t.Run("erase", func(t *testing.T) { eraseOnRealDisks(t, newWorld) })
}

// realWorld returns a function that returns a world on real LVM, without volumes.
func realWorld(t *testing.T) func(*testing.T) *world {
	t.Helper()
	disks := strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")
	if len(disks) < 2 {
		t.Fatal("LVMS_TEST_DISKS must name two blank disks of a lab node")
	}
	real := lvmexec.New(host.NewLocal())
	prepare(t, real, disks[0], disks[1])
	for _, group := range []string{"thick", "thin"} {
		real.SetHealthy(group, true)
	}
	return func(t *testing.T) *world {
		w := newWorldOn(t, real)
		w.eraser = erase.New(t.Context())
		report, err := real.Report(t.Context())
		w.must(err)
		for i := range report.VGs {
			for _, lv := range report.VGs[i].LVs {
				if !lv.Attr.IsThinPool() {
					w.must(real.Apply(t.Context(), lvm.LVRemove{VG: report.VGs[i].Name, Names: []string{lv.Name}}))
				}
			}
		}
		return w
	}
}
