package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// engineToErase returns an engine with the volume "a" with these tags in both classes, whose method is set. The kernel
// has a device for it.
func engineToErase(t *testing.T, method string, tags ...string) (*Engine, *lvmtest.Fake, *kernel) {
	t.Helper()
	e, fake := newEngine(t)
	must(t, fake.Apply(t.Context(), lvm.LVCreateThick{VG: "thick", Name: "a", Size: lvm.Bytes(8 * mib), Tags: tags}))
	must(t, fake.Apply(t.Context(), lvm.LVCreateThin{VG: "thin", Pool: "pool", Name: "a",
		VirtualSize: lvm.Bytes(8 * mib), Tags: tags}))
	thick, thin := thickClass("thick"), thinClass("thin", 10)
	thick.EraseOnDelete = method
	if method != deviceclass.EraseZero {
		thin.EraseOnDelete = method
	}
	setClasses(t, e, thick, thin)
	report, err := fake.Report(t.Context())
	must(t, err)
	vg := report.VG("thick")
	k := &kernel{device: devicemapper.Device{Number: "253:7",
		UUID: "LVM-" + strings.ReplaceAll(vg.UUID+vg.LV("a").UUID, "-", "")}}
	e.kernel = k
	e.UsersWith(func(_ context.Context, number string) string { return "it is used by Pod team/a of " + number })
	return e, fake, k
}

// TestAVolumeInUseNamesItsUsers: the removal of several volumes fails for one of them.
func TestAVolumeInUseNamesItsUsers(t *testing.T) {
	for name, tt := range map[string]struct {
		open    int
		failure error
		want    string
	}{
		"in use":            {1, lvm.ErrInUse, "in use: it is used by Pod team/a of 253:7"},
		"not open any more": {0, lvm.ErrInUse, "in use"},
		"another error":     {1, lvm.ErrBusy, lvm.ErrBusy.Error()},
		"kernel fails":      {1, lvm.ErrInUse, "in use"},
	} {
		e, fake, k := engineToErase(t, deviceclass.EraseNone)
		k.device.Open = tt.open
		if name == "kernel fails" {
			k.err = errors.New("late")
		}
		for range 2 {
			err := e.withUsers(t.Context(), "thick", []string{"a"}, tt.failure)
			if !errors.Is(err, tt.failure) || err.Error() != tt.want {
				t.Errorf("%s: got %v, want %s", name, err, tt.want)
			}
		}
		if name != "in use" {
			continue
		}
		fake.Fail("LVRemove", tt.failure)
		err := e.RemoveLV(t.Context(), "thick", "a")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: the request got %v", name, err)
		}
	}
}

func TestWhatIsErased(t *testing.T) {
	zero := &Erasure{VolumeGroup: "thick", Name: "a", Path: "/dev/thick/a", Number: "253:7", Size: 8 * mib}
	discard, begun, half := *zero, *zero, *zero
	discard.Discard = true
	begun.Begun = true
	half.Begun, half.Done = true, 4*mib
	for name, tt := range map[string]struct {
		method string
		tags   []string
		want   *Erasure
	}{
		"by default":            {"", nil, zero},
		"zeros":                 {"Zero", []string{"lvms.formatted=xfs"}, zero},
		"discards":              {"Discard", nil, &discard},
		"nothing":               {"None", nil, nil},
		"not used yet":          {"Zero", []string{wellknown.NewTag}, nil},
		"copied in part":        {"Zero", []string{wellknown.NewTag, wellknown.CopyingTag}, zero},
		"begun":                 {"Zero", []string{"lvms.erased=0"}, &begun},
		"half":                  {"Zero", []string{"lvms.erased=4194304"}, &half},
		"two records":           {"Zero", []string{"lvms.erased=4194304", "lvms.erased=0"}, &half},
		"complete":              {"Zero", []string{"lvms.erased=8388608"}, nil},
		"complete, but changed": {"None", []string{"lvms.erased=0"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e, _, _ := engineToErase(t, tt.method, tt.tags...)
			for range 2 {
				got, err := e.Erasure(t.Context(), "thick", "a", false)
				must(t, err)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestAThinVolumeIsOnlyErasedIfTheClassSaysSo(t *testing.T) {
	for method, want := range map[string]bool{"": false, "None": false, "Discard": true} {
		e, fake, k := engineToErase(t, method)
		report, err := fake.Report(t.Context())
		must(t, err)
		vg := report.VG("thin")
		k.device.UUID = "LVM-" + strings.ReplaceAll(vg.UUID+vg.LV("a").UUID, "-", "")
		got, err := e.Erasure(t.Context(), "thin", "a", false)
		if err != nil || (got != nil) != want || want && !got.Discard {
			t.Errorf("%q: got %+v, %v", method, got, err)
		}
	}
}

func TestAVolumeThatMustNotBeErased(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, e *Engine, fake *lvmtest.Fake, k *kernel)
		code    codes.Code
		want    string
	}{
		"it is in use": {func(_ *testing.T, _ *Engine, _ *lvmtest.Fake, k *kernel) { k.device.Open = 1 },
			codes.FailedPrecondition, "thick/a is in use: it is used by Pod team/a of 253:7"},
		"the device is of another group": {func(_ *testing.T, _ *Engine, _ *lvmtest.Fake, k *kernel) {
			k.device.UUID = "LVM-x"
		}, codes.FailedPrecondition, "has the UUID LVM-x"},
		"the kernel does not answer": {func(_ *testing.T, _ *Engine, _ *lvmtest.Fake, k *kernel) {
			k.err = errors.New("late")
		}, codes.Unavailable, "late"},
		"it does not exist": {func(t *testing.T, _ *Engine, fake *lvmtest.Fake, _ *kernel) {
			must(t, fake.Apply(t.Context(), lvm.LVRemove{VG: "thick", Names: []string{"a"}}))
		}, codes.NotFound, "not found"},
		"the report cannot be read": {func(_ *testing.T, _ *Engine, fake *lvmtest.Fake, _ *kernel) {
			fake.Fail("Report", errors.New("no report"))
		}, codes.Internal, "no report"},
		"its record is not a number": {func(t *testing.T, _ *Engine, fake *lvmtest.Fake, _ *kernel) {
			must(t, fake.Apply(t.Context(), lvm.LVChangeTags{VG: "thick", Name: "a", Add: []string{"lvms.erased=x"}}))
		}, codes.FailedPrecondition, "its tag lvms.erased=x is not a number of bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			e, fake, k := engineToErase(t, "Zero")
			tt.prepare(t, e, fake, k)
			for range 2 {
				got, err := e.Erasure(t.Context(), "thick", "a", false)
				wantCode(t, name, err, tt.code)
				if got != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %+v, %v, want %q", got, err, tt.want)
				}
			}
		})
	}
}

func TestAVolumeThatIsBeingErasedIsInUse(t *testing.T) {
	e, _, k := engineToErase(t, "Zero")
	k.device.Open = 1
	if got, err := e.Erasure(t.Context(), "thick", "a", true); err != nil || got == nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestNothingIsLeftToEraseOnMissingDevices(t *testing.T) {
	e, fake, _ := engineToErase(t, "Zero")
	fake.AddDisk("/dev/c", lvm.Bytes(gib), 64)
	must(t, fake.Apply(t.Context(), lvm.VGExtend{Name: "thick", Devices: []string{"/dev/c"}}))
	fake.Detach("/dev/a")
	if got, err := e.Erasure(t.Context(), "thick", "a", false); err != nil || got != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestTheProgressIsATag(t *testing.T) {
	e, fake, _ := engineToErase(t, "Zero", "lvms.formatted=xfs")
	for _, done := range []int64{0, 0, 4 * mib, 4 * mib} {
		must(t, e.Erased(t.Context(), "thick", "a", done))
		got, err := e.Erasure(t.Context(), "thick", "a", false)
		if err != nil || !got.Begun || got.Done != done {
			t.Errorf("got %+v, %v, want %d", got, err, done)
		}
	}
	report, err := fake.Report(t.Context())
	must(t, err)
	got := report.VG("thick").LV("a").Tags
	slices.Sort(got)
	if want := []string{"lvms.erased=4194304", "lvms.formatted=xfs"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	wantCode(t, "of a volume that does not exist", e.Erased(t.Context(), "thick", "b", 0), codes.NotFound)
}

// TestACachedVolumeIsNotErased: zeros could be in the cache only, while the old data stays on the devices below. A
// class that does not erase removes the volume with its cache.
func TestACachedVolumeIsNotErased(t *testing.T) {
	for method, want := range map[string]codes.Code{deviceclass.EraseZero: codes.FailedPrecondition,
		deviceclass.EraseDiscard: codes.FailedPrecondition, deviceclass.EraseNone: codes.OK} {
		e, fake, _ := engineToErase(t, method)
		fake.Edit("thick", "a", func(lv *lvm.LV) { lv.SegType = "writecache" })
		for range 2 {
			found, err := e.Erasure(t.Context(), "thick", "a", false)
			wantCode(t, method, err, want)
			if want != codes.OK && !strings.Contains(err.Error(), "lvconvert --splitcache thick/a") || found != nil {
				t.Errorf("%s: got %+v, %v", method, found, err)
			}
		}
	}
}
