package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/topolvm/topolvm/pkg/lvmd/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

func thickClass(name string) deviceclass.Class {
	return deviceclass.Class{Name: name, VolumeGroup: name, Type: types.TypeThick}
}

func thinClass(name string, ratio float64) deviceclass.Class {
	return deviceclass.Class{
		Name: name, VolumeGroup: name, Type: types.TypeThin,
		ThinPoolConfig: &deviceclass.ThinPool{Name: "pool", OverprovisionRatio: ratio},
	}
}

// newEngine returns an engine with the thick class "thick" of 1 GiB less metadata, and the thin class "thin" with a
// pool of 0.5 GiB and the ratio 10.
func newEngine(t *testing.T) (*Engine, *lvmtest.Fake) {
	t.Helper()
	fake := lvmtest.New()
	fake.AddDisk("/dev/a", lvm.Bytes(gib+5*mib), 16)
	fake.AddDisk("/dev/b", lvm.Bytes(gib+5*mib), 32)
	ctx := t.Context()
	must(t, fake.Apply(ctx, lvm.VGCreate{Name: "thick", Devices: []string{"/dev/a"}}))
	must(t, fake.Apply(ctx, lvm.VGCreate{Name: "thin", Devices: []string{"/dev/b"}}))
	must(t, fake.Apply(ctx, lvm.LVCreateThinPool{VG: "thin", Name: "pool", PercentFree: 50}))
	e, err := New(fake, nil, filepath.Join(t.TempDir(), "lvmd.yaml"))
	must(t, err)
	thin := thinClass("thin", 10)
	thin.Default = true
	setClasses(t, e, thickClass("thick"), thin)
	return e, fake
}

// setClasses publishes these classes, and withdraws all others.
func setClasses(t testing.TB, e *Engine, list ...deviceclass.Class) {
	t.Helper()
	for _, name := range e.Current().Classes {
		if err := e.Withdraw(name.Name); err != nil {
			t.Fatal(err)
		}
	}
	for _, class := range list {
		if err := e.Publish(class); err != nil {
			t.Fatal(err)
		}
	}
}

// sizeOf returns the size of a volume in bytes, 0 for none.
func sizeOf(lv *lvm.LV) int64 {
	if lv == nil {
		return 0
	}
	return int64(lv.Size)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, what string, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%s: got %v, want %s", what, err, code)
	}
}

func TestCreateLV(t *testing.T) {
	tests := map[string]struct {
		request NewVolume
		want    int64
		code    codes.Code
	}{
		"thick": {NewVolume{Name: "a", Class: "thick", Size: 8 * mib},
			8 * mib, codes.OK},
		"thick, rounded up": {NewVolume{Name: "a", Class: "thick", Size: 4096},
			4 * mib, codes.OK},
		"thin, rounded up": {NewVolume{Name: "a", Class: "thin", Size: 4*mib + 1},
			8 * mib, codes.OK},
		"the default class": {NewVolume{Name: "a", Size: gib}, gib, codes.OK},
		"all of the group": {NewVolume{Name: "a", Class: "thick", Size: gib + 4*mib},
			gib + 4*mib, codes.OK},
		"more than the group": {NewVolume{Name: "a", Class: "thick", Size: gib + 4*mib + 1}, 0,
			codes.ResourceExhausted},
		"more than the ratio": {NewVolume{Name: "a", Class: "thin", Size: 6 * gib}, 0,
			codes.ResourceExhausted},
		"an unknown class": {NewVolume{Name: "a", Class: "nosuch", Size: gib}, 0,
			codes.ResourceExhausted},
		"an unknown option": {NewVolume{Name: "a", Class: "thick", OptionClass: "x",
			Size: gib}, 0, codes.InvalidArgument},
		"no size": {NewVolume{Name: "a", Class: "thick"}, 0, codes.InvalidArgument},
		"a negative size": {NewVolume{Name: "a", Class: "thick", Size: -1}, 0,
			codes.InvalidArgument},
		"no name": {NewVolume{Class: "thick", Size: gib}, 0,
			codes.InvalidArgument},
		"an option for a name": {NewVolume{Name: "--yes", Class: "thick", Size: gib}, 0,
			codes.InvalidArgument},
		"a path for a name": {NewVolume{Name: "a/b", Class: "thick", Size: gib}, 0,
			codes.InvalidArgument},
		"the name of the pool": {NewVolume{Name: "pool", Class: "thin", Size: 4 * mib}, 0,
			codes.AlreadyExists},
	}
	for name, tt := range tests {
		e, _ := newEngine(t)
		response, err := e.CreateLV(t.Context(), tt.request)
		wantCode(t, name, err, tt.code)
		if got := sizeOf(response); got != tt.want {
			t.Errorf("%s: got %d bytes, want %d", name, got, tt.want)
		}
	}
}

func TestAnOptionClassReplacesTheOptionsOfItsDeviceClass(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lvmd.yaml")
	must(t, os.WriteFile(file, []byte("device-classes:\n- {name: pair, volume-group: pair, "+
		"lvcreate-options: [--type=raid1]}\n"+
		"lvcreate-option-classes:\n- {name: plain, options: [--wipesignatures=n]}\n"), 0o600))
	// An image of raid1 has an extent of 4 MiB for metadata.
	for name, want := range map[string]int64{"": 24 * mib, "plain": 8 * mib} {
		fake := lvmtest.New()
		fake.AddDisk("/dev/a", lvm.Bytes(gib), 16)
		fake.AddDisk("/dev/b", lvm.Bytes(gib), 32)
		must(t, fake.Apply(t.Context(), lvm.VGCreate{Name: "pair", Devices: []string{"/dev/a", "/dev/b"}}))
		e, err := New(fake, nil, file)
		must(t, err)
		for range 2 {
			_, err := e.CreateLV(t.Context(), NewVolume{Name: "a", Class: "pair",
				OptionClass: name, Size: 8 * mib})
			must(t, err)
		}
		report, err := fake.Report(t.Context())
		must(t, err)
		vg := report.VG("pair")
		if used := int64(vg.Size - vg.Free); used != want {
			t.Errorf("option class %q: the volume of 8 MiB uses %d bytes, want %d", name, used, want)
		}
	}
}

func TestCreateLVCalledTwiceGivesTheSameVolume(t *testing.T) {
	e, fake := newEngine(t)
	for _, class := range []string{"thick", "thin"} {
		request := NewVolume{Name: "a", Class: class, Size: 5 * mib, Tags: []string{"x"}}
		for range 2 {
			response, err := e.CreateLV(t.Context(), request)
			must(t, err)
			if response.Name != "a" || sizeOf(response) != 8*mib {
				t.Errorf("%s: got %v", class, response)
			}
		}
		request.Size = 9 * mib
		_, err := e.CreateLV(t.Context(), request)
		wantCode(t, "another size", err, codes.AlreadyExists)
	}
	if calls := fake.Calls(); calls["LVCreateThick"] != 1 || calls["LVCreateThin"] != 1 {
		t.Errorf("got %v", calls)
	}
}

func TestCreateLVWhenTheReadFailsMakesNothing(t *testing.T) {
	e, fake := newEngine(t)
	fake.Fail("Report", errors.New("exit status 5"))
	_, err := e.CreateLV(t.Context(), NewVolume{Name: "a", Class: "thick", Size: mib})
	wantCode(t, "create", err, codes.Internal)
	_, err = e.ListLVs(t.Context(), "thick")
	wantCode(t, "list", err, codes.Internal)
	err = e.RemoveLV(t.Context(), "thick", "a")
	wantCode(t, "remove", err, codes.Internal)
	if calls := fake.Calls(); calls["LVCreateThick"]+calls["LVRemove"] != 0 {
		t.Errorf("something was changed: %v", calls)
	}
}

func TestErrorsOfLVMBecomeCodes(t *testing.T) {
	for sentinel, code := range map[error]codes.Code{
		lvm.ErrNoSpace: codes.ResourceExhausted, lvm.ErrInUse: codes.ResourceExhausted,
		lvm.ErrExists:       codes.AlreadyExists,
		lvm.ErrNotInstalled: codes.ResourceExhausted, lvm.ErrMissingPV: codes.ResourceExhausted,
		lvm.ErrInvalid:  codes.InvalidArgument,
		lvm.ErrNotFound: codes.ResourceExhausted, lvm.ErrBusy: codes.Unavailable,
		errors.New("something"): codes.Internal,
	} {
		e, fake := newEngine(t)
		fake.Fail("LVCreateThick", sentinel)
		_, err := e.CreateLV(t.Context(), NewVolume{Name: "a", Class: "thick", Size: mib})
		wantCode(t, sentinel.Error(), err, code)
	}
}

func TestNothingIsCreatedWhereLVMWouldRefuse(t *testing.T) {
	full := 100.0
	some := 1.0
	tests := map[string]func(*lvmtest.Fake){
		"data is full": func(f *lvmtest.Fake) {
			f.Edit("thin", "pool",
				func(lv *lvm.LV) { lv.DataPercent = &full })
		},
		"metadata is full": func(f *lvmtest.Fake) {
			f.Edit("thin", "pool",
				func(lv *lvm.LV) { lv.MetadataPercent = &full })
		},
		"check needed": func(f *lvmtest.Fake) { f.Edit("thin", "pool", func(lv *lvm.LV) { lv.CheckNeeded = true }) },
		"read-only": func(f *lvmtest.Fake) {
			f.Edit("thin", "pool",
				func(lv *lvm.LV) { lv.Health = "metadata_read_only" })
		},
	}
	for name, damage := range tests {
		e, fake := newEngine(t)
		damage(fake)
		_, err := e.CreateLV(t.Context(), NewVolume{Name: "a", Class: "thin", Size: mib})
		wantCode(t, name, err, codes.ResourceExhausted)
		free, err := e.FreeBytes(t.Context(), "thin")
		if err != nil || free != 0 {
			t.Errorf("%s: got the capacity %d, %v", name, free, err)
		}
		fake.Edit("thin", "pool", func(lv *lvm.LV) {
			lv.DataPercent = &some
			lv.MetadataPercent = &some
			lv.Health = ""
			lv.CheckNeeded = false
		})
		_, err = e.CreateLV(t.Context(), NewVolume{Name: "a", Class: "thin", Size: mib})
		wantCode(t, name+", repaired", err, codes.OK)
	}
}

func TestTwoRequestsCannotBothHaveTheLastSpace(t *testing.T) {
	e, _ := newEngine(t)
	var granted sync.Map
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		all.Go(func() {
			_, err := e.CreateLV(context.Background(),
				NewVolume{Name: name, Class: "thin", Size: 2 * gib})
			if err == nil {
				granted.Store(name, true)
			}
		})
	}
	all.Wait()
	n := 0
	granted.Range(func(any, any) bool { n++; return true })
	if n != 2 {
		t.Errorf("%d volumes of 2 GiB were made where the ratio allows 5 GiB", n)
	}
}

func TestRemoveLV(t *testing.T) {
	e, fake := newEngine(t)
	ctx := t.Context()
	_, err := e.CreateLV(ctx, NewVolume{Name: "a", Class: "thin", Size: mib})
	must(t, err)
	err = e.RemoveLV(ctx, "thin", "a")
	must(t, err)
	err = e.RemoveLV(ctx, "thin", "a")
	wantCode(t, "called twice", err, codes.NotFound)
	err = e.RemoveLV(ctx, "thin", "pool")
	wantCode(t, "the pool", err, codes.InvalidArgument)
	// NotFound would mean to TopoLVM that the volume no longer exists.
	err = e.RemoveLV(ctx, "nosuch", "a")
	wantCode(t, "an unknown class", err, codes.FailedPrecondition)
	fake.Detach("/dev/b")
	err = e.RemoveLV(ctx, "thin", "a")
	wantCode(t, "a group without disks", err, codes.Unavailable)
	fake.Attach("/dev/b")
	fake.Fail("LVRemove", lvm.ErrInUse)
	_, err = e.CreateLV(ctx, NewVolume{Name: "b", Class: "thin", Size: mib})
	must(t, err)
	err = e.RemoveLV(ctx, "thin", "b")
	wantCode(t, "a mounted volume", err, codes.FailedPrecondition)
}

// TestAClassThatRemovesNothing: its volume group has metadata that may be from an earlier time. A volume that the group
// does not have is gone for its object: its claim can be deleted.
func TestAClassThatRemovesNothing(t *testing.T) {
	e, fake := newEngine(t)
	ctx := t.Context()
	_, err := e.CreateLV(ctx, NewVolume{Name: "a", Class: "thick", Size: mib})
	must(t, err)
	class, _ := e.Class("thick")
	class.NoRemoval = "the metadata may be from an earlier time"
	must(t, e.Publish(class))
	for range 2 {
		err = e.RemoveLV(ctx, "thick", "a")
		wantCode(t, "remove", err, codes.Unavailable)
		_, err = e.Erasure(ctx, "thick", "a", false)
		wantCode(t, "erase", err, codes.Unavailable)
	}
	err = e.RemoveLV(ctx, "thick", "absent")
	wantCode(t, "a volume that is not there", err, codes.NotFound)
	if fake.Calls()["LVRemove"] != 0 {
		t.Error("a volume was removed")
	}
	class.NoRemoval = ""
	must(t, e.Publish(class))
	err = e.RemoveLV(ctx, "thick", "a")
	must(t, err)
}

// TestTheEngineDoesNotActivateAPool: the reconciler of volume groups reads the metadata of a pool before it activates
// it, and keeps the pool inactive during a repair. LVM would activate it for each of these commands.
func TestTheEngineDoesNotActivateAPool(t *testing.T) {
	e, fake := newEngine(t)
	ctx := t.Context()
	_, err := e.CreateLV(ctx, NewVolume{Name: "a", Class: "thin", Size: mib})
	must(t, err)
	class, _ := e.Class("thin")
	group := class.VolumeGroup
	must(t, fake.Apply(ctx, lvm.LVDeactivate{VG: group, Names: []string{"a", "pool"}}))
	for range 2 {
		_, err = e.CreateLV(ctx, NewVolume{Name: "b", Class: "thin", Size: mib})
		wantCode(t, "create", err, codes.ResourceExhausted)
		_, err = e.CreateLVSnapshot(ctx, NewSnapshot{Name: "s", Class: "thin",
			Source: "a", ReadOnly: true})
		wantCode(t, "snapshot", err, codes.ResourceExhausted)
		err = e.RemoveLV(ctx, "thin", "a")
		wantCode(t, "remove", err, codes.Unavailable)
		wantCode(t, "activate", e.ActivateLV(ctx, "thin", "a"), codes.Unavailable)
	}
	must(t, fake.Apply(ctx, lvm.LVActivate{VG: group, Name: "a"}))
	must(t, e.ActivateLV(ctx, "thin", "a"))
	err = e.RemoveLV(ctx, "thin", "a")
	must(t, err)
}

func TestRemoveLVKeepsTheOriginOfAThickSnapshot(t *testing.T) {
	e, fake := newEngine(t)
	for _, name := range []string{"a", "snap"} {
		_, err := e.CreateLV(t.Context(), NewVolume{Name: name, Class: "thick", Size: mib})
		must(t, err)
	}
	fake.Edit("thick", "snap", func(lv *lvm.LV) { lv.Origin = "a" })
	err := e.RemoveLV(t.Context(), "thick", "a")
	wantCode(t, "remove", err, codes.FailedPrecondition)
}

func TestResizeLV(t *testing.T) {
	e, fake := newEngine(t)
	ctx := t.Context()
	for _, class := range []string{"thick", "thin"} {
		_, err := e.CreateLV(ctx, NewVolume{Name: "a", Class: class, Size: 8 * mib})
		must(t, err)
		for _, step := range []struct {
			size, want int64
			code       codes.Code
		}{
			{16 * mib, 16 * mib, codes.OK}, {16 * mib, 16 * mib, codes.OK}, {17 * mib, 20 * mib, codes.OK},
			{4 * mib, 20 * mib, codes.OK},
			{100 * gib, 0, codes.ResourceExhausted}, {0, 0, codes.InvalidArgument}, {-1, 0, codes.InvalidArgument},
		} {
			response, err := e.ResizeLV(ctx, class, "a", step.size)
			wantCode(t, class, err, step.code)
			if got := response; got != step.want {
				t.Errorf("%s to %d: got %d, want %d", class, step.size, got, step.want)
			}
		}
		_, err = e.ResizeLV(ctx, class, "nosuch", mib)
		wantCode(t, "a volume that does not exist", err, codes.NotFound)
	}
	if n := fake.Calls()["LVExtend"]; n != 4 {
		t.Errorf("%d extensions, want 4", n)
	}
}

func TestCreateLVSnapshot(t *testing.T) {
	tests := map[string]struct {
		request NewSnapshot
		want    int64
		code    codes.Code
	}{
		"read-only": {NewSnapshot{Name: "s", Class: "thin", Source: "a",
			ReadOnly: true, Size: 8 * mib}, 8 * mib, codes.OK},
		"larger and writable": {NewSnapshot{Name: "s", Class: "thin", Source: "a", Size: 9 * mib}, 12 * mib, codes.OK},
		"size of the source":  {NewSnapshot{Name: "s", Class: "thin", Source: "a"}, 8 * mib, codes.OK},
		"smaller":             {NewSnapshot{Name: "s", Class: "thin", Source: "a", Size: 4 * mib}, 0, codes.OutOfRange},
		"negative":            {NewSnapshot{Name: "s", Class: "thin", Source: "a", Size: -1}, 0, codes.InvalidArgument},
		"no such source":      {NewSnapshot{Name: "s", Class: "thin", Source: "b"}, 0, codes.NotFound},
		"the pool as source":  {NewSnapshot{Name: "s", Class: "thin", Source: "pool"}, 0, codes.NotFound},
		"thick":               {NewSnapshot{Name: "s", Class: "thick", Source: "a"}, 0, codes.Unimplemented},
		"too large":           {NewSnapshot{Name: "s", Class: "thin", Source: "a", Size: 6 * gib}, 0, codes.ResourceExhausted},
		"an unknown class": {NewSnapshot{Name: "s", Class: "x", Source: "a",
			ReadOnly: true}, 0, codes.NotFound},
	}
	for name, tt := range tests {
		e, fake := newEngine(t)
		_, err := e.CreateLV(t.Context(), NewVolume{Name: "a", Class: "thin", Size: 8 * mib})
		must(t, err)
		for range 2 {
			response, err := e.CreateLVSnapshot(t.Context(), tt.request)
			wantCode(t, name, err, tt.code)
			if got := sizeOf(response); got != tt.want {
				t.Errorf("%s: got %d bytes, want %d", name, got, tt.want)
			}
		}
		if n := fake.Calls()["LVCreateSnapshot"]; n > 1 {
			t.Errorf("%s: called twice, made %d snapshots", name, n)
		}
	}
}

func TestTheAccessTypeOfASnapshot(t *testing.T) {
	for text, want := range map[string]bool{"ro": true, "rw": false} {
		if got, err := IsReadOnly(text); got != want || err != nil {
			t.Errorf("%s: got %t, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "r"} {
		_, err := IsReadOnly(text)
		wantCode(t, text, err, codes.InvalidArgument)
	}
}

func TestCreateLVSnapshotThatCannotGrowLeavesNothing(t *testing.T) {
	e, fake := newEngine(t)
	_, err := e.CreateLV(t.Context(), NewVolume{Name: "a", Class: "thin", Size: 8 * mib})
	must(t, err)
	fake.Fail("LVExtend", lvm.ErrNoSpace)
	request := NewSnapshot{Name: "s", Class: "thin", Source: "a",
		Size: 16 * mib}
	_, err = e.CreateLVSnapshot(t.Context(), request)
	wantCode(t, "snapshot", err, codes.ResourceExhausted)
	fake.Fail("LVExtend", nil)
	response, err := e.CreateLVSnapshot(t.Context(), request)
	if err != nil || sizeOf(response) != 16*mib {
		t.Errorf("the next try: got %v, %v", response, err)
	}
}

func TestGetLVListHasTheVolumesOfTheClass(t *testing.T) {
	e, fake := newEngine(t)
	ctx := t.Context()
	// A thick class in the same volume group as the thin one.
	setClasses(t, e, deviceclass.Class{Name: "beside", VolumeGroup: "thin"}, thinClass("thin", 1))
	_, err := e.CreateLV(ctx, NewVolume{Name: "a", Class: "thin", Size: mib,
		Tags: []string{"x", "y"}})
	must(t, err)
	_, err = e.CreateLV(ctx, NewVolume{Name: "b", Class: "beside", Size: mib})
	must(t, err)
	report, err := fake.Report(ctx)
	must(t, err)
	minor := report.VG("thin").LV("a").Minor
	list, err := e.ListLVs(ctx, "thin")
	must(t, err)
	want := lvm.LV{Name: "a", Size: lvm.Bytes(4 * mib), Tags: []string{"x", "y"}, Path: "/dev/thin/a",
		Attr: "Vwi-a-----", Major: 254, Minor: minor}
	if len(list) != 1 || shown(list[0]) != shown(want) {
		t.Errorf("got %+v, want %+v", list, want)
	}
	list, err = e.ListLVs(ctx, "beside")
	must(t, err)
	if len(list) != 1 || list[0].Name != "b" {
		t.Errorf("got %v", list)
	}
	_, err = e.ListLVs(ctx, "nosuch")
	wantCode(t, "an unknown class", err, codes.NotFound)
}

// shown returns what is told of a volume.
func shown(lv lvm.LV) string {
	return fmt.Sprint(lv.Name, lv.Size, lv.Tags, lv.Path, lv.Attr, lv.Major, lv.Minor)
}

func TestGetFreeBytesKeepsTheSpareBack(t *testing.T) {
	e, _ := newEngine(t)
	for spareGiB, want := range map[uint64]uint64{0: uint64(gib + 4*mib), 1: uint64(4 * mib), 2: 0} {
		class := thickClass("thick")
		class.SpareGB = &spareGiB
		must(t, e.Publish(class))
		free, err := e.FreeBytes(t.Context(), "thick")
		if err != nil || free != want {
			t.Errorf("spare of %d GiB: got %d, %v, want %d", spareGiB, free, err, want)
		}
	}
}

func TestNewReadsTheFileOfTheProcessBefore(t *testing.T) {
	fake := lvmtest.New()
	path := filepath.Join(t.TempDir(), "lvmd.yaml")
	e, err := New(fake, nil, path)
	must(t, err)
	setClasses(t, e, thickClass("thick"), thinClass("thin", 10))
	again, err := New(fake, nil, path)
	must(t, err)
	if diff := cmp.Diff(e.Current().Classes, again.Current().Classes); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(path, []byte("device-classes: {"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(fake, nil, path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a broken file gave %v", err)
	}
}
