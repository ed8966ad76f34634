package volumegroup

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// TestADeactivationWithoutItsChangeWipesNothing although it has the same target as the wipe that follows it.
func TestADeactivationWithoutItsChangeWipesNothing(t *testing.T) {
	err := (&Reconciler{}).perform(t.Context(), state.Desired{Name: "vg1", Node: "worker-1"}, state.NodeState{},
		state.Action{Kind: state.DeactivateVG, Target: state.WipeTarget{}})
	if err == nil || !strings.Contains(err.Error(), `unknown action "DeactivateVolumeGroup"`) {
		t.Errorf("got error %v", err)
	}
}
