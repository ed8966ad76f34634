package plan

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/orphans"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/poolrepair"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/publication"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/rollback"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

var thinClass = v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec}

var errArchive = errors.New("ls: cannot access '/etc/lvm/archive'")

// closedClass returns the class of a device class that is being deleted.
func closedClass(spec v1alpha1.LVMVolumeGroupSpec) *deviceclass.Class {
	d := testDesired(spec)
	d.Deleting = true
	class := publication.ClassOf(d, nil, "vg")
	return &class
}

// ownersOf returns objects of the cluster with the volumes volume-0, volume-1 and so on.
func ownersOf(owners ...state.VolumeOwner) state.Owners {
	o := state.Owners{Volumes: map[string]state.VolumeOwner{}}
	for i, owner := range owners {
		o.Volumes["volume-"+strconv.Itoa(i)] = owner
	}
	return o
}

// TestDoubtfulMetadataHoldsChangesBack has each change that a plan without doubt makes.
func TestDoubtfulMetadataHoldsChangesBack(t *testing.T) {
	request := func(device string, action v1alpha1.DeviceAction) v1alpha1.LVMVolumeGroupSpec {
		spec := v1alpha1.LVMVolumeGroupSpec{}
		spec.DeviceRequests = []v1alpha1.DeviceRequest{{Node: "n1", Device: device, Action: action}}
		return spec
	}
	used := edit(group("b", "c"), func(vg *lvm.VG) {
		vg.PVs[0].Used, vg.PVs[0].Allocatable, vg.PVs[0].Tags = 1<<20, false, []string{cordonTag}
		vg.PVs[1].Free, vg.PVs[1].Allocatable = 1<<30, true
	})
	for name, test := range map[string]struct {
		spec   v1alpha1.LVMVolumeGroupSpec
		change func(*state.Desired)
		group  lvm.VG
		kind   state.Kind
	}{
		"extents are moved": {spec: request("pv-b", v1alpha1.DeviceActionDrain), group: used, kind: state.StartMove},
		"a device is removed": {spec: request("pv-b", v1alpha1.DeviceActionRemove), kind: state.ReduceVG,
			group: edit(used, func(vg *lvm.VG) { vg.PVs = slices.Clone(vg.PVs); vg.PVs[0].Used = 0 })},
		"a device is cordoned": {spec: request("pv-b", v1alpha1.DeviceActionCordon), group: group("b", "c"), kind: state.Cordon},
		"a move is canceled": {group: edit(used, func(vg *lvm.VG) {
			vg.Hidden = []lvm.LV{{Name: "pvmove0", MoveSource: "pv-b", Attr: "p-C-aom---"}}
		}), kind: state.AbortMove},
		"a cordon ends": {group: used, kind: state.Uncordon},
		"the group is removed while it leaves": {change: func(d *state.Desired) { d.Leaving = true }, group: group("b"),
			kind: state.RemoveVG},
		"the group is removed": {change: func(d *state.Desired) { d.Deleting = true }, group: group("b"), kind: state.RemoveVG},
		"the pool is removed": {spec: thinClass, change: func(d *state.Desired) { d.Leaving = true }, group: withPool(group("b")),
			kind: state.RemovePool},
	} {
		d := testDesired(test.spec)
		if test.change != nil {
			test.change(&d)
		}
		s := state.NodeState{Report: report(test.group)}
		if p := New(d, s); p.Action.Kind != test.kind {
			t.Errorf("%s: without doubt, the action is %q, want %q (%v)", name, p.Action.Kind, test.kind, p.Problems)
		}
		for doubt, change := range doubts {
			s := state.NodeState{Report: report(edit(test.group, func(vg *lvm.VG) { vg.Seqno = 7 }))}
			change(&s)
			if p := New(d, s); p.Action.Kind.Waits(&test.group, "in doubt") != "" || p.Finished {
				t.Errorf("%s, %s: the action is %q", name, doubt, p.Action.Kind)
			}
		}
	}
}

// doubts are the ways in which the metadata of a volume group, change 7, is in doubt.
var doubts = map[string]func(*state.NodeState){
	"a failed read": func(s *state.NodeState) { s.Metadata.Replaced = state.Replaced{Err: errArchive} },
	"replaced": func(s *state.NodeState) {
		s.Metadata.Replaced = state.Replaced{Volumes: []string{"lost"}, File: "/etc/lvm/archive/vg1_1.vg"}
	},
	"a later change was seen":      func(s *state.NodeState) { s.Metadata.Seen = state.Seen{Seqno: 8} },
	"what was seen cannot be read": func(s *state.NodeState) { s.Metadata.Seen = state.Seen{Err: errArchive} },
}

func TestDoubtfulMetadataClosesTheClass(t *testing.T) {
	for name, r := range map[string]state.Replaced{"a failed read": {Err: errArchive}, "replaced": {Volumes: []string{"y"}}} {
		d, s := testDesired(v1alpha1.LVMVolumeGroupSpec{}), state.NodeState{Report: report(group("b")), Metadata: state.Metadata{Replaced: r}}
		a := New(d, s).Action
		if a.Kind != state.PublishClass || classOf(a).Closed == "" || classOf(a).NoRemoval == "" {
			t.Errorf("%s: got %+v", name, a)
		}
		s.Class = classOf(a)
		if again := New(d, s).Action; again.Kind != state.Nothing {
			t.Errorf("%s: called twice: got %+v", name, again)
		}
		s.Metadata.Replaced = state.Replaced{}
		if open := New(d, s).Action; open.Kind != state.PublishClass || classOf(open).Closed+classOf(open).NoRemoval != "" {
			t.Errorf("%s: afterward: got %+v", name, open)
		}
		d.Open.Orphans = []string{"lv"}
		s.Metadata.Replaced = r
		if p, problem := orphans.NewPlan(d, s, metav1.Time{}); p != nil || problem == "" {
			t.Errorf("%s: orphans: got %+v", name, p)
		}
	}
}

// TestAGroupWithVolumesOfTheClusterIsNotRemoved: LVM does not list them, but the API server has them.
func TestAGroupWithVolumesOfTheClusterIsNotRemoved(t *testing.T) {
	ours := state.VolumeOwner{LogicalVolume: "pvc-1", Node: "n1", DeviceClass: "vg1", Created: true}
	with := func(change func(*state.VolumeOwner)) state.Owners {
		owner := ours
		change(&owner)
		return ownersOf(owner)
	}
	for name, test := range map[string]struct {
		owners state.Owners
		says   string
	}{
		"a LogicalVolume":           {ownersOf(ours), "LogicalVolume pvc-1"},
		"its claim":                 {with(func(o *state.VolumeOwner) { o.PersistentVolume, o.Claim = "pv", "a/b" }), "(claim a/b)"},
		"a failed read":             {state.Owners{Err: errArchive}, "not known"},
		"no device class":           {with(func(o *state.VolumeOwner) { o.DeviceClass = "" }), "LogicalVolume pvc-1"},
		"of another device class":   {with(func(o *state.VolumeOwner) { o.DeviceClass = "vg2" }), ""},
		"of another node":           {with(func(o *state.VolumeOwner) { o.Node = "n2" }), ""},
		"never created, or deleted": {with(func(o *state.VolumeOwner) { o.Created = false }), ""},
		"only a PersistentVolume": {ownersOf(state.VolumeOwner{PersistentVolume: "pv-1", VolumeNode: "n1"}),
			"PersistentVolume pv-1"},
		"a PersistentVolume of another node": {ownersOf(state.VolumeOwner{PersistentVolume: "pv-1", VolumeNode: "n2"}), ""},
		"nothing":                            {state.Owners{}, ""},
	} {
		for _, leaving := range []bool{true, false} {
			d := testDesired(v1alpha1.LVMVolumeGroupSpec{})
			d.Spec.Default = true
			d.Leaving, d.Deleting = leaving, !leaving
			s := state.NodeState{Report: report(group("b")), Owners: test.owners}
			p := New(d, s)
			said := strings.Join(p.Messages(), "; ")
			switch {
			case test.says == "" && p.Action.Kind != state.RemoveVG:
				t.Errorf("%s (leaving: %t): got %+v", name, leaving, p)
			case test.says != "" && (p.Action.Kind != state.PublishClass || classOf(p.Action).Closed == "" ||
				!strings.Contains(said, test.says)):
				t.Errorf("%s (leaving: %t): got %q, %s", name, leaving, p.Action.Kind, said)
			}
			// Another volume group of the node has it.
			s.Report.VGs = append(s.Report.VGs, edit(group("z"), func(vg *lvm.VG) {
				vg.Name, vg.LVs = "other", []lvm.LV{{Name: "volume-0", Attr: "-wi-a-----"}}
			}))
			if p := New(d, s); test.owners.Err == nil && p.Action.Kind != state.RemoveVG {
				t.Errorf("%s, in another volume group: got %+v", name, p)
			}
		}
	}
}

// TestHealthIsTrueOnlyIfItWasLookedAt: a volume group that waits for its removal is maintained and reported as before.
func TestHealthIsTrueOnlyIfItWasLookedAt(t *testing.T) {
	now := metav1.Now()
	conditions := func(d state.Desired, s state.NodeState) map[string]metav1.ConditionStatus {
		found := map[string]metav1.ConditionStatus{}
		for _, c := range Entry((state.Outcome{Node: s, Plan: New(d, s)}), d, s.Before, now).Conditions {
			found[c.Type] = c.Status
		}
		return found
	}
	d := testDesired(thinClass)
	d.Deleting = true
	s := state.NodeState{Report: report(edit(withPool(group("b", "c"), "pvc-1"), lost)), Class: closedClass(thinClass)}
	if got := conditions(d, s); got[v1alpha1.ConditionDevicesHealthy] != metav1.ConditionFalse {
		t.Errorf("a device is missing while volumes are waited for: %v", got)
	}
	s.Report = report(withPool(group("b"), "pvc-1"))
	if got := conditions(d, s); got[v1alpha1.ConditionDevicesHealthy] != metav1.ConditionTrue ||
		got[v1alpha1.ConditionThinPoolHealthy] != metav1.ConditionTrue {
		t.Errorf("volumes are waited for: %v", got)
	}
	s.Report = report(withPool(group("b")))
	for kind, status := range conditions(d, s) {
		if status != metav1.ConditionUnknown {
			t.Errorf("while it is removed: %s is %s", kind, status)
		}
	}
	d.Deleting = false
	s.Report, s.Before.PhysicalVolumes = report(), []v1alpha1.PhysicalVolumeStatus{{UUID: "pv-b", Name: "/dev/sdb"}}
	got := conditions(d, s)
	if got[v1alpha1.ConditionDevicesHealthy] != metav1.ConditionFalse ||
		got[v1alpha1.ConditionVolumesHealthy] != metav1.ConditionUnknown ||
		got[v1alpha1.ConditionThinPoolHealthy] != metav1.ConditionUnknown {
		t.Errorf("while it is missing: %v", got)
	}
}

// TestDoubtIsEndedByItsRecovery: the restore of the metadata is planned whether or not it is in doubt.
func TestDoubtIsEndedByItsRecovery(t *testing.T) {
	d, s := rolledBackNode(poolMetadata(1, 0, 16, thinOn("a", 1)))
	s.Metadata.Rollback.Earlier = poolMetadata(3, 0, 16, thinOn("a", 1), thinOn("b", 2))
	certain, why, _ := rollback.NewPlan(d, s, nil, metav1.Time{})
	if certain == nil {
		t.Fatal(why)
	}
	s.Metadata.Replaced = state.Replaced{Volumes: []string{"y"}}
	s.Pool.Fault = lvm.ErrTransaction
	if p, why, _ := rollback.NewPlan(d, s, nil, metav1.Time{}); p == nil || p.ID != certain.ID {
		t.Errorf("got %+v, %s", p, why)
	}
	d.Open.Approved = state.NewRecovery("r", v1alpha1.RecoveryRestoreMetadata, certain)
	if a := New(d, s).Action; a.Kind != state.RestoreEarlier {
		t.Errorf("the approved plan is not carried out: %s", a.Kind)
	}
	if p, why, _ := poolrepair.NewPlan(d, s, nil, metav1.Time{}); p != nil || why == "" {
		t.Errorf("the pool is repaired while the metadata is in doubt: %+v", p)
	}
}

// TestARemovalDoesNotStopARecovery: a volume group that is empty, because its metadata is from a time without volumes,
// is to be removed. The approved restore of its metadata is carried out nevertheless, and so is the acceptance of what
// it has now.
func TestARemovalDoesNotStopARecovery(t *testing.T) {
	for _, leaving := range []bool{true, false} {
		d, s := rolledBackThick()
		d.Leaving, d.Deleting = leaving, !leaving
		s.Class = closedClass(v1alpha1.LVMVolumeGroupSpec{})
		before := New(d, s)
		if before.Action.Kind != state.PublishClass || classOf(before.Action).Closed == "" {
			t.Fatalf("leaving %t: before the approval: %+v", leaving, before.Action)
		}
		s.Class = classOf(before.Action)
		if a := New(d, s).Action; a.Kind != state.Nothing {
			t.Errorf("leaving %t: without the approval: %s", leaving, a.Kind)
		}
		restore, why, _ := rollback.NewPlan(d, s, nil, metav1.Time{})
		if restore == nil {
			t.Fatal(why)
		}
		d.Open.Approved = state.NewRecovery("r", v1alpha1.RecoveryRestoreMetadata, restore)
		if p := New(d, s); p.Action.Kind != state.RestoreEarlier || p.State != v1alpha1.VGStatusDegraded {
			t.Errorf("leaving %t: the approved plan is not carried out: %s (%s), %v", leaving, p.Action.Kind, p.State,
				p.Messages())
		}
	}
}

// rolledBackThick is a node with an empty volume group, and earlier metadata of it with a volume of the cluster.
func rolledBackThick() (state.Desired, state.NodeState) {
	d := testDesired(v1alpha1.LVMVolumeGroupSpec{})
	d.Open.Action = v1alpha1.RecoveryRestoreMetadata
	present, earlier := metadataWith(), metadataWith(shown("volume-0", linear(0, 1, "p0", 0)))
	present.Seqno, earlier.Seqno = 4, 7
	vg := groupWith(present)
	vg.Tags, vg.Seqno = group("b").Tags, present.Seqno
	return d, state.NodeState{Report: report(*vg), Metadata: state.Metadata{Seen: state.Seen{Seqno: 7}, Rollback: state.Rollback{Absent: []string{"volume-0"}, Present: present, Earlier: earlier}},
		Owners: ownersOf(state.VolumeOwner{LogicalVolume: "pvc-1", Node: "n1", DeviceClass: "vg1", Created: true})}
}
