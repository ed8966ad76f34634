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
	ok(t, l.VGCreate(ctx, lvm.VGCreateOptions{Name: contractGroup, Devices: b.Disks[:2], Tags: []string{"lvms"}}))
	change := lvm.VGTagOptions{VG: contractGroup, Add: []string{"lvms.cluster=1-2", "lvms.io/class:fast"},
		Remove: []string{"nosuch"}}
	for range 2 {
		ok(t, l.VGChangeTags(ctx, change))
	}
	for range 2 {
		ok(t, l.VGChangeTags(ctx, lvm.VGTagOptions{VG: contractGroup, Remove: []string{"lvms.io/class:fast"}}))
	}
	want(t, l.VGChangeTags(ctx, lvm.VGTagOptions{VG: contractGroup, Add: []string{"a b"}}), lvm.ErrInvalid)
	want(t, l.VGChangeTags(ctx, lvm.VGTagOptions{VG: "nosuch", Add: []string{"a"}}), lvm.ErrNotFound)
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
	ok(t, l.LVCreateThick(ctx, lvm.ThickOptions{VG: contractGroup, Name: "named", Size: 8 << 20}))
	want(t, l.VGRename(ctx, before.UUID, contractGroup), lvm.ErrExists)
	want(t, l.VGRename(ctx, "aaaaaa-bbbb-cccc-dddd-eeee-ffff-gggggg", "other"), lvm.ErrNotFound)
	ok(t, l.VGRename(ctx, before.UUID, "other"))
	report, err := l.Report(ctx)
	ok(t, err)
	after := report.VG("other")
	if after == nil || report.VG(contractGroup) != nil || after.UUID != before.UUID ||
		!after.LV("named").Attr.Active() || !slices.Equal(after.Tags, before.Tags) {
		t.Fatalf("got %+v", report.VGs)
	}
	ok(t, l.VGRename(ctx, before.UUID, contractGroup))
	ok(t, l.LVRemove(ctx, contractGroup, "named"))
}

func contractCordon(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	for range 2 {
		ok(t, l.PVSetAllocatable(ctx, lvm.PVAllocatableOptions{Device: b.Disks[0], AddTag: "closed"}))
	}
	if pv := b.pv(t, b.Disks[0]); pv.Allocatable || !slices.Equal(pv.Tags, []string{"closed"}) || pv.Used != 0 {
		t.Errorf("got %+v", pv)
	}
	_, vg := look(t, b)
	open := b.pv(t, b.Disks[1])
	if vg.FreeOn("") != open.Free || open.Free != open.Size || vg.FreeOn(open.UUID) != 0 {
		t.Errorf("%d bytes are free, want %d", vg.FreeOn(""), open.Free)
	}
	want(t, l.LVCreateThick(ctx, lvm.ThickOptions{VG: contractGroup, Name: "big",
		Size: open.Free + lvmtest.ExtentSize}), lvm.ErrNoSpace)
	ok(t, l.LVCreateThick(ctx, lvm.ThickOptions{VG: contractGroup, Name: "there", Size: 8 << 20}))
	b.seeOn(t, b.Disks[0], "")
	b.seeOn(t, b.Disks[1], "there")
	for range 2 {
		ok(t, l.PVSetAllocatable(ctx, lvm.PVAllocatableOptions{Device: b.Disks[0], Allocatable: true,
			RemoveTag: "closed"}))
	}
	if pv := b.pv(t, b.Disks[0]); !pv.Allocatable || len(pv.Tags) != 0 {
		t.Errorf("got %+v", pv)
	}
	want(t, l.PVSetAllocatable(ctx, lvm.PVAllocatableOptions{Device: "/dev/nosuch"}), lvm.ErrNotFound)
	wantNoPV(t, l.PVSetAllocatable(ctx, lvm.PVAllocatableOptions{Device: b.Disks[2]}))
}

// contractAbort has everything that can be moved on its first disk: a thick volume, and a pool with a volume.
func contractAbort(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	ok(t, l.LVRemove(ctx, contractGroup, "there"))
	ok(t, l.LVCreateThick(ctx, lvm.ThickOptions{VG: contractGroup, Name: "thick", Size: 40 << 20,
		Devices: b.Disks[:1]}))
	ok(t, l.PVSetAllocatable(ctx, lvm.PVAllocatableOptions{Device: b.Disks[1]}))
	ok(t, l.LVCreateThinPool(ctx, lvm.ThinPoolOptions{VG: contractGroup, Name: "pool", PercentFree: 20,
		MetadataSize: 4 << 20}))
	ok(t, l.PVSetAllocatable(ctx, lvm.PVAllocatableOptions{Device: b.Disks[1], Allocatable: true}))
	ok(t, l.LVCreateThin(ctx, lvm.ThinOptions{VG: contractGroup, Pool: "pool", PoolZeroes: true, Name: "thin",
		VirtualSize: 64 << 20}))
	b.seeOn(t, b.Disks[0], "thick thin")
	b.seeOn(t, b.Disks[1], "")
	used := b.pv(t, b.Disks[0]).Used

	b.Slow(t, b.Disks[1], true)
	start := lvm.PVMoveOptions{VG: contractGroup, Source: b.Disks[0]}
	for range 2 {
		ok(t, l.PVMoveStart(ctx, start))
	}
	_, vg := look(t, b)
	moves := vg.Moves()
	if len(moves) != 1 || moves[0].SourceUUID != b.pv(t, b.Disks[0]).UUID || moves[0].Percent == nil ||
		*moves[0].Percent >= 100 {
		t.Fatalf("got %+v", moves)
	}
	b.seeOn(t, b.Disks[0], "thick thin")
	b.seeOn(t, b.Disks[1], "thick thin")
	want(t, l.LVExtend(ctx, lvm.LVExtendOptions{VG: contractGroup, Name: "thick", Size: 64 << 20}), lvm.ErrMoving)
	want(t, l.LVRemove(ctx, contractGroup, "thick"), lvm.ErrMoving)
	want(t, l.VGReduce(ctx, lvm.VGReduceOptions{VG: contractGroup, Device: b.Disks[0]}), lvm.ErrNotEmpty)
	for range 2 {
		ok(t, l.PVMoveAbort(ctx, b.Disks[0]))
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
	start := lvm.PVMoveOptions{VG: contractGroup, Source: b.Disks[0], Target: b.Disks[1]}
	ok(t, l.PVMoveStart(ctx, start))
	ok(t, l.PVMoveResume(ctx))
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
	want(t, l.PVMoveStart(ctx, lvm.PVMoveOptions{VG: contractGroup, Source: b.Disks[0]}), lvm.ErrNotFound)
	wantNoPV(t, l.PVMoveStart(ctx, lvm.PVMoveOptions{VG: contractGroup, Source: b.Disks[2]}))
	ok(t, l.PVMoveResume(ctx))
	ok(t, l.PVMoveAbort(ctx, b.Disks[0]))
}

func contractMoveNoRoom(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	ok(t, l.PVSetAllocatable(ctx, lvm.PVAllocatableOptions{Device: b.Disks[0]}))
	for _, target := range []string{"", b.Disks[0]} {
		start := lvm.PVMoveOptions{VG: contractGroup, Source: b.Disks[1], Target: target}
		want(t, l.PVMoveStart(ctx, start), lvm.ErrNoSpace)
	}
	ok(t, l.PVSetAllocatable(ctx, lvm.PVAllocatableOptions{Device: b.Disks[0], Allocatable: true}))
	if _, vg := look(t, b); len(vg.Moves()) != 0 {
		t.Errorf("got %+v", vg.Moves())
	}
	b.seeOn(t, b.Disks[1], "thick thin")
}

func contractReduce(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	out := func(disk string) error { return l.VGReduce(ctx, lvm.VGReduceOptions{VG: contractGroup, Device: disk}) }
	want(t, out(b.Disks[1]), lvm.ErrNotEmpty)
	ok(t, out(b.Disks[0]))
	want(t, out(b.Disks[0]), lvm.ErrNotFound)
	want(t, out(b.Disks[1]), lvm.ErrNotEmpty)
	ok(t, l.VGReduceMissing(ctx, contractGroup))
	report, vg := look(t, b)
	if len(vg.PVs) != 1 || len(report.Unassigned) != 1 || report.Unassigned[0].InUse {
		t.Fatalf("got %+v and %+v", vg.PVs, report.Unassigned)
	}
	ok(t, l.VGExtend(ctx, lvm.VGExtendOptions{Name: contractGroup, Devices: b.Disks[:1]}))
	want(t, l.VGReduceMissing(ctx, "nosuch"), lvm.ErrNotFound)
}

func contractMetadata(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	_, vg := look(t, b)
	before := vg.ThinPool("pool").MetadataSize
	ok(t, l.ThinPoolMetadataExtend(ctx, contractGroup, "pool", lvmtest.ExtentSize))
	if _, vg = look(t, b); vg.ThinPool("pool").MetadataSize != before+lvmtest.ExtentSize {
		t.Errorf("got %d bytes of metadata after %d", vg.ThinPool("pool").MetadataSize, before)
	}
	want(t, l.ThinPoolMetadataExtend(ctx, contractGroup, "pool", 1<<33), lvm.ErrNoSpace)
	want(t, l.ThinPoolMetadataExtend(ctx, contractGroup, "thick", lvmtest.ExtentSize), lvm.ErrInvalid)
	want(t, l.ThinPoolMetadataExtend(ctx, contractGroup, "nosuch", lvmtest.ExtentSize), lvm.ErrNotFound)
}

func contractDiscards(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	_, vg := look(t, b)
	if got := vg.ThinPool("pool").Discards; got != lvm.DiscardsPassDown {
		t.Fatalf("a new pool has the discards %q", got)
	}
	for _, mode := range []string{lvm.DiscardsNoPassDown, lvm.DiscardsPassDown} {
		ok(t, l.ThinPoolSetDiscards(ctx, contractGroup, "pool", mode))
		_, vg := look(t, b)
		if pool := vg.ThinPool("pool"); pool.Discards != mode || !pool.Attr.Active() || vg.ThinPool("thick") != nil ||
			vg.LV("thin").Discards != "" {
			t.Errorf("got the pool %+v, want the discards %s", pool, mode)
		}
		if err := l.ThinPoolSetDiscards(ctx, contractGroup, "pool", mode); err == nil {
			t.Errorf("%s a second time is not refused", mode)
		}
	}
	if err := l.ThinPoolSetDiscards(ctx, contractGroup, "pool", lvm.DiscardsIgnore); err == nil {
		t.Error("an active pool ignores discards")
	}
	want(t, l.ThinPoolSetDiscards(ctx, contractGroup, "thick", lvm.DiscardsPassDown), lvm.ErrInvalid)
	want(t, l.ThinPoolSetDiscards(ctx, contractGroup, "nosuch", lvm.DiscardsPassDown), lvm.ErrNotFound)
}

func contractRAID(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	ok(t, l.CheckRAID(ctx))
	for _, name := range []string{"thin", "thick"} {
		ok(t, l.LVRemove(ctx, contractGroup, name))
	}
	ok(t, l.LVDeactivate(ctx, contractGroup, "pool"))
	ok(t, l.ThinPoolRemove(ctx, contractGroup, "pool"))
	_, vg := look(t, b)
	mirror := lvm.ThickOptions{VG: contractGroup, Name: "mirror", Size: 40 << 20,
		Options: []string{"--type", "raid1", "-m", "1"}}
	three := mirror
	three.Options = []string{"--type", "raid1", "-m", "2"}
	want(t, l.LVCreateThick(ctx, three), lvm.ErrNoSpace)
	huge := mirror
	huge.Size = vg.Free
	want(t, l.LVCreateThick(ctx, huge), lvm.ErrNoSpace)
	ok(t, l.LVCreateThick(ctx, mirror))
	want(t, l.LVCreateThick(ctx, mirror), lvm.ErrExists)
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
	ok(t, l.LVExtend(ctx, lvm.LVExtendOptions{VG: contractGroup, Name: "mirror", Size: 80 << 20, Devices: b.Disks[:2]}))
	b.Copied(t, contractGroup)
	ok(t, l.LVRefresh(ctx, contractGroup, "mirror"))
	ok(t, l.LVRepair(ctx, contractGroup, "mirror"))
	ok(t, l.LVRebuild(ctx, contractGroup, "mirror", b.Disks[1]))
	b.Copied(t, contractGroup)
	if err := l.LVRebuild(ctx, contractGroup, "mirror", b.Disks[:2]...); err == nil {
		t.Error("all images of a volume were rebuilt")
	}
	want(t, l.LVRebuild(ctx, contractGroup, "nosuch", b.Disks[1]), lvm.ErrNotFound)
	want(t, l.LVRefresh(ctx, contractGroup, "nosuch"), lvm.ErrNotFound)
	want(t, l.LVRepair(ctx, contractGroup, "nosuch"), lvm.ErrNotFound)
	// Each image uses a device of its own, so there is no free device for either.
	want(t, l.PVMoveStart(ctx, lvm.PVMoveOptions{VG: contractGroup, Source: b.Disks[0]}), lvm.ErrNoSpace)
}

func contractReplace(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	ok(t, l.LVCreateThick(ctx, lvm.ThickOptions{VG: contractGroup, Name: "plain", Size: 8 << 20,
		Devices: b.Disks[1:2]}))
	ok(t, l.LVCreateThick(ctx, lvm.ThickOptions{VG: contractGroup, Name: "spare", Size: 8 << 20,
		Devices: b.Disks[1:2]}))
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
	want(t, l.LVCreateThick(ctx, lvm.ThickOptions{VG: contractGroup, Name: "more", Size: 4 << 20}), lvm.ErrMissingPV)
	want(t, l.PVSetAllocatable(ctx, lvm.PVAllocatableOptions{Device: b.Disks[1]}), lvm.ErrMissingPV)
	want(t, l.PVMoveStart(ctx, lvm.PVMoveOptions{VG: contractGroup, Source: b.Disks[1]}), lvm.ErrMissingPV)
	want(t, l.LVRefresh(ctx, contractGroup, "mirror"), lvm.ErrMissingPV)
	want(t, l.LVRename(ctx, contractGroup, "plain", "other"), lvm.ErrMissingPV)
	commits := map[string]func() error{
		"VGChangeTags": func() error {
			return l.VGChangeTags(ctx, lvm.VGTagOptions{VG: contractGroup, Add: []string{"x"}})
		},
		"LVChangeTags": func() error {
			return l.LVChangeTags(ctx, lvm.LVTagOptions{VG: contractGroup, Name: "plain", Add: []string{"x"}})
		},
		"LVRemove": func() error { return l.LVRemove(ctx, contractGroup, "spare") },
		"VGExtend": func() error {
			return l.VGExtend(ctx, lvm.VGExtendOptions{Name: contractGroup, Devices: b.Disks[2:]})
		},
	}
	// LVM would run these commands and record the disk as missing.
	refused := maps.Clone(commits)
	maps.Copy(refused, map[string]func() error{
		"LVRepair":        func() error { return l.LVRepair(ctx, contractGroup, "mirror") },
		"LVRebuild":       func() error { return l.LVRebuild(ctx, contractGroup, "mirror", b.Disks[1]) },
		"VGReduceMissing": func() error { return l.VGReduceMissing(ctx, contractGroup) },
	})
	for name, change := range refused {
		for _, accepted := range [][]string{nil, {"another"}} {
			l.AcceptLoss(contractGroup, accepted)
			if err := change(); !errors.Is(err, lvm.ErrMissingPV) {
				t.Fatalf("%s: got %v, want %v", name, err, lvm.ErrMissingPV)
			}
		}
	}
	l.AcceptLoss(contractGroup, []string{lost})
	defer l.AcceptLoss(contractGroup, nil)
	want(t, l.VGReduceMissing(ctx, contractGroup), lvm.ErrNotEmpty)
	want(t, l.LVRepair(ctx, contractGroup, "plain"), lvm.ErrInvalid)
	want(t, l.LVRepair(ctx, contractGroup, "mirror"), lvm.ErrNoSpace)
	for name, change := range commits {
		if err := change(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for range 2 {
		ok(t, l.LVRepair(ctx, contractGroup, "mirror"))
	}
	b.Copied(t, contractGroup)
	for range 2 {
		ok(t, l.VGReduceMissing(ctx, contractGroup))
	}
	_, vg = look(t, b)
	if vg.MissingPVs != 0 || len(vg.PVs) != 2 || vg.LV("mirror").Health != "" || *vg.LV("mirror").SyncPercent != 100 {
		t.Errorf("got %+v", vg)
	}
	b.seeOn(t, b.Disks[1], "mirror plain")
	b.seeOn(t, b.Disks[2], "mirror")
	for _, name := range []string{"mirror", "plain"} {
		ok(t, l.LVRemove(ctx, contractGroup, name))
	}
	ok(t, l.VGRemove(ctx, contractGroup))
}

// contractUnreadable removes a thin pool and a volume that were on a lost device, and nothing else.
func contractUnreadable(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	ok(t, l.VGCreate(ctx, lvm.VGCreateOptions{Name: contractGroup, Devices: b.Disks[1:3], Tags: []string{"lvms"}}))
	ok(t, l.LVCreateThick(ctx, lvm.ThickOptions{VG: contractGroup, Name: "kept", Size: 8 << 20, Devices: b.Disks[1:2]}))
	ok(t, l.LVCreateThick(ctx, lvm.ThickOptions{VG: contractGroup, Name: "gone", Size: 8 << 20, Devices: b.Disks[2:3]}))
	ok(t, l.LVCreateThinPool(ctx, lvm.ThinPoolOptions{VG: contractGroup, Name: "pool", PercentFree: 95}))
	for _, name := range []string{"a", "b"} {
		ok(t, l.LVCreateThin(ctx, lvm.ThinOptions{VG: contractGroup, Pool: "pool", Name: name, VirtualSize: 40 << 20}))
	}
	lost := b.pv(t, b.Disks[2]).UUID
	remove := func(names ...string) error { return l.LVRemoveUnreadable(ctx, contractGroup, names...) }
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
		ok(t, l.LVDeactivate(ctx, contractGroup, "a", "b", "pool"))
	}
	_, vg = look(t, b)
	for _, name := range []string{"pool", "a", "b"} {
		if vg.LV(name).Attr.Active() {
			t.Errorf("%s is active", name)
		}
	}
	ok(t, remove("pool"))
	want(t, remove("pool"), lvm.ErrNotFound)
	want(t, l.VGReduceMissing(ctx, contractGroup), lvm.ErrNotEmpty)
	ok(t, remove("gone"))
	ok(t, l.VGReduceMissing(ctx, contractGroup))
	_, vg = look(t, b)
	if vg.MissingPVs != 0 || len(vg.PVs) != 1 || len(vg.LVs) != 1 || vg.LV("kept").Health != "" {
		t.Errorf("got %+v", vg)
	}
	ok(t, l.LVRemove(ctx, contractGroup, "kept"))
	ok(t, l.VGRemove(ctx, contractGroup))
}
