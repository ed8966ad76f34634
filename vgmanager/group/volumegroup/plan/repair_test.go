package plan

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/poolrepair"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/publication"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// stopped returns a volume group whose pool is inactive, with the volumes v1 and v2.
func stopped() lvm.VG {
	return edit(withPool(group("b"), "v1", "v2"), func(vg *lvm.VG) {
		for i := range vg.LVs {
			lv := &vg.LVs[i]
			lv.Attr, lv.UUID, lv.DataPercent, lv.MetadataPercent = lv.Attr[:4]+"-----", "uuid-"+lv.Name, nil, nil
			if lv.Attr.IsThinPool() {
				lv.TransactionID, lv.ChunkSize, lv.MetadataSize = new(uint64(7)), 64<<10, 100<<20
			}
		}
		vg.Hidden = []lvm.LV{{Name: "pool_tmeta", Parent: "pool", Attr: "ewi-------"}}
	})
}

// running returns the volume group with an active pool.
func running(change func(*lvm.LV)) lvm.VG {
	return edit(stopped(), func(vg *lvm.VG) {
		for i := range vg.LVs {
			lv := &vg.LVs[i]
			lv.Attr = lv.Attr[:4] + "a----"
			if lv.Attr.IsThinPool() {
				change(lv)
			}
		}
	})
}

// published returns the class as it is published for the volume group.
func published(vg lvm.VG, d state.Desired) *deviceclass.Class {
	class := publication.ClassOf(d, nil, vg.UUID)
	return &class
}

func inspected(m thinmeta.Metadata) *state.PoolInspection {
	if m.TransactionID == 0 {
		m.TransactionID = 7
	}
	return &state.PoolInspection{Metadata: &m, IDs: map[string]uint64{"uuid-v1": 1, "uuid-v2": 2}}
}

var (
	whole   = map[uint64]thinmeta.Device{1: {Recorded: 8, Found: 8}, 2: {Recorded: 4, Found: 4}}
	without = map[uint64]thinmeta.Device{1: {Recorded: 8, Found: 5}}
)

// TestWarningsOfARepair: the message says what the numbers of the plan do not.
func TestWarningsOfARepair(t *testing.T) {
	const earlier, newer = "may be from an earlier state", "a newer version of thin_repair may save more"
	const fails = "thin_repair of the node fails (segmentation fault), and another version may save more"
	for name, tt := range map[string]struct {
		seen thinmeta.Metadata
		says string
	}{
		"nothing is lost":           {thinmeta.Metadata{Devices: whole}, ""},
		"thin_repair loses volumes": {thinmeta.Metadata{Devices: without}, newer},
		"salvaged":                  {thinmeta.Metadata{Devices: without, Salvaged: true}, ""},
		"thin_repair crashes": {thinmeta.Metadata{Devices: without, Salvaged: true,
			RepairError: "segmentation fault"}, fails},
		"thin_repair crashes, and nothing is lost": {thinmeta.Metadata{Devices: whole, Salvaged: true,
			RepairError: "segmentation fault"}, ""},
		"thin_repair crashes, no superblock": {thinmeta.Metadata{Devices: without, Salvaged: true,
			SuperblockLost: true, RepairError: "segmentation fault"}, fails},
		"an earlier state": {thinmeta.Metadata{Devices: whole, Earlier: true}, earlier},
		"no superblock":    {thinmeta.Metadata{Devices: without, SuperblockLost: true}, earlier},
		"valid":            {thinmeta.Metadata{Devices: without, Intact: true}, ""},
	} {
		d := testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec})
		d.Open.Action = v1alpha1.RecoveryRepairThinPool
		s := state.NodeState{Report: report(stopped()), Pool: state.Pool{Inspection: inspected(tt.seen)}}
		r := &v1alpha1.LVMRecovery{Spec: v1alpha1.LVMRecoverySpec{Action: v1alpha1.RecoveryRepairThinPool}}
		status := RecoveryStatus(state.Outcome{Node: s}, d, r, nil, metav1.Time{})
		if status.Plan == nil {
			t.Fatalf("%s: %s", name, status.Message)
		}
		got := status.Message
		for _, text := range []string{earlier, newer, fails} {
			if strings.Contains(got, text) != (tt.says == text) {
				t.Errorf("%s: got %q, want %q", name, got, tt.says)
			}
		}
	}
}

func TestRepairPlan(t *testing.T) {
	flag := func(lv *lvm.LV) { lv.CheckNeeded = true }
	full := 100.0
	failing := map[device.Number]error{state.NumberOf(group("b").PVs[0]): errors.New("input/output error")}
	for name, tt := range map[string]struct {
		vg        lvm.VG
		seen      *state.PoolInspection
		failing   map[device.Number]error
		deleting  bool
		repair    v1alpha1.ThinPoolRepair
		lost      string
		damaged   int64
		kept      int32
		problem   string
		preparing bool
	}{
		"a healthy pool": {vg: running(func(*lvm.LV) {}), problem: "the kernel reports no problem"},
		"a flagged pool": {vg: running(flag), problem: "it is being deactivated", preparing: true},
		"not read yet":   {vg: stopped(), problem: "is being checked", preparing: true},
		"being read": {vg: stopped(), seen: &state.PoolInspection{Running: true}, problem: "is being checked",
			preparing: true},
		"the read failed": {vg: stopped(), seen: &state.PoolInspection{Err: errors.New("no answer")}, problem: "no answer",
			preparing: true},
		"valid": {vg: stopped(), seen: inspected(thinmeta.Metadata{Intact: true, Devices: whole}),
			repair: v1alpha1.RepairClearCheck, kept: 2},
		"damaged": {vg: stopped(), seen: inspected(thinmeta.Metadata{Devices: whole}),
			repair: v1alpha1.RepairRebuild, kept: 2},
		"a volume is lost": {vg: stopped(), seen: inspected(thinmeta.Metadata{Devices: without}),
			repair: v1alpha1.RepairRebuild, lost: "v2", damaged: 3 * 64 << 10, kept: 1},
		"nothing is left": {vg: stopped(), seen: inspected(thinmeta.Metadata{SuperblockLost: true}),
			repair: v1alpha1.RepairRebuild, lost: "v1 v2"},
		"another transaction": {vg: stopped(), seen: inspected(thinmeta.Metadata{Intact: true, TransactionID: 9,
			Devices: whole}),
			problem: "transaction ID 9, and that of the volume group has 7"},
		"full metadata": {vg: running(func(lv *lvm.LV) { lv.MetadataPercent = &full }), repair: v1alpha1.RepairExtend,
			kept: 2},
		"in use": {vg: edit(running(flag), func(vg *lvm.VG) { vg.LV("v1").Attr = "Vwi-ao----" }),
			problem:   "volumes are in use",
			preparing: true},
		"a missing device": {vg: edit(stopped(), func(vg *lvm.VG) { vg.MissingPVs = 1 }), problem: "missing a device"},
		"a failing device": {vg: stopped(), failing: failing, problem: "is failing"},
		"being deleted, which waits for its volumes": {vg: stopped(), deleting: true,
			seen: inspected(thinmeta.Metadata{Devices: whole}), repair: v1alpha1.RepairRebuild, kept: 2},
		"no pool": {vg: group("b"), problem: "has no thin pool"},
	} {
		d := testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec})
		d.Open.Action, d.Deleting = v1alpha1.RecoveryRepairThinPool, tt.deleting
		s := state.NodeState{Report: report(tt.vg), Pool: state.Pool{Inspection: tt.seen},
			Health: state.Health{Failing: tt.failing}}
		p, problem, preparing := poolrepair.NewPlan(d, s, []v1alpha1.RecoveryVolume{{Name: "v2", Claim: "ns/two"}},
			metav1.Time{})
		if !strings.Contains(problem, tt.problem) || (problem == "") != (tt.problem == "") || preparing != tt.preparing {
			t.Errorf("%s: got the problem %q (preparing: %t), want %q", name, problem, preparing, tt.problem)
			continue
		}
		if p == nil {
			continue
		}
		var damaged int64
		for _, v := range p.DamagedVolumes {
			damaged += v.LostBytes
		}
		expect.Equal(t, name+": Repair", p.Repair, tt.repair)
		expect.Equal(t, name+": namesOf(p.LostVolumes)", namesOf(p.LostVolumes), tt.lost)
		expect.Equal(t, name+": damaged", damaged, tt.damaged)
		expect.Equal(t, name+": KeptVolumeCount", p.KeptVolumeCount, tt.kept)
		expect.NotZero(t, name+": ID", p.ID)
		expect.Equal(t, name+": int(p.LostVolumeCount)", int(p.LostVolumeCount), len(p.LostVolumes))
		for _, v := range p.LostVolumes {
			if (v.Claim == "ns/two") != (v.Name == "v2") {
				t.Errorf("%s: got the claim of %+v", name, v)
			}
		}
	}
}

func TestStepsOfARepair(t *testing.T) {
	flag := func(lv *lvm.LV) { lv.CheckNeeded = true }
	damaged := inspected(thinmeta.Metadata{Devices: without})
	valid := inspected(thinmeta.Metadata{Intact: true, Devices: whole})
	rebuilt := inspected(thinmeta.Metadata{Intact: true, Devices: without})
	worse := inspected(thinmeta.Metadata{})
	full := 100.0
	for name, tt := range map[string]struct {
		vg       lvm.VG
		seen     *state.PoolInspection
		approved *state.PoolInspection // the inspection of the approved plan
		kind     state.Kind
		names    string
	}{
		"volumes first": {vg: running(flag), kind: state.DeactivatePool, names: "v1 v2"},
		"not while in use": {vg: edit(running(flag),
			func(vg *lvm.VG) { vg.LV("v1").Attr = "Vwi-ao----" })},
		"then the pool": {vg: edit(running(flag), func(vg *lvm.VG) {
			vg.LV("v1").Attr,
				vg.LV("v2").Attr = "Vwi-------", "Vwi-------"
		}), kind: state.DeactivatePool, names: "pool"},
		"then read":                {vg: stopped(), kind: state.InspectPool},
		"once":                     {vg: stopped(), seen: &state.PoolInspection{Running: true}},
		"not again at once":        {vg: stopped(), seen: &state.PoolInspection{Err: errors.New("no answer")}},
		"wait for approval":        {vg: stopped(), seen: damaged},
		"wait for it if valid too": {vg: stopped(), seen: valid},
		"repair":                   {vg: stopped(), seen: damaged, approved: damaged, kind: state.RepairPool},
		"not if more is lost":      {vg: stopped(), seen: worse, approved: damaged},
		"then activate":            {vg: stopped(), seen: rebuilt, approved: damaged, kind: state.ActivatePool},
		"activate valid metadata":  {vg: stopped(), seen: valid, approved: valid, kind: state.ActivatePool},
		"not if it is damaged now": {vg: stopped(), seen: damaged, approved: valid},
		"then remove what is lost": {vg: edit(running(func(*lvm.LV) {}),
			func(vg *lvm.VG) { vg.LV("v2").Attr = "Vwi-------" }), approved: damaged, kind: state.RemoveLost, names: "uuid-v2"},
		"extend full metadata": {vg: running(func(lv *lvm.LV) { lv.MetadataPercent = &full }),
			approved: valid, kind: state.ExtendMeta},
		"the metadata volume is left active": {vg: edit(stopped(),
			func(vg *lvm.VG) { vg.Hidden[0].Attr = "ewi-a-----" }), kind: state.CloseMetadata},
		"the data volume is left active": {vg: edit(stopped(), func(vg *lvm.VG) {
			vg.Hidden = append(vg.Hidden, lvm.LV{Name: "pool_tdata", Parent: "pool", Attr: "Twi-a-----"})
		}), kind: state.CloseData, names: "pool_tdata"},
		"while it is read": {vg: edit(stopped(),
			func(vg *lvm.VG) { vg.Hidden[0].Attr = "ewi-a-----" }), seen: &state.PoolInspection{Running: true}},
	} {
		d := testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec})
		d.Open.Action = v1alpha1.RecoveryRepairThinPool
		if tt.approved != nil {
			p, problem, _ := poolrepair.NewPlan(d, state.NodeState{Report: report(stopped()),
				Pool: state.Pool{Inspection: tt.approved}},
				nil, metav1.Time{})
			if problem != "" {
				t.Fatalf("%s: %s", name, problem)
			}
			d.Open.Approved = state.NewRecovery("r", v1alpha1.RecoveryRepairThinPool, p)
		}
		s := state.NodeState{Report: report(tt.vg), Pool: state.Pool{Inspection: tt.seen}, Class: published(tt.vg, d)}
		a := New(d, s).Action
		if a.Kind != tt.kind || strings.Join(volumesOf(a), " ") != tt.names {
			t.Errorf("%s: got %s %v, want %s %s", name, a.Kind, volumesOf(a), tt.kind, tt.names)
		}
		if a.Kind == state.ExtendMeta && sizeOf(a) <= 0 {
			t.Errorf("%s: got the size %d", name, sizeOf(a))
		}
	}
}

// TestAPoolThatLVMDoesNotActivate has a condition, and is not tried again before the delay ends.
func TestAPoolThatLVMDoesNotActivate(t *testing.T) {
	d := testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec})
	s := state.NodeState{Report: report(stopped()), Class: published(stopped(), d),
		Pool:    state.Pool{Fault: lvm.ErrPoolCheck},
		Records: state.Records{Attempts: map[string]state.Attempt{"pool": {Ineffective: 1, Waiting: true}}}}
	p := New(d, s)
	if p.Action.Kind != state.Nothing || len(p.Problems) != 1 ||
		p.Problems[0].Reason != v1alpha1.ReasonThinPoolFailed || !strings.Contains(p.Problems[0].Message, "RepairThinPool") {
		t.Errorf("got %+v", p)
	}
	s.Records.Attempts = nil
	if p := New(d, s); p.Action.Kind != state.Activate {
		t.Errorf("got %s", p.Action.Kind)
	}
}

func TestPreviousMetadataIsRemovedWithTheGroup(t *testing.T) {
	d := testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec})
	d.Deleting = true
	vg := edit(withPool(group("b")), func(vg *lvm.VG) {
		vg.LVs = append(vg.LVs, thick("pool_meta0", "-wi-a-----",
			"pv-b"))
	})
	if a := New(d, state.NodeState{Report: report(vg)}).Action; a.Kind != state.RemovePool || strings.Join(volumesOf(a),
		" ") != "pool_meta0" {
		t.Errorf("got %+v", a)
	}
	for _, other := range []string{"pool_meta", "pool_metadata", "pool_meta1x", "other_meta0"} {
		vg := edit(withPool(group("b")), func(vg *lvm.VG) { vg.LVs = append(vg.LVs, thick(other, "-wi-a-----", "pv-b")) })
		if a := New(d, state.NodeState{Report: report(vg)}).Action; a.Kind == state.RemovePool {
			t.Errorf("%s: got %+v", other, a)
		}
	}
}
