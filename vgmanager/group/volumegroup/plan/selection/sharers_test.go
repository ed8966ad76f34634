package selection

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func TestAVolumeGroupThatAnotherClassUsesIsNotDestroyed(t *testing.T) {
	d := state.Desired{Name: "vg1", Node: "n1", Sharers: []state.Sharer{{Name: "apps", Group: "data", Pool: "pool"}}}
	if why := protectedGroup(d, "data", nil); !strings.Contains(why, "which device class apps uses") {
		t.Errorf("its devices are wiped: %q", why)
	}
	s := state.NodeState{Report: &lvm.Report{VGs: []lvm.VG{{Name: "data", UUID: "vg", Attr: "wz--n-"}}}}
	if why := destructionRefusal(d, s, state.PresentGroup{Name: "data", UUID: "vg"}); !strings.Contains(why,
		"used by device class apps") {
		t.Errorf("it is destroyed: %q", why)
	}
}
