package lostdevices

import (
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// TestEndOfTheRecoveryOfADeletedGroup: LVM creates a deleted group again on the same physical volumes.
func TestEndOfTheRecoveryOfADeletedGroup(t *testing.T) {
	created := func(lvs ...lvm.LV) *lvm.VG {
		return &lvm.VG{Name: "vg1", UUID: "vg-new", PVs: []lvm.PV{{Name: "/dev/sdd", UUID: "pv-d"}}, LVs: lvs}
	}
	lost := &state.Recovery{WholeGroup: true, Devices: []string{"pv-d"}, Names: []string{"a"}}
	again := created(lvm.LV{Name: "a"})
	unnamed := &state.Recovery{WholeGroup: true, Devices: []string{"pv-d"}}
	empty := created(lvm.LV{Name: "pool", Attr: "twi-aotz--"})
	incomplete := created()
	incomplete.MissingPVs = 1
	for name, test := range map[string]struct {
		r    *state.Recovery
		vg   *lvm.VG
		want bool
	}{
		"created again": {lost, empty, true}, "attached again": {lost, again, false}, "missing": {lost, nil, false},
		"incomplete": {lost, incomplete, false}, "no lost volume is known": {unnamed, empty, true},
		"attached again with a volume": {unnamed, again, false},
	} {
		if got := hasEnded(test.r, test.vg); got != test.want {
			t.Errorf("a deleted group, %s: ended: %t", name, got)
		}
	}
}
