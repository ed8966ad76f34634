package volumegroup

import (
	"context"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// observeHealth reads what the kernel reports about the devices and volumes of a volume group.
func (r *Reconciler) observeHealth(ctx context.Context, d state.Desired, s state.NodeState) (state.Health, error) {
	h, vg := healthOf(r.Health, d.Name), ownership.GroupOf(d, s)
	if vg != nil {
		h.Stale = stale(r.Devices, vg)
		return h, nil
	}
	if d.Spec.RAIDConfig != nil {
		h.NoRAID = r.LVM.CheckRAID(ctx)
	}
	if s.Before.UUID == "" {
		return h, nil
	}
	var err error
	h.Mapped, err = r.Devices.Mapped(s.Before.UUID)
	return h, err
}

func healthOf(known Health, group string) state.Health {
	return state.Health{Failing: known.Failing(), Held: known.Suspended(), Unknown: known.Unknown(group)}
}

// stale returns the volumes that the kernel maps to other devices than those of their physical volumes. It skips a
// volume that cannot be read, because it was just deactivated.
func stale(mappings Mappings, vg *lvm.VG) []string {
	numbers := map[string]device.Number{}
	for _, pv := range vg.PVs {
		numbers[pv.UUID] = state.NumberOf(pv)
	}
	var names []string
	for _, list := range [][]lvm.LV{vg.LVs, vg.Hidden} {
		for i := range list {
			lv := &list[i]
			if len(lv.PVs) == 0 || lv.Major == 0 || lv.MoveSource != "" || lv.Attr.Locked() {
				continue
			}
			below, err := below(mappings, device.NewNumber(lv.Major, lv.Minor), layersOfLVM)
			lost := func(uuid string) bool { return numbers[uuid] != "" && !slices.Contains(below, numbers[uuid]) }
			top := health.TopOf(vg, lv)
			if err == nil && slices.ContainsFunc(lv.PVs, lost) && !slices.Contains(names, top) {
				names = append(names, top)
			}
		}
	}
	slices.Sort(names)
	return names
}

// layersOfLVM is the number of layers below a logical volume to look through: an origin has one of its own ("-real")
// between it and its physical volumes.
const layersOfLVM = 2

// below returns the devices on which a device is built, down to a number of layers. A device below, such as a
// partition, may have none.
func below(mappings Mappings, number device.Number, depth int) ([]device.Number, error) {
	list, err := mappings.Below(number)
	if err != nil || depth == 1 {
		return list, err
	}
	all := slices.Clone(list)
	for _, n := range list {
		if deeper, err := below(mappings, n, depth-1); err == nil {
			all = append(all, deeper...)
		}
	}
	return all, nil
}
