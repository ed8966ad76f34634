package plan

import (
	"errors"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

var errRead = errors.New("input/output error")

// forced returns a device class that names devices and consents to wipe them.
func forced(paths ...string) v1alpha1.LVMVolumeGroupSpec {
	s := &v1alpha1.DeviceSelector{ForceWipeDevicesAndDestroyAllData: new(true)}
	for _, p := range paths {
		s.Paths = append(s.Paths, v1alpha1.DevicePath(p))
	}
	return v1alpha1.LVMVolumeGroupSpec{DeviceSelector: s}
}

// written returns a disk with a file system.
func written(letter string) device.Device {
	d := disk(letter)
	d.Signature = "ext4"
	d.UUID = "fs-" + letter
	return d
}

func TestPlanOfWipes(t *testing.T) {
	spec := forced("/dev/disk/by-id/b")
	look := func(change func(*NodeState)) NodeState {
		s := NodeState{Report: report(), Devices: []device.Device{written("b"), written("c")}, Paths: paths("b")}
		if change != nil {
			change(&s)
		}
		s.Identities = device.Identities(s.Devices)
		return s
	}
	record := WipeRecord{Class: "uid", ID: "serial:serial-b", Done: true}
	found := WipeTarget{Reasons: device.Explain(written("b"), nil)}.Found()
	tests := map[string]struct {
		spec   v1alpha1.LVMVolumeGroupSpec
		before bool
		seen   NodeState
		want   string
		says   []string
	}{
		"consent": {spec: spec, seen: look(nil), want: "Progressing WipeDevice"},
		"no consent": {spec: v1alpha1.LVMVolumeGroupSpec{DeviceSelector: selector}, seen: look(nil),
			want: "Failed", says: []string{"carries ext4"}},
		"blank already": {spec: spec, seen: look(func(s *NodeState) { s.Devices[0] = disk("b") }),
			want: "Progressing CreateVolumeGroup /dev/sdb"},
		"once only": {spec: spec, seen: look(func(s *NodeState) { s.Wiped = []WipeRecord{record} }),
			want: "Failed", says: []string{"serial:serial-b", "nothing is wiped a second time"}},
		"another disk was wiped": {spec: spec,
			seen: look(func(s *NodeState) { s.Wiped = []WipeRecord{{Class: "uid", ID: "serial:x", Done: true}} }),
			want: "Progressing WipeDevice"},
		"for an earlier class": {spec: spec,
			seen: look(func(s *NodeState) { s.Wiped = []WipeRecord{{Class: "old", ID: record.ID, Done: true}} }),
			want: "Progressing WipeDevice"},
		"by an earlier version": {spec: spec, before: true, seen: look(nil), want: "Failed",
			says: []string{"an earlier version already wiped"}},
		"a crash in the middle": {spec: spec,
			seen: look(func(s *NodeState) { s.Wiped = []WipeRecord{{Class: "uid", ID: record.ID, Found: found}} }),
			want: "Progressing WipeDevice"},
		"a crash, and other content meanwhile": {
			spec: spec, seen: look(func(s *NodeState) {
				s.Wiped = []WipeRecord{{Class: "uid", ID: record.ID, Found: []string{"HasSignature: swap"}}}
			}),
			want: "Failed", says: []string{"nothing is wiped a second time"},
		},
		"mounted": {spec: spec, seen: look(func(s *NodeState) { s.Devices[0].Mountpoints = []string{"/data"} }),
			want: "Failed", says: []string{"mounted on /data"}},
		"in use": {spec: spec, seen: look(func(s *NodeState) {
			s.Devices[0].Children = []device.Child{{Name: "/dev/mapper/x",
				Type: "crypt"}}
		}), want: "Failed", says: []string{"used by /dev/mapper/x"}},
		"of a group of ours": {
			spec: spec, want: "Failed", says: []string{"physical volume of the volume group vg9"},
			seen: look(func(s *NodeState) {
				s.Devices[0].Signature = "LVM2_member"
				s.Report = report(edit(group("b"), func(vg *lvm.VG) { vg.Name = "vg9"; vg.PVs[0].VGName = "vg9" }))
			}),
		},
		"without a serial number it is the path that counts": {
			spec: spec, want: "Failed", says: []string{"path:/dev/disk/by-id/b"},
			seen: look(func(s *NodeState) {
				s.Devices[0].Serial = ""
				s.Wiped = []WipeRecord{{Class: "uid", ID: "path:/dev/disk/by-id/b", Done: true}}
			}),
		},
	}
	for name, tt := range tests {
		w := testWanted(tt.spec)
		w.WipedBefore = tt.before
		checkPlan(t, name, New(w, tt.seen), tt.want, tt.says)
	}
}
