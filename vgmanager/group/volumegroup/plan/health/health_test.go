package health

import (
	"slices"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
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
	s := state.NodeState{Health: state.Health{Held: map[device.Number]bool{"254:2": true, "254:5": true, "254:7": true, "254:99": true}}}
	got := HeldVolumes(s, vg)
	slices.Sort(got)
	if !slices.Equal(got, []string{"itself", "pool", "raid"}) {
		t.Errorf("got %v", got)
	}
	problems := BrokenVolumes(state.Desired{Name: "vg1", Node: "n1"}, s, vg)
	if len(problems) != 1 || problems[0].Reason != v1alpha1.ReasonVolumesSuspended ||
		!slices.Equal(problems[0].Volumes, []string{"itself", "pool", "raid"}) {
		t.Errorf("got %+v", problems)
	}
}

func TestSuspendedVolumesAreResumed(t *testing.T) {
	held := map[device.Number]bool{"254:2": true, "254:3": true, "254:5": true}
	volume := func(name, attr, pool string, minor uint32) lvm.LV {
		return lvm.LV{Name: name, Attr: lvm.LVAttr(attr), PoolName: pool, Major: 254, Minor: minor}
	}
	pool := volume("pool", "twi-sotz--", "", 2)
	mirror := lvm.LV{Name: "raid_rimage_0", Parent: "raid", Attr: "iwi-s-r---", Major: 254, Minor: 5}
	for name, test := range map[string]struct {
		vg   lvm.VG
		want string
	}{
		"nothing":                  {lvm.VG{LVs: []lvm.LV{volume("a", "-wi-a-----", "", 1)}}, ""},
		"a volume":                 {lvm.VG{LVs: []lvm.LV{volume("a", "-wi-s-----", "", 2)}}, "a"},
		"a volume before its pool": {lvm.VG{LVs: []lvm.LV{pool, volume("a", "Vwi-XXtzX-", "pool", 3)}}, "a"},
		"a pool":                   {lvm.VG{LVs: []lvm.LV{pool, volume("a", "Vwi-aotz--", "pool", 4)}}, "pool"},
		"a part of a volume": {lvm.VG{LVs: []lvm.LV{volume("raid", "rwi-aor---", "", 9)},
			Hidden: []lvm.LV{mirror}}, "raid"},
		"resumed since":               {lvm.VG{LVs: []lvm.LV{volume("a", "-wi-ao----", "", 2)}}, ""},
		"LVM works on it":             {lvm.VG{LVs: []lvm.LV{volume("a", "-wi-s-----", "", 1)}}, ""},
		"not while a disk is missing": {lvm.VG{LVs: []lvm.LV{volume("a", "-wi-s-----", "", 2)}, MissingPVs: 1}, ""},
	} {
		got := Resume(state.NodeState{Health: state.Health{Held: held}}, &test.vg)
		if got.Subject() != test.want || (got.Kind == state.Resume) != (test.want != "") {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
		waiting := map[string]state.Attempt{test.want: {Ineffective: 1, Waiting: true}}
		got = Resume(state.NodeState{Health: state.Health{Held: held},
			Records: state.Records{Attempts: waiting}}, &test.vg)
		if got.Subject() == test.want && got.Kind != state.Nothing {
			t.Errorf("%s: got %+v before the next attempt is due", name, got)
		}
	}
}
