package plan

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/volumeimport"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// importState is a node with the thin volumes a, b and c, and a snapshot. a and b have tags, c has none.
func importState() state.NodeState {
	vg := withPool(group("b"), "a", "b", "c", "snap")
	tag := func(name string, tags ...string) {
		for i := range vg.LVs {
			if vg.LVs[i].Name == name {
				vg.LVs[i].Tags = tags
				vg.LVs[i].Major, vg.LVs[i].Minor = 253, uint32(name[0])
			}
		}
	}
	tag("a", "lvms.pv=pvc-a", "lvms.pvc=shop/a", "lvms.formatted=xfs")
	tag("b", "lvms.pv=pvc-b", "lvms.pvc=shop/b")
	tag("c")
	tag("snap", "lvms.pv=snapshot-1", "lvms.pvc=shop/snap")
	return state.NodeState{Report: report(vg), Class: thinDone, Devices: []device.Device{disk("b")},
		Owners: state.Owners{Volumes: map[string]state.VolumeOwner{}, Names: map[string]string{}}}
}

func TestNewImportPlan(t *testing.T) {
	named := func(names ...string) state.Import { return state.Import{Volumes: names} }
	here := state.VolumeOwner{LogicalVolume: "pvc-a", Node: "n1", PersistentVolume: "pvc-a", VolumeNode: "n1", Claim: "shop/a"}
	there := state.VolumeOwner{LogicalVolume: "pvc-a", Node: "n7", PersistentVolume: "pvc-a", VolumeNode: "n7", Claim: "shop/a"}
	for name, test := range map[string]struct {
		ask  state.Import
		edit func(*state.NodeState)
		// want has NAME CLAIM PERSISTENTVOLUME FSTYPE FROMNODE of each volume.
		want []string
		says string
	}{
		"all with a claim in their tags": {want: []string{"a shop/a pvc-a xfs ", "b shop/b pvc-b  "}},
		"a claim for one without tags": {ask: state.Import{Claims: map[string]string{"c": "shop/c"}},
			want: []string{"a shop/a pvc-a xfs ", "b shop/b pvc-b  ", "c shop/c import-c  "}},
		"another claim": {ask: state.Import{Volumes: []string{"a"}, Claims: map[string]string{"a": "test/copy"}},
			want: []string{"a test/copy pvc-a xfs "}},
		"named":                        {ask: named("b"), want: []string{"b shop/b pvc-b  "}},
		"named without a claim":        {ask: named("c"), says: "vg1/c on node n1 has no tag with its claim"},
		"named, a snapshot":            {ask: named("snap"), says: "is a VolumeSnapshot, which cannot be imported"},
		"named, a pool":                {ask: named("pool"), says: "is a thin pool, not a volume"},
		"named, but does not exist":    {ask: named("x"), says: "has no logical volume x"},
		"a claim for one that is not":  {ask: state.Import{Claims: map[string]string{"x": "a/b"}}, says: "has no logical volume x"},
		"a claim for one not in names": {ask: state.Import{Volumes: []string{"a"}, Claims: map[string]string{"b": "a/b"}}, says: "which volumes does not"},
		"the file system that udev knows": {ask: named("b"), edit: func(s *state.NodeState) {
			s.Devices = append(s.Devices, device.Device{Name: "/dev/dm-1", Type: "lvm", Signature: "ext4",
				Number: device.NewNumber(253, 'b')})
		}, want: []string{"b shop/b pvc-b ext4 "}},
		"one that has its objects": {edit: func(s *state.NodeState) { s.Owners.Volumes["a"] = here },
			want: []string{"b shop/b pvc-b  "}},
		"named, and has its objects": {ask: named("a"), edit: func(s *state.NodeState) { s.Owners.Volumes["a"] = here },
			says: "has its objects already: LogicalVolume pvc-a, PersistentVolume pvc-a"},
		"one that is moved to another node": {edit: func(s *state.NodeState) {
			s.Owners.Volumes["a"] = there
			lv := s.Report.VGs[0].LV("a")
			lv.Tags = append(lv.Tags, "lvms.fenced=m")
		}, want: []string{"b shop/b pvc-b  "}},
		"named, and moved": {ask: named("a"), edit: func(s *state.NodeState) {
			lv := s.Report.VGs[0].LV("a")
			lv.Tags = append(lv.Tags, "lvms.fenced=m")
		}, says: "by the VolumeMove with the UID m"},
		"named, and cloned": {ask: named("a"), edit: func(s *state.NodeState) {
			lv := s.Report.VGs[0].LV("a")
			lv.Tags = append(lv.Tags, "lvms.fenced=clone-u")
		}, says: "is being copied to the clone with the UID u, or was"},
		"named, and copied to": {ask: named("a"), edit: func(s *state.NodeState) {
			lv := s.Report.VGs[0].LV("a")
			lv.Tags = append(lv.Tags, "lvms.copying")
		}, says: "does not have all data"},
		"one of the earlier driver": {edit: func(s *state.NodeState) {
			s.Owners.Volumes["a"] = state.VolumeOwner{Earlier: "PersistentVolume pv-1 of the driver x"}
		}, want: []string{"b shop/b pvc-b  "}},
		"named, of the earlier driver": {
			ask: state.Import{Volumes: []string{"a"}, Claims: map[string]string{"a": "test/copy"}},
			edit: func(s *state.NodeState) {
				s.Owners.Volumes["a"] = state.VolumeOwner{Earlier: "PersistentVolume pv-1 of the driver x"}
			}, says: "belongs to PersistentVolume pv-1 of the driver x, so it is not imported: use kubectl lvms migrate"},
		"named, being migrated": {ask: named("a"), edit: func(s *state.NodeState) {
			s.Owners.Volumes["a"] = state.VolumeOwner{LogicalVolume: "pvc-a", Node: "n1", Earlier: "PersistentVolume pvc-a"}
		}, says: "belongs to PersistentVolume pvc-a, so it is not imported"},
		"one that is being created": {edit: func(s *state.NodeState) {
			s.Owners.Volumes["a"] = state.VolumeOwner{LogicalVolume: "pvc-a", Node: "n1"}
		}, want: []string{"b shop/b pvc-b  "}},
		"named without a PersistentVolume": {ask: named("a"), edit: func(s *state.NodeState) {
			s.Owners.Volumes["a"] = state.VolumeOwner{LogicalVolume: "pvc-a", Node: "n1"}
		}, want: []string{"a shop/a pvc-a xfs "}},
		"a PersistentVolume alone": {ask: named("a"), edit: func(s *state.NodeState) {
			s.Owners.Volumes["a"] = state.VolumeOwner{PersistentVolume: "pv-1", VolumeNode: "n1", Claim: "shop/z"}
		}, want: []string{"a shop/z pv-1 xfs "}},
		"a PersistentVolume of another claim": {
			ask: state.Import{Volumes: []string{"a"}, Claims: map[string]string{"a": "test/copy"}},
			edit: func(s *state.NodeState) {
				s.Owners.Volumes["a"] = state.VolumeOwner{PersistentVolume: "pv-1", VolumeNode: "n1", Claim: "shop/z"}
			}, says: "belongs to claim shop/z (PersistentVolume pv-1), so it cannot be given to claim test/copy"},
		"moved from another node": {edit: func(s *state.NodeState) {
			s.Owners.Volumes["a"] = there
			s.Owners.Volumes["snap"] = state.VolumeOwner{LogicalVolume: "snapshot-1", Node: "n7"}
		}, want: []string{"a shop/a pvc-a xfs n7", "b shop/b pvc-b  ", "snap shop/snap snapshot-1  n7"}},
		"moved in part": {ask: named("a"), edit: func(s *state.NodeState) {
			there := there
			there.Node = "n1"
			s.Owners.Volumes["a"] = there
		}, want: []string{"a shop/a pvc-a xfs n7"}},
		"two for one claim": {ask: state.Import{Claims: map[string]string{"c": "shop/a"}},
			says: "vg1/c on node n1 and a are both for claim shop/a"},
		"two for one PersistentVolume": {ask: state.Import{Claims: map[string]string{"b": "shop/x"}}, edit: func(s *state.NodeState) {
			s.Report.VGs[0].LVs[2].Tags[0] = "lvms.pv=pvc-a"
		}, says: "are both for PersistentVolume pvc-a"},
		"the name is taken": {ask: named("a"), edit: func(s *state.NodeState) { s.Owners.Names["pvc-a"] = "other" },
			says: `is for PersistentVolume pvc-a, which exists for another volume ("other")`},
		"nothing to import": {edit: func(s *state.NodeState) {
			s.Report = report(withPool(group("b")))
		}, says: "all logical volumes have their objects"},
		"no claim is known": {edit: func(s *state.NodeState) {
			s.Report = report(withPool(group("b"), "c"))
		}, says: "no claim is known for the logical volumes without objects: 1"},
		"the read failed": {edit: func(s *state.NodeState) { s.Owners.Err = errors.New("timeout") }, says: "timeout"},
		"no group":        {edit: func(s *state.NodeState) { s.Report = report() }, says: "does not exist or is missing"},
		"of another cluster": {edit: func(s *state.NodeState) {
			s.Report.VGs[0].Tags = []string{"lvms", "lvms.cluster=c2"}
		}, says: "OtherClusterVG"},
		"a disk is missing": {edit: func(s *state.NodeState) {
			s.Report.VGs[0].PVs[0].Missing, s.Report.VGs[0].MissingPVs = true, 1
		}, says: "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := importState()
			if test.edit != nil {
				test.edit(&s)
			}
			d := testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec})
			d.Open.Import = &test.ask
			p, problem := volumeimport.NewPlan(d, s, metav1.Time{})
			if test.says != "" {
				if p != nil || !strings.Contains(problem, test.says) {
					t.Fatalf("got the problem %q and the plan %+v, want %q", problem, p, test.says)
				}
				return
			}
			if problem != "" {
				t.Fatal(problem)
			}
			var got []string
			for _, v := range p.ImportedVolumes {
				got = append(got, strings.Join([]string{v.Name, v.Claim, v.PersistentVolume, v.FSType, v.FromNode}, " "))
			}
			if strings.Join(got, "|") != strings.Join(test.want, "|") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestThePlanOfAnImportSaysHowOldVolumesAre: the administrator needs it to choose. The approval does not depend on it.
func TestThePlanOfAnImportSaysHowOldVolumesAre(t *testing.T) {
	d := testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec})
	d.Open.Import = &state.Import{Volumes: []string{"a"}}
	before, problem := volumeimport.NewPlan(d, importState(), metav1.Time{})
	if problem != "" || before.ImportedVolumes[0].Created != nil || before.ImportedVolumes[0].LastMountTime != nil {
		t.Fatalf("got the plan %+v: %s", before, problem)
	}
	s := importState()
	created, mounted := time.Unix(1_700_000_000, 5), time.Unix(1_710_000_000, 0)
	s.Report.VGs[0].LV("a").Created = created
	s.FileSystems.LastMounts = map[string]time.Time{"a": mounted}
	p, problem := volumeimport.NewPlan(d, s, metav1.Time{})
	if problem != "" || p.ID != before.ID || !p.ImportedVolumes[0].Created.Time.Equal(created.Truncate(time.Second)) ||
		!p.ImportedVolumes[0].LastMountTime.Time.Equal(mounted) {
		t.Errorf("got the plan %+v: %s", p, problem)
	}
}

func TestThePlanOfAnImportHasAnIDOfItsOwn(t *testing.T) {
	d := testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec})
	ids := map[string]bool{}
	for _, i := range []state.Import{{}, {Volumes: []string{"a"}}, {Volumes: []string{"b"}},
		{Volumes: []string{"a"}, Claims: map[string]string{"a": "test/copy"}}} {
		d.Open.Import = &i
		p, problem := volumeimport.NewPlan(d, importState(), metav1.Time{})
		again, _ := volumeimport.NewPlan(d, importState(), metav1.Time{})
		if problem != "" || ids[p.ID] || p.ID != again.ID {
			t.Errorf("%+v: got the plan %+v again, or another one the second time: %s", i, p, problem)
			continue
		}
		ids[p.ID] = true
	}
}

// TestAnAdoptedGroupOfAnotherClusterIsTagged: the tags of the other cluster and node are replaced.
func TestAnAdoptedGroupOfAnotherClusterIsTagged(t *testing.T) {
	vg := edit(group("b"), func(vg *lvm.VG) {
		vg.Tags = []string{"lvms", "lvms.cluster=c2", "lvms.class=vg1", "lvms.node=n7"}
	})
	s := state.NodeState{Report: report(vg), Class: thickDone, Devices: []device.Device{disk("b")}}
	for name, test := range map[string]struct {
		adopt []v1alpha1.VolumeGroupAdoption
		want  string
	}{
		"not adopted":     {want: "Failed"},
		"adopted":         {[]v1alpha1.VolumeGroupAdoption{{Node: "n1", VolumeGroupUUID: "vg"}}, "Progressing TagVolumeGroup"},
		"another UUID":    {[]v1alpha1.VolumeGroupAdoption{{Node: "n1", VolumeGroupUUID: "vg2"}}, "Failed"},
		"on another node": {[]v1alpha1.VolumeGroupAdoption{{Node: "n2", VolumeGroupUUID: "vg"}}, "Failed"},
	} {
		p := New(testDesired(v1alpha1.LVMVolumeGroupSpec{Adopt: test.adopt}), s)
		if test.want == "Failed" {
			checkPlan(t, name, p, test.want, []string{"OtherClusterVG"})
			continue
		}
		checkPlan(t, name, p, test.want, nil)
		added, removed := tagsOf(p.Action)
		if added != "lvms.cluster=c1 lvms.node=n1" || removed != "lvms.cluster=c2 lvms.node=n7" {
			t.Errorf("%s: adds %q, removes %q", name, added, removed)
		}
	}
}
