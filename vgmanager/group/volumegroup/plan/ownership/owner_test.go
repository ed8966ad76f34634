package ownership

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func TestAVolumeGroupThatAnotherClassUsesIsNotRenamed(t *testing.T) {
	d := state.Desired{Name: "vg1", Node: "n1", Sharers: []state.Sharer{{Name: "apps", Group: "data", Pool: "pool"}}}
	if why := notRenamed(d, &lvm.VG{Name: "data", Tags: []string{"lvms"}}); !strings.Contains(why, "apps") {
		t.Errorf("it is renamed: %q", why)
	}
}
