package contract

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
)

// CheckDevices checks what callers rely on when devices are cordoned, emptied, lost and replaced, step by step
// on one volume group. The steps depend on each other. At the end, the first and the last disk are detached.
func CheckDevices(t *testing.T, b Bench) {
	runSteps(t, b, []contractStep{
		{"tags change and stay changed", contractTags},
		{"a group is renamed by its UUID", contractRename},
		{"nothing new is put on a closed device", contractCordon},
		{"a move locks what it moves, and an abort leaves all where it was", contractAbort},
		{"a move empties a device", contractMove},
		{"a move without room begins nothing", contractMoveNoRoom},
		{"only an empty device leaves the group", contractReduce},
		{"metadata of pools grows", contractMetadata},
		{"pools pass discards down, or not", contractDiscards},
		{"redundancy is on different devices", contractRAID},
		{"a lost device is replaced", contractReplace},
		{"volumes on a lost device are removed", contractUnreadable},
	})
}

func (b Bench) pv(t *testing.T, disk string) lvm.PV {
	t.Helper()
	_, vg := look(t, b)
	at := slices.IndexFunc(vg.PVs, func(pv lvm.PV) bool { return pv.Name == disk })
	if at < 0 {
		t.Fatalf("%s is not in the group: %+v", disk, vg.PVs)
	}
	return vg.PVs[at]
}

// seeOn checks which volumes are on a disk.
func (b Bench) seeOn(t *testing.T, disk, names string) {
	t.Helper()
	_, vg := look(t, b)
	if diff := cmp.Diff(strings.Fields(names), vg.VolumesOn(b.pv(t, disk).UUID),
		cmp.Transformer("nil", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
		t.Errorf("on %s: %s", disk, diff)
	}
}

func contractTags(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	ok(t, l.Apply(ctx, lvm.VGCreate{Name: contractGroup, Devices: b.Disks[:2], Tags: []string{"lvms"}}))
	change := lvm.VGChangeTags{VG: contractGroup, Add: []string{"lvms.cluster=1-2", "lvms.io/class:fast"},
		Remove: []string{"nosuch"}}
	for range 2 {
		ok(t, l.Apply(ctx, change))
	}
	for range 2 {
		ok(t, l.Apply(ctx, lvm.VGChangeTags{VG: contractGroup, Remove: []string{"lvms.io/class:fast"}}))
	}
	want(t, l.Apply(ctx, lvm.VGChangeTags{VG: contractGroup, Add: []string{"a b"}}), lvm.ErrInvalid)
	want(t, l.Apply(ctx, lvm.VGChangeTags{VG: "nosuch", Add: []string{"a"}}), lvm.ErrNotFound)
	_, vg := look(t, b)
	slices.Sort(vg.Tags)
	if diff := cmp.Diff([]string{"lvms", "lvms.cluster=1-2"}, vg.Tags); diff != "" {
		t.Error(diff)
	}
}

func contractRename(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	_, before := look(t, b)
	ok(t, l.Apply(ctx, lvm.LVCreateThick{VG: contractGroup, Name: "named", Size: 8 << 20}))
	want(t, l.Apply(ctx, lvm.VGRename{UUID: before.UUID, Name: contractGroup}), lvm.ErrExists)
	want(t, l.Apply(ctx, lvm.VGRename{UUID: "aaaaaa-bbbb-cccc-dddd-eeee-ffff-gggggg", Name: "other"}), lvm.ErrNotFound)
	ok(t, l.Apply(ctx, lvm.VGRename{UUID: before.UUID, Name: "other"}))
	report, err := l.Report(ctx)
	ok(t, err)
	after := report.VG("other")
	if after == nil || report.VG(contractGroup) != nil || after.UUID != before.UUID ||
		!after.LV("named").Attr.Active() || !slices.Equal(after.Tags, before.Tags) {
		t.Fatalf("got %+v", report.VGs)
	}
	ok(t, l.Apply(ctx, lvm.VGRename{UUID: before.UUID, Name: contractGroup}))
	ok(t, l.Apply(ctx, lvm.LVRemove{VG: contractGroup, Names: []string{"named"}}))
}

func contractCordon(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	for range 2 {
		ok(t, l.Apply(ctx, lvm.PVSetAllocatable{Device: b.Disks[0], AddTag: "closed"}))
	}
	if pv := b.pv(t, b.Disks[0]); pv.Allocatable || !slices.Equal(pv.Tags, []string{"closed"}) || pv.Used != 0 {
		t.Errorf("got %+v", pv)
	}
	_, vg := look(t, b)
	open := b.pv(t, b.Disks[1])
	if vg.FreeOn("") != open.Free || open.Free != open.Size || vg.FreeOn(open.UUID) != 0 {
		t.Errorf("%d bytes are free, want %d", vg.FreeOn(""), open.Free)
	}
	want(t, l.Apply(ctx, lvm.LVCreateThick{VG: contractGroup, Name: "big",
		Size: open.Free + lvmtest.ExtentSize}), lvm.ErrNoSpace)
	ok(t, l.Apply(ctx, lvm.LVCreateThick{VG: contractGroup, Name: "there", Size: 8 << 20}))
	b.seeOn(t, b.Disks[0], "")
	b.seeOn(t, b.Disks[1], "there")
	for range 2 {
		ok(t, l.Apply(ctx, lvm.PVSetAllocatable{Device: b.Disks[0], Allocatable: true,
			RemoveTag: "closed"}))
	}
	if pv := b.pv(t, b.Disks[0]); !pv.Allocatable || len(pv.Tags) != 0 {
		t.Errorf("got %+v", pv)
	}
	want(t, l.Apply(ctx, lvm.PVSetAllocatable{Device: "/dev/nosuch"}), lvm.ErrNotFound)
	wantNoPV(t, l.Apply(ctx, lvm.PVSetAllocatable{Device: b.Disks[2]}))
}

// contractAbort has everything that can be moved on its first disk: a thick volume, and a pool with a volume.
func contractAbort(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	ok(t, l.Apply(ctx, lvm.LVRemove{VG: contractGroup, Names: []string{"there"}}))
	ok(t, l.Apply(ctx, lvm.LVCreateThick{VG: contractGroup, Name: "thick", Size: 40 << 20, Devices: b.Disks[:1]}))
	ok(t, l.Apply(ctx, lvm.PVSetAllocatable{Device: b.Disks[1]}))
	ok(t, l.Apply(ctx, lvm.LVCreateThinPool{VG: contractGroup, Name: "pool", PercentFree: 20,
		MetadataSize: 4 << 20}))
	ok(t, l.Apply(ctx, lvm.PVSetAllocatable{Device: b.Disks[1], Allocatable: true}))
	ok(t, l.Apply(ctx, lvm.LVCreateThin{VG: contractGroup, Pool: "pool", PoolZeroes: true, Name: "thin",
		VirtualSize: 64 << 20}))
	b.seeOn(t, b.Disks[0], "thick thin")
	b.seeOn(t, b.Disks[1], "")
	used := b.pv(t, b.Disks[0]).Used

	b.Slow(t, b.Disks[1], true)
	start := lvm.PVMoveStart{VG: contractGroup, Source: b.Disks[0]}
	for range 2 {
		ok(t, l.Apply(ctx, start))
	}
	_, vg := look(t, b)
	moves := vg.Moves()
	if len(moves) != 1 || moves[0].SourceUUID != b.pv(t, b.Disks[0]).UUID || moves[0].Percent == nil ||
		*moves[0].Percent >= 100 {
		t.Fatalf("got %+v", moves)
	}
	b.seeOn(t, b.Disks[0], "thick thin")
	b.seeOn(t, b.Disks[1], "thick thin")
	want(t, l.Apply(ctx, lvm.LVExtend{VG: contractGroup, Name: "thick", Size: 64 << 20}), lvm.ErrMoving)
	want(t, l.Apply(ctx, lvm.LVRemove{VG: contractGroup, Names: []string{"thick"}}), lvm.ErrMoving)
	want(t, l.Apply(ctx, lvm.VGReduce{VG: contractGroup, Device: b.Disks[0]}), lvm.ErrNotEmpty)
	for range 2 {
		ok(t, l.Apply(ctx, lvm.PVMoveAbort{Source: b.Disks[0]}))
	}
	b.Slow(t, b.Disks[1], false)
	if _, vg = look(t, b); len(vg.Moves()) != 0 || b.pv(t, b.Disks[0]).Used != used || b.pv(t, b.Disks[1]).Used != 0 {
		t.Errorf("the abort left %+v, %+v", vg.Moves(), vg.PVs)
	}
	b.seeOn(t, b.Disks[0], "thick thin")
}

func contractMove(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	used := b.pv(t, b.Disks[0]).Used
	start := lvm.PVMoveStart{VG: contractGroup, Source: b.Disks[0], Target: b.Disks[1]}
	ok(t, l.Apply(ctx, start))
	ok(t, l.Apply(ctx, lvm.PVMoveResume{}))
	b.Copied(t, contractGroup)
	if _, vg := look(t, b); len(vg.Moves()) != 0 || b.pv(t, b.Disks[0]).Used != 0 || b.pv(t, b.Disks[1]).Used != used {
		t.Errorf("the move left %+v, %+v", vg.Moves(), vg.PVs)
	}
	b.seeOn(t, b.Disks[0], "")
	b.seeOn(t, b.Disks[1], "thick thin")
	_, vg := look(t, b)
	moved := []string{b.pv(t, b.Disks[1]).UUID}
	devices := vg.DataDevices()
	for _, name := range []string{"thick", "thin"} {
		if diff := cmp.Diff(moved, devices[name]); diff != "" {
			t.Errorf("after the move, %s is on: %s", name, diff)
		}
	}
	want(t, l.Apply(ctx, lvm.PVMoveStart{VG: contractGroup, Source: b.Disks[0]}), lvm.ErrNotFound)
	wantNoPV(t, l.Apply(ctx, lvm.PVMoveStart{VG: contractGroup, Source: b.Disks[2]}))
	ok(t, l.Apply(ctx, lvm.PVMoveResume{}))
	ok(t, l.Apply(ctx, lvm.PVMoveAbort{Source: b.Disks[0]}))
}

func contractMoveNoRoom(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	ok(t, l.Apply(ctx, lvm.PVSetAllocatable{Device: b.Disks[0]}))
	for _, target := range []string{"", b.Disks[0]} {
		start := lvm.PVMoveStart{VG: contractGroup, Source: b.Disks[1], Target: target}
		want(t, l.Apply(ctx, start), lvm.ErrNoSpace)
	}
	ok(t, l.Apply(ctx, lvm.PVSetAllocatable{Device: b.Disks[0], Allocatable: true}))
	if _, vg := look(t, b); len(vg.Moves()) != 0 {
		t.Errorf("got %+v", vg.Moves())
	}
	b.seeOn(t, b.Disks[1], "thick thin")
}

func contractReduce(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	out := func(disk string) error { return l.Apply(ctx, lvm.VGReduce{VG: contractGroup, Device: disk}) }
	want(t, out(b.Disks[1]), lvm.ErrNotEmpty)
	ok(t, out(b.Disks[0]))
	want(t, out(b.Disks[0]), lvm.ErrNotFound)
	want(t, out(b.Disks[1]), lvm.ErrNotEmpty)
	ok(t, l.Apply(ctx, lvm.VGReduceMissing{VG: contractGroup}))
	report, vg := look(t, b)
	if len(vg.PVs) != 1 || len(report.Unassigned) != 1 || report.Unassigned[0].InUse {
		t.Fatalf("got %+v and %+v", vg.PVs, report.Unassigned)
	}
	ok(t, l.Apply(ctx, lvm.VGExtend{Name: contractGroup, Devices: b.Disks[:1]}))
	want(t, l.Apply(ctx, lvm.VGReduceMissing{VG: "nosuch"}), lvm.ErrNotFound)
}

func contractMetadata(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	_, vg := look(t, b)
	before := vg.ThinPool("pool").MetadataSize
	ok(t, l.Apply(ctx, lvm.ThinPoolMetadataExtend{VG: contractGroup, Pool: "pool", Add: lvmtest.ExtentSize}))
	if _, vg = look(t, b); vg.ThinPool("pool").MetadataSize != before+lvmtest.ExtentSize {
		t.Errorf("got %d bytes of metadata after %d", vg.ThinPool("pool").MetadataSize, before)
	}
	want(t, l.Apply(ctx, lvm.ThinPoolMetadataExtend{VG: contractGroup, Pool: "pool", Add: 1 << 33}), lvm.ErrNoSpace)
	want(t, l.Apply(ctx, lvm.ThinPoolMetadataExtend{VG: contractGroup, Pool: "thick", Add: lvmtest.ExtentSize}),
		lvm.ErrInvalid)
	want(t, l.Apply(ctx, lvm.ThinPoolMetadataExtend{VG: contractGroup, Pool: "nosuch", Add: lvmtest.ExtentSize}),
		lvm.ErrNotFound)
}

func contractDiscards(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	_, vg := look(t, b)
	if got := vg.ThinPool("pool").Discards; got != lvm.DiscardsPassDown {
		t.Fatalf("a new pool has the discards %q", got)
	}
	for _, mode := range []string{lvm.DiscardsNoPassDown, lvm.DiscardsPassDown} {
		ok(t, l.Apply(ctx, lvm.ThinPoolSetDiscards{VG: contractGroup, Pool: "pool", Mode: mode}))
		_, vg := look(t, b)
		if pool := vg.ThinPool("pool"); pool.Discards != mode || !pool.Attr.Active() || vg.ThinPool("thick") != nil ||
			vg.LV("thin").Discards != "" {
			t.Errorf("got the pool %+v, want the discards %s", pool, mode)
		}
		if err := l.Apply(ctx, lvm.ThinPoolSetDiscards{VG: contractGroup, Pool: "pool", Mode: mode}); err == nil {
			t.Errorf("%s a second time is not refused", mode)
		}
	}
	if err := l.Apply(ctx, lvm.ThinPoolSetDiscards{VG: contractGroup, Pool: "pool",
		Mode: lvm.DiscardsIgnore}); err == nil {
		t.Error("an active pool ignores discards")
	}
	want(t, l.Apply(ctx, lvm.ThinPoolSetDiscards{VG: contractGroup, Pool: "thick", Mode: lvm.DiscardsPassDown}),
		lvm.ErrInvalid)
	want(t, l.Apply(ctx, lvm.ThinPoolSetDiscards{VG: contractGroup, Pool: "nosuch", Mode: lvm.DiscardsPassDown}),
		lvm.ErrNotFound)
}

func contractRAID(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	ok(t, l.CheckRAID(ctx))
	for _, name := range []string{"thin", "thick"} {
		ok(t, l.Apply(ctx, lvm.LVRemove{VG: contractGroup, Names: []string{name}}))
	}
	ok(t, l.Apply(ctx, lvm.LVDeactivate{VG: contractGroup, Names: []string{"pool"}}))
	ok(t, l.Apply(ctx, lvm.ThinPoolRemove{VG: contractGroup, Name: "pool"}))
	_, vg := look(t, b)
	mirror := lvm.LVCreateThick{VG: contractGroup, Name: "mirror", Size: 40 << 20,
		Options: []string{"--type", "raid1", "-m", "1"}}
	three := mirror
	three.Options = []string{"--type", "raid1", "-m", "2"}
	want(t, l.Apply(ctx, three), lvm.ErrNoSpace)
	huge := mirror
	huge.Size = vg.Free
	want(t, l.Apply(ctx, huge), lvm.ErrNoSpace)
	ok(t, l.Apply(ctx, mirror))
	want(t, l.Apply(ctx, mirror), lvm.ErrExists)
	b.Copied(t, contractGroup)
	_, vg = look(t, b)
	lv := vg.LV("mirror")
	if !lv.IsRAID() || lv.SegType != "raid1" || lv.SyncPercent == nil || *lv.SyncPercent != 100 || lv.Size != 40<<20 ||
		lv.Health != "" || len(lv.PVs) != 0 {
		t.Errorf("got %+v", lv)
	}
	images := 0
	for _, part := range vg.Hidden {
		if part.Attr.IsImage() && part.Parent == "mirror" && part.Size == 40<<20 && len(part.PVs) == 1 {
			images++
		}
	}
	if images != 2 || len(vg.LVs) != 1 {
		t.Errorf("got the hidden %+v", vg.Hidden)
	}
	for _, disk := range b.Disks[:2] {
		b.seeOn(t, disk, "mirror")
		if pv := b.pv(t, disk); pv.Used != 44<<20 {
			t.Errorf("got %+v", pv)
		}
	}
	ok(t, l.Apply(ctx, lvm.LVExtend{VG: contractGroup, Name: "mirror", Size: 80 << 20, Devices: b.Disks[:2]}))
	b.Copied(t, contractGroup)
	ok(t, l.Apply(ctx, lvm.LVRefresh{VG: contractGroup, Name: "mirror"}))
	ok(t, l.Apply(ctx, lvm.LVRepair{VG: contractGroup, Name: "mirror"}))
	ok(t, l.Apply(ctx, lvm.LVRebuild{VG: contractGroup, Name: "mirror", Devices: []string{b.Disks[1]}}))
	b.Copied(t, contractGroup)
	if err := l.Apply(ctx, lvm.LVRebuild{VG: contractGroup, Name: "mirror", Devices: b.Disks[:2]}); err == nil {
		t.Error("all images of a volume were rebuilt")
	}
	want(t, l.Apply(ctx, lvm.LVRebuild{VG: contractGroup, Name: "nosuch", Devices: []string{b.Disks[1]}}),
		lvm.ErrNotFound)
	want(t, l.Apply(ctx, lvm.LVRefresh{VG: contractGroup, Name: "nosuch"}), lvm.ErrNotFound)
	want(t, l.Apply(ctx, lvm.LVRepair{VG: contractGroup, Name: "nosuch"}), lvm.ErrNotFound)
	// Each image uses a device of its own, so there is no free device for either.
	want(t, l.Apply(ctx, lvm.PVMoveStart{VG: contractGroup, Source: b.Disks[0]}), lvm.ErrNoSpace)
}

func contractReplace(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	ok(t, l.Apply(ctx, lvm.LVCreateThick{VG: contractGroup, Name: "plain", Size: 8 << 20, Devices: b.Disks[1:2]}))
	ok(t, l.Apply(ctx, lvm.LVCreateThick{VG: contractGroup, Name: "spare", Size: 8 << 20, Devices: b.Disks[1:2]}))
	lost := b.pv(t, b.Disks[0]).UUID
	b.Detach(t, b.Disks[0])
	_, vg := look(t, b)
	lv := vg.LV("mirror")
	if vg.MissingPVs != 1 || !vg.Attr.Partial() || lv.Health != "partial" || !lv.Attr.Partial() ||
		vg.LV("plain").Health != "" {
		t.Errorf("got %+v and %+v", vg.Attr, lv)
	}
	if diff := cmp.Diff([]string{"mirror"}, vg.VolumesOn(lost)); diff != "" {
		t.Error(diff)
	}
	want(t, l.Apply(ctx, lvm.LVCreateThick{VG: contractGroup, Name: "more", Size: 4 << 20}), lvm.ErrMissingPV)
	want(t, l.Apply(ctx, lvm.PVSetAllocatable{Device: b.Disks[1]}), lvm.ErrMissingPV)
	want(t, l.Apply(ctx, lvm.PVMoveStart{VG: contractGroup, Source: b.Disks[1]}), lvm.ErrMissingPV)
	want(t, l.Apply(ctx, lvm.LVRefresh{VG: contractGroup, Name: "mirror"}), lvm.ErrMissingPV)
	want(t, l.Apply(ctx, lvm.LVRename{VG: contractGroup, Name: "plain", To: "other"}), lvm.ErrMissingPV)
	commits := map[string]lvm.Change{
		"VGChangeTags": lvm.VGChangeTags{VG: contractGroup, Add: []string{"x"}},
		"LVChangeTags": lvm.LVChangeTags{VG: contractGroup, Name: "plain", Add: []string{"x"}},
		"LVRemove":     lvm.LVRemove{VG: contractGroup, Names: []string{"spare"}},
		"VGExtend":     lvm.VGExtend{Name: contractGroup, Devices: b.Disks[2:]},
	}
	// LVM would run these commands and record the disk as missing.
	refused := maps.Clone(commits)
	maps.Copy(refused, map[string]lvm.Change{
		"LVRepair":        lvm.LVRepair{VG: contractGroup, Name: "mirror"},
		"LVRebuild":       lvm.LVRebuild{VG: contractGroup, Name: "mirror", Devices: []string{b.Disks[1]}},
		"VGReduceMissing": lvm.VGReduceMissing{VG: contractGroup},
	})
	for name, change := range refused {
		for _, accepted := range [][]string{nil, {"another"}} {
			l.AcceptLoss(contractGroup, accepted)
			if err := l.Apply(ctx, change); !errors.Is(err, lvm.ErrMissingPV) {
				t.Fatalf("%s: got %v, want %v", name, err, lvm.ErrMissingPV)
			}
		}
	}
	l.AcceptLoss(contractGroup, []string{lost})
	defer l.AcceptLoss(contractGroup, nil)
	want(t, l.Apply(ctx, lvm.VGReduceMissing{VG: contractGroup}), lvm.ErrNotEmpty)
	want(t, l.Apply(ctx, lvm.LVRepair{VG: contractGroup, Name: "plain"}), lvm.ErrInvalid)
	want(t, l.Apply(ctx, lvm.LVRepair{VG: contractGroup, Name: "mirror"}), lvm.ErrNoSpace)
	for name, change := range commits {
		if err := l.Apply(ctx, change); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for range 2 {
		ok(t, l.Apply(ctx, lvm.LVRepair{VG: contractGroup, Name: "mirror"}))
		b.Copied(t, contractGroup) // LVM refuses the repair of a volume that is not in sync.
	}
	for range 2 {
		ok(t, l.Apply(ctx, lvm.VGReduceMissing{VG: contractGroup}))
	}
	_, vg = look(t, b)
	if vg.MissingPVs != 0 || len(vg.PVs) != 2 || vg.LV("mirror").Health != "" || *vg.LV("mirror").SyncPercent != 100 {
		t.Errorf("got %+v", vg)
	}
	b.seeOn(t, b.Disks[1], "mirror plain")
	b.seeOn(t, b.Disks[2], "mirror")
	for _, name := range []string{"mirror", "plain"} {
		ok(t, l.Apply(ctx, lvm.LVRemove{VG: contractGroup, Names: []string{name}}))
	}
	ok(t, l.Apply(ctx, lvm.VGRemove{VG: contractGroup}))
}

// contractUnreadable removes a thin pool and a volume that were on a lost device, and nothing else.
func contractUnreadable(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	ok(t, l.Apply(ctx, lvm.VGCreate{Name: contractGroup, Devices: b.Disks[1:3], Tags: []string{"lvms"}}))
	ok(t, l.Apply(ctx, lvm.LVCreateThick{VG: contractGroup, Name: "kept", Size: 8 << 20, Devices: b.Disks[1:2]}))
	ok(t, l.Apply(ctx, lvm.LVCreateThick{VG: contractGroup, Name: "gone", Size: 8 << 20, Devices: b.Disks[2:3]}))
	ok(t, l.Apply(ctx, lvm.LVCreateThinPool{VG: contractGroup, Name: "pool", PercentFree: 95}))
	for _, name := range []string{"a", "b"} {
		ok(t, l.Apply(ctx, lvm.LVCreateThin{VG: contractGroup, Pool: "pool", Name: name, VirtualSize: 40 << 20}))
	}
	lost := b.pv(t, b.Disks[2]).UUID
	remove := func(names ...string) error {
		return l.Apply(ctx, lvm.LVRemoveUnreadable{VG: contractGroup, Names: names})
	}
	l.AcceptLoss(contractGroup, []string{lost})
	want(t, remove("gone"), lvm.ErrInvalid) // The disk is not missing.
	l.AcceptLoss(contractGroup, nil)
	b.Detach(t, b.Disks[2])
	_, vg := look(t, b)
	for _, name := range []string{"pool", "a", "b", "gone", "kept"} {
		if lv := vg.LV(name); vg.Unreadable(lv) != (name != "kept") {
			t.Errorf("%s: unreadable %t", name, vg.Unreadable(lv))
		}
	}
	want(t, remove("gone"), lvm.ErrMissingPV)
	l.AcceptLoss(contractGroup, []string{lost})
	defer l.AcceptLoss(contractGroup, nil)
	want(t, remove("kept"), lvm.ErrInvalid)
	want(t, remove("gone", "kept"), lvm.ErrInvalid)
	want(t, remove("nosuch"), lvm.ErrNotFound)
	want(t, remove("pool"), lvm.ErrInUse) // It and its volumes are active.
	for range 2 {
		ok(t, l.Apply(ctx, lvm.LVDeactivate{VG: contractGroup, Names: []string{"a", "b", "pool"}}))
	}
	_, vg = look(t, b)
	for _, name := range []string{"pool", "a", "b"} {
		if vg.LV(name).Attr.Active() {
			t.Errorf("%s is active", name)
		}
	}
	ok(t, remove("pool"))
	want(t, remove("pool"), lvm.ErrNotFound)
	want(t, l.Apply(ctx, lvm.VGReduceMissing{VG: contractGroup}), lvm.ErrNotEmpty)
	ok(t, remove("gone"))
	ok(t, l.Apply(ctx, lvm.VGReduceMissing{VG: contractGroup}))
	_, vg = look(t, b)
	if vg.MissingPVs != 0 || len(vg.PVs) != 1 || len(vg.LVs) != 1 || vg.LV("kept").Health != "" {
		t.Errorf("got %+v", vg)
	}
	ok(t, l.Apply(ctx, lvm.LVRemove{VG: contractGroup, Names: []string{"kept"}}))
	ok(t, l.Apply(ctx, lvm.VGRemove{VG: contractGroup}))
}
