package plan

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// TestAnAdoptedGroupOfAnotherNameIsRenamed: the class vg1 adopts a group with the name of another device class.
func TestAnAdoptedGroupOfAnotherNameIsRenamed(t *testing.T) {
	adopting := v1alpha1.LVMVolumeGroupSpec{Adopt: []v1alpha1.VolumeGroupAdoption{{Node: "n1", VolumeGroupUUID: "moved"}}}
	moved := func(tags ...string) lvm.VG {
		return edit(group("b"), func(vg *lvm.VG) { vg.Name, vg.UUID, vg.Tags = "old", "moved", tags })
	}
	ofNode := moved("lvms", "lvms.cluster=c1", "lvms.class=old", "lvms.node=n7")
	local := edit(group("c"), func(vg *lvm.VG) { vg.Name, vg.UUID = "old", "local" })
	own := edit(group("c"), func(vg *lvm.VG) { vg.UUID = "vg" })
	for name, test := range map[string]struct {
		spec   v1alpha1.LVMVolumeGroupSpec
		groups []lvm.VG
		others []state.Other
		want   string
		says   []string
	}{
		"of another node":    {spec: adopting, groups: []lvm.VG{ofNode}, want: "Progressing RenameVolumeGroup"},
		"of another cluster": {spec: adopting, groups: []lvm.VG{moved("lvms", "lvms.cluster=c2")}, want: "Progressing RenameVolumeGroup"},
		"beside a group of the same name": {spec: adopting, groups: []lvm.VG{ofNode, local},
			others: []state.Other{{Name: "old"}}, want: "Progressing RenameVolumeGroup"},
		"of a class that the node no longer has": {spec: adopting,
			groups: []lvm.VG{moved("lvms", "lvms.cluster=c1", "lvms.class=old", "lvms.node=n1")},
			want:   "Progressing RenameVolumeGroup"},
		"of another class of this node": {spec: adopting,
			groups: []lvm.VG{moved("lvms", "lvms.cluster=c1", "lvms.class=old", "lvms.node=n1")},
			others: []state.Other{{Name: "old"}}, want: "Failed",
			says: []string{"belongs to device class old of this node: remove it from adopt"}},
		"without the owner tag": {spec: adopting, groups: []lvm.VG{moved()}, want: "Failed", says: []string{`the tag "lvms"`}},
		"exported": {spec: adopting, groups: []lvm.VG{edit(ofNode, func(vg *lvm.VG) { vg.Attr = "wzx-n-" })},
			want: "Failed", says: []string{"vgimport old"}},
		"a disk is missing": {spec: adopting, groups: []lvm.VG{edit(ofNode, func(vg *lvm.VG) { vg.MissingPVs = 1 })},
			want: "Failed", says: []string{"while physical volumes are missing: 1"}},
		"the class has a group": {spec: adopting, groups: []lvm.VG{ofNode, own}, want: "Ready"},
		"not adopted":           {groups: []lvm.VG{ofNode}, want: "Ready"},
	} {
		s := state.NodeState{Report: report(test.groups...), Devices: []device.Device{}}
		if test.want == "Ready" && test.spec.Adopt != nil {
			s.Class = thickDone
		}
		d := testDesired(test.spec)
		d.Others = test.others
		p := New(d, s)
		checkPlan(t, name, p, test.want, test.says)
		if rename, is := p.Action.Change.(lvm.VGRename); is && rename.UUID != "moved" {
			t.Errorf("%s: renames %s", name, rename.UUID)
		}
	}
}

// TestTheTagOfAnEarlierVersionIsReplaced: on OpenShift, the identity of the cluster is another one since version 0.2.
func TestTheTagOfAnEarlierVersionIsReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		tag, former string
		want        string
		add, remove string
		says        []string
	}{
		"current":       {tag: "c1", former: "ns", want: "Ready"},
		"former":        {tag: "ns", former: "ns", want: "Progressing TagVolumeGroup", add: "lvms.cluster=c1", remove: "lvms.cluster=ns"},
		"another":       {tag: "c2", former: "ns", want: "Failed", says: []string{"OtherClusterVG"}},
		"no former one": {tag: "ns", want: "Failed", says: []string{"OtherClusterVG"}},
	} {
		t.Run(name, func(t *testing.T) {
			vg := edit(group("b"), func(vg *lvm.VG) {
				vg.UUID, vg.Tags = "vg", []string{"lvms", "lvms.cluster=" + test.tag, "lvms.class=vg1", "lvms.node=n1"}
			})
			s := state.NodeState{Report: report(vg), Devices: []device.Device{}, Class: thickDone}
			d := testDesired(v1alpha1.LVMVolumeGroupSpec{})
			d.Cluster.Former = test.former
			p := New(d, s)
			checkPlan(t, name, p, test.want, test.says)
			if add, remove := tagsOf(p.Action); add != test.add || remove != test.remove {
				t.Errorf("got the action %+v", p.Action)
			}
		})
	}
}

// TestActiveVolumesOfAnotherNodeAreReported: the host has activated a group that belongs to another node or cluster.
func TestActiveVolumesOfAnotherNodeAreReported(t *testing.T) {
	const says = "Logical volumes of it are active on node n1: data. If another node sees the same disks, both can " +
		"write to them and destroy the data: unless something uses them here, run on node n1: vgchange -an vg1"
	for name, test := range map[string]struct {
		tags []string
		attr lvm.LVAttr
		want string
	}{
		"of another node":        {[]string{"lvms", "lvms.cluster=c1", "lvms.node=n7"}, "-wi-a-----", "VGMoved"},
		"of another cluster":     {[]string{"lvms", "lvms.cluster=c2", "lvms.node=n1"}, "-wi-a-----", "OtherClusterVG"},
		"inactive":               {[]string{"lvms", "lvms.cluster=c1", "lvms.node=n7"}, "-wi-------", "VGMoved"},
		"of this node":           {[]string{"lvms", "lvms.cluster=c1", "lvms.node=n1"}, "-wi-a-----", ""},
		"of an earlier identity": {[]string{"lvms", "lvms.cluster=ns", "lvms.node=n1"}, "-wi-a-----", ""},
		"of nobody":              {nil, "-wi-a-----", `without the tag "lvms"`},
	} {
		t.Run(name, func(t *testing.T) {
			vg := edit(group("b"), func(vg *lvm.VG) {
				vg.Tags, vg.LVs = test.tags, []lvm.LV{{Name: "data", Attr: test.attr}, {Name: "off", Attr: "-wi-------"}}
			})
			d := testDesired(v1alpha1.LVMVolumeGroupSpec{})
			d.Cluster.Former = "ns"
			text := strings.Join(New(d, state.NodeState{Report: report(vg), Devices: []device.Device{}}).Messages(), "; ")
			active := strings.HasPrefix(test.want, "VGMoved") && test.attr.Active() || test.want == "OtherClusterVG"
			if !strings.Contains(text, test.want) || strings.Contains(text, says) != active {
				t.Errorf("the problem is %q", text)
			}
			if got := ownership.ActiveOfOthers(&vg, "n1", "c1", "ns"); strings.Contains(got, says) != active || got != "" && !active {
				t.Errorf("the list of devices says %q", got)
			}
		})
	}
}

// tagsOf returns the tags that an action adds and removes.
func tagsOf(a state.Action) (add, remove string) {
	tags, _ := a.Change.(lvm.VGChangeTags)
	return strings.Join(tags.Add, " "), strings.Join(tags.Remove, " ")
}
