package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/publication"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/rollback"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
)

// linear returns a segment of extents from first on.
func linear(start, count uint64, pv string, first uint64) textmeta.Segment {
	return textmeta.Segment{Type: "striped", Start: start, Count: count, Areas: []textmeta.Area{{PV: pv, First: first}}}
}

// shown returns a visible volume whose UUID is its name.
func shown(name string, segments ...textmeta.Segment) textmeta.LV {
	return textmeta.LV{Name: name, UUID: name, Visible: true, Segments: segments}
}

func hiddenVolume(name string, segments ...textmeta.Segment) textmeta.LV {
	return textmeta.LV{Name: name, UUID: name, Segments: segments}
}

func striped(start, count uint64, first0, first1 uint64) textmeta.Segment {
	return textmeta.Segment{Type: "striped", Start: start, Count: count, StripeSize: 128,
		Areas: []textmeta.Area{{PV: "p0", First: first0}, {PV: "p1", First: first1}}}
}

func metadataWith(volumes ...textmeta.LV) *textmeta.Metadata {
	m := &textmeta.Metadata{VG: "vg1", UUID: "vg", PVs: []string{"p0", "p1"}, Volumes: volumes, Digest: fmt.Sprint(volumes)}
	for _, v := range volumes {
		m.LVs = append(m.LVs, v.Name)
		if len(v.Segments) > 0 && v.Segments[0].Type == "thin-pool" {
			m.ThinPools = append(m.ThinPools, v.Name)
		}
	}
	return m
}

// groupWith returns the volume group of metadata.
func groupWith(m *textmeta.Metadata) *lvm.VG {
	vg := &lvm.VG{Name: "vg1", UUID: "vg", ExtentSize: 4 << 20, Attr: "wz--n-"}
	for _, v := range m.Volumes {
		lv := lvm.LV{Name: v.Name, UUID: v.UUID, Size: lvm.Bytes(v.Extents()) * (4 << 20), Attr: "-wi-------"}
		if v.Visible {
			vg.LVs = append(vg.LVs, lv)
		}
	}
	for _, pv := range m.PVs {
		vg.PVs = append(vg.PVs, lvm.PV{UUID: pv, Name: "/dev/" + pv})
	}
	return vg
}

// TestWhatEarlierMetadataChanges: each volume whose extents are not the same in both is lost or damaged.
func TestWhatEarlierMetadataChanges(t *testing.T) {
	raid := func(image1 uint64) []textmeta.LV {
		return []textmeta.LV{shown("r", textmeta.Segment{Type: "raid1", Count: 4,
			Parts: []string{"r_rimage_0", "r_rimage_1"}}),
			hiddenVolume("r_rimage_0", linear(0, 4, "p0", 50)), hiddenVolume("r_rimage_1", linear(0, 4, "p1", image1))}
	}
	thinVolume := func(id, extents uint64) textmeta.LV {
		return shown("t", textmeta.Segment{Type: "thin", Count: extents, ThinPool: "pool", DeviceID: id})
	}
	for name, test := range map[string]struct {
		now, then []textmeta.LV
		// lost and damaged are volumes, damaged with the extents and a part of the reason.
		lost, damaged []string
		back          []string
	}{
		"the same": {now: []textmeta.LV{shown("a", linear(0, 8, "p0", 0))},
			then: []textmeta.LV{shown("a", linear(0, 8, "p0", 0))}},
		"the same in two segments": {now: []textmeta.LV{shown("a", linear(0, 8, "p0", 0))},
			then: []textmeta.LV{shown("a", linear(0, 3, "p0", 0), linear(3, 5, "p0", 3))}},
		"one returns": {now: []textmeta.LV{shown("a", linear(0, 8, "p0", 0))},
			then: []textmeta.LV{shown("a", linear(0, 8, "p0", 0)), shown("b", linear(0, 8, "p0", 8))},
			back: []string{"b"}},
		"one is lost": {now: []textmeta.LV{shown("a", linear(0, 8, "p0", 0)), shown("b", linear(0, 8, "p0", 8))},
			then: []textmeta.LV{shown("a", linear(0, 8, "p0", 0))}, lost: []string{"b"}},
		"one has extents of one that returns": {now: []textmeta.LV{shown("n", linear(0, 4, "p0", 6))},
			then: []textmeta.LV{shown("b", linear(0, 8, "p0", 0))}, lost: []string{"n"}, back: []string{"b"},
			damaged: []string{"b 2 volume n has extents of it now"}},
		"moved": {now: []textmeta.LV{shown("a", linear(0, 8, "p1", 0))},
			then: []textmeta.LV{shown("a", linear(0, 8, "p0", 0))}, damaged: []string{"a 8 other extents"}},
		"moved in part": {now: []textmeta.LV{shown("a", linear(0, 4, "p0", 0), linear(4, 4, "p1", 0))},
			then: []textmeta.LV{shown("a", linear(0, 8, "p0", 0))}, damaged: []string{"a 4 other extents"}},
		"shifted": {now: []textmeta.LV{shown("a", linear(0, 8, "p0", 1))},
			then: []textmeta.LV{shown("a", linear(0, 8, "p0", 0))}, damaged: []string{"a 8 other extents"}},
		"it was smaller": {now: []textmeta.LV{shown("a", linear(0, 8, "p0", 0))},
			then: []textmeta.LV{shown("a", linear(0, 5, "p0", 0))}, damaged: []string{"a 3 is larger now"}},
		"it was larger": {now: []textmeta.LV{shown("a", linear(0, 5, "p0", 0))},
			then: []textmeta.LV{shown("a", linear(0, 8, "p0", 0))}},
		"its end is taken": {
			now:  []textmeta.LV{shown("a", linear(0, 5, "p0", 0)), shown("n", linear(0, 2, "p0", 7))},
			then: []textmeta.LV{shown("a", linear(0, 8, "p0", 0))}, lost: []string{"n"},
			damaged: []string{"a 1 volume n has extents of it now"}},
		"stripes": {now: []textmeta.LV{shown("s", striped(0, 8, 0, 0))},
			then: []textmeta.LV{shown("s", striped(0, 4, 0, 0), striped(4, 4, 2, 2))}},
		"other stripes": {now: []textmeta.LV{shown("s", striped(0, 8, 0, 0))},
			then: []textmeta.LV{shown("s", striped(0, 8, 0, 4))}, damaged: []string{"s 4 other extents"}},
		"redundant":    {now: raid(50), then: raid(50)},
		"other images": {now: raid(50), then: raid(60), damaged: []string{"r 4 other extents"}},
		"a namesake": {now: []textmeta.LV{shown("a", linear(0, 8, "p0", 0))}, then: []textmeta.LV{
			{Name: "a", UUID: "other", Visible: true, Segments: []textmeta.Segment{linear(0, 8, "p0", 0)}}},
			lost: []string{"a"}, back: []string{"a"}, damaged: []string{"a 8 volume a has extents of it now"}},
		"thin": {now: []textmeta.LV{thinVolume(1, 8)}, then: []textmeta.LV{thinVolume(1, 8)}},
		"another thin device": {now: []textmeta.LV{thinVolume(2, 8)},
			then: []textmeta.LV{thinVolume(1, 8)}, damaged: []string{"t 8 another device"}},
		"a smaller thin one": {now: []textmeta.LV{thinVolume(1, 8)},
			then: []textmeta.LV{thinVolume(1, 6)}, damaged: []string{"t 2 is larger now"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := state.Rollback{Present: metadataWith(test.now...), Earlier: metadataWith(test.then...)}
			c, err := rollback.CompareExtents(r.Present, r.Earlier)
			if err != nil {
				t.Fatal(err)
			}
			p := &v1alpha1.RecoveryPlan{}
			rollback.AddLoss(p, groupWith(r.Present), r, c)
			var lost []string
			for _, v := range p.LostVolumes {
				lost = append(lost, v.Name)
			}
			if diff := cmp.Diff(test.lost, lost); diff != "" {
				t.Errorf("lost: %s", diff)
			}
			if diff := cmp.Diff(test.back, rollback.Returning(r)); diff != "" {
				t.Errorf("returning: %s", diff)
			}
			if len(p.DamagedVolumes) != len(test.damaged) {
				t.Fatalf("got the damaged %+v, want %v", p.DamagedVolumes, test.damaged)
			}
			for i, want := range test.damaged {
				v := p.DamagedVolumes[i]
				head, reason, _ := strings.Cut(want, " ")
				extents, reason, _ := strings.Cut(reason, " ")
				if v.Name != head || fmt.Sprint(v.LostBytes/(4<<20)) != extents ||
					!strings.Contains(v.Finding, reason) {
					t.Errorf("got %+v, want %s", v, want)
				}
			}
		})
	}
}

func TestUnknownSegmentsAreNotCompared(t *testing.T) {
	known := metadataWith(shown("a", linear(0, 8, "p0", 0)))
	moving := metadataWith(shown("pvmove0", textmeta.Segment{Type: "mirror"}))
	for _, pair := range [][2]*textmeta.Metadata{{known, moving}, {moving, known}} {
		if _, err := rollback.CompareExtents(pair[0], pair[1]); err == nil || !strings.Contains(err.Error(), `"mirror"`) {
			t.Errorf("got %v", err)
		}
	}
}

// poolMetadata returns metadata with a thin pool, whose data begins at an extent of p0.
func poolMetadata(transaction, data, size uint64, volumes ...textmeta.LV) *textmeta.Metadata {
	return metadataWith(append([]textmeta.LV{
		shown("pool", textmeta.Segment{Type: "thin-pool", Count: size, TransactionID: transaction, ChunkSize: 128,
			Parts: []string{"pool_tmeta", "pool_tdata"}}),
		hiddenVolume("pool_tmeta", linear(0, 1, "p1", 0)), hiddenVolume("pool_tdata", linear(0, size, "p0", data))},
		volumes...)...)
}

func thinOn(name string, id uint64) textmeta.LV {
	return shown(name, textmeta.Segment{Type: "thin", Count: 8, ThinPool: "pool", DeviceID: id})
}

// TestEarlierMetadataThatFits: transaction, size, volumes and place of the pool must be those of its metadata.
func TestEarlierMetadataThatFits(t *testing.T) {
	present := poolMetadata(1, 0, 16, thinOn("a", 1))
	for name, test := range map[string]struct {
		earlier *textmeta.Metadata
		change  func(m *textmeta.Metadata)
		present func(m *textmeta.Metadata)
		why     string
	}{
		"it fits":              {earlier: poolMetadata(3, 0, 16, thinOn("a", 1), thinOn("b", 2))},
		"a larger pool":        {earlier: poolMetadata(3, 0, 20, thinOn("a", 1))},
		"another transaction":  {earlier: poolMetadata(2, 0, 16, thinOn("a", 1)), why: "transaction ID 2"},
		"a smaller pool":       {earlier: poolMetadata(3, 0, 15, thinOn("a", 1)), why: "smaller thin pool"},
		"a volume that is not": {earlier: poolMetadata(3, 0, 16, thinOn("x", 9)), why: "volume x, which the thin pool"},
		"a pool elsewhere":     {earlier: poolMetadata(3, 8, 16, thinOn("a", 1)), why: "extents of pool_tdata were moved"},
		"without the pool":     {earlier: metadataWith(shown("a", linear(0, 8, "p0", 0))), why: "without the thin pool"},
		"another group": {earlier: poolMetadata(3, 0, 16), why: "another UUID",
			change: func(m *textmeta.Metadata) { m.UUID = "o" }},
		"another device": {earlier: poolMetadata(3, 0, 16), why: "other physical volumes",
			change: func(m *textmeta.Metadata) { m.PVs[1] = "p2" }},
		"fewer devices": {earlier: poolMetadata(3, 0, 16), why: "other physical volumes",
			change: func(m *textmeta.Metadata) { m.PVs = m.PVs[:1] }},
		"a device was missing": {earlier: poolMetadata(3, 0, 16), why: "other physical volumes",
			change: func(m *textmeta.Metadata) { m.MissingPVs = []string{"p1"} }},
		"another chunk size": {earlier: poolMetadata(3, 0, 16), why: "chunk size",
			change: func(m *textmeta.Metadata) { m.Volumes[0].Segments[0].ChunkSize = 256 }},
		"an unknown segment": {earlier: poolMetadata(3, 0, 16, shown("x", textmeta.Segment{Type: "vdo"})), why: `"vdo"`},
		"another pool": {earlier: poolMetadata(3, 0, 16), why: "without the thin pool",
			change: func(m *textmeta.Metadata) { m.Volumes[0].UUID = "o" }},
		"extents that are taken": {earlier: poolMetadata(3, 0, 20), why: "volume n has extents of pool_tdata now",
			present: func(m *textmeta.Metadata) { m.Volumes = append(m.Volumes, shown("n", linear(0, 2, "p0", 17))) }},
	} {
		t.Run(name, func(t *testing.T) {
			if test.change != nil {
				test.change(test.earlier)
			}
			now := *present
			now.Volumes = slices.Clone(present.Volumes)
			if test.present != nil {
				test.present(&now)
			}
			d, s := rolledBackNode(&now)
			if got := rollback.FitsRollback(d, s)(test.earlier); (test.why == "") != (got == "") || !strings.Contains(got, test.why) {
				t.Errorf("got %q, want %q", got, test.why)
			}
		})
	}
}

// rolledBackNode returns a class and its node, whose thin pool has the transaction ID 3 and the devices 1 and 2.
func rolledBackNode(present *textmeta.Metadata) (state.Desired, state.NodeState) {
	d := state.Desired{Name: "vg1", Node: "node1", Cluster: state.Cluster{ID: "c1"}, Open: state.OpenRecovery{Action: v1alpha1.RecoveryRestoreMetadata},
		Spec: v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: &v1alpha1.ThinPoolConfig{Name: "pool"}}}
	vg := groupWith(present)
	vg.Tags = ownership.OwnerTags(d)
	transaction := present.Volumes[0].Segments[0].TransactionID
	pool := vg.LV("pool")
	pool.Attr, pool.TransactionID, pool.ChunkSize = "twi-------", &transaction, 64<<10
	for i := range vg.LVs {
		if vg.LVs[i].Name != "pool" && present.Volume(vg.LVs[i].Name).Segments[0].Type == "thin" {
			vg.LVs[i].PoolName, vg.LVs[i].Attr = "pool", "Vwi-------"
		}
	}
	s := state.NodeState{Report: &lvm.Report{VGs: []lvm.VG{*vg}},
		Metadata: state.Metadata{Rollback: state.Rollback{Present: present}}}
	s.Pool.Inspection = &state.PoolInspection{Metadata: &thinmeta.Metadata{Intact: true, TransactionID: 3,
		Chunks: 16 * 64, Devices: map[uint64]thinmeta.Device{1: {}, 2: {}}}}
	return d, s
}

// TestARestoreNeedsTheApprovedPlan: any other content has another plan, and nothing is restored without the same one.
func TestARestoreNeedsTheApprovedPlan(t *testing.T) {
	d, s := rolledBackNode(poolMetadata(1, 0, 16, thinOn("a", 1)))
	s.Metadata.Rollback.Earlier = poolMetadata(3, 0, 16, thinOn("a", 1), thinOn("b", 2))
	created := metav1.Unix(1, 0)
	p, problem, _ := rollback.NewPlan(d, s, nil, created)
	if problem != "" {
		t.Fatal(problem)
	}
	if a := New(d, s).Action; a.Kind != state.Nothing {
		t.Errorf("without an approval: got %+v", a)
	}
	d.Open.Approved = state.NewRecovery("r", v1alpha1.RecoveryRestoreMetadata, p)
	if a := New(d, s).Action; a.Kind != state.RestoreEarlier {
		t.Errorf("got %+v", a)
	}
	// The same metadata in another file is the same plan.
	moved := *s.Metadata.Rollback.Earlier
	moved.File = "/etc/lvm/archive/vg1_00002-1.vg"
	s.Metadata.Rollback.Earlier = &moved
	if a := New(d, s).Action; a.Kind != state.RestoreEarlier {
		t.Errorf("after the backup became an archive: got %+v", a)
	}
	for name, change := range map[string]func(*state.NodeState){
		"other metadata": func(s *state.NodeState) { s.Metadata.Rollback.Earlier = poolMetadata(3, 0, 16, thinOn("a", 1)) },
		"none":           func(s *state.NodeState) { s.Metadata.Rollback.Earlier = nil },
		"not read":       func(s *state.NodeState) { s.Metadata.Rollback = state.Rollback{Err: fmt.Errorf("i/o")} },
		"in use":         func(s *state.NodeState) { s.Report.VGs[0].LVs[1].Attr = "Vwi-ao----" },
		"a missing device": func(s *state.NodeState) {
			s.Report.VGs[0].MissingPVs, s.Report.VGs[0].PVs[1].Missing = 1, true
		},
		"the metadata of the pool is read again": func(s *state.NodeState) { s.Pool.Inspection = &state.PoolInspection{Running: true} },
	} {
		changed := s
		report := lvm.Report{VGs: []lvm.VG{s.Report.VGs[0]}}
		report.VGs[0].LVs, report.VGs[0].PVs = slices.Clone(report.VGs[0].LVs), slices.Clone(report.VGs[0].PVs)
		changed.Report = &report
		change(&changed)
		if a := New(d, changed).Action; a.Kind == state.RestoreEarlier {
			t.Errorf("%s: got %+v", name, a)
		}
	}
	// After the restore, the pool is activated, and never with metadata that is damaged.
	restored := s
	transaction := uint64(3)
	restored.Report.VGs[0].LV("pool").TransactionID = &transaction
	if a := New(d, restored).Action; a.Kind != state.ActivatePool {
		t.Errorf("got %+v", a)
	}
	restored.Pool.Inspection.Metadata.Intact = false
	if a := New(d, restored).Action; a.Kind == state.ActivatePool {
		t.Errorf("got %+v", a)
	}
}

// TestAnOutdatedGroupIsNotExtended: extents that old metadata calls free can have data.
func TestAnOutdatedGroupIsNotExtended(t *testing.T) {
	for name, test := range map[string]struct {
		fault  error
		active bool
		want   state.Kind
	}{
		"outdated":          {lvm.ErrTransaction, false, state.PublishClass},
		"another fault":     {lvm.ErrPoolCheck, false, state.ExtendPool},
		"a pool that works": {lvm.ErrTransaction, true, state.ExtendPool},
	} {
		d, s := rolledBackNode(poolMetadata(1, 0, 16))
		d.Open.Action, d.Spec.ThinPoolConfig.SizePercent = "", 90
		s.Pool.Fault = test.fault
		s.Records.Attempts = map[string]state.Attempt{"pool": {Waiting: true}}
		vg := &s.Report.VGs[0]
		vg.Size, vg.Free, vg.PVs[0].Free, vg.PVs[0].Allocatable = 1<<30, 900<<20, 900<<20, true
		vg.LV("pool").Zeroes = true
		if test.active {
			vg.LV("pool").Attr = "twi-a-----"
		}
		class := publication.ClassOf(d, nil, vg.UUID)
		s.Class = &class
		a := New(d, s).Action
		if a.Kind != test.want || (a.Kind == state.PublishClass && (classOf(a).Closed == "" || classOf(a).NoRemoval == "")) {
			t.Errorf("%s: got %+v, want %s", name, a, test.want)
		}
	}
}
