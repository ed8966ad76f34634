package plan

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/members"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

const extent = lvm.Bytes(4 << 20)

// disksOf returns a volume group whose physical volumes have these free sizes in extents, of 1000 each.
func disksOf(free ...lvm.Bytes) *lvm.VG {
	vg := &lvm.VG{Name: "vg1", UUID: "vg", ExtentSize: extent}
	for i, n := range free {
		pv := lvm.PV{Name: "/dev/sd" + string(rune('b'+i)), UUID: "pv-" + string(rune('b'+i)), Allocatable: true,
			Size: 1000 * extent, Free: n * extent, FreeAreas: []lvm.Bytes{n * extent}}
		vg.PVs = append(vg.PVs, pv)
		vg.Size += pv.Size
		vg.Free += pv.Free
	}
	return vg
}

func stripedOver(stripes int32, percent int) v1alpha1.LVMVolumeGroupSpec {
	return v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: percent,
		OverprovisionRatio: 10, Stripes: &stripes}}
}

// stripedPool adds a thin pool of a size in extents that is used to a percentage.
func stripedPool(vg *lvm.VG, size lvm.Bytes, percent float64) *lvm.VG {
	vg.LVs = append(vg.LVs, lvm.LV{Name: "pool", Attr: "twi-aotz--", Size: size * extent, ChunkSize: 128 << 10,
		MetadataSize: extent, DataPercent: &percent, MetadataPercent: new(1.0), Zeroes: true, SegType: "thin-pool"})
	return vg
}

func TestAStripedPoolIsExtendedOverAllStripes(t *testing.T) {
	extending := stripedOver(2, 90)
	extending.ThinPoolConfig.AutoExtend = &v1alpha1.AutoExtend{ThresholdPercent: 80, StepPercent: 20}
	for name, test := range map[string]struct {
		spec v1alpha1.LVMVolumeGroupSpec
		vg   *lvm.VG
		want lvm.Bytes // the new size in extents
	}{
		"two devices were added": {stripedOver(2, 90), stripedPool(disksOf(100, 100, 1000, 1000), 1800, 10), 3598},
		"one device was added":   {stripedOver(2, 90), stripedPool(disksOf(10, 10, 1000), 1980, 10), 0},
		"nothing was added":      {stripedOver(2, 90), stripedPool(disksOf(100, 100), 1800, 10), 0},
		"nearly full":            {extending, stripedPool(disksOf(100, 100), 1800, 85), 2000},
		"full, one has space":    {extending, stripedPool(disksOf(0, 200), 1800, 85), 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := thinpool.Action(test.spec.ThinPoolConfig, state.NodeState{}, test.vg)
			size := sizeOf(a)
			if size/extent != test.want || (a.Kind == state.ExtendPool) != (test.want > 0) || size%(2*extent) != 0 {
				t.Errorf("got %s %d", a.Kind, size/extent)
			}
		})
	}
	d := testDesired(extending)
	vg := stripedPool(disksOf(0, 200), 1800, 85)
	problems := thinpool.CannotGrow(d, vg, vg.ThinPool("pool"))
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "fewer than 2 devices of volume group vg1, over "+
		"which its data is striped, have free space") || !strings.Contains(problems[0].Message, "add 2 devices") {
		t.Errorf("got %+v", problems)
	}
}

func TestWhyAStripedPoolDoesNotUseADevice(t *testing.T) {
	for name, test := range map[string]struct {
		vg   *lvm.VG
		want []string // the devices with a note
	}{
		"one device was added":  {stripedPool(disksOf(10, 10, 1000), 1980, 10), []string{"pv-d"}},
		"the pool has its size": {stripedPool(disksOf(100, 100), 1800, 10), nil},
		"two were added":        {stripedPool(disksOf(10, 10, 1000, 1000), 1980, 10), nil},
		"no pool":               {disksOf(1000, 0), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := members.Plan(testDesired(stripedOver(2, 90)), state.NodeState{}, test.vg)
			if len(r.Notes) != len(test.want) {
				t.Fatalf("got %+v", r.Notes)
			}
			for _, uuid := range test.want {
				if note := r.Notes[uuid]; note.State != v1alpha1.PhysicalVolumeReady ||
					!strings.Contains(note.Message, "of it is not used: the data of the thin pool is striped over 2") {
					t.Errorf("got %+v", note)
				}
			}
		})
	}
}

func TestDevicesOfAStripedPool(t *testing.T) {
	d := testDesired(stripedOver(3, 90))
	s := state.NodeState{Report: &lvm.Report{}, Devices: []device.Device{disk("b"), disk("c")}}
	s.Disks.Identities = device.Identities(s.Devices)
	checkPlan(t, "too few to begin", New(d, s), "Failed",
		[]string{"requires at least 3 devices for a striped thin pool"})
	problems := thinpool.StripesProblems(d, disksOf(1000, 1000, 0))
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "is striped over 3 devices, and too few devices") {
		t.Errorf("got %+v", problems)
	}
	if problems = thinpool.StripesProblems(d, disksOf(1000, 1000, 1000)); problems != nil {
		t.Errorf("got %+v", problems)
	}
}

func TestOptionsOfAStripedPool(t *testing.T) {
	got := thinpool.Options(stripedOver(2, 100).ThinPoolConfig, disksOf(1000, 1000))
	if got.Stripes != 2 || got.StripeSize != 64<<10 || got.Size != 1996*extent || got.PercentFree != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestDrainOfTheOnlyDevice: without stripes, the number of devices is no reason.
func TestDrainOfTheOnlyDevice(t *testing.T) {
	for name, test := range map[string]struct {
		spec v1alpha1.LVMVolumeGroupSpec
		want string
	}{
		"thick":   {v1alpha1.LVMVolumeGroupSpec{}, "is in use, and the other devices have only"},
		"striped": {stripedOver(2, 90), "a striped thin pool requires at least 2 devices, and only 0 would have data"},
	} {
		t.Run(name, func(t *testing.T) {
			vg := disksOf(0)
			vg.PVs[0].Used = extent
			r := members.Requests{Notes: map[string]state.DeviceNote{}}
			if a := r.StartMove(testDesired(test.spec), vg, vg.PVs[0]); a.Kind != state.Nothing {
				t.Errorf("got %s", a.Kind)
			}
			if note := r.Notes["pv-b"]; !strings.HasPrefix(note.Message, test.want) &&
				!strings.Contains(note.Message, " of it "+test.want) {
				t.Errorf("got %q", note.Message)
			}
		})
	}
}
