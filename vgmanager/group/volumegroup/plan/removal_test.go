package plan

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// TestATaintThatComesBeforeTheVolumeGroup: the node is already a member of the device class, but does not have a
// volume group yet when it is tainted.
func TestATaintThatComesBeforeTheVolumeGroup(t *testing.T) {
	d := state.Desired{Name: "vg1", Node: "node1", Taint: "maintenance:NoExecute"}
	blank := state.NodeState{Devices: []device.Device{disk("b")}, Report: report()}
	if p := New(d, blank); p.State != v1alpha1.VGStatusReady || p.Action.Kind != state.Nothing ||
		!strings.Contains(p.Note, "maintenance:NoExecute, which spec.tolerations") {
		t.Errorf("got %+v", p)
	}
	d.Taint = ""
	if p := New(d, blank); p.Action.Kind != state.CreateVG {
		t.Errorf("got %+v", p)
	}
}

// TestAGroupThatIsAwayIsNotLeft: it is not known whether the group has volumes.
func TestAGroupThatIsAwayIsNotLeft(t *testing.T) {
	seen := state.NodeState{Report: report(), Class: thinDone}
	seen.Before.PhysicalVolumes = []v1alpha1.PhysicalVolumeStatus{{UUID: "pv-b", Name: "/dev/sdb"}}
	d := state.Desired{Name: "vg1", Node: "node1", Leaving: true}
	for _, class := range []*deviceclass.Class{thinDone, nil} {
		seen.Class = class
		if p := New(d, seen); p.State != v1alpha1.VGStatusDegraded || p.Finished || !p.Lost ||
			p.Action.Kind != state.Nothing {
			t.Errorf("got %+v", p)
		}
	}
	seen.Records.Released = []string{"pv-b"}
	if p := New(d, seen); !p.Finished {
		t.Errorf("what was removed is waited for: %+v", p)
	}
}
