package plan

import (
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/members"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func TestMetadataSize(t *testing.T) {
	of := func(sizes ...int64) []device.Device {
		var list []device.Device
		for _, size := range sizes {
			list = append(list, device.Device{Size: size})
		}
		return list
	}
	with := func(area lvm.Bytes) *lvm.VG { return &lvm.VG{MetadataArea: lvm.MetadataArea{Size: area}} }
	const large = 16<<20 - 4<<10
	for name, tt := range map[string]struct {
		devices []device.Device
		vg      *lvm.VG
		want    lvm.Bytes
	}{
		"none":                             {nil, nil, 0},
		"a disk of a lab":                  {of(400 << 20), nil, 0},
		"just below":                       {of(1<<30 - 1), nil, 0},
		"the least":                        {of(1 << 30), nil, large},
		"a large one":                      {of(16 << 40), nil, large},
		"the smallest decides":             {of(16<<40, 400<<20, 8<<30), nil, 0},
		"size not known":                   {of(0, 8<<30), nil, 0},
		"to a group of an earlier version": {of(8 << 30), with(1044480), large},
		"small, to a group of an earlier version":   {of(400 << 20), with(1044480), 0},
		"small, to a group with a large area":       {of(400 << 20), with(large), large},
		"to a group with an even larger area":       {of(8 << 30), with(128 << 20), 128 << 20},
		"to a group with a small area":              {of(8 << 30), with(126976), large},
		"small, to a group with a small area":       {of(400 << 20), with(126976), 0},
		"to a group whose area is not known":        {of(8 << 30), with(0), large},
		"small, to a group whose area is not known": {of(400 << 20), with(0), 0},
	} {
		if got := members.MetadataSize(tt.devices, tt.vg); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}

func TestMetadataAreaIsFull(t *testing.T) {
	spec := v1alpha1.LVMVolumeGroupSpec{DeviceSelector: selector}
	existing := testDesired(v1alpha1.LVMVolumeGroupSpec{ExistingVolumeGroup: "vg1"})
	for name, tt := range map[string]struct {
		w    state.Desired
		area lvm.MetadataArea
		want string
		says []string
	}{
		"not known":   {testDesired(spec), lvm.MetadataArea{}, "Progressing PublishClass", nil},
		"half full":   {testDesired(spec), lvm.MetadataArea{Size: 1044480, Free: 260000}, "Progressing PublishClass", nil},
		"at the mark": {testDesired(spec), lvm.MetadataArea{Size: 1044480, Free: 73440}, "Progressing PublishClass", nil},
		"below it": {testDesired(spec), lvm.MetadataArea{Size: 1044480, Free: 73000}, "Degraded PublishClass",
			[]string{"LVM's metadata area of volume group vg1 on node n1 has 71 KiB left of 509 KiB",
				"Delete volumes or snapshots"}},
		"full, in a group of an administrator": {existing, lvm.MetadataArea{Size: 1044480}, "Degraded PublishClass",
			[]string{"metadata area of volume group vg1 on node n1 has 0 KiB left"}},
	} {
		vg := group("b")
		vg.MetadataArea = tt.area
		if tt.w.UsesExisting() {
			vg.Tags = nil
		}
		s := state.NodeState{Report: report(vg), Devices: []device.Device{disk("b")}}
		s.Disks.Identities = device.Identities(s.Devices)
		p := New(tt.w, s)
		checkPlan(t, name, p, tt.want, tt.says)
		if len(tt.says) > 0 && p.Problems[0].Reason != v1alpha1.ReasonMetadataAreaFull {
			t.Errorf("%s: got %+v", name, p.Problems)
		}
		got := lvm.MetadataArea{}
		if status := members.MetadataAreaStatus(&vg); status != nil {
			got = lvm.MetadataArea{Size: lvm.Bytes(status.Size.Value()), Free: lvm.Bytes(status.Free.Value())}
		}
		if got != tt.area {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.area)
		}
	}
}
