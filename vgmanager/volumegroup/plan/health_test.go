package plan

import (
	"slices"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func TestAVolumeIsHeldWithAPartOfIt(t *testing.T) {
	vg := &lvm.VG{
		LVs: []lvm.LV{{Name: "free", Major: 254, Minor: 1}, {Name: "itself", Major: 254, Minor: 2},
			{Name: "raid", Major: 254, Minor: 3}, {Name: "pool", Major: 254, Minor: 4}},
		Hidden: []lvm.LV{
			{Name: "raid_rimage_0", Parent: "raid", Major: 254, Minor: 5},
			{Name: "pool_tdata", Parent: "pool", Major: 254, Minor: 6},
			{Name: "pool_tdata_rimage_1", Parent: "pool_tdata", Major: 254, Minor: 7},
		},
	}
	s := Seen{Held: map[device.Number]bool{"254:2": true, "254:5": true, "254:7": true, "254:99": true}}
	got := heldVolumes(s, vg)
	slices.Sort(got)
	if !slices.Equal(got, []string{"itself", "pool", "raid"}) {
		t.Errorf("got %v", got)
	}
	problems := brokenVolumes(Wanted{Name: "vg1", Node: "n1"}, s, vg)
	if len(problems) != 1 || problems[0].Reason != v1alpha1.ReasonVolumesSuspended ||
		!slices.Equal(problems[0].Volumes, []string{"itself", "pool", "raid"}) {
		t.Errorf("got %+v", problems)
	}
}
