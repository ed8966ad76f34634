package plan

import (
	"fmt"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// shrunk returns the devices of the group that are smaller than their physical volumes. LVM only warns about them.
func shrunk(w Desired, s NodeState, vg *lvm.VG) []Problem {
	var problems []Problem
	for _, pv := range vg.PVs {
		d := deviceOf(s, pv)
		if pv.Missing || d.Size == 0 || lvm.Bytes(d.Size) >= pv.Size {
			continue
		}
		problems = append(problems, deviceProblem(v1alpha1.ReasonDeviceShrunk, fmt.Sprintf(
			"device %s (physical volume %s) of volume group %s on node %s has %s, and its physical volume %s: data at "+
				"its end cannot be read; make the device as large as it was, for example in the hypervisor or on the "+
				"storage array; if that is not possible, save the data and replace the device",
			d.Name, pv.UUID, w.Group(), w.Node, quantity(lvm.Bytes(d.Size)), quantity(pv.Size)),
			vg.VolumesOn(pv.UUID)))
	}
	return problems
}

// leastGrowth is the least unused size at the end of a device that counts. LVM's label and metadata, and an extent that
// is not whole, are never that large unless an administrator asks for it.
const leastGrowth = 64 << 20

// growthOf returns by how much the device of a physical volume is larger, or 0.
func growthOf(s NodeState, vg *lvm.VG, pv lvm.PV) lvm.Bytes {
	grown := lvm.Bytes(deviceOf(s, pv).Size) - pv.Size
	if pv.Missing || grown < max(leastGrowth, 2*vg.ExtentSize) {
		return 0
	}
	return grown
}

// resizeActions use all of each device that became larger, if the device class says so.
func resizeActions(w Desired, s NodeState, vg *lvm.VG) []Action {
	if w.Spec.DeviceResizePolicy != v1alpha1.DeviceResizeAutomatic {
		return nil
	}
	var list []Action
	for _, pv := range vg.PVs {
		if growthOf(s, vg, pv) > 0 {
			list = append(list, Action{Kind: ResizePV, PVs: []lvm.PV{pv}})
		}
	}
	return list
}

// noteGrown says on each device that is larger than its physical volume how to use all of it.
func (r *deviceRequests) noteGrown(s NodeState, vg *lvm.VG) {
	for _, pv := range vg.PVs {
		grown := growthOf(s, vg, pv)
		if _, noted := r.notes[pv.UUID]; noted || grown == 0 {
			continue
		}
		r.notes[pv.UUID] = deviceNote{state: v1alpha1.PhysicalVolumeReady, message: fmt.Sprintf(
			"the device has %s more than its physical volume: to use it, set deviceResizePolicy: Automatic in the "+
				"device class, or run on the node: pvresize %s", quantity(grown), deviceOf(s, pv).Name)}
	}
}
