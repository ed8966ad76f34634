package health

import (
	"fmt"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// shrunk returns the devices of the group that are smaller than their physical volumes. LVM only warns about them.
func shrunk(desired state.Desired, s state.NodeState, vg *lvm.VG) []state.Problem {
	var problems []state.Problem
	for _, pv := range vg.PVs {
		d := state.DeviceOfPV(s, pv)
		if pv.Missing || d.Size == 0 || lvm.Bytes(d.Size) >= pv.Size {
			continue
		}
		problems = append(problems, state.DeviceProblem(v1alpha1.ReasonDeviceShrunk, fmt.Sprintf(
			"device %s (physical volume %s) of volume group %s on node %s has %s, and its physical volume %s: data at "+
				"its end cannot be read; make the device as large as it was, for example in the hypervisor or on the "+
				"storage array; if that is not possible, save the data and replace the device",
			d.Name, pv.UUID, desired.Group(), desired.Node, state.Quantity(lvm.Bytes(d.Size)), state.Quantity(pv.Size)),
			vg.VolumesOn(pv.UUID)))
	}
	return problems
}

// leastGrowth is the least unused size at the end of a device that counts. LVM's label and metadata, and an extent that
// is not whole, are never that large unless an administrator asks for it.
const leastGrowth = 64 << 20

// GrowthOf returns by how much the device of a physical volume is larger, or 0.
func GrowthOf(s state.NodeState, vg *lvm.VG, pv lvm.PV) lvm.Bytes {
	grown := lvm.Bytes(state.DeviceOfPV(s, pv).Size) - pv.Size
	if pv.Missing || grown < max(leastGrowth, 2*vg.ExtentSize) {
		return 0
	}
	return grown
}

// ResizeActions use all of each device that became larger, if the device class says so.
func ResizeActions(d state.Desired, s state.NodeState, vg *lvm.VG) []state.Action {
	if d.Spec.DeviceResizePolicy != v1alpha1.DeviceResizeAutomatic {
		return nil
	}
	var list []state.Action
	for _, pv := range vg.PVs {
		if GrowthOf(s, vg, pv) > 0 {
			list = append(list, state.Action{Kind: state.ResizePV, Target: state.PVs{pv},
				Change: lvm.PVResize{VG: vg.Name, Device: pv.Name}})
		}
	}
	return list
}
