package volumegroup

import (
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/device"
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

func hiddenOf(pvs ...lvm.LabeledPV) Hidden {
	h := Hidden{PVs: map[device.Number]lvm.LabeledPV{}}
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
	onPartition := func(h Hidden) Seen {
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
		return Seen{Report: report(), Devices: []device.Device{whole, part}, Paths: paths("b"), Hidden: h}
	}
	partOf := func(group string, tags ...string) Hidden {
		pv := label("b", group, tags...)
		pv.Minor = 17
		return hiddenOf(pv)
	}
	look := func(h Hidden, vgs ...lvm.VG) Seen {
		return Seen{Report: report(vgs...), Devices: []device.Device{labeled("b"), disk("c")},
			Paths: paths("b"), Hidden: h}
	}
	lost := look(hiddenOf(label("b", "vg1", ours...)))
	lost.Before.PhysicalVolumes = []v1alpha1.PhysicalVolumeStatus{{UUID: "pv-b", Name: "/dev/sdb"}}
	partial := look(hiddenOf(label("b", "vg1", ours...)), edit(group("c"), func(vg *lvm.VG) {
		vg.PVs = append(vg.PVs, lvm.PV{Name: "[unknown]", UUID: "pv-b", VGName: "vg1", Missing: true})
		vg.MissingPVs = 1
	}))
	tests := map[string]struct {
		spec v1alpha1.LVMVolumeGroupSpec
		seen Seen
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
			adopting, look(hiddenOf(label("b", "vg1", "lvms", "lvms.cluster=c9"))), "Failed",
			[]string{"OtherClusterVG"},
		},
		"of another class": {spec, look(hiddenOf(label("b", "vg9", "lvms"))), "Failed",
			[]string{"vg9", "belongs to this product"}},
		"of a later version": {spec, look(hiddenOf(label("b", "vg9", "lvms.cluster=c9"))), "Failed",
			[]string{"belongs to this product"}},
		"of somebody else": {spec, look(hiddenOf(label("b", "old", "x"))), "Progressing WipeDevice", nil},
		"of the name, untagged": {spec, look(hiddenOf(label("b", "vg1"))), "Failed",
			[]string{"volume group vg1 itself"}},
		"of no group": {spec, look(hiddenOf(label("b", ""))), "Progressing WipeDevice", nil},
		"unresolved": {spec, look(hiddenOf(lvm.LabeledPV{Major: 8, Minor: 1, Unresolved: true})), "Failed",
			[]string{unresolvedPV}},
		"no answer": {spec, look(hiddenOf()), "Failed", []string{unresolvedPV}},
		"the read failed": {spec, look(Hidden{Err: errRead}), "Failed",
			[]string{"could not be read", "input/output error"}},
		"a partition of ours": {spec, onPartition(partOf("vg9", "lvms")), "Failed",
			[]string{"belongs to this product"}},
		"a partition of nobody":  {spec, onPartition(partOf("")), "Progressing WipeDevice", nil},
		"a partition unresolved": {spec, onPartition(hiddenOf()), "Failed", []string{unresolvedPV}},
		"it was here before":     {spec, lost, "Degraded", []string{"adopt", "lvmdevices --adddev /dev/sdb"}},
		"one disk of a group": {spec, partial, "Degraded PublishClass",
			[]string{"it is on /dev/sdb", "lvmdevices --adddev /dev/sdb"}},
	}
	for name, tt := range tests {
		tt.seen.Identities = device.Identities(tt.seen.Devices)
		p := NewPlan(testWanted(tt.spec), tt.seen)
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
		seen Seen
		says []string
	}{
		"hidden": {Seen{Devices: []device.Device{labeled("b"), disk("c")}}, []string{hint}},
		"and not readable": {Seen{Devices: []device.Device{labeled("b")}, Hidden: Hidden{Err: errRead}},
			[]string{hint}},
		"away":              {Seen{Devices: []device.Device{disk("c")}}, []string{lost}},
		"another is hidden": {Seen{Devices: []device.Device{labeled("d")}}, []string{lost}},
	} {
		tt.seen.Report = report()
		tt.seen.Before = before
		checkPlan(t, name, NewPlan(testWanted(v1alpha1.LVMVolumeGroupSpec{}), tt.seen), "Degraded", tt.says)
	}
}

// TestNothingIsCreatedWhereHiddenDisksCannotBeRead: one of the disks may have the volume group.
func TestNothingIsCreatedWhereHiddenDisksCannotBeRead(t *testing.T) {
	s := Seen{Report: report(), Devices: []device.Device{disk("b"), labeled("c")}, Hidden: Hidden{Err: errRead}}
	checkPlan(t, "discovery", NewPlan(testWanted(v1alpha1.LVMVolumeGroupSpec{}), s), "Failed",
		[]string{"input/output error"})
	s.Hidden.Err = nil
	checkPlan(t, "discovery", NewPlan(testWanted(v1alpha1.LVMVolumeGroupSpec{}), s),
		"Progressing CreateVolumeGroup /dev/sdb", nil)
}

// hiddenBench is a node whose first disk may be wiped and has a volume group that LVM does not list.
func hiddenBench(t *testing.T, name string, tags ...string) *bench {
	b := newBench(t, forced("/dev/sdb"))
	b.ok(b.lvm.VGCreate(b.Context(), lvm.VGCreateOptions{Name: name, Devices: []string{"/dev/sdb"}, Tags: tags}))
	b.lvm.Hide("/dev/sdb")
	b.devices.list[0].Signature = device.SignatureLVM
	b.devices.list[0].UUID = "uuid-000001"
	return b
}

func TestHiddenGroupIsAdopted(t *testing.T) {
	b := hiddenBench(t, "vg1", "lvms", "lvms.cluster=c1", "lvms.node=node9")
	b.settle()
	b.wantState(v1alpha1.VGStatusFailed, "VGMoved")
	pvs, err := b.lvm.ReadLabels(b.Context(), "/dev/sdb")
	b.ok(err)
	object := b.object()
	object.Generation++
	object.Spec.Adopt = []v1alpha1.VolumeGroupAdoption{{Node: nodeName, VolumeGroupUUID: pvs[0].VGUUID}}
	b.ok(b.client.Update(b.Context(), object))
	b.lvm.Fail("DevicesFileAdd", lvm.ErrNotEnabled)
	if _, err := b.reconcile(); err == nil || !strings.Contains(err.Error(), "something else hides volume group vg1") {
		t.Errorf("got %v", err)
	}
	b.lvm.Fail("DevicesFileAdd", nil)
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	b.settle()
	if len(b.devices.wiped) != 0 || b.lvm.Calls()["VGCreate"] != 1 || b.lvm.Calls()["DevicesFileAdd"] != 2 {
		t.Errorf("wiped %v, called %v", b.devices.wiped, b.lvm.Calls())
	}
}

func TestHiddenGroupThatCannotBeReadIsNotWiped(t *testing.T) {
	b := hiddenBench(t, "old")
	b.lvm.Fail("ReadLabels", errRead)
	for range 3 {
		b.settle()
	}
	b.wantState(v1alpha1.VGStatusFailed, "input/output error")
	if len(b.devices.wiped) != 0 {
		t.Errorf("wiped %v", b.devices.wiped)
	}
	b.lvm.Fail("ReadLabels", nil)
	for range 3 {
		_, _ = b.reconcile()
	}
	if !slices.Equal(b.devices.wiped, []string{"/dev/sdb"}) {
		t.Errorf("the disk of somebody else is not wiped: %v", b.devices.wiped)
	}
}

// TestWipeReadsTheDeviceItself checks changes since the plan was computed.
func TestWipeReadsTheDeviceItself(t *testing.T) {
	b := hiddenBench(t, "vg9", "lvms")
	carried := b.agent.carried(testWanted(forced("/dev/sdb")))
	ask := func(d device.Device, labeled bool) string {
		t.Helper()
		why, err := carried(b.Context(), d, labeled)
		b.ok(err)
		return why
	}
	sdb := b.devices.list[0]
	sdc := b.devices.list[1]
	other := sdb
	other.Number = "8:99"
	for name, tt := range map[string]struct {
		got, want string
	}{
		"ours":                     {ask(sdb, true), "belongs to this product"},
		"its label was not found":  {ask(sdb, false), "belongs to this product"},
		"blank":                    {ask(sdc, false), ""},
		"a label that LVM ignores": {ask(sdc, true), unresolvedPV},
		"another device now":       {ask(other, true), unresolvedPV},
	} {
		if !strings.Contains(tt.got, tt.want) || tt.want == "" && tt.got != "" {
			t.Errorf("%s: got %q, want %q", name, tt.got, tt.want)
		}
	}
	b.lvm.Fail("ReadLabels", errRead)
	for range 2 {
		if _, err := carried(b.Context(), sdb, true); err == nil {
			t.Error("a read that failed is taken for an answer")
		}
	}
}

// TestHiddenDevicesAreReadOnlyWhereItMatters checks that no process is started for hidden devices in the steady
// state.
func TestHiddenDevicesAreReadOnlyWhereItMatters(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{})
	b.settle()
	b.ok(b.lvm.VGCreate(b.Context(), lvm.VGCreateOptions{Name: "old", Devices: nil}))
	b.addDisk("/dev/sdd", 48)
	b.devices.list[2].Signature = device.SignatureLVM
	b.devices.list[2].UUID = "hidden"
	b.settle()
	if n := b.lvm.Calls()["ReadLabels"]; n != 0 {
		t.Errorf("%d reads for a volume group that is well", n)
	}
}
