package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// fullPool returns a volume group with a pool of 9Gi that is full, 1Gi of free space, and the volumes v1 and v2 of
// 1Gi that use 50% and 75%.
func fullPool(percent float64) lvm.VG {
	return edit(running(func(lv *lvm.LV) { lv.DataPercent, lv.Health = &percent, "out_of_data" }), func(vg *lvm.VG) {
		vg.LV("v1").DataPercent, vg.LV("v2").DataPercent = new(50.0), new(75.0)
	})
}

func withoutFree(vg *lvm.VG) {
	for i := range vg.PVs {
		vg.PVs[i].Free = 0
	}
}

// mountedBoth has the file systems of v1 and v2, which use 256Mi each.
var mountedBoth = state.Mounted{Used: map[string]int64{"uuid-v1": 256 << 20, "uuid-v2": 256 << 20}}

func freeing(d state.Desired) state.Desired {
	d.Open.Action = v1alpha1.RecoveryFreePoolSpace
	return d
}

func spaceRecovery() *v1alpha1.LVMRecovery {
	return &v1alpha1.LVMRecovery{Spec: v1alpha1.LVMRecoverySpec{NodeName: "node1", DeviceClassName: "vg1",
		Action: v1alpha1.RecoveryFreePoolSpace}}
}

func TestSpacePlan(t *testing.T) {
	failing := map[device.Number]error{state.NumberOf(group("b").PVs[0]): errors.New("input/output error")}
	thin := v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec}
	for name, tt := range map[string]struct {
		vg       lvm.VG
		spec     *v1alpha1.LVMVolumeGroupSpec
		mounted  state.Mounted
		failing  map[device.Number]error
		deleting bool
		volumes  string
		free     lvm.Bytes
		problem  bool
		says     []string
	}{
		"a full pool": {vg: fullPool(100), mounted: mountedBoth, volumes: "v2 v1", free: gib, says: []string{
			"is 100% full", "trimmed: 2, which frees up to about 768Mi", "no volume is lost",
			"extended by up to 1Gi"}},
		"a pool with plenty of room": {vg: fullPool(5), mounted: mountedBoth, volumes: "v2 v1", free: gib,
			says: []string{"is 5% full"}},
		"no free space": {vg: edit(fullPool(100), withoutFree), mounted: mountedBoth, volumes: "v2 v1"},
		"one is not mounted": {vg: fullPool(100), mounted: state.Mounted{Used: map[string]int64{"uuid-v1": 1 << 20}},
			volumes: "v1", free: gib, says: []string{"are not mounted", "has its maximum size: 1"}},
		"one does not respond": {vg: fullPool(100), volumes: "v1 v2", free: gib,
			mounted: state.Mounted{Used: map[string]int64{"uuid-v1": 256 << 20, "uuid-v2": 0}},
			says:    []string{"up to about 256Mi"}},
		"none is mounted": {vg: fullPool(100), problem: true, says: []string{"none of its volumes has a mounted file system",
			"(1) extend the pool by up to 1Gi", "(2) add a device", "(3) delete snapshots"}},
		"the mounts cannot be read": {vg: fullPool(100), mounted: state.Mounted{Err: errors.New("permission denied")},
			problem: true, says: []string{"permission denied"}},
		"an inactive pool": {vg: stopped(), problem: true, says: []string{"is inactive"}},
		"a flagged pool": {vg: running(func(lv *lvm.LV) { lv.CheckNeeded = true }), mounted: mountedBoth, problem: true,
			says: []string{"RepairThinPool"}},
		"a missing device": {vg: edit(fullPool(100), func(vg *lvm.VG) { vg.MissingPVs = 1 }), mounted: mountedBoth,
			problem: true, says: []string{"missing a device"}},
		"a failing device": {vg: fullPool(100), mounted: mountedBoth, failing: failing, problem: true,
			says: []string{"is failing"}},
		"being deleted, which waits for its volumes": {vg: fullPool(100), mounted: mountedBoth, deleting: true,
			volumes: "v2 v1", free: gib, says: []string{"no volume is lost"}},
		"no thin pool": {vg: group("b"), spec: &v1alpha1.LVMVolumeGroupSpec{}, problem: true,
			says: []string{"has no thin pool"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := thin
			if tt.spec != nil {
				spec = *tt.spec
			}
			d := freeing(testDesired(spec))
			d.Deleting = tt.deleting
			o := state.Outcome{Node: state.NodeState{Report: report(tt.vg),
				FileSystems: state.FileSystems{Mounted: tt.mounted}, Health: state.Health{Failing: tt.failing}}}
			got := RecoveryStatus(o, d, spaceRecovery(), nil, metav1.Time{})
			for _, text := range tt.says {
				if !strings.Contains(got.Message, text) {
					t.Errorf("the message %q should say %q", got.Message, text)
				}
			}
			if tt.problem {
				if got.Phase != v1alpha1.RecoveryNotApplicable || got.Plan != nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			p := got.Plan
			expect.Equal(t, "Phase", got.Phase, v1alpha1.RecoveryAwaitingApproval)
			expect.Equal(t, "namesOf(p.MountedVolumes)", namesOf(p.MountedVolumes), tt.volumes)
			expect.Equal(t, "int(p.MountedVolumeCount)", int(p.MountedVolumeCount), len(p.MountedVolumes))
			expect.Equal(t, "ExtensibleBytes", p.ExtensibleBytes, int64(tt.free))
			expect.Equal(t, "LostVolumeCount", p.LostVolumeCount, 0)
			expect.Equal(t, "KeptVolumeCount", p.KeptVolumeCount, 2)
			expect.NotZero(t, "ID", p.ID)
		})
	}
}

func TestSpacePlanHasALimit(t *testing.T) {
	const count = v1alpha1.MaxLostVolumes + 5
	mounted := state.Mounted{Used: map[string]int64{}}
	vg := edit(fullPool(100), func(vg *lvm.VG) {
		for i := range count - 2 {
			lv := *vg.LV("v1")
			lv.Name = fmt.Sprintf("x%d", i)
			lv.UUID = "uuid-" + lv.Name
			vg.LVs = append(vg.LVs, lv)
		}
	})
	for i := range vg.LVs {
		if vg.LVs[i].PoolName != "" {
			mounted.Used[vg.LVs[i].UUID] = 500 << 20
		}
	}
	d := freeing(testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec}))
	o := state.Outcome{Node: state.NodeState{Report: report(vg), FileSystems: state.FileSystems{Mounted: mounted}}}
	p := RecoveryStatus(o, d, spaceRecovery(), nil, metav1.Time{}).Plan
	if len(p.MountedVolumes) != v1alpha1.MaxLostVolumes || p.MountedVolumeCount != count ||
		p.MountedVolumes[0].Name != "v2" {
		t.Errorf("got %d of %d volumes, first %s", len(p.MountedVolumes), p.MountedVolumeCount, p.MountedVolumes[0].Name)
	}
}

// approvedSpace returns the desired state and the LVMRecovery after the plan for a full pool was approved.
func approvedSpace(t *testing.T) (state.Desired, *v1alpha1.LVMRecovery) {
	t.Helper()
	d := freeing(testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec}))
	r := spaceRecovery()
	o := state.Outcome{Node: state.NodeState{Report: report(fullPool(100)),
		FileSystems: state.FileSystems{Mounted: mountedBoth}}}
	r.Status = RecoveryStatus(o, d, r, nil, metav1.Time{})
	// The mounted volumes change meanwhile. The plan stays.
	o.Node.FileSystems.Mounted = state.Mounted{Used: map[string]int64{"uuid-v1": 1}}
	again := RecoveryStatus(o, d, r, nil, metav1.Unix(60, 0))
	if again.Plan.ID != r.Status.Plan.ID || namesOf(again.Plan.MountedVolumes) != "v2 v1" {
		t.Fatalf("got the plan %+v", again.Plan)
	}
	r.Spec.ApprovedPlan = r.Status.Plan.ID
	d.Open.Approved = ApprovedRecovery(r)
	return d, r
}

func TestStepsOfTrimming(t *testing.T) {
	for name, tt := range map[string]struct {
		vg         lvm.VG
		trim       *state.Trim
		unapproved bool
		kind       state.Kind
		phase      v1alpha1.RecoveryPhase
		freed      int64
		says       []string
	}{
		"not without approval": {vg: fullPool(100), unapproved: true, phase: v1alpha1.RecoveryAwaitingApproval},
		"start": {vg: fullPool(100), kind: state.TrimVolumes, phase: v1alpha1.RecoveryRunning,
			says: []string{"in progress"}},
		"once": {vg: fullPool(100), trim: &state.Trim{Running: true, Tried: 1}, phase: v1alpha1.RecoveryRunning,
			says: []string{"1 of 2"}},
		"after another device class": {vg: fullPool(100), trim: &state.Trim{Other: "vg2"},
			phase: v1alpha1.RecoveryRunning, says: []string{"device class vg2"}},
		"not again at once": {vg: fullPool(100), trim: &state.Trim{Err: errors.New("lvs: timeout"), Tried: 1},
			phase: v1alpha1.RecoveryRunning, says: []string{"lvs: timeout", "tries again"}},
		"not while a device is missing": {vg: edit(fullPool(100), func(vg *lvm.VG) { vg.MissingPVs = 1 }),
			phase: v1alpha1.RecoveryNotApplicable},
		"another pool": {vg: edit(fullPool(100), func(vg *lvm.VG) { vg.LV("pool").UUID = "other" }),
			phase: v1alpha1.RecoveryAwaitingApproval, says: []string{"is not the current one"}},
		"the end": {vg: fullPool(50), trim: &state.Trim{Tried: 2, Before: 9 * gib}, phase: v1alpha1.RecoverySucceeded,
			freed: int64(9 * gib / 2), says: []string{"50% full", "trimmed: 2", "freed: 4608Mi"}},
		"one failed, and the pool is still full": {vg: edit(fullPool(90), withoutFree), phase: v1alpha1.RecoverySucceeded,
			trim:  &state.Trim{Tried: 2, Before: 9 * gib, Failed: []string{"volume v1: read-only file system"}},
			freed: int64(9 * gib / 10),
			says: []string{"trimmed: 1", "not trimmed: 1: volume v1: read-only file system", "needs more space",
				"(1) add a device", "(2) delete snapshots"}},
		"Pods wrote more than was freed": {vg: fullPool(100), trim: &state.Trim{Tried: 2, Before: gib},
			phase: v1alpha1.RecoverySucceeded, says: []string{"freed: 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, r := approvedSpace(t)
			if tt.unapproved {
				d.Open.Approved, r.Spec.ApprovedPlan = nil, ""
			}
			s := state.NodeState{Report: report(tt.vg), Class: published(tt.vg, d),
				FileSystems: state.FileSystems{Trim: tt.trim, Mounted: mountedBoth}}
			p := New(d, s)
			if p.Action.Kind != tt.kind {
				t.Errorf("got the action %s, want %s", p.Action.Kind, tt.kind)
			}
			if tt.kind != state.Nothing && strings.Join(volumesOf(p.Action), " ") != "uuid-v2 uuid-v1" {
				t.Errorf("got the volumes %v", volumesOf(p.Action))
			}
			got := RecoveryStatus(state.Outcome{Node: s, Plan: p}, d, r, nil, metav1.Unix(60, 0))
			if got.Phase != tt.phase {
				t.Fatalf("got %s: %s, want %s", got.Phase, got.Message, tt.phase)
			}
			for _, text := range tt.says {
				if !strings.Contains(got.Message, text) {
					t.Errorf("the message %q should say %q", got.Message, text)
				}
			}
			if got.Phase != v1alpha1.RecoverySucceeded {
				return
			}
			const rounding = 1 << 20
			if got.FreedBytes == nil || max(*got.FreedBytes-tt.freed, tt.freed-*got.FreedBytes) > rounding {
				t.Errorf("freed %v, want %d", got.FreedBytes, tt.freed)
			}
		})
	}
}

func TestAFullPoolNamesTheRemediesInOrder(t *testing.T) {
	spec := v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec}
	growing := *thinSpec
	growing.AutoExtend = &v1alpha1.AutoExtend{ThresholdPercent: 70, StepPercent: 20}
	for name, tt := range map[string]struct {
		vg   lvm.VG
		spec v1alpha1.LVMVolumeGroupSpec
		says []string
		not  string
	}{
		"free space": {vg: fullPool(100), spec: spec, says: []string{"(1) extend the pool by up to 1Gi", "(2) add a device",
			"(3) to free the blocks of deleted files", "FreePoolSpace"}},
		"no free space": {vg: edit(fullPool(100), withoutFree), spec: spec,
			says: []string{"(1) add a device", "(2) to free", "FreePoolSpace"}, not: "extend the pool"},
		"automatic extension": {vg: fullPool(100), spec: v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: &growing},
			says: []string{"(1) wait until autoExtend", "(2) add a device"}},
		"the maximum size": {vg: edit(fullPool(100), func(vg *lvm.VG) { vg.LV("pool").Size = thinpool.MaxPoolSize(64 << 10) }),
			spec: spec, says: []string{"fail: to free the blocks"}, not: "add a device"},
	} {
		t.Run(name, func(t *testing.T) {
			d := testDesired(tt.spec)
			vg := tt.vg
			problems := thinpool.Problems(d, state.NodeState{Report: report(vg)}, &vg)
			at := 0
			if len(problems) == 0 {
				t.Fatal("no problem")
			}
			for _, text := range tt.says {
				found := strings.Index(problems[0].Message[at:], text)
				if found < 0 {
					t.Fatalf("the message %q should say %q after byte %d", problems[0].Message, text, at)
				}
				at += found
			}
			if tt.not != "" && strings.Contains(problems[0].Message, tt.not) {
				t.Errorf("the message %q should not say %q", problems[0].Message, tt.not)
			}
		})
	}
}
