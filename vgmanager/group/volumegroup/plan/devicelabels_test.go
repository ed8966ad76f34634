package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// labeledDisk returns a blank disk with the label tier.
func labeledDisk(letter, tier string) device.Device {
	d := disk(letter)
	d.Labels = map[string]string{"tier": tier}
	return d
}

func tier(value string) *v1alpha1.DeviceSelector {
	return &v1alpha1.DeviceSelector{Labels: map[string]string{"tier": value}}
}

// TestLabelsBelongToTheIdentity checks that labels follow a device that gets another name, and that devices with the
// same identity have none.
func TestLabelsBelongToTheIdentity(t *testing.T) {
	labels := []v1alpha1.DeviceLabels{
		{ID: "serial:serial-b", Labels: v1alpha1.DeviceLabelSet{"tier": "fast", "rack": ""}},
		{ID: "serial:serial-x", Labels: v1alpha1.DeviceLabelSet{"tier": "slow"}},
		{ID: "/dev/sdc", Labels: v1alpha1.DeviceLabelSet{"tier": "by name"}},
	}
	renamed := disk("c")
	renamed.Serial = "serial-b"
	clones := []device.Device{disk("d"), disk("e")}
	clones[0].Serial, clones[1].Serial = "serial-x", "serial-x"
	nameless := disk("f")
	nameless.Serial = ""
	devices := append(clones, renamed, disk("g"), nameless)
	fast := map[string]string{"tier": "fast", "rack": ""}
	for range 2 {
		var got []map[string]string
		for _, d := range selection.WithLabels(devices, labels) {
			got = append(got, d.Labels)
		}
		if diff := cmp.Diff([]map[string]string{nil, nil, fast, nil, nil}, got); diff != "" {
			t.Error(diff)
		}
	}
	if devices[2].Labels != nil {
		t.Error("the list of devices, which others share, was changed")
	}
	if got := selection.WithLabels(devices, nil); len(got) != len(devices) {
		t.Errorf("got %v", got)
	}
}

func TestPropertiesOfDevicesWithLabels(t *testing.T) {
	d := device.Device{Size: 10 << 30, Labels: map[string]string{"tier": "fast", "rack": ""}}
	for name, tt := range map[string]struct {
		selector v1alpha1.DeviceSelector
		want     []string
	}{
		"one of its labels": {v1alpha1.DeviceSelector{Labels: map[string]string{"tier": "fast"}}, nil},
		"all its labels":    {v1alpha1.DeviceSelector{Labels: map[string]string{"tier": "fast", "rack": ""}}, nil},
		"another value": {v1alpha1.DeviceSelector{Labels: map[string]string{"tier": "slow"}},
			[]string{"has the label tier=fast"}},
		"case counts": {v1alpha1.DeviceSelector{Labels: map[string]string{"tier": "Fast"}},
			[]string{"has the label tier=fast"}},
		"an empty value is a value": {v1alpha1.DeviceSelector{Labels: map[string]string{"rack": "a"}},
			[]string{"has the label rack="}},
		"an empty value of a label that is absent": {v1alpha1.DeviceSelector{Labels: map[string]string{"room": ""}},
			[]string{"does not have the label room"}},
		"one more label": {v1alpha1.DeviceSelector{Labels: map[string]string{"tier": "fast", "a": "b"}},
			[]string{"does not have the label a"}},
		"a label and a size": {v1alpha1.DeviceSelector{Labels: map[string]string{"tier": "slow"},
			MinSize: quantityOf("11Gi")},
			[]string{"has a size of 10Gi, less than minSize", "has the label tier=fast"}},
	} {
		if diff := cmp.Diff(tt.want, state.Mismatches(&tt.selector, d)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestChoiceOfDevicesByLabels(t *testing.T) {
	spec := func(s *v1alpha1.DeviceSelector) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{DeviceSelector: s,
			DeviceDiscoveryPolicy: v1alpha1.DeviceDiscoveryDynamic}
	}
	static := spec(tier("fast"))
	static.DeviceDiscoveryPolicy = v1alpha1.DeviceDiscoveryStatic
	named := v1alpha1.DeviceSelector{Paths: selector.Paths, Labels: tier("fast").Labels}
	large := tier("fast")
	large.MinSize = quantityOf("20Gi")
	big := labeledDisk("d", "fast")
	big.Size = 30 << 30
	other := func(s *v1alpha1.DeviceSelector) []state.Other {
		return []state.Other{{Name: "vg2", Selectors: []v1alpha1.DeviceSelector{*s}}}
	}
	devices := []device.Device{labeledDisk("b", "fast"), labeledDisk("c", "slow"), disk("e")}
	for name, tt := range map[string]struct {
		spec     v1alpha1.LVMVolumeGroupSpec
		others   []state.Other
		seen     state.NodeState
		want     string
		says     []string
		excluded []string
	}{
		"those with the label": {spec: spec(tier("fast")), seen: state.NodeState{Report: report(), Devices: devices},
			want: "Progressing CreateVolumeGroup /dev/sdb"},
		"none has the label": {spec: spec(tier("archive")), seen: state.NodeState{Report: report(), Devices: devices},
			want: "Ready"},
		"with the other properties too": {spec: spec(large),
			seen: state.NodeState{Report: report(), Devices: append(devices, big)},
			want: "Progressing CreateVolumeGroup /dev/sdd"},
		"a tier for each class": {spec: spec(tier("fast")), others: other(tier("slow")),
			seen: state.NodeState{Report: report(), Devices: devices}, want: "Progressing CreateVolumeGroup /dev/sdb"},
		"the same tier in two classes": {spec: spec(tier("fast")), others: other(tier("fast")),
			seen: state.NodeState{Report: report(), Devices: devices}, want: "Failed",
			says:     []string{"is selected by device class vg2 as well as by vg1"},
			excluded: []string{"/dev/sdb UsedByOtherDeviceClass"}},
		"named, with the label": {spec: spec(&named),
			seen: state.NodeState{Report: report(), Devices: devices, Disks: state.Disks{Paths: paths("b")}},
			want: "Progressing CreateVolumeGroup /dev/sdb"},
		"named, without the label": {spec: spec(&named),
			seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b")}, Disks: state.Disks{Paths: paths("b")}}, want: "Failed",
			says:     []string{"does not have the label tier, so the deviceSelector that names it does not match"},
			excluded: []string{"/dev/disk/by-id/b NotSelected"}},
		"labeled later": {spec: spec(tier("fast")),
			seen: state.NodeState{Report: report(group("b")), Devices: append(devices, labeledDisk("d", "fast")),
				Class: thickDone}, want: "Progressing ExtendVolumeGroup /dev/sdd"},
		"labeled later, under Static": {spec: static,
			seen: state.NodeState{Report: report(group("b")), Devices: append(devices, labeledDisk("d", "fast")),
				Class: thickDone}, want: "Ready", excluded: []string{"/dev/sdd NotAtCreation"}},
		"a member with another label stays": {spec: spec(tier("fast")), seen: state.NodeState{Report: report(group("b", "c")),
			Devices: devices, Class: thickDone}, want: "Ready"},
		"all members without labels stay": {spec: spec(tier("fast")), seen: state.NodeState{Report: report(group("b", "c")),
			Devices: []device.Device{disk("b"), disk("c")}, Class: thickDone}, want: "Ready"},
	} {
		tt.seen.Disks.Identities = device.Identities(tt.seen.Devices)
		d := testDesired(tt.spec)
		d.Others = tt.others
		p := New(d, tt.seen)
		checkPlan(t, name, p, tt.want, tt.says)
		if diff := cmp.Diff(tt.excluded, excludedCodes(p)); diff != "" {
			t.Errorf("%s: excluded: %s", name, diff)
		}
	}
}

// TestALabelRemovesNothing checks a member that a path selected once, and whose selector has no path now. Without the
// label it stays, like a member that properties selected. Without another property, it is removed.
func TestALabelRemovesNothing(t *testing.T) {
	before := v1alpha1.VGStatus{PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{
		{UUID: "pv-b", Path: "/dev/disk/by-id/b"}, {UUID: "pv-c", Path: "/dev/disk/by-id/c"}}}
	large := tier("fast")
	large.MinSize = quantityOf("20Gi")
	for name, tt := range map[string]struct {
		selector *v1alpha1.DeviceSelector
		devices  []device.Device
		want     string
	}{
		"with the label": {tier("fast"), []device.Device{labeledDisk("b", "fast"), labeledDisk("c", "fast")}, "Ready"},
		"with another":   {tier("fast"), []device.Device{labeledDisk("b", "fast"), labeledDisk("c", "slow")}, "Ready"},
		"without labels": {tier("fast"), []device.Device{disk("b"), disk("c")}, "Ready"},
		"too small, which the labels do not change": {large,
			[]device.Device{labeledDisk("b", "fast"), disk("c")}, "Progressing CordonDevice /dev/sdb"},
	} {
		d := testDesired(v1alpha1.LVMVolumeGroupSpec{DeviceSelector: tt.selector})
		p := New(d, state.NodeState{Report: report(group("b", "c")), Devices: tt.devices, Class: thickDone, Before: before,
			Disks: state.Disks{Identities: device.Identities(tt.devices)}})
		checkPlan(t, name, p, tt.want, nil)
	}
}

func TestLabelsAreNeededOnlyIfASelectorHasThem(t *testing.T) {
	plain := v1alpha1.DeviceSelector{MinSize: quantityOf("1Gi")}
	for name, tt := range map[string]struct {
		desired state.Desired
		want    bool
	}{
		"no selector":          {state.Desired{}, false},
		"without labels":       {state.Desired{Selectors: []v1alpha1.DeviceSelector{plain}}, false},
		"with labels":          {state.Desired{Selectors: []v1alpha1.DeviceSelector{plain, *tier("fast")}}, true},
		"of another class":     {state.Desired{Others: []state.Other{{Selectors: []v1alpha1.DeviceSelector{*tier("slow")}}}}, true},
		"a removal needs none": {state.Desired{Selectors: []v1alpha1.DeviceSelector{*tier("fast")}, Deleting: true}, false},
	} {
		if got := selection.NeedsLabels(tt.desired); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
