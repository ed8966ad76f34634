package plan

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// labeled returns a disk with a physical volume that LVM does not list.
func labeled(letter string) device.Device {
	d := disk(letter)
	d.Signature = device.SignatureLVM
	d.UUID = "pv-" + letter
	return d
}

func label(letter, group string, tags ...string) lvm.LabeledPV {
	return lvm.LabeledPV{
		Name: "/dev/sd" + letter, UUID: "pv-" + letter, Major: 8, Minor: uint32(letter[0] - 'a'),
		VGName: group, VGUUID: "uuid-" + group, VGTags: tags,
	}
}

func hiddenOf(pvs ...lvm.LabeledPV) state.Hidden {
	h := state.Hidden{PVs: map[device.Number]lvm.LabeledPV{}}
	for _, pv := range pvs {
		h.PVs[device.NewNumber(pv.Major, pv.Minor)] = pv
	}
	return h
}

func TestPlanWithHiddenPhysicalVolumes(t *testing.T) {
	spec := forced("/dev/disk/by-id/b")
	adopting := forced("/dev/disk/by-id/b")
	adopting.Adopt = []v1alpha1.VolumeGroupAdoption{{Node: "n1", VolumeGroupUUID: "uuid-vg1"}}
	ours := []string{"lvms", "lvms.cluster=c1", "lvms.node=n1"}
	moved := []string{"lvms", "lvms.cluster=c1", "lvms.node=n9"}
	onPartition := func(h state.Hidden) state.NodeState {
		whole := disk("b")
		part := disk("b")
		part.Name = "/dev/sdb1"
		part.Number = "8:17"
		part.Type = "part"
		part.Signature = device.SignatureLVM
		part.UUID = "pv-b"
		whole.PartitionTable = "gpt"
		whole.Partitions = []string{part.Name}
		whole.Children = []device.Child{{Name: part.Name, Type: "part"}}
		return state.NodeState{Report: report(), Devices: []device.Device{whole, part}, Disks: state.Disks{Paths: paths("b"), Hidden: h}}
	}
	partOf := func(group string, tags ...string) state.Hidden {
		pv := label("b", group, tags...)
		pv.Minor = 17
		return hiddenOf(pv)
	}
	look := func(h state.Hidden, vgs ...lvm.VG) state.NodeState {
		return state.NodeState{Report: report(vgs...), Devices: []device.Device{labeled("b"), disk("c")},
			Disks: state.Disks{Paths: paths("b"), Hidden: h}}
	}
	lost := look(hiddenOf(label("b", "vg1", ours...)))
	lost.Before.PhysicalVolumes = []v1alpha1.PhysicalVolumeStatus{{UUID: "pv-b", Name: "/dev/sdb"}}
	partial := look(hiddenOf(label("b", "vg1", ours...)), edit(group("c"), func(vg *lvm.VG) {
		vg.PVs = append(vg.PVs, lvm.PV{Name: "[unknown]", UUID: "pv-b", VGName: "vg1", Missing: true})
		vg.MissingPVs = 1
	}))
	const unresolved = "it is a physical volume, and LVM cannot determine its volume group"
	tests := map[string]struct {
		spec v1alpha1.LVMVolumeGroupSpec
		seen state.NodeState
		want string
		says []string
	}{
		"of another node": {spec, look(hiddenOf(label("b", "vg1", moved...))), "Failed",
			[]string{"VGMoved", "lvmdevices --adddev /dev/sdb"}},
		"of this node": {spec, look(hiddenOf(label("b", "vg1", ours...))), "Failed",
			[]string{"adopt: [{node: n1, volumeGroupUUID: uuid-vg1}]"}},
		"of another cluster": {spec, look(hiddenOf(label("b", "vg1", "lvms", "lvms.cluster=c9"))), "Failed",
			[]string{"OtherClusterVG"}},
		"adopted": {adopting, look(hiddenOf(label("b", "vg1", moved...))), "Progressing UnhideVolumeGroup", nil},
		"adopted from another cluster": {
			adopting, look(hiddenOf(label("b", "vg1", "lvms", "lvms.cluster=c9"))), "Progressing UnhideVolumeGroup", nil,
		},
		"of a listed cluster": {v1alpha1.LVMVolumeGroupSpec{DeviceSelector: spec.DeviceSelector,
			AdoptClusters: []v1alpha1.ClusterIdentity{"c9"}}, look(hiddenOf(label("b", "vg1", "lvms", "lvms.cluster=c9",
			"lvms.class=vg1", "lvms.node=n1"))), "Progressing UnhideVolumeGroup", nil},
		"of another class": {spec, look(hiddenOf(label("b", "vg9", "lvms"))), "Failed",
			[]string{"vg9", "belongs to this product"}},
		"of a later version": {spec, look(hiddenOf(label("b", "vg9", "lvms.cluster=c9"))), "Failed",
			[]string{"belongs to this product"}},
		"of somebody else": {spec, look(hiddenOf(label("b", "old", "x"))), "Progressing WipeDevice", nil},
		"of the name, untagged": {spec, look(hiddenOf(label("b", "vg1"))), "Failed",
			[]string{"volume group vg1, which has the name of the device class"}},
		"of no group": {spec, look(hiddenOf(label("b", ""))), "Progressing WipeDevice", nil},
		"unresolved": {spec, look(hiddenOf(lvm.LabeledPV{Major: 8, Minor: 1, Unresolved: true})), "Failed",
			[]string{unresolved}},
		"no answer": {spec, look(hiddenOf()), "Failed", []string{unresolved}},
		"the read failed": {spec, look(state.Hidden{Err: errRead}), "Failed",
			[]string{"could not be read", "input/output error"}},
		"a partition of ours": {spec, onPartition(partOf("vg9", "lvms")), "Failed",
			[]string{"belongs to this product"}},
		"a partition of nobody":  {spec, onPartition(partOf("")), "Progressing WipeDevice", nil},
		"a partition unresolved": {spec, onPartition(hiddenOf()), "Failed", []string{unresolved}},
		"it was here before":     {spec, lost, "Degraded", []string{"adopt", "lvmdevices --adddev /dev/sdb"}},
		"one disk of a group": {spec, partial, "Degraded PublishClass",
			[]string{"it is on /dev/sdb", "lvmdevices --adddev /dev/sdb"}},
	}
	for name, tt := range tests {
		tt.seen.Disks.Identities = device.Identities(tt.seen.Devices)
		p := New(testDesired(tt.spec), tt.seen)
		checkPlan(t, name, p, tt.want, tt.says)
		if strings.HasPrefix(name, "it was here") && !p.Lost {
			t.Errorf("%s: what was known about it is thrown away", name)
		}
	}
}

// TestLostGroupNamesTheDevicesFile: the disks are attached, but LVM does not list them.
func TestLostGroupNamesTheDevicesFile(t *testing.T) {
	before := v1alpha1.VGStatus{PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{{UUID: "pv-b", Name: "/dev/sdb"},
		{UUID: "pv-c", Name: "/dev/sdc"}}}
	const (
		hint = "run on the node: lvmdevices --adddev /dev/sdb"
		lost = "attach them again"
	)
	for name, tt := range map[string]struct {
		seen state.NodeState
		says []string
	}{
		"hidden": {state.NodeState{Devices: []device.Device{labeled("b"), disk("c")}}, []string{hint}},
		"and not readable": {state.NodeState{Devices: []device.Device{labeled("b")}, Disks: state.Disks{Hidden: state.Hidden{Err: errRead}}},
			[]string{hint}},
		"away":              {state.NodeState{Devices: []device.Device{disk("c")}}, []string{lost}},
		"another is hidden": {state.NodeState{Devices: []device.Device{labeled("d")}}, []string{lost}},
	} {
		tt.seen.Report = report()
		tt.seen.Before = before
		checkPlan(t, name, New(testDesired(v1alpha1.LVMVolumeGroupSpec{}), tt.seen), "Degraded", tt.says)
	}
}

// TestNothingIsCreatedWhereHiddenDisksCannotBeRead: one of the disks may have the volume group.
func TestNothingIsCreatedWhereHiddenDisksCannotBeRead(t *testing.T) {
	s := state.NodeState{Report: report(), Devices: []device.Device{disk("b"), labeled("c")}, Disks: state.Disks{Hidden: state.Hidden{Err: errRead}}}
	checkPlan(t, "discovery", New(testDesired(v1alpha1.LVMVolumeGroupSpec{}), s), "Failed",
		[]string{"input/output error"})
	s.Disks.Hidden.Err = nil
	checkPlan(t, "discovery", New(testDesired(v1alpha1.LVMVolumeGroupSpec{}), s),
		"Progressing CreateVolumeGroup /dev/sdb", nil)
}
