package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd/deviceclass"
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
			w := testWanted(v1alpha1.LVMVolumeGroupSpec{ThickConfig: test.config})
			got := classOf(w, test.present, "vg")
			want := classOf(testWanted(v1alpha1.LVMVolumeGroupSpec{}), nil, "vg")
			want.Allocation, want.Stripe = test.want.Allocation, test.want.Stripe
			want.StripeSize, want.LVCreateOptions = test.want.StripeSize, test.want.LVCreateOptions
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStripedVolumesNeedDevices(t *testing.T) {
	w := testWanted(thickOver(3))
	s := NodeState{Report: &lvm.Report{}, Devices: []device.Device{disk("b"), disk("c")}}
	s.Identities = device.Identities(s.Devices)
	checkPlan(t, "too few to begin", New(w, s), "Failed", []string{"requires at least 3 devices for a striped volume"})
	problems := thickProblems(w, disksOf(1000, 1000))
	if len(problems) != 1 || problems[0].Event != EventNoAvailableDevices ||
		!strings.Contains(problems[0].Message, "a striped volume requires at least 3 devices, and it has 2") {
		t.Errorf("got %+v", problems)
	}
	for name, spec := range map[string]v1alpha1.LVMVolumeGroupSpec{"sufficient": thickOver(2), "no config": {}} {
		if problems := thickProblems(testWanted(spec), disksOf(0, 0)); problems != nil {
			t.Errorf("%s: got %+v", name, problems)
		}
	}
	if why := keepReason(w, disksOf(0, 0, 0), lvm.PV{}); why !=
		"a striped volume requires at least 3 devices, and only 2 would remain" {
		t.Errorf("got %q", why)
	}
}
