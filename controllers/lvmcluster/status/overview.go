package status

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// overview has the numbers that an administrator needs first: whether all volume groups are ready, and how much space
// is free.
type overview struct {
	// ready is the number of volume groups that are ready; groups is the number of all.
	ready, groups int
	// size is the size of the volume groups and free the unused part of it, in bytes. known reports whether at least
	// one volume group has reported them.
	size, free int64
	known      bool
}

func overviewOf(classes []lvmv1alpha1.DeviceClassStatus) overview {
	var o overview
	for _, class := range classes {
		for i := range class.NodeStatus {
			entry := &class.NodeStatus[i]
			o.groups++
			if stateOf(entry.VGStatus) == lvmv1alpha1.VGStatusReady {
				o.ready++
			}
			if entry.Size == nil || entry.Free == nil {
				continue
			}
			o.known = true
			o.size += entry.Size.Value()
			o.free += entry.Free.Value()
			if pool := entry.ThinPool; pool != nil && pool.Free != nil {
				o.free += pool.Free.Value()
			}
		}
	}
	return o
}

// write sets the fields of the status.
func (o overview) write(status *lvmv1alpha1.LVMClusterStatus) {
	status.VolumeGroups = fmt.Sprintf("%d/%d", o.ready, o.groups)
	status.Size = nil
	status.Free = nil
	if o.known {
		status.Size = inWholeUnits(o.size)
		status.Free = inWholeUnits(o.free)
	}
}

// inWholeUnits rounds down to a readable quantity: to GiB from 10 GiB on, otherwise to MiB.
func inWholeUnits(bytes int64) *resource.Quantity {
	const (
		mebi = 1 << 20
		gibi = 1 << 30
	)
	unit := int64(mebi)
	if bytes >= 10*gibi {
		unit = gibi
	}
	return resource.NewQuantity(bytes/unit*unit, resource.BinarySI)
}
