package plan

import (
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// TestDevicesOfAnotherSectorSizeAreNotUsed has disks with logical sectors of 512 and 4096 bytes. LVM refuses to use
// both in one volume group, so the odd one is neither added nor wiped.
func TestDevicesOfAnotherSectorSizeAreNotUsed(t *testing.T) {
	with := func(d device.Device, size int64) device.Device {
		d.SectorSize = size
		return d
	}
	optional := func(letters ...string) []state.Path {
		list := paths(letters...)
		for i := range list {
			list[i].Optional = true
		}
		return list
	}
	const other = "has logical sectors of 4096 bytes, but those of the other devices of device class vg1 have 512"
	tests := map[string]struct {
		seen state.NodeState
		want string
		says []string
	}{
		"two of one kind, one required of the other": {state.NodeState{Report: report(),
			Devices: []device.Device{with(disk("b"), 512), with(disk("c"), 4096), with(disk("d"), 512)},
			Disks:   state.Disks{Paths: paths("b", "c", "d")}}, "Failed", []string{"/dev/sdc", other}},
		"optional": {state.NodeState{Report: report(),
			Devices: []device.Device{with(disk("b"), 512), with(disk("c"), 4096), with(disk("d"), 512)},
			Disks:   state.Disks{Paths: optional("b", "c", "d")}}, "Progressing CreateVolumeGroup /dev/sdb /dev/sdd", nil},
		"one of each, to be wiped": {state.NodeState{Report: report(),
			Devices: []device.Device{with(disk("b"), 512), with(written("c"), 4096)}, Disks: state.Disks{Paths: optional("b", "c")}},
			"Progressing CreateVolumeGroup /dev/sdb", nil},
		"a group": {state.NodeState{Report: report(group("b")),
			Devices: []device.Device{with(disk("b"), 512), with(written("c"), 4096)}, Disks: state.Disks{Paths: paths("b", "c")}},
			"Degraded PublishClass", []string{"/dev/disk/by-id/c", other}},
		"a group, optional": {state.NodeState{Report: report(group("b")),
			Devices: []device.Device{with(disk("b"), 512), with(disk("c"), 4096)}, Disks: state.Disks{Paths: optional("b", "c")}},
			"Progressing PublishClass", nil},
		"a group that has both": {state.NodeState{Report: report(group("b", "c")),
			Devices: []device.Device{with(disk("b"), 512), with(disk("c"), 4096), with(disk("d"), 512)},
			Disks:   state.Disks{Paths: optional("b", "c", "d")}}, "Progressing ExtendVolumeGroup /dev/sdd", nil},
		"not known": {state.NodeState{Report: report(group("b")),
			Devices: []device.Device{with(disk("b"), 512), disk("c")}, Disks: state.Disks{Paths: optional("b", "c")}},
			"Progressing ExtendVolumeGroup /dev/sdc", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.seen.Devices[0].Signature = ""
			tt.seen.Disks.Identities = device.Identities(tt.seen.Devices)
			desired := testDesired(forced("/dev/disk/by-id/b", "/dev/disk/by-id/c", "/dev/disk/by-id/d"))
			p := New(desired, tt.seen)
			checkPlan(t, name, p, tt.want, tt.says)
			excluded := func(e v1alpha1.ExcludedDevice) bool {
				return len(e.Reasons) > 0 && e.Reasons[len(e.Reasons)-1][:len(device.OtherSectorSize)] ==
					string(device.OtherSectorSize)
			}
			found := false
			for _, e := range p.Excluded {
				found = found || excluded(e)
			}
			if found != (name != "a group that has both" && name != "not known") {
				t.Errorf("excluded are %+v", p.Excluded)
			}
		})
	}
}
