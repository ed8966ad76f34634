package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func disk(letter string) device.Device {
	name := "/dev/sd" + letter
	return device.Device{
		Name: name, KernelName: name, Number: device.NewNumber(8, uint32(letter[0]-'a')), Type: "disk", Size: 10 << 30,
		Serial: "serial-" + letter,
		ByID:   []string{"/dev/disk/by-id/ata-" + letter}, ByPath: []string{"/dev/disk/by-path/pci-" + letter},
	}
}

func edit(d device.Device, change func(*device.Device)) device.Device {
	change(&d)
	return d
}

// ours returns a volume group of this product on the disk b and on a missing disk.
func ours() lvm.VG {
	return lvm.VG{Name: "vg1", UUID: "vg", Tags: []string{"lvms"}, Attr: "wz-pn-", MissingPVs: 1, PVs: []lvm.PV{
		{Name: "/dev/sdb", UUID: "pv-b", VGName: "vg1", Major: 8, Minor: 1, Size: 10 << 30, InUse: true},
		{Name: "[unknown]", UUID: "pv-c", VGName: "vg1", Missing: true, Size: 10 << 30, InUse: true},
	}}
}

func find(t *testing.T, list []v1alpha1.DeviceStatus, name string) v1alpha1.DeviceStatus {
	t.Helper()
	at := slices.IndexFunc(list, func(d v1alpha1.DeviceStatus) bool { return d.Name == name })
	if at < 0 {
		t.Fatalf("%s is not in the list", name)
	}
	return list[at]
}

func TestStatesOfDevices(t *testing.T) {
	signed := func(d *device.Device) {
		d.Signature = "ext4"
		d.UUID = "u"
	}
	tests := map[string]struct {
		device  device.Device
		probed  []device.Reason
		failing error
		want    v1alpha1.DeviceState
		code    device.Code
	}{
		"blank": {device: disk("d"), want: v1alpha1.DeviceAvailable},
		"a file system": {device: edit(disk("d"), signed), want: v1alpha1.DeviceExcluded,
			code: device.HasSignature},
		"mounted": {device: edit(disk("d"),
			func(d *device.Device) { signed(d); d.Mountpoints = []string{"/data"} }), want: v1alpha1.DeviceInUse,
			code: device.Mounted},
		"swap": {device: edit(disk("d"), func(d *device.Device) { d.Mountpoints = []string{"[SWAP]"} }),
			want: v1alpha1.DeviceInUse, code: device.SwapInUse},
		"a physical volume": {device: disk("b"), want: v1alpha1.DeviceInUse, code: device.InVolumeGroup},
		"read-only": {device: edit(disk("d"), func(d *device.Device) { d.ReadOnly = true }),
			want: v1alpha1.DeviceExcluded, code: device.ReadOnly},
		"open": {device: disk("d"), probed: []device.Reason{{Code: device.Busy}}, want: v1alpha1.DeviceInUse,
			code: device.Busy},
		"unreadable": {device: disk("d"), probed: []device.Reason{{Code: device.Unreadable}},
			want: v1alpha1.DeviceUnknown, code: device.Unreadable},
		"not examined": {device: disk("d"), probed: []device.Reason{{Code: device.ProbeError}},
			want: v1alpha1.DeviceUnknown, code: device.ProbeError},
		"failing": {device: disk("b"), failing: errors.New("no answer"), want: v1alpha1.DeviceFailing,
			code: device.Failing},
	}
	for name, tt := range tests {
		in := Input{
			Devices: []device.Device{tt.device, disk("z")}, Report: &lvm.Report{VGs: []lvm.VG{ours()}}, Now: noon,
			Probed:  map[device.Number][]device.Reason{tt.device.Number: tt.probed},
			Failing: map[device.Number]error{tt.device.Number: tt.failing},
		}
		list, _ := Build(in)
		got := find(t, list, tt.device.Name)
		has := slices.ContainsFunc(got.Reasons, func(r v1alpha1.DeviceReason) bool { return r.Code == string(tt.code) })
		if got.State != tt.want || tt.code != "" && !has {
			t.Errorf("%s: got %s with %v, want %s with %s", name, got.State, got.Reasons, tt.want, tt.code)
		}
		if other := find(t, list, "/dev/sdz"); other.State != v1alpha1.DeviceAvailable {
			t.Errorf("%s: the other device is %s", name, other.State)
		}
	}
}

func TestListOfDevices(t *testing.T) {
	volume := device.Device{Name: "/dev/mapper/vg1-a", KernelName: "/dev/dm-0", Number: "253:0",
		Type: "lvm", Size: 1 << 30}
	in := Input{Devices: []device.Device{disk("d"), volume, disk("b")},
		Report: &lvm.Report{VGs: []lvm.VG{ours()}}, Now: noon}
	first, _ := Build(in)
	var names []string
	for _, d := range first {
		names = append(names, d.Name)
	}
	if diff := cmp.Diff([]string{"/dev/sdb", "/dev/sdd", "missing"}, names); diff != "" {
		t.Fatal(diff)
	}
	b := find(t, first, "/dev/sdb")
	expect.Equal(t, "VolumeGroup", b.VolumeGroup, "vg1")
	expect.Equal(t, "VolumeGroupUUID", b.VolumeGroupUUID, "vg")
	expect.Equal(t, "PVUUID", b.PVUUID, "pv-b")
	expect.Equal(t, "ID", b.ID, "serial:serial-b")
	expect.Slice(t, "ByID", b.ByID, []string{"ata-b"})
	expect.NotZero(t, "FirstSeen", b.FirstSeen)
	in.Before, in.Now = first, noon.Add(time.Hour)
	if again, _ := Build(in); !cmp.Equal(first, again) {
		t.Errorf("a look at the same devices gives another list: %s", cmp.Diff(first, again))
	}
}

func TestDeviceThatGoesAndComesBack(t *testing.T) {
	whole := ours()
	whole.MissingPVs = 0
	whole.PVs[1] = lvm.PV{Name: "/dev/sdc", UUID: "pv-c", VGName: "vg1", Major: 8, Minor: 2, InUse: true}
	before, _ := Build(Input{Devices: []device.Device{disk("b"), disk("c")},
		Report: &lvm.Report{VGs: []lvm.VG{whole}}, Now: noon})
	gone, _ := Build(Input{Devices: []device.Device{disk("b")}, Report: &lvm.Report{VGs: []lvm.VG{ours()}},
		Now: noon.Add(time.Minute), Before: before})
	lost := find(t, gone, "/dev/sdc")
	expect.Equal(t, "State", lost.State, v1alpha1.DeviceMissing)
	expect.Equal(t, "Serial", lost.Serial, "serial-c")
	expect.Equal(t, "PVUUID", lost.PVUUID, "pv-c")
	if lost.LastSeen == nil {
		t.Fatalf("got %+v", lost)
	}
	expect.Equal(t, "LastSeen.Equal(ptr(noon.Add(time.Minute)))", lost.LastSeen.Equal(ptr(noon.Add(time.Minute))), true)
	later, _ := Build(Input{Devices: []device.Device{disk("b")}, Report: &lvm.Report{VGs: []lvm.VG{ours()}},
		Now: noon.Add(time.Hour), Before: gone})
	if !cmp.Equal(gone, later) {
		t.Errorf("a device that stays away changes: %s", cmp.Diff(gone, later))
	}
	// It returns with another name, and another disk has the old name.
	renamed := edit(disk("e"), func(d *device.Device) { d.Serial = "serial-c" })
	whole.PVs[1].Name = "/dev/sde"
	whole.PVs[1].Minor = 4
	stranger := edit(disk("c"), func(d *device.Device) { d.Serial = "other" })
	back, _ := Build(Input{Devices: []device.Device{disk("b"), stranger, renamed},
		Report: &lvm.Report{VGs: []lvm.VG{whole}}, Now: noon.Add(2 * time.Hour), Before: later})
	e := find(t, back, "/dev/sde")
	if len(back) != 3 || e.State != v1alpha1.DeviceInUse || !e.FirstSeen.Equal(find(t, before, "/dev/sdc").FirstSeen) ||
		e.LastSeen != nil {
		t.Errorf("got %+v", back)
	}
}

func TestListHasItsLimit(t *testing.T) {
	many := func(n int) Input {
		in := Input{Report: &lvm.Report{VGs: []lvm.VG{ours()}}, Now: noon, Failing: map[device.Number]error{}}
		for i := range n {
			d := device.Device{
				Name: fmt.Sprintf("/dev/sd%04d", i), KernelName: fmt.Sprintf("/dev/sd%04d", i),
				Number: device.NewNumber(65, uint32(i)), Type: "disk", Size: 4 << 40,
				Model: "ST4000NM0023-LONG-NAME", Vendor: "SEAGATE", Serial: fmt.Sprintf("Z1Z%017d", i),
				WWN: fmt.Sprintf("0x5000c500%08x", i), Transport: "sas", Rotational: true,
				Signature: "xfs", UUID: fmt.Sprintf("8c1b1a6e-0c4b-4c55-9c3b-%012d", i),
				Mountpoints: []string{fmt.Sprintf("/var/lib/objects/data-%04d", i)},
			}
			for j := range 4 {
				d.ByID = append(d.ByID, fmt.Sprintf("/dev/disk/by-id/scsi-SSEAGATE_ST4000NM0023_Z1Z%017d_%d", i, j))
				d.ByPath = append(d.ByPath, fmt.Sprintf(
					"/dev/disk/by-path/pci-0000:03:00.0-sas-exp0x500304801e4b3d3f-phy%d-lun-%d", i, j))
			}
			in.Devices = append(in.Devices, d)
		}
		blank := edit(disk("y"), func(d *device.Device) { d.Name = "/dev/zzz" })
		bad := edit(disk("x"), func(d *device.Device) { d.Name = "/dev/zzy" })
		in.Devices = append(in.Devices, blank, bad)
		in.Failing[bad.Number] = errors.New("no answer")
		return in
	}
	for _, n := range []int{10, 100, 500, 2000} {
		list, omitted := Build(many(n))
		data, err := json.Marshal(list)
		if err != nil || len(data) > 256<<10 {
			t.Errorf("%d devices take %d bytes (%v)", n, len(data), err)
		}
		if (omitted != 0) != (n > 500) || len(list)+int(omitted) != n+3 {
			t.Errorf("%d devices: %d listed, %d omitted", n, len(list), omitted)
		}
		if find(t, list, "/dev/zzz").State != v1alpha1.DeviceAvailable ||
			find(t, list, "/dev/zzy").State != v1alpha1.DeviceFailing ||
			find(t, list, "missing").State != v1alpha1.DeviceMissing {
			t.Errorf("%d devices: what matters is not in the list", n)
		}
		t.Logf("%d devices: %d bytes, %d omitted", n, len(data), omitted)
	}
}

// TestALongListHasTheDisksThatOtherNodesCompare: disks with one WWN have no ID, and a part is omitted before a disk.
func TestALongListHasTheDisksThatOtherNodesCompare(t *testing.T) {
	in := Input{Report: &lvm.Report{}, Now: noon}
	for i := range 3000 {
		d := device.Device{Name: fmt.Sprintf("/dev/sd%04d", i), Number: device.NewNumber(65, uint32(i)), Type: "part",
			Size: 4 << 40, WWN: fmt.Sprintf("0x5000c500%08x", i), Mountpoints: []string{"/data"}}
		d.KernelName = d.Name
		if i%100 == 0 {
			d.Type = "disk"
		}
		if i == 100 || i == 200 {
			d.WWN = "0x5000c50000000000"
		}
		in.Devices = append(in.Devices, d)
	}
	list, omitted := Build(in)
	disks, doubles := 0, 0
	for i := range list {
		if list[i].Type == "disk" {
			disks++
		}
		if list[i].WWN == "0x5000c50000000000" && list[i].ID == "" {
			doubles++
		}
	}
	if omitted == 0 || disks != 30 || doubles != 3 {
		t.Errorf("%d are omitted, %d disks are listed, %d of them with one WWN", omitted, disks, doubles)
	}
}

func TestEligibility(t *testing.T) {
	report := &lvm.Report{}
	desired := state.Desired{Name: "vg1", Node: "n1",
		Selectors: []v1alpha1.DeviceSelector{{Models: []v1alpha1.DeviceProperty{"fast"}}}}
	fast := edit(disk("b"), func(d *device.Device) { d.Model = "fast" })
	devices := []device.Device{fast, disk("c")}
	look := selection.ClassState{Desired: desired, Node: state.NewNodeSnapshot(report, devices, nil, nil).For(desired)}
	list, _ := Build(Input{Devices: devices, Report: report, Now: noon, Classes: []selection.ClassState{look}})
	want := map[string][]v1alpha1.DeviceEligibility{
		"/dev/sdb": {{DeviceClass: "vg1", Eligible: true}},
		"/dev/sdc": {{DeviceClass: "vg1", Reasons: []string{"NotSelected"}}},
	}
	for name, eligibility := range want {
		if diff := cmp.Diff(eligibility, find(t, list, name).Eligibility); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestTheListNamesTheWaysForAVolumeGroupOfNobody: a volume group that a device class uses needs no advice, and one of
// the operating system must get none.
func TestTheListNamesTheWaysForAVolumeGroupOfNobody(t *testing.T) {
	vg := ours()
	used := selection.ClassState{Desired: state.Desired{Name: "vg1", Node: "n1"},
		Node: state.NodeState{Report: &lvm.Report{VGs: []lvm.VG{vg}}}}
	system := edit(disk("b"), func(d *device.Device) { d.OSDisk = true })
	untagged := vg
	untagged.Tags = nil
	const wipe, adopt, existing = "add the UUID to wipeVolumeGroups", "add the UUID to adopt", "set existingVolumeGroup: vg1"
	for name, tt := range map[string]struct {
		device  device.Device
		classes []selection.ClassState
		vg      lvm.VG
		want    []string
	}{
		"no device class":           {disk("b"), nil, vg, []string{wipe, adopt}},
		"a group without our tags":  {disk("b"), nil, untagged, []string{wipe, existing}},
		"a device class":            {disk("b"), []selection.ClassState{used}, vg, nil},
		"the disk of the system":    {system, nil, vg, nil},
		"the system, without a tag": {system, nil, untagged, nil},
	} {
		list, _ := Build(Input{Devices: []device.Device{tt.device}, Report: &lvm.Report{VGs: []lvm.VG{tt.vg}},
			Classes: tt.classes})
		said := ""
		for _, r := range find(t, list, "/dev/sdb").Reasons {
			said += r.Message
		}
		for _, way := range []string{wipe, adopt, existing} {
			if strings.Contains(said, way) != slices.Contains(tt.want, way) {
				t.Errorf("%s: got %q", name, said)
			}
		}
	}
}

// TestLabelsOfDevices checks the labels of a device that is there, and of one that is missing.
func TestLabelsOfDevices(t *testing.T) {
	labels := []v1alpha1.DeviceLabels{
		{ID: "serial:serial-b", Labels: v1alpha1.DeviceLabelSet{"tier": "fast"}},
		{ID: "serial:serial-c", Labels: v1alpha1.DeviceLabelSet{"tier": "slow"}},
	}
	before := []v1alpha1.DeviceStatus{{Name: "/dev/sdc", ID: "serial:serial-c", PVUUID: "pv-c",
		Labels: map[string]string{"tier": "outdated"}}}
	in := Input{Devices: selection.WithLabels([]device.Device{disk("b"), disk("d")}, labels), Labels: labels, Before: before,
		Report: &lvm.Report{VGs: []lvm.VG{ours()}}, Now: noon}
	list, _ := Build(in)
	for name, want := range map[string]map[string]string{"/dev/sdb": {"tier": "fast"}, "/dev/sdc": {"tier": "slow"},
		"/dev/sdd": nil} {
		if diff := cmp.Diff(want, find(t, list, name).Labels); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
