//go:build lab

package volumegroup

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
)

// TestLabCapacity creates thin pools on real LVM and compares them with the fixture, which the console's pages use
// too.
func TestLabCapacity(t *testing.T) {
	disks := strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")
	_, thin := capacityCases(t)
	l := lvmexec.New(nodelvm.New())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range thin {
		if len(c.DisksMiB) > len(disks) {
			t.Fatalf("%s: LVMS_TEST_DISKS has %d disks, want %d", c.Name, len(disks), len(c.DisksMiB))
		}
		ctx := t.Context()
		used := disks[:len(c.DisksMiB)]
		d := capacityClass(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: &c.Config})
		must(l.Apply(ctx, lvm.VGCreate{Name: d.Name, Devices: used, Tags: ownership.OwnerTags(d)}))
		report, err := l.Report(ctx)
		must(err)
		must(l.Apply(ctx, thinpool.Options(d.Spec.ThinPoolConfig, report.VG("vg1"))))
		state := offered(t, l, d)
		report, err = l.Report(ctx)
		must(err)
		got := c
		for i := range report.VGs {
			if vg := &report.VGs[i]; vg.Name == "vg1" {
				pool := vg.ThinPool(c.Config.Name)
				got.Group, got.Pool, got.Metadata, got.Volumes = vg.Size, pool.Size, pool.MetadataSize,
					lvm.Bytes(state.Capacity)
			}
		}
		if diff := cmp.Diff(c, got, cmp.AllowUnexported(thinCase{})); diff != "" {
			t.Errorf("%s: %s", c.Name, diff)
		}
		must(l.Apply(ctx, lvm.LVRemove{VG: "vg1", Names: []string{c.Config.Name}}))
		must(l.Apply(ctx, lvm.VGRemove{VG: "vg1"}))
		for _, disk := range used {
			must(l.Apply(ctx, lvm.PVRemove{Device: disk}))
		}
	}
}
