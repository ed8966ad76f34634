package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func quantityOf(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}

func TestPropertiesOfDevices(t *testing.T) {
	yes := true
	no := false
	d := device.Device{Size: 10 << 30, Model: "Samsung SSD 980", Vendor: "ATA", Serial: "S1", Transport: "nvme",
		Rotational: false}
	tests := map[string]struct {
		selector v1alpha1.DeviceSelector
		want     bool
	}{
		"nothing asked": {v1alpha1.DeviceSelector{}, true},
		"large enough":  {v1alpha1.DeviceSelector{MinSize: quantityOf("10Gi")}, true},
		"too small":     {v1alpha1.DeviceSelector{MinSize: quantityOf("11Gi")}, false},
		"small enough":  {v1alpha1.DeviceSelector{MaxSize: quantityOf("10Gi")}, true},
		"too large":     {v1alpha1.DeviceSelector{MaxSize: quantityOf("9Gi")}, false},
		"flash":         {v1alpha1.DeviceSelector{Rotational: &no}, true},
		"hard disk":     {v1alpha1.DeviceSelector{Rotational: &yes}, false},
		"model": {v1alpha1.DeviceSelector{Models: []v1alpha1.DeviceProperty{"x",
			"samsung ssd 980"}}, true},
		"beginning of a model": {v1alpha1.DeviceSelector{Models: []v1alpha1.DeviceProperty{"Samsung*"}}, true},
		"part of a model":      {v1alpha1.DeviceSelector{Models: []v1alpha1.DeviceProperty{"Samsung"}}, false},
		"vendor":               {v1alpha1.DeviceSelector{Vendors: []v1alpha1.DeviceProperty{"Seagate"}}, false},
		"serial":               {v1alpha1.DeviceSelector{Serials: []v1alpha1.DeviceProperty{"S1"}}, true},
		"another serial":       {v1alpha1.DeviceSelector{Serials: []v1alpha1.DeviceProperty{"S2"}}, false},
		"transport": {v1alpha1.DeviceSelector{Transports: []v1alpha1.DeviceProperty{"sata",
			"nvme"}}, true},
		"another transport":        {v1alpha1.DeviceSelector{Transports: []v1alpha1.DeviceProperty{"usb"}}, false},
		"all that is asked counts": {v1alpha1.DeviceSelector{Rotational: &no, MinSize: quantityOf("1Ti")}, false},
	}
	for name, tt := range tests {
		if got := state.Mismatches(&tt.selector, d); (len(got) == 0) != tt.want {
			t.Errorf("%s: got %v, want a match: %t", name, got, tt.want)
		}
	}
}

func TestSelectorsOfANode(t *testing.T) {
	in := func(value string) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: corev1.NodeSelectorOpIn,
				Values: []string{value}}},
		}}}
	}
	path := func(p string) v1alpha1.DeviceSelector {
		return v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{v1alpha1.DevicePath(p)}}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"rack": "a"}}}
	one := path("/dev/one")
	tests := map[string]struct {
		spec    v1alpha1.LVMVolumeGroupSpec
		want    []v1alpha1.DeviceSelector
		applies bool
	}{
		"every unused device": {v1alpha1.LVMVolumeGroupSpec{}, nil, true},
		"the one selector": {v1alpha1.LVMVolumeGroupSpec{DeviceSelector: &one},
			[]v1alpha1.DeviceSelector{one}, true},
		"another node": {v1alpha1.LVMVolumeGroupSpec{DeviceSelector: &one, NodeSelector: in("b")}, nil, false},
		"those that match": {v1alpha1.LVMVolumeGroupSpec{
			DeviceSelectors: []v1alpha1.NodeDeviceSelector{{NodeSelector: in("a"), DeviceSelector: one},
				{NodeSelector: in("b"), DeviceSelector: path("/dev/two")}, {DeviceSelector: path("/dev/all")}}},
			[]v1alpha1.DeviceSelector{one, path("/dev/all")}, true},
		"none that matches": {v1alpha1.LVMVolumeGroupSpec{
			DeviceSelectors: []v1alpha1.NodeDeviceSelector{{NodeSelector: in("b"), DeviceSelector: one}}}, nil, false},
	}
	for name, tt := range tests {
		got, applies, err := state.Applies(&tt.spec, node)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" || applies != tt.applies {
			t.Errorf("%s: got %t, %v, %s", name, applies, err, diff)
		}
	}
	broken := in("a")
	broken.NodeSelectorTerms[0].MatchExpressions[0].Operator = "Resembles"
	if _, _, err := state.Applies(&v1alpha1.LVMVolumeGroupSpec{NodeSelector: broken}, node); err == nil {
		t.Error("a selector that cannot be read selects nothing in silence")
	}
}

func TestChoiceOfDevices(t *testing.T) {
	no := false
	large := v1alpha1.LVMVolumeGroupSpec{DeviceSelector: &v1alpha1.DeviceSelector{MinSize: quantityOf("20Gi")}}
	flash := v1alpha1.LVMVolumeGroupSpec{DeviceSelector: &v1alpha1.DeviceSelector{Rotational: &no}}
	named := v1alpha1.LVMVolumeGroupSpec{DeviceSelector: selector}
	dynamic := v1alpha1.LVMVolumeGroupSpec{DeviceDiscoveryPolicy: v1alpha1.DeviceDiscoveryDynamic}
	usb := disk("c")
	usb.Removable = true
	young := disk("c")
	young.Appeared = time.Second
	unknownAge := disk("c")
	unknownAge.AppearedKnown = false
	big := disk("c")
	big.Size = 30 << 30
	anyDisk := []state.Other{{Name: "vg2", Selectors: []v1alpha1.DeviceSelector{{MinSize: quantityOf("1Gi")}}}}
	tests := map[string]struct {
		spec     v1alpha1.LVMVolumeGroupSpec
		others   []state.Other
		seen     state.NodeState
		want     string
		says     []string
		excluded []string
	}{
		"by size": {spec: large,
			seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b"), big}},
			want: "Progressing CreateVolumeGroup /dev/sdc"},
		"none has the properties": {spec: large,
			seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b")}}, want: "Ready"},
		"removable is not found": {spec: flash,
			seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b"), usb}},
			want: "Progressing CreateVolumeGroup /dev/sdb", excluded: []string{"/dev/sdc Removable"}},
		"removable when asked for": {spec: v1alpha1.LVMVolumeGroupSpec{
			DeviceSelector: &v1alpha1.DeviceSelector{Rotational: &no, Removable: true}},
			seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b"), usb}},
			want: "Progressing CreateVolumeGroup /dev/sdb /dev/sdc"},
		"named and of the wrong size": {
			spec: v1alpha1.LVMVolumeGroupSpec{DeviceSelector: &v1alpha1.DeviceSelector{Paths: selector.Paths,
				MinSize: quantityOf("20Gi")}},
			seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b")}, Disks: state.Disks{Paths: paths("b")}}, want: "Failed",
			says: []string{"less than minSize"}, excluded: []string{"/dev/disk/by-id/b NotSelected"},
		},
		"a young device waits under Dynamic": {spec: dynamic,
			seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b"), young}},
			want: "Progressing CreateVolumeGroup /dev/sdb", excluded: []string{"/dev/sdc TooYoung"}},
		"only a young device": {spec: dynamic,
			seen: state.NodeState{Report: report(), Devices: []device.Device{young}}, want: "Progressing",
			excluded: []string{"/dev/sdc TooYoung"}},
		"a young device is used under Static": {seen: state.NodeState{Report: report(), Devices: []device.Device{young}},
			want: "Progressing CreateVolumeGroup /dev/sdc"},
		"a named young device is used": {spec: named,
			seen: state.NodeState{Report: report(), Devices: []device.Device{young}, Disks: state.Disks{Paths: paths("c")}},
			want: "Progressing CreateVolumeGroup /dev/sdc"},
		"of unknown age, watched for a minute": {
			spec: dynamic, seen: state.NodeState{Report: report(), Devices: []device.Device{unknownAge},
				Disks: state.Disks{Watched: map[device.Number]time.Duration{disk("c").Number: time.Hour}}},
			want: "Progressing CreateVolumeGroup /dev/sdc",
		},
		"of unknown age, just seen": {spec: dynamic, seen: state.NodeState{Report: report(), Devices: []device.Device{unknownAge}},
			want: "Progressing", excluded: []string{"/dev/sdc TooYoung"}},

		"two classes name it": {
			spec: named, seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b")}, Disks: state.Disks{Paths: paths("b"), OtherPaths: map[string][]state.Path{"vg2": {{Path: "/dev/sdb", Number: disk("b").Number}}}}},
			want: "Failed", says: []string{"by-id/b of node n1 cannot be used for device class vg1",
				"named by device class vg2"}, excluded: []string{"/dev/disk/by-id/b UsedByOtherDeviceClass"},
		},
		"another names what this one finds": {
			seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b"), disk("c")},
				Disks: state.Disks{OtherPaths: map[string][]state.Path{"vg2": paths("b")}}},
			want: "Progressing CreateVolumeGroup /dev/sdc", excluded: []string{"/dev/sdb UsedByOtherDeviceClass"},
		},
		"another finds what this one names": {spec: named, others: anyDisk,
			seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b")}, Disks: state.Disks{Paths: paths("b")}},
			want: "Progressing CreateVolumeGroup /dev/sdb"},
		"both find it": {
			spec: flash, others: anyDisk, seen: state.NodeState{Report: report(),
				Devices: []device.Device{disk("b")}}, want: "Failed",
			says:     []string{"/dev/sdb of node n1", "is selected by device class vg2 as well as by vg1"},
			excluded: []string{"/dev/sdb UsedByOtherDeviceClass"},
		},
		"a failing device": {
			seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b"), disk("c")},
				Health: state.Health{Failing: map[device.Number]error{disk("c").Number: errRead}}},
			want: "Progressing CreateVolumeGroup /dev/sdb", excluded: []string{"/dev/sdc Failing"},
		},
	}
	for name, tt := range tests {
		d := testDesired(tt.spec)
		d.Others = tt.others
		p := New(d, tt.seen)
		checkPlan(t, name, p, tt.want, tt.says)
		if diff := cmp.Diff(tt.excluded, excludedCodes(p)); diff != "" {
			t.Errorf("%s: excluded: %s", name, diff)
		}
	}
}

func TestOwnersOfAGroup(t *testing.T) {
	tags := func(list ...string) lvm.VG { return edit(group("b"), func(vg *lvm.VG) { vg.Tags = list }) }
	adopted := v1alpha1.LVMVolumeGroupSpec{Adopt: []v1alpha1.VolumeGroupAdoption{{Node: "n1", VolumeGroupUUID: "vg"}}}
	another := v1alpha1.LVMVolumeGroupSpec{Adopt: []v1alpha1.VolumeGroupAdoption{{Node: "n1", VolumeGroupUUID: "other"},
		{Node: "n2", VolumeGroupUUID: "vg"}}}
	clusters := func(ids ...v1alpha1.ClusterIdentity) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{AdoptClusters: ids}
	}
	moved := tags("lvms", "lvms.cluster=c1", "lvms.class=vg1", "lvms.node=n7")
	tests := map[string]struct {
		spec v1alpha1.LVMVolumeGroupSpec
		vg   lvm.VG
		want string
		says []string
	}{
		"nobody's":              {vg: tags(), want: "Failed", says: []string{"vgchange --addtag lvms vg1"}},
		"of an earlier version": {vg: tags("lvms"), want: "Progressing TagVolumeGroup"},
		"of another cluster": {vg: tags("lvms", "lvms.cluster=c2"), want: "Failed",
			says: []string{"OtherClusterVG", "(vg) on node n1 belongs to the cluster c2, not to this cluster (c1)",
				"adopt: [{node: n1, volumeGroupUUID: vg}]"}},
		"of another node": {vg: moved, want: "Failed",
			says: []string{"VGMoved", "was moved to node n1 from node n7", "adopt: [{node: n1, volumeGroupUUID: vg}]"}},
		"adopted":                  {spec: adopted, vg: moved, want: "Progressing TagVolumeGroup"},
		"another group is adopted": {spec: another, vg: moved, want: "Failed", says: []string{"VGMoved"}},
		"of a listed cluster": {spec: clusters("c9", "c2"), vg: tags("lvms", "lvms.cluster=c2", "lvms.class=vg1",
			"lvms.node=n1"), want: "Progressing TagVolumeGroup"},
		"of a cluster that is not listed": {spec: clusters("c9"), vg: tags("lvms", "lvms.cluster=c2", "lvms.class=vg1",
			"lvms.node=n1"), want: "Failed", says: []string{"OtherClusterVG", "adoptClusters: [c2]"}},
		"of a listed cluster, from another node": {spec: clusters("c2"), vg: tags("lvms", "lvms.cluster=c2",
			"lvms.class=vg1", "lvms.node=n7"), want: "Failed", says: []string{"OtherClusterVG"}},
		"of a listed cluster, of another class": {spec: clusters("c2"), vg: tags("lvms", "lvms.cluster=c2",
			"lvms.class=other", "lvms.node=n1"), want: "Failed", says: []string{"OtherClusterVG"}},
		"of a listed cluster, without other tags": {spec: clusters("c2"), vg: tags("lvms", "lvms.cluster=c2"),
			want: "Failed", says: []string{"OtherClusterVG"}},
		"of a listed cluster, not managed": {spec: clusters("c2"), vg: tags("lvms.cluster=c2", "lvms.class=vg1",
			"lvms.node=n1"), want: "Failed", says: []string{"vgchange --addtag lvms vg1"}},
		"renamed from another class": {vg: tags("lvms", "lvms.cluster=c1", "lvms.class=old", "lvms.node=n1"),
			want: "Progressing TagVolumeGroup"},
		"tags of the administrator stay": {vg: tags("lvms", "lvms.cluster=c1", "lvms.class=vg1", "lvms.node=n1",
			"mine"), want: "Ready"},
	}
	for name, tt := range tests {
		s := state.NodeState{Report: report(tt.vg), Class: thickDone, Devices: []device.Device{disk("b")}}
		checkPlan(t, name, New(testDesired(tt.spec), s), tt.want, tt.says)
		d := testDesired(tt.spec)
		d.Deleting = true
		s.Class = nil
		if removal := New(d, s); (len(tt.says) > 0) != removal.Finished {
			t.Errorf("%s: a removal is finished at once: %t", name, removal.Finished)
		}
	}
	change, _ := ownership.Tagging(testDesired(adopted), &moved).Change.(lvm.VGChangeTags)
	if diff := cmp.Diff([]string{"lvms.node=n1"}, change.Add) + cmp.Diff([]string{"lvms.node=n7"}, change.Remove); diff != "" {
		t.Error(diff)
	}
}
