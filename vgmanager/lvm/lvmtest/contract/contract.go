// Package contract checks what callers rely on in LVM, with the real one and with the fake.
package contract

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
)

// Bench is the environment in which the contract runs.
type Bench struct {
	LVM lvmtest.LVM
	// Disks are the paths of three blank disks of at least 200 MiB.
	Disks [3]string
	// Sign writes a file system to a disk. Clear removes it.
	Sign, Clear func(t *testing.T, disk string)
	// The following fields are for CheckDevices only.

	// Detach removes a disk. Attach adds it again.
	Detach, Attach func(t *testing.T, disk string)
	// Slow makes writes to a disk so slow that a move does not end, or fast again.
	Slow func(t *testing.T, disk string, slow bool)
	// Copied waits until all moves of the group are finished and all its RAID volumes are in sync.
	Copied func(t *testing.T, group string)
}

// contractGroup is the volume group of the contract. At the end it is removed and the disks are blank again.
const contractGroup = "contract"

// Check checks what callers rely on, step by step on one volume group. The steps depend on each other.
func Check(t *testing.T, b Bench) {
	runSteps(t, b, []contractStep{
		{"what does not exist is not found", contractNotFound},
		{"a device with a signature is refused and no device is touched", contractSignature},
		{"a volume group is made once and extended", contractGroups},
		{"a device itself tells whose it is", contractLabels},
		{"thick volumes have whole extents", contractThick},
		{"the data of a striped pool is on several disks", contractStripes},
		{"LVM allocates on the named disks, and keeps stripes", contractPlacement},
		{"thin volumes and snapshots live in a pool", contractThin},
		{"inactive volumes have no device until the group is activated", contractActivation},
		{"a volume in use is renamed, and its snapshot stays", contractRenameVolume},
		{"a snapshot stays inactive until its activation is allowed", contractSkippedActivation},
		{"what is remembered after a change is what a new report says", contractView},
		{"a volume that its pool has is not lost", contractNotLost},
		{"volumes are removed by UUID", contractRemoveByUUID},
		{"the metadata of an inactive pool is opened alone", contractPoolMetadata},
		{"earlier metadata of a group is found and restored", contractEarlierMetadata},
		{"nothing that holds something is removed", contractGuards},
		{"removal leaves blank disks", contractRemoval},
	})
}

type contractStep struct {
	name string
	run  func(*testing.T, Bench)
}

func runSteps(t *testing.T, b Bench, steps []contractStep) {
	for _, s := range steps {
		if !t.Run(s.name, func(t *testing.T) { s.run(t, b) }) {
			t.FailNow()
		}
	}
}

func want(t *testing.T, err, sentinel error) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Fatalf("got %v, want %v", err, sentinel)
	}
}

// wantNoPV checks the error of a command on a device without a physical volume. LVM returns another error if it uses
// a devices file that does not have the device.
func wantNoPV(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, lvm.ErrNotFound) && !errors.Is(err, lvm.ErrUnusable) {
		t.Fatalf("got %v, want %v or %v", err, lvm.ErrNotFound, lvm.ErrUnusable)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// look returns the report and the contract's volume group.
func look(t *testing.T, b Bench) (*lvm.Report, *lvm.VG) {
	t.Helper()
	report, err := b.LVM.Report(t.Context())
	ok(t, err)
	return report, report.VG(contractGroup)
}

func contractNotFound(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	want(t, l.Apply(ctx, lvm.VGRemove{VG: "nosuch"}), lvm.ErrNotFound)
	want(t, l.Apply(ctx, lvm.VGActivate{VG: "nosuch"}), lvm.ErrNotFound)
	want(t, l.Apply(ctx, lvm.LVRemove{VG: "nosuch", Names: []string{"a"}}), lvm.ErrNotFound)
	want(t, l.Apply(ctx, lvm.LVCreateThick{VG: "nosuch", Name: "a", Size: 4 << 20}), lvm.ErrNotFound)
	want(t, l.Apply(ctx, lvm.LVCreateThin{VG: "nosuch", Pool: "p", Name: "a", VirtualSize: 4 << 20}),
		lvm.ErrNotFound)
	wantNoPV(t, l.Apply(ctx, lvm.PVRemove{Device: b.Disks[0]}))
	want(t, l.Apply(ctx, lvm.VGCreate{Name: contractGroup, Devices: []string{"/dev/nosuch"}}),
		lvm.ErrNotFound)
	ok(t, l.Apply(ctx, lvm.DevicesFileRemove{Device: b.Disks[0]}))
}

func contractSignature(t *testing.T, b Bench) {
	b.Sign(t, b.Disks[1])
	defer b.Clear(t, b.Disks[1])
	err := b.LVM.Apply(t.Context(), lvm.VGCreate{Name: contractGroup, Devices: b.Disks[:2]})
	want(t, err, lvm.ErrSignature)
	report, vg := look(t, b)
	if vg != nil || len(report.Unassigned) != 0 {
		t.Fatalf("the refused command left %+v, %+v", vg, report.Unassigned)
	}
}

func contractGroups(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	create := lvm.VGCreate{Name: contractGroup, Devices: b.Disks[:1], Tags: []string{"lvms", "two"}}
	ok(t, l.Apply(ctx, create))
	want(t, l.Apply(ctx, lvm.VGCreate{Name: contractGroup, Devices: b.Disks[1:2]}), lvm.ErrExists)
	want(t, l.Apply(ctx, lvm.VGCreate{Name: "other", Devices: b.Disks[:1]}), lvm.ErrNotEmpty)
	ok(t, l.Apply(ctx, lvm.VGExtend{Name: contractGroup, Devices: b.Disks[1:2]}))
	_, vg := look(t, b)
	switch {
	case vg == nil || len(vg.PVs) != 2:
		t.Fatalf("got %+v, want a group of two disks", vg)
	case !vg.HasTag("lvms") || !vg.HasTag("two") || vg.HasTag("lvm"):
		t.Errorf("got the tags %q", vg.Tags)
	case vg.Free != vg.Size || vg.ExtentSize != lvmtest.ExtentSize || vg.MissingPVs != 0 || vg.UUID == "":
		t.Errorf("got %+v", vg)
	case vg.PVs[0].UUID == "" || vg.PVs[0].VGName != contractGroup || vg.PVs[0].Major == 0 || !vg.PVs[0].InUse:
		t.Errorf("got the physical volume %+v", vg.PVs[0])
	}
	want(t, l.Apply(ctx, lvm.PVRemove{Device: b.Disks[0]}), lvm.ErrNotEmpty)
	ok(t, l.Apply(ctx, lvm.PVResize{VG: contractGroup, Device: b.Disks[0]}))
	if _, again := look(t, b); again.Size != vg.Size {
		t.Errorf("a device of the same size changed the size of its group from %d to %d", vg.Size, again.Size)
	}
	want(t, l.Apply(ctx, lvm.PVResize{VG: contractGroup, Device: "/dev/nosuch"}), lvm.ErrNotFound)
}

func contractLabels(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	_, vg := look(t, b)
	read := func(devices ...string) []lvm.LabeledPV {
		t.Helper()
		pvs, err := l.ReadLabels(ctx, devices...)
		ok(t, err)
		return pvs
	}
	want := func(pv lvm.PV) lvm.LabeledPV {
		return lvm.LabeledPV{
			Name: pv.Name, UUID: pv.UUID, Major: pv.Major, Minor: pv.Minor, VGName: vg.Name, VGUUID: vg.UUID,
			VGTags: vg.Tags,
		}
	}
	for _, tt := range []struct {
		devices []string
		want    []lvm.LabeledPV
	}{
		{nil, nil},
		{[]string{b.Disks[2]}, nil},
		{[]string{"/dev/nosuch"}, nil},
		{b.Disks[:1], []lvm.LabeledPV{want(vg.PVs[0])}},
		{b.Disks[1:2], []lvm.LabeledPV{want(vg.PVs[1])}},
		{b.Disks[:], []lvm.LabeledPV{want(vg.PVs[0]), want(vg.PVs[1])}},
	} {
		if diff := cmp.Diff(tt.want, read(tt.devices...)); diff != "" {
			t.Errorf("%v: %s", tt.devices, diff)
		}
	}
	// This does not create a devices file on a host without one.
	for range 2 {
		if err := l.Apply(ctx, lvm.DevicesFileAdd{Device: b.Disks[0]}); err != nil &&
			!errors.Is(err, lvm.ErrNotEnabled) {
			t.Error(err)
		}
	}
	if _, again := look(t, b); again == nil || again.MissingPVs != 0 {
		t.Errorf("got %+v", again)
	}
}

func contractThick(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	ok(t, l.Apply(ctx, lvm.LVCreateThick{VG: contractGroup, Name: "thick", Size: 5 << 20, Tags: []string{"a=b", "c"}}))
	want(t, l.Apply(ctx, lvm.LVCreateThick{VG: contractGroup, Name: "thick", Size: 4 << 20}), lvm.ErrExists)
	want(t, l.Apply(ctx, lvm.LVCreateThick{VG: contractGroup, Name: "huge", Size: 1 << 50}), lvm.ErrNoSpace)
	_, vg := look(t, b)
	lv := vg.LV("thick")
	if lv == nil || lv.Size != 8<<20 || lv.Path != "/dev/contract/thick" || len(lv.Tags) != 2 {
		t.Fatalf("got %+v", lv)
	}
	if !lv.Attr.Active() || lv.Attr.ReadOnly() || lv.Attr.IsThinPool() || lv.Attr.IsThinVolume() || lv.Major == 0 ||
		lv.DataPercent != nil {
		t.Errorf("got %+v", lv)
	}
	ok(t, l.Apply(ctx, lvm.LVExtend{VG: contractGroup, Name: "thick", Size: 9 << 20}))
	want(t, l.Apply(ctx, lvm.LVExtend{VG: contractGroup, Name: "thick", Size: 12 << 20}), lvm.ErrNotLarger)
	want(t, l.Apply(ctx, lvm.LVExtend{VG: contractGroup, Name: "thick", Size: 1 << 50}), lvm.ErrNoSpace)
	want(t, l.Apply(ctx, lvm.LVExtend{VG: contractGroup, Name: "nosuch", Size: 4 << 20}), lvm.ErrNotFound)
}

func contractStripes(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	pool := lvm.LVCreateThinPool{VG: contractGroup, Name: "striped", Size: 40 << 20, Stripes: 2, StripeSize: 64 << 10,
		ChunkSize: 128 << 10, MetadataSize: 4 << 20}
	huge := pool
	huge.Size = 1 << 40
	want(t, l.Apply(ctx, huge), lvm.ErrNoSpace)
	ok(t, l.Apply(ctx, pool))
	extend := lvm.LVExtend{VG: contractGroup, Name: "striped", Size: 64 << 20, Stripes: 2, StripeSize: 64 << 10}
	ok(t, l.Apply(ctx, extend))
	want(t, l.Apply(ctx, extend), lvm.ErrNotLarger)
	_, vg := look(t, b)
	if p := vg.ThinPool("striped"); p == nil || p.Size != 64<<20 {
		t.Errorf("got the pool %+v", p)
	}
	for _, part := range vg.Hidden {
		if part.Name == "striped_tdata" && len(part.PVs) != 2 {
			t.Errorf("got the data %+v", part)
		}
	}
	extend.Size = vg.Size
	want(t, l.Apply(ctx, extend), lvm.ErrNoSpace)
	ok(t, l.Apply(ctx, lvm.LVDeactivate{VG: contractGroup, Names: []string{"striped"}}))
	ok(t, l.Apply(ctx, lvm.ThinPoolRemove{VG: contractGroup, Name: "striped"}))
}

// contractPlacement checks that LVM allocates only on the named physical volumes, and that an extension keeps the
// stripes of a volume.
func contractPlacement(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	_, vg := look(t, b)
	first, second := vg.PVs[0], vg.PVs[1]
	one := lvm.LVCreateThick{VG: contractGroup, Name: "one", Size: 8 << 20, Devices: []string{second.Name},
		Options: []string{"--readahead=8192"}}
	huge := one
	huge.Size = second.Free + vg.ExtentSize
	want(t, l.Apply(ctx, huge), lvm.ErrNoSpace)
	ok(t, l.Apply(ctx, one))
	extend := lvm.LVExtend{VG: contractGroup, Name: "one", Size: second.Free + vg.ExtentSize,
		Devices: one.Devices}
	want(t, l.Apply(ctx, extend), lvm.ErrNoSpace)
	extend.Size = second.Free
	ok(t, l.Apply(ctx, extend))
	_, vg = look(t, b)
	if lv := vg.LV("one"); !slices.Equal(lv.PVs, []string{second.UUID}) || lv.Stripes != 1 || lv.Size != second.Free {
		t.Errorf("got %+v, want all of %s", lv, second.Name)
	}
	full := one
	full.Name = "full"
	want(t, l.Apply(ctx, full), lvm.ErrNoSpace)
	extend.Size += vg.ExtentSize
	want(t, l.Apply(ctx, extend), lvm.ErrNoSpace)
	ok(t, l.Apply(ctx, lvm.LVRemove{VG: contractGroup, Names: []string{"one"}}))

	ok(t, l.Apply(ctx, lvm.LVCreateThick{VG: contractGroup, Name: "two", Size: 12 << 20,
		Options: []string{"--stripes", "2", "--stripesize", "16k"}}))
	extend = lvm.LVExtend{VG: contractGroup, Name: "two", Size: 20 << 20}
	ok(t, l.Apply(ctx, extend))
	_, vg = look(t, b)
	lv := vg.LV("two")
	both := []string{first.UUID, second.UUID}
	slices.Sort(both)
	if lv.Size != 24<<20 || lv.Stripes != 2 || lv.SegType != "striped" || !slices.Equal(lv.PVs, both) {
		t.Errorf("got %+v, want two stripes of 12 MiB", lv)
	}
	extend.Size = 32 << 20
	extend.Devices = []string{first.Name}
	want(t, l.Apply(ctx, extend), lvm.ErrNoSpace)
	ok(t, l.Apply(ctx, lvm.LVRemove{VG: contractGroup, Names: []string{"two"}}))
}

func contractThin(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	_, before := look(t, b)
	share := before.Free / 2 / before.ExtentSize * before.ExtentSize
	ok(t, l.Apply(ctx, lvm.LVCreateThinPool{VG: contractGroup, Name: "pool", PercentFree: 50,
		ChunkSize: 128 << 10, MetadataSize: 8 << 20, Discards: lvm.DiscardsNoPassDown}))
	ok(t, l.Apply(ctx, lvm.LVCreateThin{VG: contractGroup, Pool: "pool", PoolZeroes: true, Name: "thin",
		VirtualSize: 1<<30 + 512, Tags: []string{"x"}}))
	want(t, l.Apply(ctx, lvm.LVCreateThin{VG: contractGroup, Pool: "pool", PoolZeroes: true, Name: "thin",
		VirtualSize: 4 << 20}), lvm.ErrExists)
	want(t, l.Apply(ctx, lvm.LVCreateThin{VG: contractGroup, Pool: "nosuch", Name: "b", VirtualSize: 4 << 20}),
		lvm.ErrNotFound)
	ok(t, l.Apply(ctx, lvm.LVCreateSnapshot{VG: contractGroup, Source: "thin", Name: "snap", ReadOnly: true,
		Tags: []string{"y"}}))
	ok(t, l.Apply(ctx, lvm.LVExtend{VG: contractGroup, Name: "snap", Size: 2 << 30}))
	want(t, l.Apply(ctx, lvm.LVCreateSnapshot{VG: contractGroup, Source: "nosuch", Name: "s"}),
		lvm.ErrNotFound)
	_, vg := look(t, b)
	pool := vg.ThinPool("pool")
	if pool == nil || pool.Size != share-2*(8<<20) || pool.MetadataSize != 8<<20 || pool.ChunkSize != 128<<10 ||
		!pool.Zeroes || pool.Path != "" || pool.Discards != lvm.DiscardsNoPassDown {
		t.Fatalf("got the pool %+v", pool)
	}
	if len(pool.Volumes) != 2 || pool.VirtualSize() != 3<<30+4<<20 || pool.DataPercent == nil ||
		pool.MetadataPercent == nil || pool.Health != "" || pool.CheckNeeded {
		t.Errorf("got the pool %+v", pool)
	}
	if lv := vg.LV("thin"); lv.Size != 1<<30+4<<20 || !lv.Attr.IsThinVolume() || lv.PoolName != "pool" ||
		lv.Tags[0] != "x" {
		t.Errorf("got the volume %+v", lv)
	}
	if lv := vg.LV("snap"); !lv.Attr.ReadOnly() || !lv.Attr.Active() || lv.Attr.SkipsActivation() ||
		lv.Origin != "thin" {
		t.Errorf("got the snapshot %+v", lv)
	}
	if vg.ThinPool("thick") != nil {
		t.Error("a thick volume was taken for a pool")
	}
}

func contractActivation(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	for _, name := range []string{"thick", "thin", "snap"} {
		ok(t, l.Apply(ctx, lvm.LVDeactivate{VG: contractGroup, Names: []string{name}}))
	}
	_, vg := look(t, b)
	if lv := vg.LV("thin"); lv.Attr.Active() || lv.Major != 0 || lv.Path == "" || lv.DataPercent != nil {
		t.Errorf("got %+v", lv)
	}
	for range 2 {
		ok(t, l.Apply(ctx, lvm.LVActivate{VG: contractGroup, Name: "thin"}))
		ok(t, l.Apply(ctx, lvm.LVChangeTags{VG: contractGroup, Name: "thin",
			Add: []string{"lvms.formatted=ext4", "b"}, Remove: []string{"none"}}))
	}
	ok(t, l.Apply(ctx, lvm.LVChangeTags{VG: contractGroup, Name: "thin", Remove: []string{"b"}}))
	want(t, l.Apply(ctx, lvm.LVActivate{VG: contractGroup, Name: "nosuch"}), lvm.ErrNotFound)
	want(t, l.Apply(ctx, lvm.LVChangeTags{VG: contractGroup, Name: "nosuch", Add: []string{"b"}}),
		lvm.ErrNotFound)
	_, vg = look(t, b)
	if lv := vg.LV("thin"); !lv.Attr.Active() || lv.Major == 0 ||
		!slices.Equal(lv.Tags, []string{"lvms.formatted=ext4", "x"}) {
		t.Errorf("got %+v", lv)
	}
	if vg.LV("thick").Attr.Active() {
		t.Error("more than one volume was activated")
	}
	ok(t, l.Apply(ctx, lvm.VGActivate{VG: contractGroup}))
	_, vg = look(t, b)
	for _, name := range []string{"thick", "thin", "snap"} {
		if lv := vg.LV(name); !lv.Attr.Active() || lv.Major == 0 {
			t.Errorf("got %+v", lv)
		}
	}
}

func contractRenameVolume(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	_, vg := look(t, b)
	before := *vg.LV("thin")
	want(t, l.Apply(ctx, lvm.LVRename{VG: contractGroup, Name: "nosuch", To: "other"}), lvm.ErrNotFound)
	want(t, l.Apply(ctx, lvm.LVRename{VG: contractGroup, Name: "thin", To: "thick"}), lvm.ErrExists)
	ok(t, l.Apply(ctx, lvm.LVRename{VG: contractGroup, Name: "thin", To: "other"}))
	want(t, l.Apply(ctx, lvm.LVRename{VG: contractGroup, Name: "thin", To: "other"}), lvm.ErrNotFound)
	_, vg = look(t, b)
	lv := vg.LV("other")
	if lv == nil || vg.LV("thin") != nil || lv.UUID != before.UUID || !lv.Attr.Active() || lv.Minor != before.Minor ||
		lv.Path != "/dev/contract/other" || !slices.Equal(lv.Tags, before.Tags) {
		t.Errorf("got %+v, was %+v", lv, before)
	}
	if snap := vg.LV("snap"); snap == nil || snap.Origin != "other" {
		t.Errorf("got the snapshot %+v", snap)
	}
	ok(t, l.Apply(ctx, lvm.LVRename{VG: contractGroup, Name: "other", To: "thin"}))
	for range 2 {
		done, err := l.ThinPoolResume(ctx, contractGroup, "pool")
		if ok(t, err); done {
			t.Error("a pool is resumed that was not suspended")
		}
	}
	_, err := l.ThinPoolResume(ctx, contractGroup, "thin")
	want(t, err, lvm.ErrNotFound)
}

// contractView changes volumes of a group with named devices, and compares the cached report with a new one.
func contractView(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	steps := []struct {
		name   string
		change lvm.Change
	}{
		{"thin volume", lvm.LVCreateThin{VG: contractGroup, Pool: "pool", PoolZeroes: true, Name: "v1",
			VirtualSize: 10<<20 + 512, Tags: []string{"b", "a"}}},
		{"snapshot", lvm.LVCreateSnapshot{VG: contractGroup, Source: "v1", Name: "v2",
			ReadOnly: true, Tags: []string{"c"}}},
		{"clone", lvm.LVCreateSnapshot{VG: contractGroup, Source: "v2", Name: "v3"}},
		{"inactive snapshot", lvm.LVCreateSnapshot{VG: contractGroup, Source: "v1", Name: "v4",
			ReadOnly: true, Inactive: true, Tags: []string{"c"}}},
		{"growth", lvm.LVExtend{VG: contractGroup, Name: "v3", Size: 30<<20 + 512}},
		{"tags", lvm.LVChangeTags{VG: contractGroup, Name: "v1", Add: []string{"a", "0"},
			Remove: []string{"b"}}},
		{"thick volume", lvm.LVCreateThick{VG: contractGroup, Name: "w1", Size: 8 << 20, Tags: []string{"d"}}},
		{"removal of several", lvm.LVRemove{VG: contractGroup, Names: []string{"v1", "v2", "v3", "v4"}}},
		{"removal of a thick volume", lvm.LVRemove{VG: contractGroup, Names: []string{"w1"}}},
	}
	l.SetHealthy(contractGroup, true)
	defer l.SetHealthy(contractGroup, false)
	for _, step := range steps {
		look(t, b)
		ok(t, l.Apply(ctx, step.change))
		kept, err := l.Recent(ctx, time.Hour)
		ok(t, err)
		_, fresh := look(t, b)
		if diff := cmp.Diff(essence(fresh), essence(kept.VG(contractGroup))); diff != "" {
			t.Errorf("after %s: what is kept is not what is there (-there +kept):\n%s", step.name, diff)
		}
	}
}

// essence returns a group without values that change on their own or that LVM generates: UUIDs, device numbers
// and transaction IDs. It also clears the open flag, because udev briefly opens a new volume.
func essence(vg *lvm.VG) lvm.VG {
	e := *vg
	e.MetadataArea = lvm.MetadataArea{} // An effect estimates it.
	e.Seqno = 0                         // What is kept after a change has that of the last report.
	e.LVs = slices.Clone(vg.LVs)
	for i := range e.LVs {
		lv := &e.LVs[i]
		lv.TransactionID = nil // What is kept after a change does not have it.
		lv.UUID = ""
		lv.Major = 0
		lv.Minor = 0
		lv.DataPercent = nil
		lv.MetadataPercent = nil
		lv.Created = time.Time{}
		lv.Attr = notOpen(lv.Attr)
	}
	slices.SortFunc(e.LVs, func(a, b lvm.LV) int { return strings.Compare(a.Name, b.Name) })
	return e
}

// notOpen clears the sixth character of lv_attr (lvs(8)), which marks an open device.
func notOpen(attr lvm.LVAttr) lvm.LVAttr {
	const open = 5
	if len(attr) <= open {
		return attr
	}
	return attr[:open] + "-" + attr[open+1:]
}

func contractGuards(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	want(t, l.Apply(ctx, lvm.VGRemove{VG: contractGroup}), lvm.ErrNotEmpty)
	want(t, l.Apply(ctx, lvm.ThinPoolRemove{VG: contractGroup, Name: "pool"}), lvm.ErrNotEmpty)
	ok(t, l.Apply(ctx, lvm.LVDeactivate{VG: contractGroup, Names: []string{"pool"}}))
	want(t, l.Apply(ctx, lvm.ThinPoolRemove{VG: contractGroup, Name: "pool"}), lvm.ErrNotEmpty)
	_, vg := look(t, b)
	if len(vg.LVs) != 4 {
		t.Fatalf("got %d volumes after refused removals, want 4", len(vg.LVs))
	}
}

// contractRemoveByUUID: if one of the volumes cannot be removed, none is. A volume is removed without its snapshots.
func contractRemoveByUUID(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	ok(t, l.Apply(ctx, lvm.LVCreateThin{VG: contractGroup, Pool: "pool", Name: "by-uuid", VirtualSize: 8 << 20}))
	ok(t, l.Apply(ctx, lvm.LVCreateSnapshot{VG: contractGroup, Source: "by-uuid", Name: "of-by-uuid"}))
	_, vg := look(t, b)
	before := len(vg.LVs)
	uuid := vg.LV("by-uuid").UUID
	want(t, l.Apply(ctx, lvm.LVRemoveByUUID{VG: contractGroup, UUIDs: []string{uuid, "nosuch"}}), lvm.ErrNotFound)
	want(t, l.Apply(ctx, lvm.LVRemoveByUUID{VG: contractGroup, UUIDs: []string{uuid, vg.LV("pool").UUID}}),
		lvm.ErrInvalid)
	want(t, l.Apply(ctx, lvm.LVRemoveByUUID{VG: "nosuch", UUIDs: []string{uuid}}), lvm.ErrNotFound)
	if _, vg = look(t, b); len(vg.LVs) != before {
		t.Fatalf("got %d volumes after refused removals, want %d", len(vg.LVs), before)
	}
	ok(t, l.Apply(ctx, lvm.LVRemoveByUUID{VG: contractGroup, UUIDs: []string{uuid}}))
	want(t, l.Apply(ctx, lvm.LVRemoveByUUID{VG: contractGroup, UUIDs: []string{uuid}}), lvm.ErrNotFound)
	_, vg = look(t, b)
	if vg.LV("by-uuid") != nil || vg.LV("of-by-uuid") == nil {
		t.Fatalf("got %+v", vg.LVs)
	}
	ok(t, l.Apply(ctx, lvm.LVRemoveByUUID{VG: contractGroup, UUIDs: []string{vg.LV("of-by-uuid").UUID}}))
}

// contractSkippedActivation: neither the volume group nor the snapshot itself is activated.
func contractSkippedActivation(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	isActive := func(expected bool) {
		t.Helper()
		_, vg := look(t, b)
		lv := vg.LV("quiet")
		if lv == nil || lv.Attr.Active() != expected || lv.Attr.SkipsActivation() == expected || lv.Origin != "thin" {
			t.Fatalf("got %+v, want active: %t", lv, expected)
		}
	}
	ok(t, l.Apply(ctx, lvm.LVCreateSnapshot{VG: contractGroup, Source: "thin", Name: "quiet", ReadOnly: true,
		Inactive: true}))
	isActive(false)
	ok(t, l.Apply(ctx, lvm.VGActivate{VG: contractGroup}))
	ok(t, l.Apply(ctx, lvm.LVActivate{VG: contractGroup, Name: "quiet"}))
	isActive(false)
	want(t, l.Apply(ctx, lvm.LVAllowActivation{VG: contractGroup, Name: "nosuch"}), lvm.ErrNotFound)
	for range 2 {
		ok(t, l.Apply(ctx, lvm.LVAllowActivation{VG: contractGroup, Name: "quiet"}))
		ok(t, l.Apply(ctx, lvm.LVActivate{VG: contractGroup, Name: "quiet"}))
		isActive(true)
	}
	ok(t, l.Apply(ctx, lvm.LVRemove{VG: contractGroup, Names: []string{"quiet"}}))
}

// contractNotLost: a volume that the pool has is never removed as lost, and is active afterwards.
func contractNotLost(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	ok(t, l.Apply(ctx, lvm.LVActivate{VG: contractGroup, Name: "thin"}))
	_, vg := look(t, b)
	uuid := vg.LV("thin").UUID
	want(t, l.Apply(ctx, lvm.LVRemoveLost{VG: contractGroup, Pool: "pool", UUIDs: []string{uuid}}), lvm.ErrInUse)
	ok(t, l.Apply(ctx, lvm.LVDeactivate{VG: contractGroup, Names: []string{"thin"}}))
	want(t, l.Apply(ctx, lvm.LVRemoveLost{VG: contractGroup, Pool: "pool", UUIDs: []string{uuid}}), lvm.ErrInUse)
	want(t, l.Apply(ctx, lvm.LVRemoveLost{VG: contractGroup, Pool: "pool", UUIDs: []string{"nosuch"}}), lvm.ErrNotFound)
	if _, vg = look(t, b); vg.LV("thin") == nil || !vg.LV("thin").Attr.Active() {
		t.Fatalf("got %+v", vg.LV("thin"))
	}
}

// contractPoolMetadata opens the metadata of an inactive pool, as a check of it does. Meanwhile, the pool stays
// inactive.
func contractPoolMetadata(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	activate := lvm.ThinMetadataActivate{VG: contractGroup, Pool: "pool"}
	if err := l.Apply(ctx, activate); !errors.Is(err, lvm.ErrInUse) {
		t.Errorf("of an active pool: got %v, want %v", err, lvm.ErrInUse)
	}
	ids, err := l.ThinDeviceIDs(ctx, contractGroup, "pool")
	ok(t, err)
	if len(ids) != 2 {
		t.Errorf("got the device IDs %v, want 2", ids)
	}
	ok(t, l.Apply(ctx, lvm.LVDeactivate{VG: contractGroup, Names: []string{"thin", "snap", "pool"}}))
	for range 2 {
		ok(t, l.Apply(ctx, activate))
		if activate.Device() != "/dev/"+contractGroup+"/pool_tmeta" {
			t.Errorf("got the device %s", activate.Device())
		}
	}
	if err := l.Apply(ctx, lvm.LVActivate{VG: contractGroup, Name: "thin"}); err == nil {
		t.Error("the pool was activated while its metadata is active")
	}
	for range 2 {
		ok(t, l.Apply(ctx, lvm.ThinMetadataDeactivate{VG: contractGroup, Pool: "pool"}))
	}
	ok(t, l.Apply(ctx, lvm.ThinPoolActivate{VG: contractGroup}))
	if _, vg := look(t, b); !vg.IsPoolActive("pool") || vg.PoolMetadata("pool") == nil {
		t.Fatalf("got %+v", vg.LVs)
	}
}

// contractEarlierMetadata restores metadata from before a volume was created, and then metadata that has it.
func contractEarlierMetadata(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	_, vg := look(t, b)
	before, err := l.ReadMetadata(ctx, b.Disks[0])
	ok(t, err)
	if before.VG != contractGroup || before.UUID != vg.UUID || before.Volume("thin") == nil ||
		before.Volume("thin").UUID != vg.LV("thin").UUID || before.Volume("pool_tdata") == nil ||
		len(before.Volume("pool_tdata").Segments[0].Areas) != 1 || len(before.PVs) != 2 {
		t.Fatalf("got %+v", before)
	}
	ok(t, l.Apply(ctx, lvm.LVCreateThin{VG: contractGroup, Pool: "pool", Name: "later", VirtualSize: 8 << 20}))
	ok(t, l.Apply(ctx, lvm.LVChangeTags{VG: contractGroup, Name: "later", Add: []string{"x"}}))
	find := func(later bool) lvm.MetadataRestore {
		t.Helper()
		m, reasons, err := l.FindMetadata(ctx, contractGroup, func(m *textmeta.Metadata) string {
			if (m.Volume("later") != nil) == later && m.Volume("thin") != nil && m.UUID == vg.UUID {
				return ""
			}
			return "does not fit"
		})
		ok(t, err)
		if m == nil || !strings.HasPrefix(m.File, "/etc/lvm/") {
			t.Fatalf("got %+v, %v", m, reasons)
		}
		file := filepath.Join(t.TempDir(), "metadata")
		ok(t, os.WriteFile(file, m.Text, 0o600))
		return lvm.MetadataRestore{VG: contractGroup, UUID: vg.UUID, File: file}
	}
	m, reasons, err := l.FindMetadata(ctx, contractGroup, func(*textmeta.Metadata) string { return "no" })
	if ok(t, err); m != nil || !slices.Equal(reasons, []string{"no"}) {
		t.Errorf("got %+v, %v", m, reasons)
	}
	earlier := find(false)
	want(t, l.Apply(ctx, earlier), lvm.ErrInUse)
	deactivateAll(t, b)
	other := earlier
	other.UUID = "other"
	want(t, l.Apply(ctx, other), lvm.ErrDamaged)
	for range 2 {
		ok(t, l.Apply(ctx, earlier))
	}
	if _, vg := look(t, b); vg.LV("later") != nil || vg.LV("thin") == nil {
		t.Fatalf("got %+v", vg.LVs)
	}
	// The number of changes goes on from the one of the restored metadata. FindMetadata still finds what was replaced.
	present, err := l.ReadMetadata(ctx, b.Disks[0])
	ok(t, err)
	replaced, _, err := l.FindMetadata(ctx, contractGroup, func(m *textmeta.Metadata) string {
		if m.UUID == vg.UUID && m.Volume("later") != nil && m.Seqno >= present.Seqno {
			return ""
		}
		return "no"
	})
	if ok(t, err); replaced == nil || present.Seqno <= before.Seqno {
		t.Errorf("the metadata is change %d and was change %d; what was replaced: %+v", present.Seqno, before.Seqno,
			replaced)
	}
	want(t, l.Apply(ctx, lvm.VGActivate{VG: contractGroup}), lvm.ErrTransaction)
	later := find(true)
	deactivateAll(t, b)
	ok(t, l.Apply(ctx, later))
	ok(t, l.Apply(ctx, lvm.VGActivate{VG: contractGroup}))
	if _, vg := look(t, b); vg.LV("later") == nil || !vg.LV("later").Attr.Active() {
		t.Fatalf("got %+v", vg.LVs)
	}
	ok(t, l.Apply(ctx, lvm.LVRemove{VG: contractGroup, Names: []string{"later"}}))
}

func deactivateAll(t *testing.T, b Bench) {
	t.Helper()
	_, vg := look(t, b)
	var names []string
	for _, lv := range vg.LVs {
		if lv.Attr.Active() && !lv.Attr.IsThinPool() {
			names = append(names, lv.Name)
		}
	}
	if len(names) > 0 {
		ok(t, b.LVM.Apply(t.Context(), lvm.LVDeactivate{VG: contractGroup, Names: names}))
	}
	ok(t, b.LVM.Apply(t.Context(), lvm.LVDeactivate{VG: contractGroup, Names: []string{"pool"}}))
}

func contractRemoval(t *testing.T, b Bench) {
	ctx := t.Context()
	l := b.LVM
	for _, name := range []string{"thin", "snap", "thick"} {
		ok(t, l.Apply(ctx, lvm.LVRemove{VG: contractGroup, Names: []string{name}}))
	}
	want(t, l.Apply(ctx, lvm.LVRemove{VG: contractGroup, Names: []string{"thin"}}), lvm.ErrNotFound)
	ok(t, l.Apply(ctx, lvm.LVDeactivate{VG: contractGroup, Names: []string{"pool"}}))
	ok(t, l.Apply(ctx, lvm.ThinPoolRemove{VG: contractGroup, Name: "pool"}))
	ok(t, l.Apply(ctx, lvm.VGRemove{VG: contractGroup}))
	report, vg := look(t, b)
	if vg != nil || len(report.Unassigned) != 2 || report.Unassigned[0].InUse || report.Unassigned[0].VGName != "" {
		t.Fatalf("got %+v, %+v", vg, report.Unassigned)
	}
	for _, disk := range b.Disks[:2] {
		ok(t, l.Apply(ctx, lvm.PVRemove{Device: disk}))
		wantNoPV(t, l.Apply(ctx, lvm.PVRemove{Device: disk}))
	}
	report, _ = look(t, b)
	for _, pv := range report.PVs() {
		if slices.Contains(b.Disks[:], pv.Name) {
			t.Errorf("a physical volume is left: %+v", pv)
		}
	}
}
