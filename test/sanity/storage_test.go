//go:build lab

package sanity

import (
	"os"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"github.com/topolvm/topolvm/pkg/lvmd/types"

	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// The volume groups have the names of the device classes.
const (
	thinClass  = "thin"
	thickClass = "thick"
	raidClass  = "raid"
	poolName   = "pool"
)

// prepareDisks creates a volume group for each class, with one disk each, or two for the redundant class. It destroys
// the content of the disks.
func prepareDisks(t *testing.T) *lvmexec.LVM {
	t.Helper()
	disks := strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")
	if len(disks) < 4 {
		t.Fatal("LVMS_TEST_DISKS must name four blank disks of a lab node")
	}
	runner := nodelvm.New()
	t.Cleanup(func() { t.Logf("%d processes: %v", runner.Started().Total(), runner.ByCommand()) })
	storage := lvmexec.New(runner)
	storage.ReadGroupsWith(device.New(runner).ReadPhysicalVolumes)
	storage.PoolsWith(engine.PoolsOf(devicemapper.New()))
	for group, devices := range map[string][]string{thinClass: disks[:1], thickClass: disks[1:2],
		raidClass: disks[2:4]} {
		if err := storage.Apply(t.Context(), lvm.VGCreate{Name: group, Devices: devices}); err != nil {
			t.Fatal(err)
		}
		storage.SetHealthy(group, true)
	}
	if err := storage.Apply(t.Context(),
		lvm.LVCreateThinPool{VG: thinClass, Name: poolName, PercentFree: 90}); err != nil {
		t.Fatal(err)
	}
	return storage
}

// deviceClasses returns the device classes that the agent would publish for the volume groups.
func deviceClasses() []deviceclass.Class {
	return []deviceclass.Class{
		{
			Name: thinClass, VolumeGroup: thinClass, Type: types.TypeThin, Default: true,
			ThinPoolConfig: &deviceclass.ThinPool{Name: poolName, OverprovisionRatio: 10},
		},
		{Name: thickClass, VolumeGroup: thickClass, Type: types.TypeThick},
		{Name: raidClass, VolumeGroup: raidClass, Type: types.TypeThick,
			LVCreateOptions: deviceclass.RAIDOptions("raid1", 1, 0, 0)},
	}
}

// checkNothingIsLeft fails if a logical volume remains after the specs, on the disks or in the API.
func checkNothingIsLeft(t *testing.T, cluster *env.Env, storage *lvmexec.LVM) {
	t.Helper()
	report, err := storage.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{thinClass, thickClass, raidClass} {
		group := report.VG(name)
		if group == nil {
			t.Errorf("volume group %s is gone", name)
			continue
		}
		for _, lv := range group.LVs {
			if !lv.Attr.IsThinPool() {
				t.Errorf("logical volume %s/%s is left", name, lv.Name)
			}
		}
	}
	var volumes topolvmv1.LogicalVolumeList
	if err := cluster.Client.List(t.Context(), &volumes); err != nil {
		t.Fatal(err)
	}
	for i := range volumes.Items {
		t.Errorf("LogicalVolume %s (%s) is left", volumes.Items[i].Name, volumes.Items[i].Spec.Name)
	}
}
