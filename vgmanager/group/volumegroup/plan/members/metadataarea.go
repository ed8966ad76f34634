package members

import (
	"fmt"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

const (
	// metadataSize is the size of the metadata area of new physical volumes. With LVM's header before it, the data
	// starts at 16 MiB. LVM writes about 580 bytes for a thin volume of a claim with all its tags (measured with LVM
	// 2.03.16), and up to 850 with the longest names, so 10,000 volumes have 6 MB. Of the area, half is for the text,
	// and of that an eighth is kept (lvm.MetadataArea): 7.3 MB. A larger text needs another configuration of LVM on
	// the node (global/io_memory_size).
	metadataSize lvm.Bytes = 16<<20 - 4<<10
	// leastForMetadata is the least size of a device that gets such an area, which is 1.6% of it. A smaller one gets
	// LVM's default of 1 MiB, for about 750 volumes.
	leastForMetadata = 1 << 30
	// defaultMetadataSize is LVM's default: the data starts at 1 MiB.
	defaultMetadataSize lvm.Bytes = 1<<20 - 4<<10
)

// MetadataSize returns the size of the metadata area of devices that are added to a volume group, which is nil if it is
// created. It returns 0 for LVM's default. The smallest area of a volume group decides, so an extension does not make
// it smaller than it is.
func MetadataSize(devices []device.Device, vg *lvm.VG) lvm.Bytes {
	var size lvm.Bytes
	for i, d := range devices {
		own := metadataSize
		if d.Size < leastForMetadata {
			own = 0
		}
		if i == 0 || own < size {
			size = own
		}
	}
	if vg != nil && vg.MetadataArea.Size > max(size, defaultMetadataSize) {
		return vg.MetadataArea.Size
	}
	return size
}

// MetadataAreaProblems reports that LVM's metadata area has little space left. The engine refuses new volumes then.
func MetadataAreaProblems(d state.Desired, vg *lvm.VG) []state.Problem {
	area := vg.MetadataArea
	if !area.IsFull() {
		return nil
	}
	return []state.Problem{state.DeviceProblem(v1alpha1.ReasonMetadataAreaFull, fmt.Sprintf(
		"LVM's metadata area of volume group %s on node %s has %d KiB left of %d KiB, which are kept so that volumes "+
			"can be deleted: no new volume, snapshot or expansion is accepted. Delete volumes or snapshots that are "+
			"not needed. The size of the area cannot be changed: for more volumes, replace the devices with others of "+
			"at least 1Gi, which get a larger one, or create another device class",
		d.Group(), d.Node, area.Free>>10, area.Limit()>>10), nil)}
}

// MetadataAreaStatus returns the metadata area for the status, or nil if its size is not known.
func MetadataAreaStatus(vg *lvm.VG) *v1alpha1.MetadataAreaStatus {
	area := vg.MetadataArea
	if area.Size == 0 {
		return nil
	}
	return &v1alpha1.MetadataAreaStatus{Size: *state.Quantity(area.Size), Free: *state.Quantity(area.Free)}
}
