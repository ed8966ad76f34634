package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
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
	look := func(change func(*state.NodeState)) state.NodeState {
		s := state.NodeState{Report: report(), Devices: []device.Device{written("b"), written("c")}, Disks: state.Disks{Paths: paths("b")}}
		if change != nil {
			change(&s)
		}
		s.Disks.Identities = device.Identities(s.Devices)
		return s
	}
	record := state.WipeRecord{Class: "uid", ID: "serial:serial-b", Done: true}
	found := state.WipeTarget{Reasons: device.Explain(written("b"), nil)}.Found()
	tests := map[string]struct {
		spec   v1alpha1.LVMVolumeGroupSpec
		before bool
		seen   state.NodeState
		want   string
		says   []string
	}{
		"consent": {spec: spec, seen: look(nil), want: "Progressing WipeDevice"},
		"no consent": {spec: v1alpha1.LVMVolumeGroupSpec{DeviceSelector: selector}, seen: look(nil),
			want: "Failed", says: []string{"carries ext4"}},
		"blank already": {spec: spec, seen: look(func(s *state.NodeState) { s.Devices[0] = disk("b") }),
			want: "Progressing CreateVolumeGroup /dev/sdb"},
		"once only": {spec: spec, seen: look(func(s *state.NodeState) { s.Records.Wiped = []state.WipeRecord{record} }),
			want: "Failed", says: []string{"serial:serial-b", "nothing is wiped a second time"}},
		"another disk was wiped": {spec: spec,
			seen: look(func(s *state.NodeState) {
				s.Records.Wiped = []state.WipeRecord{{Class: "uid", ID: "serial:x", Done: true}}
			}),
			want: "Progressing WipeDevice"},
		"for an earlier class": {spec: spec,
			seen: look(func(s *state.NodeState) {
				s.Records.Wiped = []state.WipeRecord{{Class: "old", ID: record.ID, Done: true}}
			}),
			want: "Progressing WipeDevice"},
		"by an earlier version": {spec: spec, before: true, seen: look(nil), want: "Failed",
			says: []string{"an earlier version already wiped"}},
		"a crash in the middle": {spec: spec,
			seen: look(func(s *state.NodeState) {
				s.Records.Wiped = []state.WipeRecord{{Class: "uid", ID: record.ID, Found: found}}
			}),
			want: "Progressing WipeDevice"},
		"a crash, and other content meanwhile": {
			spec: spec, seen: look(func(s *state.NodeState) {
				s.Records.Wiped = []state.WipeRecord{{Class: "uid", ID: record.ID, Found: []string{"HasSignature: swap"}}}
			}),
			want: "Failed", says: []string{"nothing is wiped a second time"},
		},
		"mounted": {spec: spec, seen: look(func(s *state.NodeState) { s.Devices[0].Mountpoints = []string{"/data"} }),
			want: "Failed", says: []string{"mounted on /data"}},
		"in use": {spec: spec, seen: look(func(s *state.NodeState) {
			s.Devices[0].Children = []device.Child{{Name: "/dev/mapper/x",
				Type: "crypt"}}
		}), want: "Failed", says: []string{"used by /dev/mapper/x"}},
		"of a group of ours": {
			spec: spec, want: "Failed", says: []string{"physical volume of the volume group vg9"},
			seen: look(func(s *state.NodeState) {
				s.Devices[0].Signature = "LVM2_member"
				s.Report = report(edit(group("b"), func(vg *lvm.VG) { vg.Name = "vg9"; vg.PVs[0].VGName = "vg9" }))
			}),
		},
		"without a serial number it is the path that counts": {
			spec: spec, want: "Failed", says: []string{"path:/dev/disk/by-id/b"},
			seen: look(func(s *state.NodeState) {
				s.Devices[0].Serial = ""
				s.Records.Wiped = []state.WipeRecord{{Class: "uid", ID: "path:/dev/disk/by-id/b", Done: true}}
			}),
		},
	}
	for name, tt := range tests {
		d := testDesired(tt.spec)
		d.Consent.WipedBefore = tt.before
		checkPlan(t, name, New(d, tt.seen), tt.want, tt.says)
	}
}

// TestADiskIsWipedOnceUnderEveryName has a disk that was wiped for the device class, and is known otherwise now.
func TestADiskIsWipedOnceUnderEveryName(t *testing.T) {
	const link = "/dev/disk/by-id/b"
	look := func(change func(*state.NodeState)) state.NodeState {
		s := state.NodeState{Report: report(), Devices: []device.Device{written("b"), written("c")}, Disks: state.Disks{Paths: paths("b")}}
		change(&s)
		s.Disks.Identities = device.Identities(s.Devices)
		return s
	}
	done := func(id string, names ...string) []state.WipeRecord {
		return []state.WipeRecord{{Class: "uid", ID: id, Names: names, Done: true}}
	}
	const refused, wiped = "Failed", "Progressing WipeDevice"
	tests := map[string]struct {
		change func(*state.NodeState)
		want   string
	}{
		"it has an identity now": {func(s *state.NodeState) { s.Records.Wiped = done("path:" + link) }, refused},
		"another disk has its serial number": {func(s *state.NodeState) {
			s.Devices[1].Serial = s.Devices[0].Serial
			s.Records.Wiped = done("serial:serial-b")
		}, refused},
		"it has a WWN now, and had a serial number": {func(s *state.NodeState) {
			s.Devices[0].WWN = "0x5"
			s.Records.Wiped = done("serial:serial-b")
		}, refused},
		"it had a WWN": {func(s *state.NodeState) { s.Records.Wiped = done("wwn:0x5", "serial:serial-b") }, refused},
		"it was wiped under the name of the kernel": {func(s *state.NodeState) {
			s.Devices[0].Serial = ""
			s.Records.Wiped = done("path:/dev/sdb")
		}, refused},
		"it was wiped under another link": {func(s *state.NodeState) {
			s.Devices[0].Serial, s.Devices[0].ByPath = "", []string{"/dev/disk/by-path/pci-1"}
			s.Records.Wiped = done("path:/dev/vdb", "path:/dev/disk/by-path/pci-1")
		}, refused},
		"the node was installed again, and the status knows it": {func(s *state.NodeState) {
			s.Before.WipedDevices = []v1alpha1.WipedDevice{{ID: "serial:serial-b"}}
		}, refused},
		"the node was installed again, and the status knows it by another name": {func(s *state.NodeState) {
			s.Before.WipedDevices = []v1alpha1.WipedDevice{{ID: "wwn:0x5", Names: []string{"path:" + link}}}
		}, refused},
		"a crash between the record in the status and the wipe": {func(s *state.NodeState) {
			s.Before.WipedDevices = []v1alpha1.WipedDevice{{ID: "serial:serial-b"}}
			s.Records.Wiped = []state.WipeRecord{{Class: "uid", ID: "serial:serial-b",
				Found: state.WipeTarget{Reasons: device.Explain(written("b"), nil)}.Found()}}
		}, wiped},
		"another disk was in the slot": {func(s *state.NodeState) { s.Records.Wiped = done("serial:other", "path:"+link) }, wiped},
		"a disk that shares nothing":   {func(s *state.NodeState) { s.Records.Wiped = done("wwn:0x5", "path:/dev/disk/by-id/c") }, wiped},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var says []string
			if tt.want == refused {
				says = []string{"nothing is wiped a second time"}
			}
			checkPlan(t, name, New(testDesired(forced(link)), look(tt.change)), tt.want, says)
		})
	}
}

// TestTheRecordOfAWipeNamesOneDisk checks that a record has no identity that two disks share when it is written, so
// that both can be wiped.
func TestTheRecordOfAWipeNamesOneDisk(t *testing.T) {
	b, c := written("b"), written("c")
	c.Serial = b.Serial
	b.ByID, b.ByPath = []string{"/dev/disk/by-id/serial"}, []string{"/dev/disk/by-path/pci-1"}
	s := state.NodeState{Report: report(), Devices: []device.Device{b, c}, Disks: state.Disks{Paths: paths("b", "c")}}
	s.Disks.Identities = device.Identities(s.Devices)
	record := selection.NewWipeRecord(testDesired(forced()), s, state.WipeTarget{Device: b, Path: "/dev/disk/by-id/b"}, time.Now())
	if record.ID != "path:/dev/disk/by-id/b" || len(record.Names) != 1 ||
		record.Names[0] != "path:/dev/disk/by-path/pci-1" {
		t.Errorf("the record is %+v", record)
	}
	if !record.IsOf(s, b) || record.IsOf(s, c) {
		t.Errorf("the record is of %v and %v", record.IsOf(s, b), record.IsOf(s, c))
	}
	b.WWN = "0x5"
	b.Children = []device.Child{{Name: "/dev/mapper/mpatha", Type: "mpath"}}
	multipath := device.Device{Name: "/dev/mapper/mpatha", Number: "254:0", Type: "mpath", WWN: "0x5"}
	s.Devices = []device.Device{b, c, multipath}
	if record = selection.NewWipeRecord(testDesired(forced()), s, state.WipeTarget{Device: multipath},
		time.Now()); !slices.Contains(
		append(record.Names, record.ID), "wwn:0x5") {
		t.Errorf("the record of a multipath device is %+v", record)
	}
}

// TestAPathThatLedToAMemberBringsNoSecondDevice has the names of disks exchanged at a start of the node.
func TestAPathThatLedToAMemberBringsNoSecondDevice(t *testing.T) {
	const link = "/dev/disk/by-id/b" // leads to c now, and the member b is attached
	member := v1alpha1.PhysicalVolumeStatus{UUID: "pv-b", Name: "/dev/sdb", Path: link}
	tests := map[string]struct {
		change func(*state.NodeState)
		want   string
		says   []string
	}{
		"the status knows it": {func(s *state.NodeState) {
			s.Before.PhysicalVolumes = []v1alpha1.PhysicalVolumeStatus{member}
		}, "Degraded PublishClass", []string{"is not the device to which " + link + " led before: that is /dev/sdb now"}},
		"the record of its wipe knows it": {func(s *state.NodeState) {
			s.Records.Wiped = []state.WipeRecord{{Class: "uid", ID: "serial:serial-b", Name: link, Done: true}}
		}, "Degraded PublishClass", []string{"led before"}},
		"blank": {func(s *state.NodeState) {
			s.Devices[1] = disk("c")
			s.Before.PhysicalVolumes = []v1alpha1.PhysicalVolumeStatus{member}
		}, "Degraded PublishClass", []string{"led before"}},
		"nothing was known": {func(*state.NodeState) {}, "Progressing WipeDevice", nil},
		"it led to a device that is no longer in the group": {func(s *state.NodeState) {
			s.Before.PhysicalVolumes = []v1alpha1.PhysicalVolumeStatus{{UUID: "pv-x", Path: link}}
		}, "Progressing WipeDevice", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := state.NodeState{Report: report(group("b")), Devices: []device.Device{disk("b"), written("c")},
				Disks: state.Disks{Paths: []state.Path{{Path: link, Number: disk("c").Number}}}}
			s.Devices[0].Signature = device.SignatureLVM
			tt.change(&s)
			s.Disks.Identities = device.Identities(s.Devices)
			checkPlan(t, name, New(testDesired(forced(link)), s), tt.want, tt.says)
		})
	}
	status := physicalVolume(state.Outcome{Node: state.NodeState{Before: v1alpha1.VGStatus{
		PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{member}}, Disks: state.Disks{Paths: []state.Path{{Path: link, Number: disk("c").Number},
		{Path: "/dev/disk/by-id/other", Number: disk("b").Number}}}}}, group("b").PVs[0])
	if status.Path != link {
		t.Errorf("the status has the path %s, so the next reconcile would not know the former one", status.Path)
	}
}

// TestAKernelNameStandsForADiskOnlyBeforeTheGroupExists has a path that can lead to another disk after each start.
func TestAKernelNameStandsForADiskOnlyBeforeTheGroupExists(t *testing.T) {
	look := func(groups ...lvm.VG) state.NodeState {
		s := state.NodeState{Report: report(groups...), Devices: []device.Device{disk("b"), written("c")},
			Disks: state.Disks{Paths: []state.Path{{Path: "/dev/sdc", Number: disk("c").Number}}}}
		s.Disks.Identities = device.Identities(s.Devices)
		return s
	}
	d := testDesired(forced("/dev/sdc"))
	checkPlan(t, "no volume group", New(d, look()), "Progressing WipeDevice", nil)
	checkPlan(t, "a volume group", New(d, look(group("b"))), "Degraded PublishClass",
		[]string{"a name of the kernel"})
	d.Spec.Approval = v1alpha1.ApprovalRequired // an approval is for one disk, whatever its name
	for _, e := range New(d, look(group("b"))).Excluded {
		if text := strings.Join(e.Reasons, " "); strings.Contains(text, "a name of the kernel") ||
			!strings.Contains(text, string(device.AwaitingApproval)) {
			t.Errorf("with approval: %s", text)
		}
	}
}

// TestARestoredGroupIsNotDestroyedAgain has a volume group that was destroyed by mistake, and restored from the backup.
func TestARestoredGroupIsNotDestroyedAgain(t *testing.T) {
	s := seenWith("b", inactive(foreignGroup("data", nil, "b")))
	d := testDesired(destroying("uuid-data", "b"))
	record := state.WipeRecord{Class: "uid", ID: "serial:serial-b", Groups: []string{"uuid-data"}, Done: true}
	s.Records.Wiped = []state.WipeRecord{record}
	checkPlan(t, "restored", New(d, s), "Failed", []string{"exists again", "run vgremove on the node"})
	s.Records.Wiped[0].Done = false
	checkPlan(t, "a crash before the wipe", New(d, s), "Progressing WipeDevice", nil)
	record.ID = "serial:serial-c"
	s.Records.Wiped = []state.WipeRecord{record}
	checkPlan(t, "its other device", New(d, s), "Progressing WipeDevice", nil)
}
