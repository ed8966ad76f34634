package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// destroying returns a device class that names devices, and consents to destroy volume groups on them.
func destroying(groups string, letters ...string) v1alpha1.LVMVolumeGroupSpec {
	s := &v1alpha1.DeviceSelector{}
	for _, g := range strings.Fields(groups) {
		s.WipeVolumeGroups = append(s.WipeVolumeGroups, v1alpha1.VolumeGroupReference(g))
	}
	for _, l := range letters {
		s.Paths = append(s.Paths, v1alpha1.DevicePath("/dev/disk/by-id/"+l))
	}
	return v1alpha1.LVMVolumeGroupSpec{DeviceSelector: s}
}

// foreignGroup returns a volume group with the UUID "uuid-NAME" and a logical volume, which is active.
func foreignGroup(name string, tags []string, letters ...string) lvm.VG {
	return edit(group(letters...), func(vg *lvm.VG) {
		vg.Name, vg.UUID, vg.Tags = name, "uuid-"+name, tags
		for i := range vg.PVs {
			vg.PVs[i].VGName = name
		}
		vg.LVs = []lvm.LV{{Name: "data", UUID: "lv", Attr: "-wi-a-----", Size: gib, Major: 253, Minor: 7}}
	})
}

func inactive(vg lvm.VG) lvm.VG {
	return edit(vg, func(vg *lvm.VG) {
		vg.LVs = slices.Clone(vg.LVs)
		vg.LVs[0].Attr, vg.LVs[0].Major, vg.LVs[0].Minor = "-wi-------", 0, 0
	})
}

// seenWith returns a node with the disks b and c, and volume groups on them. A logical volume that is active is on each
// disk of its group.
func seenWith(named string, vgs ...lvm.VG) state.NodeState {
	s := state.NodeState{Report: report(vgs...), Disks: state.Disks{Paths: paths(strings.Fields(named)...)}}
	for _, letter := range []string{"b", "c"} {
		d := disk(letter)
		for i := range vgs {
			on := slices.ContainsFunc(vgs[i].PVs, func(pv lvm.PV) bool { return pv.Name == d.Name })
			if !on {
				continue
			}
			d.Signature, d.UUID = device.SignatureLVM, "pv-"+letter
			if len(vgs[i].LVs) > 0 && vgs[i].LVs[0].Attr.Active() {
				d.Children = []device.Child{{Name: "/dev/mapper/data", Type: "lvm"}}
			}
		}
		s.Devices = append(s.Devices, d)
	}
	s.Devices = append(s.Devices, device.Device{Name: "/dev/mapper/data", Number: "253:7", Type: "lvm", Size: 1 << 30})
	s.Disks.Identities = device.Identities(s.Devices)
	return s
}

// seenOnPartition returns a node with a volume group on a partition of the disk b, which is the device sdc of vg.
func seenOnPartition(vg lvm.VG) state.NodeState {
	s := seenWith("b", vg)
	part, whole := &s.Devices[1], &s.Devices[0]
	part.Name, part.Type, part.Serial = "/dev/sdb1", "part", ""
	whole.PartitionTable, whole.Partitions = "gpt", []string{part.Name}
	whole.Children = []device.Child{{Name: part.Name, Type: "part"}}
	s.Disks.Identities = device.Identities(s.Devices)
	return s
}

func TestPlanOfVolumeGroupsToDestroy(t *testing.T) {
	ours := []string{"lvms", "lvms.cluster=c1", "lvms.class=vg1", "lvms.node=n1"}
	theirs := []string{"lvms", "lvms.cluster=c9", "lvms.class=vg1", "lvms.node=n1"}
	moved := []string{"lvms", "lvms.cluster=c1", "lvms.class=vg1", "lvms.node=n9"}
	other := func(d *state.Desired) { d.Others = []state.Other{{Name: "vg2"}} }
	adopting := destroying("uuid-vg1", "b")
	adopting.Adopt = []v1alpha1.VolumeGroupAdoption{{Node: "n1", VolumeGroupUUID: "uuid-vg1"}}
	tests := map[string]struct {
		spec   v1alpha1.LVMVolumeGroupSpec
		change func(*state.Desired)
		seen   state.NodeState
		edit   func(*state.NodeState)
		want   string
		says   []string
	}{
		"without consent, both ways are named": {spec: destroying("", "b"),
			seen: seenWith("b", foreignGroup("vg1", theirs, "b")), want: "Failed",
			says: []string{"OtherClusterVG", "adopt: [{node: n1, volumeGroupUUID: uuid-vg1}]",
				"wipeVolumeGroups: [uuid-vg1]"}},
		"a group of another name, without consent": {spec: destroying("", "b"),
			seen: seenWith("b", foreignGroup("data", nil, "b")), want: "Failed",
			says: []string{"volume group data; to use it with its volumes, create a device class with existingVolumeGroup: data; to destroy it", "wipeVolumeGroups: [uuid-data]"}},
		"of another cluster, by name": {spec: destroying("vg1", "b"),
			seen: seenWith("b", foreignGroup("vg1", theirs, "b")), want: "Progressing DeactivateVolumeGroup"},
		"of another cluster, by UUID": {spec: destroying("uuid-vg1", "b"),
			seen: seenWith("b", foreignGroup("vg1", theirs, "b")), want: "Progressing DeactivateVolumeGroup"},
		"inactive": {spec: destroying("vg1", "b"), seen: seenWith("b", inactive(foreignGroup("vg1", theirs, "b"))),
			want: "Progressing WipeDevice"},
		"of no product": {spec: destroying("data", "b"), seen: seenWith("b", inactive(foreignGroup("data", nil, "b"))),
			want: "Progressing WipeDevice"},
		"other group than the named one": {spec: destroying("old", "b"),
			seen: seenWith("b", foreignGroup("data", nil, "b")), want: "Failed",
			says: []string{"wipeVolumeGroups: [uuid-data]"}},
		"consent to wipe is no consent to destroy a group": {spec: forced("/dev/disk/by-id/b"),
			seen: seenWith("b", inactive(foreignGroup("data", nil, "b"))), want: "Failed",
			says: []string{"wipeVolumeGroups: [uuid-data]"}},
		"adopted": {spec: adopting, seen: seenWith("b", inactive(foreignGroup("vg1", theirs, "b"))),
			want: "Progressing TagVolumeGroup"},
		"on a device that the class does not name": {spec: destroying("data", "b"),
			seen: seenWith("b", inactive(foreignGroup("data", nil, "b", "c"))), want: "Failed",
			says: []string{"also has the devices /dev/sdc"}},
		"on both devices": {spec: destroying("data", "b", "c"),
			seen: seenWith("b c", inactive(foreignGroup("data", nil, "b", "c"))), want: "Progressing WipeDevice"},
		"the other device cannot be wiped": {spec: destroying("data", "b", "c"),
			seen: seenWith("b c", inactive(foreignGroup("data", nil, "b", "c"))), want: "Failed",
			edit: func(s *state.NodeState) { s.Devices[1].Mountpoints = []string{"/data"} },
			says: []string{"mounted on /data", "other devices of its volume group cannot be wiped: /dev/sdc"}},
		"one device was wiped before a crash": {spec: destroying("data", "b", "c"),
			seen: seenWith("b c", inactive(edit(foreignGroup("data", nil, "c"), func(vg *lvm.VG) {
				vg.MissingPVs = 1
				vg.PVs = append(vg.PVs, lvm.PV{Name: "[unknown]", UUID: "pv-b", VGName: "data", Missing: true})
			}))), want: "Progressing WipeDevice"},
		"a volume is open": {spec: destroying("vg1", "b"),
			seen: seenWith("b", edit(foreignGroup("vg1", theirs, "b"),
				func(vg *lvm.VG) { vg.LVs[0].Attr = "-wi-ao----" })),
			want: "Failed", says: []string{"in use: vg1/data"}},
		"something else is on the disk": {spec: destroying("data", "b"),
			seen: seenWith("b", inactive(foreignGroup("data", nil, "b"))), want: "Failed",
			edit: func(s *state.NodeState) {
				s.Devices[0].Children = []device.Child{{Name: "/dev/mapper/x", Type: "crypt"}}
			},
			says: []string{"used by /dev/mapper/x"}},
		"of the operating system": {spec: destroying("data", "b"),
			seen: seenWith("b", inactive(foreignGroup("data", nil, "b"))), want: "Failed",
			edit: func(s *state.NodeState) { s.Devices[0].OSDisk = true }, says: []string{"operating system"}},
		"shared": {spec: destroying("data", "b"), want: "Failed", says: []string{"shared between hosts"},
			seen: seenWith("b", inactive(edit(foreignGroup("data", nil, "b"),
				func(vg *lvm.VG) { vg.Attr = "wz--ns" })))},
		"the group of the device class": {spec: destroying("vg uuid-vg1 vg1", "b"),
			seen: seenWith("b", inactive(foreignGroup("vg1", ours, "b"))), want: "Progressing ActivateVolumes"},
		"of this cluster, by name": {spec: destroying("vg1", "b"),
			seen: seenWith("b", inactive(foreignGroup("vg1", moved, "b"))), want: "Failed", says: []string{"VGMoved"}},
		"of this cluster, by UUID": {spec: destroying("uuid-vg1", "b"),
			seen: seenWith("b", inactive(foreignGroup("vg1", moved, "b"))), want: "Progressing WipeDevice"},
		"of an earlier version, by name": {spec: destroying("old", "b"), want: "Failed",
			seen: seenWith("b", inactive(foreignGroup("old", []string{"lvms"}, "b"))),
			says: []string{"volume group old"}},
		"of another device class of the node": {spec: destroying("uuid-vg2", "b"), change: other, want: "Failed",
			seen: seenWith("b", inactive(foreignGroup("vg2", ours, "b"))), says: []string{"belongs to device class"}},
		"beside the group of the device class": {spec: destroying("uuid-vg1", "b", "c"), want: "Progressing WipeDevice",
			seen: seenWith("b c", group("c"), inactive(foreignGroup("vg1", theirs, "b")))},
		"beside the group of the device class, in use": {spec: destroying("uuid-vg1", "b", "c"), want: "Degraded",
			seen: seenWith("b c", group("c"), edit(foreignGroup("vg1", theirs, "b"), func(vg *lvm.VG) {
				vg.LVs[0].Attr = "-wi-ao----"
			})), says: []string{"in use: vg1/data"}},
		"the class is deleted": {spec: destroying("vg1", "b"), change: func(d *state.Desired) { d.Deleting = true },
			seen: seenWith("b", inactive(foreignGroup("vg1", theirs, "b"))), want: "finished"},
		"a second time, by name": {spec: destroying("vg1", "b"), want: "Failed",
			seen: seenWith("b", inactive(foreignGroup("vg1", theirs, "b"))),
			edit: func(s *state.NodeState) {
				s.Records.Wiped = []state.WipeRecord{{Class: "uid", ID: "serial:serial-b", Done: true}}
			},
			says: []string{"nothing is wiped a second time"}},
		"a second time, by UUID": {spec: destroying("uuid-vg1", "b"), want: "Progressing WipeDevice",
			seen: seenWith("b", inactive(foreignGroup("vg1", theirs, "b"))),
			edit: func(s *state.NodeState) {
				s.Records.Wiped = []state.WipeRecord{{Class: "uid", ID: "serial:serial-b", Done: true}}
			}},
	}
	both := destroying("uuid-data", "b")
	both.DeviceSelector.ForceWipeDevicesAndDestroyAllData = new(true)
	beside := tests["a second time, by UUID"]
	beside.spec, beside.want = both, "Failed"
	beside.seen = seenOnPartition(inactive(foreignGroup("data", nil, "c")))
	beside.says = []string{"nothing is wiped a second time"}
	tests["a second time, by UUID, but with other content on the disk"] = beside
	for name, tt := range tests {
		d := testDesired(tt.spec)
		if tt.change != nil {
			tt.change(&d)
		}
		if tt.edit != nil {
			tt.edit(&tt.seen)
		}
		checkPlan(t, name, New(d, tt.seen), tt.want, tt.says)
	}
}

// TestPlanOfHiddenVolumeGroupsToDestroy: LVM does not list the volume group, because of its devices file or its owner.
func TestPlanOfHiddenVolumeGroupsToDestroy(t *testing.T) {
	theirs := []string{"lvms", "lvms.cluster=c9", "lvms.node=n1"}
	ours := []string{"lvms", "lvms.cluster=c1", "lvms.node=n1"}
	look := func(pvs ...lvm.LabeledPV) state.NodeState {
		return state.NodeState{Report: report(), Devices: []device.Device{labeled("b"), labeled("c")}, Disks: state.Disks{Paths: paths("b"), Hidden: hiddenOf(pvs...)}}
	}
	ofHost := label("b", "vg1", theirs...)
	ofHost.SystemID = "host9"
	failed := state.NodeState{Report: report(), Devices: []device.Device{labeled("b")}, Disks: state.Disks{Paths: paths("b"), Hidden: state.Hidden{Err: errRead}}}
	for name, tt := range map[string]struct {
		spec v1alpha1.LVMVolumeGroupSpec
		seen state.NodeState
		want string
		says []string
	}{
		"by name": {destroying("vg1", "b"), look(label("b", "vg1", theirs...)), "Progressing WipeDevice", nil},
		"by UUID": {destroying("uuid-vg1", "b"), look(label("b", "vg1", theirs...)), "Progressing WipeDevice",
			nil},
		"of this cluster": {destroying("vg1", "b"), look(label("b", "vg1", ours...)), "Failed", []string{"adopt"}},
		"ours, by UUID": {destroying("uuid-vg1", "b"), look(label("b", "vg1", ours...)), "Progressing WipeDevice",
			nil},
		"of a host":          {destroying("vg1", "b"), look(ofHost), "Failed", []string{"system ID host9"}},
		"of a host, by UUID": {destroying("uuid-vg1", "b"), look(ofHost), "Progressing WipeDevice", nil},
		"on another disk too": {destroying("vg1", "b"), look(label("b", "vg1", theirs...), label("c", "vg1", theirs...)),
			"Failed", []string{"also has the devices /dev/sdc"}},
		"unreadable": {destroying("vg1", "b"), failed, "Failed", []string{"input/output error"}},
	} {
		checkPlan(t, name, New(testDesired(tt.spec), tt.seen), tt.want, tt.says)
	}
}

func TestWhatPreventsTheDestructionAtTheLastMoment(t *testing.T) {
	vg := foreignGroup("old", []string{"a"}, "b")
	before := state.PresentGroup{Name: vg.Name, UUID: vg.UUID, Tags: vg.Tags, VG: &vg,
		Devices: []device.Device{disk("b")}}
	owned := func(name string) state.Owners {
		return state.Owners{Of: map[string]string{name: "PersistentVolume pvc-1"}}
	}
	for name, tt := range map[string]struct {
		now    *lvm.VG
		owners state.Owners
		says   string
	}{
		"nothing":    {&vg, state.Owners{}, ""},
		"it is gone": {nil, state.Owners{}, "is no longer on /dev/sdb"},
		"somebody adopted it": {new(edit(vg, func(vg *lvm.VG) { vg.Tags = []string{"a", "lvms"} })), state.Owners{},
			"was changed"},
		"it was renamed": {new(edit(vg, func(vg *lvm.VG) { vg.Name = "new" })), state.Owners{}, "was changed"},
		"it was extended": {new(edit(vg, func(vg *lvm.VG) {
			vg.PVs = append(slices.Clone(vg.PVs), lvm.PV{Name: "/dev/sdd", Major: 8, Minor: 3})
		})), state.Owners{}, "another device since the wipe was planned: /dev/sdd"},
		"a device is missing": {new(edit(vg, func(vg *lvm.VG) {
			vg.PVs = append(slices.Clone(vg.PVs), lvm.PV{Name: "[unknown]", Missing: true})
		})), state.Owners{}, ""},
		"a volume is open now": {new(edit(vg, func(vg *lvm.VG) {
			vg.LVs = []lvm.LV{{Name: "data", Attr: "-wi-ao----"}}
		})), state.Owners{}, "in use: old/data"},
		"a volume has an object":    {&vg, owned("data"), "belongs to PersistentVolume pvc-1"},
		"another volume has":        {&vg, owned("other"), ""},
		"the objects are not known": {&vg, state.Owners{Err: errors.New("no answer")}, "no answer"},
	} {
		got := selection.DestructionProblem(before, tt.now, tt.owners)
		if tt.says == "" && got != "" || !strings.Contains(got, tt.says) {
			t.Errorf("%s: got %q, want %q", name, got, tt.says)
		}
	}
}
