package groupsnapshot

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

const (
	vg   = "vg1"
	pool = "LVM-pool-tpool"
)

// volumesOf returns n active volumes, v0 and so on, with their pending snapshots, s0 and so on.
func volumesOf(n int) (map[string]lvm.ThinVolume, []Pair) {
	volumes := map[string]lvm.ThinVolume{}
	var pairs []Pair
	for i := range n {
		source, snapshot := fmt.Sprintf("v%d", i), fmt.Sprintf("s%d", i)
		volumes[source] = lvm.ThinVolume{Name: source, Device: "LVM-" + source, Pool: "pool", ID: uint64(i + 1),
			Active: true}
		volumes[snapshot] = lvm.ThinVolume{Name: snapshot, Device: "LVM-" + snapshot, Pool: "pool",
			ID: uint64(i + 101), Origin: source, Tags: []string{"a", PendingTag}}
		pairs = append(pairs, Pair{VG: vg, Source: source, Snapshot: snapshot})
	}
	return volumes, pairs
}

func TestMembersAreInTheOrderOfTheirNames(t *testing.T) {
	volumes, pairs := volumesOf(2)
	inactive := volumes["v1"]
	inactive.Active = false
	volumes["v1"] = inactive
	pairs[0], pairs[1] = pairs[1], pairs[0]
	got, err := NewMembers(pairs, volumes, map[string]string{"pool": pool})
	want := []Member{
		{VG: vg, Source: "v0", Snapshot: "s0", Device: "LVM-v0", Pool: pool, SourceID: 1, SnapshotID: 101},
		{VG: vg, Source: "v1", Snapshot: "s1", Pool: pool, SourceID: 2, SnapshotID: 102},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestOnlyThinDevicesOfPendingSnapshotsAreMembers: the thin device of a member is deleted.
func TestOnlyThinDevicesOfPendingSnapshotsAreMembers(t *testing.T) {
	change := func(name string, f func(*lvm.ThinVolume)) func(map[string]lvm.ThinVolume) {
		return func(volumes map[string]lvm.ThinVolume) {
			v := volumes[name]
			f(&v)
			volumes[name] = v
		}
	}
	for name, test := range map[string]struct {
		change func(map[string]lvm.ThinVolume)
		want   string
	}{
		"no source":      {func(v map[string]lvm.ThinVolume) { delete(v, "v1") }, "vg1/v1: not found"},
		"no snapshot":    {func(v map[string]lvm.ThinVolume) { delete(v, "s1") }, "vg1/s1: not found"},
		"no tag":         {change("s1", func(v *lvm.ThinVolume) { v.Tags = []string{"a"} }), PendingTag},
		"active":         {change("s1", func(v *lvm.ThinVolume) { v.Active = true }), "is active"},
		"other origin":   {change("s1", func(v *lvm.ThinVolume) { v.Origin = "v0" }), `source is "v0"`},
		"no origin":      {change("s1", func(v *lvm.ThinVolume) { v.Origin = "" }), `source is ""`},
		"other pool":     {change("s1", func(v *lvm.ThinVolume) { v.Pool = "other" }), "thin pool other"},
		"pending source": {change("v1", func(v *lvm.ThinVolume) { v.Tags = []string{PendingTag} }), "not complete"},
		"ID of a source": {change("s1", func(v *lvm.ThinVolume) { v.ID = 1 }), "volume v0 has the same thin device 1"},
		"ID of its own":  {change("s1", func(v *lvm.ThinVolume) { v.ID = 2 }), "volume v1 has the same thin device 2"},
		"ID of a stranger": {func(v map[string]lvm.ThinVolume) {
			v["x"] = lvm.ThinVolume{Name: "x", Pool: "pool", ID: 102}
		}, "volume x has the same thin device 102"},
		"inactive pool": {func(v map[string]lvm.ThinVolume) {
			change("v1", func(v *lvm.ThinVolume) { v.Pool = "off" })(v)
			change("s1", func(v *lvm.ThinVolume) { v.Pool = "off" })(v)
		}, "thin pool off is not active"},
	} {
		t.Run(name, func(t *testing.T) {
			volumes, pairs := volumesOf(2)
			before := maps.Clone(volumes)
			if _, err := NewMembers(pairs, volumes, map[string]string{"pool": pool}); err != nil {
				t.Fatal(err)
			}
			test.change(volumes)
			if cmp.Equal(before, volumes) {
				t.Fatal("the case changes nothing")
			}
			got, err := NewMembers(pairs, volumes, map[string]string{"pool": pool})
			if err == nil || got != nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestAVolumeIsInAGroupOnce(t *testing.T) {
	volumes, pairs := volumesOf(3)
	for _, twice := range []Pair{pairs[0], {VG: vg, Source: "v0", Snapshot: "s2"},
		{VG: vg, Source: "v2", Snapshot: "s0"}, {VG: vg, Source: "s0", Snapshot: "s2"},
		{VG: vg, Source: "v2", Snapshot: "v2"}} {
		got, err := NewMembers([]Pair{pairs[0], pairs[1], twice}, volumes, map[string]string{"pool": pool})
		if err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("%v: got %v, %v", twice, got, err)
		}
	}
}
