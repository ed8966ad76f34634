package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
)

// tagsOf returns the sorted tags of a volume.
func tagsOf(t *testing.T, fake *lvmtest.Fake, vg, name string) []string {
	t.Helper()
	report, err := fake.Report(t.Context())
	must(t, err)
	return slices.Sorted(slices.Values(report.VG(vg).LV(name).Tags))
}

// TestTheRecordOfACopy follows the tags of a restore or a clone, with each call repeated as after a kill.
func TestTheRecordOfACopy(t *testing.T) {
	for content, want := range map[string][]string{
		"lvms.formatted=xfs": {"lvms.formatted=xfs", "lvms.uid=1"},
		wellknown.NewTag:     {wellknown.NewTag, "lvms.uid=1"}, // It may be formatted when it is first used, as its source.
	} {
		e, fake := newEngine(t)
		ctx := t.Context()
		to := CopyTarget{Class: "thin", Name: "a", UID: "1", Size: 8 * mib, Source: "s", Tags: []string{"lvms.uid=1", wellknown.NewTag}}
		see := func(what string, tags ...string) {
			t.Helper()
			seeTags(t, what, fake, "a", tags...)
		}
		for range 2 {
			must(t, e.EnsureTarget(ctx, to))
			see("created", "lvms.copy-of=s", wellknown.CopyingTag, wellknown.SparseTag, wellknown.NewTag, "lvms.uid=1")
		}
		for range 2 {
			must(t, e.CopiedInRound(ctx, "thin", "a", "1", 4*mib))
			see("copied", "lvms.copied=4194304", "lvms.copy-of=s", wellknown.CopyingTag, wellknown.SparseTag, wellknown.NewTag, "lvms.uid=1")
		}
		must(t, e.CompleteCopy(ctx, "thin", "a", "1", []string{content, "lvms.pvc=x/y"}))
		see("complete", want...)
		// A volume that is complete may be in use.
		for _, err := range []error{e.CopiedInRound(ctx, "thin", "a", "1", 0), e.EnsureTarget(ctx, to),
			e.CompleteCopy(ctx, "thin", "a", "1", []string{wellknown.NewTag}), e.RemoveTarget(ctx, "thin", "a", "1")} {
			if status.Code(err) != codes.FailedPrecondition || !errors.Is(err, ErrNotTarget) {
				t.Errorf("%v, want FailedPrecondition", err)
			}
		}
		see("still complete", want...)
	}
}

// TestACopyStaysEncrypted: its own tag stays if that of its source was lost.
func TestACopyStaysEncrypted(t *testing.T) {
	e, fake := newEngine(t)
	must(t, e.EnsureTarget(t.Context(), CopyTarget{Class: "thin", Name: "a", UID: "1", Size: 8 * mib, Source: "s",
		Tags: []string{"lvms.uid=1", "lvms.encryption=luks2"}}))
	must(t, e.CompleteCopy(t.Context(), "thin", "a", "1", []string{"lvms.formatted=xfs"}))
	seeTags(t, "complete", fake, "a", "lvms.encryption=luks2", "lvms.formatted=xfs", "lvms.uid=1")
}

func TestInheritedTags(t *testing.T) {
	got := lvtag.Inherited([]string{"lvms.uid=1", wellknown.NewTag, "lvms.pvc=a/b", "lvms.formatting=xfs", "lvms.formatted=xfs",
		"lvms.encryption=luks2", wellknown.CopyingTag, "lvms.copied=1"})
	want := []string{wellknown.NewTag, "lvms.formatted=xfs", "lvms.encryption=luks2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// A target that an older version copied to loses the tag.
	for _, tag := range append(want, "lvms.formatting=xfs") {
		if !lvtag.IsReplaced(tag) {
			t.Errorf("a round does not replace %s", tag)
		}
	}
	if lvtag.IsReplaced("lvms.uid=1") || lvtag.IsReplaced(wellknown.CopyingTag) {
		t.Error("a round replaces tags of the owner")
	}
}

func TestARecordOfACopyThatCannotBeRead(t *testing.T) {
	for _, tag := range []string{"lvms.copied=", "lvms.copied=-1", "lvms.copied=x", "lvms.copied=99999999999999999999"} {
		if _, err := lvtag.CopiedBytes([]string{tag}); err == nil {
			t.Errorf("%s: no error", tag)
		}
	}
}

func TestTheDeviceOfACopy(t *testing.T) {
	e, _, k := engineToErase(t, "", wellknown.NewTag)
	thick, err := e.Device(t.Context(), "thick", "a")
	must(t, err)
	want := &Device{VolumeGroup: "thick", Name: "a", Path: "/dev/thick/a", Number: "253:7", Size: 8 * mib,
		Tags: []string{wellknown.NewTag}}
	if diff := cmp.Diff(want, thick); diff != "" {
		t.Error(diff)
	}
	if _, err := e.Device(t.Context(), "thick", "b"); status.Code(err) != codes.NotFound {
		t.Errorf("no volume: %v", err)
	}
	if _, err := e.Device(t.Context(), "thin", "a"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the device of another volume: %v", err)
	}
	e.kernel = nil
	thin, err := e.Device(t.Context(), "thin", "a")
	must(t, err)
	if thin.ThinPool != "pool" || thin.Chunk == 0 {
		t.Errorf("thin volume: %+v", thin)
	}
	e.kernel = k
	k.device.Number = ""
	if _, err := e.Device(t.Context(), "thick", "a"); err == nil {
		t.Error("a device that cannot be activated: no error")
	}
}

// TestTheRoomForACopy: copies stop below the high-water mark, and one that cannot fit does not begin. The pool of the
// class has 80 MiB, and its volume group 20 MiB more.
func TestTheRoomForACopy(t *testing.T) {
	pool := func(data, metadata uint64) devicemapper.ThinPool {
		return devicemapper.ThinPool{Mode: devicemapper.ModeReadWrite, UsedData: data, TotalData: 1000,
			UsedMetadata: metadata, TotalMetadata: 1000}
	}
	for name, tt := range map[string]struct {
		kernel kernel
		bytes  uint64
		code   codes.Code
		says   string
	}{
		"room":                   {kernel{pool: pool(899, 699)}, 0, codes.OK, ""},
		"data":                   {kernel{pool: pool(900, 0)}, 0, codes.Aborted, "its data is 90.0% full, and copies to it stop at 90%"},
		"metadata":               {kernel{pool: pool(0, 700)}, 0, codes.Aborted, "its metadata is 70.0% full, and copies to it stop at 70%"},
		"full, before it begins": {kernel{pool: pool(1000, 0)}, 1, codes.Aborted, "its data is 100.0% full"},
		"it fits":                {kernel{pool: pool(500, 0)}, 8 << 20, codes.OK, ""},
		"it is too large":        {kernel{pool: pool(500, 0)}, 4 << 40, codes.ResourceExhausted, "the copy needs 4194304 MiB in thin pool thin/pool"},
		"no answer":              {kernel{err: errors.New("no answer")}, 0, codes.Unavailable, "(no answer)"},
	} {
		e, _ := newEngine(t)
		e.kernel = &tt.kernel
		for range 2 {
			err := e.CopyRoom(t.Context(), "thin", tt.bytes)
			wantCode(t, name, err, tt.code)
			if !strings.Contains(fmt.Sprint(err), tt.says) {
				t.Errorf("%s: %v does not say %q", name, err, tt.says)
			}
		}
		must(t, e.CopyRoom(t.Context(), "thick", 4<<40))
		wantCode(t, "an unknown class", e.CopyRoom(t.Context(), "nosuch", 0), codes.NotFound)
	}
	for mark, want := range map[float64]float64{95: 90, 100: 95, 50: 45, 8: 4, 1: 0.5} {
		if got := deviceclass.CopyMark(mark); got != want {
			t.Errorf("mark %g: %g, want %g", mark, got, want)
		}
	}
}

// TestWhatIsAllocatedInASource is read from the kernel. A failed read is not taken for nothing.
func TestWhatIsAllocatedInASource(t *testing.T) {
	e, _, k := engineToErase(t, "", "lvms.uid=1")
	report, err := e.lvm.Report(t.Context())
	must(t, err)
	vg := report.VG("thin")
	k.device.UUID = "LVM-" + strings.ReplaceAll(vg.UUID+vg.LV("a").UUID, "-", "")
	k.pool = devicemapper.ThinPool{Mode: devicemapper.ModeReadWrite, TransactionID: 9, TotalData: 1, TotalMetadata: 1}
	k.mapped = []uint64{256}
	thin, err := e.Device(t.Context(), "thin", "a")
	if must(t, err); thin.Allocated != 256*512 {
		t.Errorf("%d bytes are allocated", thin.Allocated)
	}
	k.unread = errors.New("no answer")
	if _, err := e.Device(t.Context(), "thin", "a"); err == nil {
		t.Error("no error")
	}
}

// TestTheDeviceOfAThinVolumeThatItsPoolDoesNotHave does not exist: the volume must be created again. If that is not
// known, nothing is said about it.
func TestTheDeviceOfAThinVolumeThatItsPoolDoesNotHave(t *testing.T) {
	running := devicemapper.ThinPool{Mode: devicemapper.ModeReadWrite, TransactionID: 8, TotalData: 1,
		TotalMetadata: 1}
	for name, test := range map[string]struct {
		kernel     kernel
		unfinished bool
	}{
		"the pool has no such volume":       {kernel{pool: running}, true},
		"the pool has the volume":           {kernel{pool: withTransaction(running, 9)}, false},
		"the state of the pool is not read": {kernel{err: errors.New("no answer")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, fake := newEngine(t)
			must(t, e.EnsureTarget(t.Context(), CopyTarget{Class: "thin", Name: "volume", UID: "1", Size: mib, Source: "s",
				Tags: []string{"lvms.uid=1"}}))
			e.lvm = &interrupted{Fake: fake, volume: "volume", volumeNumber: 8, poolNumber: 9}
			e.kernel = &test.kernel
			for range 2 {
				_, err := e.Device(t.Context(), "thin", "volume")
				if err == nil || errors.Is(err, ErrUnfinished) != test.unfinished {
					t.Errorf("got %v, want ErrUnfinished: %t", err, test.unfinished)
				}
			}
			if !test.unfinished {
				return
			}
			must(t, e.RemoveTarget(t.Context(), "thin", "volume", "1"))
			if _, err := e.Device(t.Context(), "thin", "volume"); status.Code(err) != codes.NotFound {
				t.Errorf("removed: %v", err)
			}
		})
	}
}
