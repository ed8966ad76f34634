package recovery

import (
	"fmt"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Deactivation deactivates the active volumes of a thin pool, and then the pool. Two commands are necessary if a device
// is missing.
func Deactivation(vg *lvm.VG, pool *lvm.LV) state.Action {
	active := []string{}
	for i := range vg.LVs {
		if lv := &vg.LVs[i]; lv.PoolName == pool.Name && lv.Attr.Active() && len(active) < state.MaxNamesOfCommand {
			active = append(active, lv.Name)
		}
	}
	if len(active) == 0 {
		active = []string{pool.Name}
	}
	return state.Action{Kind: state.DeactivatePool, Change: lvm.LVDeactivate{VG: vg.Name, Names: active}}
}

// ChangeProblem returns why a recovery cannot change a volume group whose devices are all needed, or "".
func ChangeProblem(d state.Desired, s state.NodeState, vg *lvm.VG) string {
	where := fmt.Sprintf("volume group %s on node %s", d.Name, d.Node)
	if problems := ownership.Duplicates(d, s); len(problems) > 0 {
		return problems[0].Message
	}
	if vg == nil {
		return where + " does not exist"
	}
	if problem := ownership.Foreign(d, vg); problem != "" {
		return problem
	}
	switch {
	case vg.MissingPVs > 0:
		return fmt.Sprintf("%s is missing a device: attach it again, or, if it is lost, %s", where, LostDevicesHint(d))
	case len(vg.Moves()) > 0:
		return where + ": extents are being moved from a device: wait, or cancel its Drain or Remove request"
	}
	for _, pv := range vg.PVs {
		if err := s.Health.Failing[state.NumberOf(pv)]; err != nil {
			return fmt.Sprintf("%s: device %s (physical volume %s) is failing: %v: replace it first", where, pv.Name,
				pv.UUID, err)
		}
	}
	return ""
}
