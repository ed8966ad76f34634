package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/members"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/placement"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/publication"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

func thickOver(stripes int32) v1alpha1.LVMVolumeGroupSpec {
	return v1alpha1.LVMVolumeGroupSpec{ThickConfig: &v1alpha1.ThickConfig{Stripes: &stripes}}
}

// TestSettingsOfThickVolumes: the settings of an earlier version stay until thickConfig is set, and those of
// thickConfig are removed with it.
func TestSettingsOfThickVolumes(t *testing.T) {
	two, size := uint(2), resource.MustParse("16Ki")
	striped := thickOver(2).ThickConfig
	sized := striped.DeepCopy()
	sized.StripeSize = &size
	single := &v1alpha1.ThickConfig{Allocation: v1alpha1.AllocationSingleDevice,
		LVCreateOptions: []string{"--readahead=none"}}
	earlier := deviceclass.Class{Stripe: &two, LVCreateOptions: []string{"--type", "raid1"}}
	ofSingle := deviceclass.Class{Allocation: "SingleDevice", LVCreateOptions: []string{"--readahead=none"}}
	ofStriped := deviceclass.Class{Allocation: "Any", Stripe: &two, StripeSize: "64k"}
	for name, test := range map[string]struct {
		present *deviceclass.Class
		config  *v1alpha1.ThickConfig
		want    deviceclass.Class
	}{
		"none":                          {nil, nil, deviceclass.Class{}},
		"of an earlier version":         {&earlier, nil, earlier},
		"instead of an earlier version": {&earlier, single, ofSingle},
		"stripes":                       {nil, striped, ofStriped},
		"the size of stripes": {nil, sized, deviceclass.Class{Allocation: "Any", Stripe: &two,
			StripeSize: "16k"}},
		"an empty config":  {&ofStriped, &v1alpha1.ThickConfig{}, deviceclass.Class{Allocation: "Any"}},
		"changed":          {&ofStriped, single, ofSingle},
		"applied twice":    {&ofSingle, single, ofSingle},
		"removed":          {&ofSingle, nil, deviceclass.Class{}},
		"removed, striped": {&ofStriped, nil, deviceclass.Class{}},
		"set to Any by hand": {nil, &v1alpha1.ThickConfig{Allocation: v1alpha1.AllocationAny},
			deviceclass.Class{Allocation: "Any"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := testDesired(v1alpha1.LVMVolumeGroupSpec{ThickConfig: test.config})
			got := publication.ClassOf(d, test.present, "vg")
			want := publication.ClassOf(testDesired(v1alpha1.LVMVolumeGroupSpec{}), nil, "vg")
			want.Allocation, want.Stripe = test.want.Allocation, test.want.Stripe
			want.StripeSize, want.LVCreateOptions = test.want.StripeSize, test.want.LVCreateOptions
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStripedVolumesNeedDevices(t *testing.T) {
	d := testDesired(thickOver(3))
	s := state.NodeState{Report: &lvm.Report{}, Devices: []device.Device{disk("b"), disk("c")}}
	s.Disks.Identities = device.Identities(s.Devices)
	checkPlan(t, "too few to begin", New(d, s), "Failed", []string{"requires at least 3 devices for a striped volume"})
	problems := placement.ThickProblems(d, disksOf(1000, 1000))
	if len(problems) != 1 || problems[0].Event != state.EventNoAvailableDevices ||
		!strings.Contains(problems[0].Message, "a striped volume requires at least 3 devices, and it has 2") {
		t.Errorf("got %+v", problems)
	}
	for name, spec := range map[string]v1alpha1.LVMVolumeGroupSpec{"sufficient": thickOver(2), "no config": {}} {
		if problems := placement.ThickProblems(testDesired(spec), disksOf(0, 0)); problems != nil {
			t.Errorf("%s: got %+v", name, problems)
		}
	}
}

// TestWhereADeviceIsMovedTo: the group has 1000 extents on each device, and 100 of b are in use.
func TestWhereADeviceIsMovedTo(t *testing.T) {
	const required, preferred = "lvms.spread=device:required:ns/db", "lvms.spread=device:preferred:ns/db"
	single := v1alpha1.LVMVolumeGroupSpec{ThickConfig: &v1alpha1.ThickConfig{
		Allocation: v1alpha1.AllocationSingleDevice}}
	on := func(name string, tag string, pvs ...string) lvm.LV {
		return lvm.LV{Name: name, Tags: []string{tag}, PVs: pvs}
	}
	for name, test := range map[string]struct {
		spec v1alpha1.LVMVolumeGroupSpec
		free []lvm.Bytes // of c and d
		lvs  []lvm.LV
		want string
	}{
		"any":                  {thickOver(2), []lvm.Bytes{500, 900}, nil, ""},
		"single device":        {single, []lvm.Bytes{500, 900}, nil, "/dev/sdd"},
		"room on one":          {single, []lvm.Bytes{100, 99}, nil, "/dev/sdc"},
		"room on two together": {single, []lvm.Bytes{99, 99}, nil, ""},
		"a part is there": {single, []lvm.Bytes{500, 900}, []lvm.LV{on("a", "x", "pv-b", "pv-d")},
			"/dev/sdc"},
		"in a group, others nowhere": {v1alpha1.LVMVolumeGroupSpec{}, []lvm.Bytes{500, 900},
			[]lvm.LV{on("a", required, "pv-b")}, "/dev/sdd"},
		"apart from another": {v1alpha1.LVMVolumeGroupSpec{}, []lvm.Bytes{500, 900},
			[]lvm.LV{on("a", required, "pv-b"), on("b", preferred, "pv-d")}, "/dev/sdc"},
		"apart from one that requires it": {v1alpha1.LVMVolumeGroupSpec{}, []lvm.Bytes{500, 900},
			[]lvm.LV{on("a", preferred, "pv-b"), on("b", required, "pv-d")}, "/dev/sdc"},
		"both preferred": {v1alpha1.LVMVolumeGroupSpec{}, []lvm.Bytes{500, 900},
			[]lvm.LV{on("a", preferred, "pv-b"), on("b", preferred, "pv-d")}, "/dev/sdd"},
		"another group": {v1alpha1.LVMVolumeGroupSpec{}, []lvm.Bytes{500, 900},
			[]lvm.LV{on("a", required, "pv-b"), on("b", "lvms.spread=device:required:ns/other", "pv-d")}, "/dev/sdd"},
		"nowhere apart": {single, []lvm.Bytes{500, 900},
			[]lvm.LV{on("a", required, "pv-b"), on("b", required, "pv-c", "pv-d")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			vg := disksOf(900, test.free[0], test.free[1])
			vg.PVs[0].Allocatable, vg.PVs[0].Used = false, 100*extent
			vg.LVs = test.lvs
			r := members.Requests{Notes: map[string]state.DeviceNote{}}
			a := r.StartMove(testDesired(test.spec), vg, vg.PVs[0])
			if move, _ := a.Change.(lvm.PVMoveStart); a.Kind != state.StartMove || move.Target != test.want {
				t.Errorf("got %s to %q, want %q", a.Kind, move.Target, test.want)
			}
		})
	}
}
