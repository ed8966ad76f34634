package lvmd

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
)

// tagsOf returns the sorted tags of a volume.
func tagsOf(t *testing.T, fake *lvmtest.Fake, vg, name string) []string {
	t.Helper()
	report, err := fake.Report(t.Context())
	must(t, err)
	return slices.Sorted(slices.Values(report.VG(vg).LV(name).Tags))
}

func TestTheRecordOfACopy(t *testing.T) {
	e, fake, _ := engineToErase(t, "", "lvms.uid=1", TagNew, CopyingTag)
	for range 2 {
		must(t, e.Copied(t.Context(), "thick", "a", 4*mib))
	}
	must(t, e.Copied(t.Context(), "thick", "a", 8*mib))
	want := []string{"lvms.copied=8388608", CopyingTag, TagNew, "lvms.uid=1"}
	if diff := cmp.Diff(want, tagsOf(t, fake, "thick", "a")); diff != "" {
		t.Error(diff)
	}
	if done, err := CopiedBytes(tagsOf(t, fake, "thick", "a")); err != nil || done != 8*mib {
		t.Errorf("copied %d, %v", done, err)
	}
	must(t, e.CompleteCopy(t.Context(), "thick", "a", []string{"lvms.formatted=xfs"}))
	if diff := cmp.Diff([]string{"lvms.formatted=xfs", "lvms.uid=1"}, tagsOf(t, fake, "thick", "a")); diff != "" {
		t.Error(diff)
	}
	// A volume that is complete may be in use.
	for _, err := range []error{e.Copied(t.Context(), "thick", "a", 0),
		e.CompleteCopy(t.Context(), "thick", "a", []string{TagNew})} {
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%v, want FailedPrecondition", err)
		}
	}
}

// TestACopyOfAVolumeThatWasNeverUsed keeps the tag that lets it be formatted.
func TestACopyOfAVolumeThatWasNeverUsed(t *testing.T) {
	e, fake, _ := engineToErase(t, "", TagNew, CopyingTag)
	must(t, e.CompleteCopy(t.Context(), "thick", "a", Inherited([]string{"lvms.pvc=x/y", TagNew})))
	if diff := cmp.Diff([]string{TagNew}, tagsOf(t, fake, "thick", "a")); diff != "" {
		t.Error(diff)
	}
}

func TestInheritedTags(t *testing.T) {
	got := Inherited([]string{"lvms.uid=1", TagNew, "lvms.pvc=a/b", "lvms.formatting=xfs", "lvms.formatted=xfs",
		"lvms.encryption=luks2", CopyingTag, "lvms.copied=1"})
	want := []string{TagNew, "lvms.formatted=xfs", "lvms.encryption=luks2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// A target that an older version copied to loses the tag.
	for _, tag := range append(want, "lvms.formatting=xfs") {
		if !isReplaced(tag) {
			t.Errorf("a round does not replace %s", tag)
		}
	}
	if isReplaced("lvms.uid=1") || isReplaced(CopyingTag) {
		t.Error("a round replaces tags of the owner")
	}
}

func TestARecordOfACopyThatCannotBeRead(t *testing.T) {
	for _, tag := range []string{"lvms.copied=", "lvms.copied=-1", "lvms.copied=x", "lvms.copied=99999999999999999999"} {
		if _, err := CopiedBytes([]string{tag}); err == nil {
			t.Errorf("%s: no error", tag)
		}
	}
}

func TestTheDeviceOfACopy(t *testing.T) {
	e, _, k := engineToErase(t, "", TagNew)
	thick, err := e.Device(t.Context(), "thick", "a")
	must(t, err)
	want := &Device{VolumeGroup: "thick", Name: "a", Path: "/dev/thick/a", Number: "253:7", Size: 8 * mib,
		Tags: []string{TagNew}}
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
			_, err := e.CreateLV(t.Context(), &proto.CreateLVRequest{Name: "volume", DeviceClass: "thin",
				SizeBytes: mib, Tags: []string{TagNew, CopyingTag}})
			must(t, err)
			e.lvm = &interrupted{Fake: fake, volume: "volume", volumeNumber: 8, poolNumber: 9}
			e.kernel = &test.kernel
			for range 2 {
				_, err = e.Device(t.Context(), "thin", "volume")
				if err == nil || errors.Is(err, ErrUnfinished) != test.unfinished {
					t.Errorf("got %v, want ErrUnfinished: %t", err, test.unfinished)
				}
			}
			if !test.unfinished {
				return
			}
			must(t, e.Discard(t.Context(), "thin", "volume"))
			if _, err = e.Device(t.Context(), "thin", "volume"); status.Code(err) != codes.NotFound {
				t.Errorf("discarded: %v", err)
			}
		})
	}
}
