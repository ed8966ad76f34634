package lvmd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/vgmanager/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
)

// interrupted is an LVM in which the command that created a thin volume was killed: the volume is inactive, and LVM has
// committed a transaction more than the kernel.
type interrupted struct {
	*lvmtest.Fake
	volume       string
	volumeNumber uint64
	poolNumber   uint64
}

func (i *interrupted) Recent(ctx context.Context, maxAge time.Duration) (*lvm.Report, error) {
	return i.change(i.Fake.Recent(ctx, maxAge))
}

func (i *interrupted) Report(ctx context.Context) (*lvm.Report, error) {
	return i.change(i.Fake.Report(ctx))
}

func (i *interrupted) change(report *lvm.Report, err error) (*lvm.Report, error) {
	if err != nil || i.volume == "" {
		return report, err
	}
	vg := report.VG("thin")
	for at := range vg.LVs {
		switch lv := &vg.LVs[at]; lv.Name {
		case "pool":
			lv.TransactionID = &i.poolNumber
		case i.volume:
			lv.Attr = "Vwi---tz--"
			lv.TransactionID = &i.volumeNumber
		}
	}
	return report, nil
}

func (i *interrupted) LVRemove(ctx context.Context, vg string, names ...string) error {
	i.volume = ""
	return i.Fake.LVRemove(ctx, vg, names...)
}

func TestAThinVolumeThatItsPoolDoesNotHaveIsRecreated(t *testing.T) {
	running := devicemapper.ThinPool{Mode: devicemapper.ModeReadWrite, TransactionID: 8, TotalData: 1, TotalMetadata: 1}
	for name, test := range map[string]struct {
		poolNumber uint64
		kernel     kernel
		recreated  bool
		code       codes.Code
	}{
		"the pool has no such volume":       {9, kernel{pool: running}, true, codes.OK},
		"LVM has committed nothing more":    {8, kernel{pool: running}, false, codes.OK},
		"LVM has committed more than that":  {10, kernel{pool: running}, false, codes.OK},
		"the pool has the volume":           {9, kernel{pool: withTransaction(running, 9)}, false, codes.OK},
		"the pool has failed":               {9, kernel{pool: devicemapper.ThinPool{Mode: "Fail"}}, false, codes.OK},
		"the pool is not active":            {9, kernel{err: devicemapper.ErrNotFound}, false, codes.OK},
		"the state of the pool is not read": {9, kernel{err: errors.New("no answer")}, false, codes.Aborted},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			e, fake := newEngine(t)
			source := &proto.CreateLVRequest{Name: "source", DeviceClass: "thin", SizeBytes: mib}
			_, err := e.CreateLV(ctx, source)
			must(t, err)
			requests := map[string]func() error{
				"volume": func() error {
					_, err := e.CreateLV(ctx, &proto.CreateLVRequest{Name: "volume", DeviceClass: "thin", SizeBytes: mib})
					return err
				},
				"snapshot": func() error {
					_, err := e.CreateLVSnapshot(ctx, &proto.CreateLVSnapshotRequest{Name: "snapshot",
						DeviceClass: "thin", SourceVolume: "source", AccessType: "ro"})
					return err
				},
			}
			for volume, request := range requests {
				e.lvm = fake
				e.kernel = nil
				must(t, request())
				before := fake.Calls()["LVRemove"]
				e.lvm = &interrupted{Fake: fake, volume: volume, volumeNumber: 8, poolNumber: test.poolNumber}
				e.kernel = &test.kernel
				wantCode(t, volume, request(), test.code)
				if removed := fake.Calls()["LVRemove"] > before; removed != test.recreated {
					t.Errorf("%s: removed %t", volume, removed)
				}
				report, err := fake.Report(ctx)
				must(t, err)
				if report.VG("thin").LV(volume) == nil {
					t.Errorf("%s does not exist", volume)
				}
			}
		})
	}
}

func withTransaction(pool devicemapper.ThinPool, id uint64) devicemapper.ThinPool {
	pool.TransactionID = id
	return pool
}

func TestAnInterruptedExtensionIsCompleted(t *testing.T) {
	device := devicemapper.Device{Number: "254:7"}
	suspended := device
	suspended.Suspended = true
	for name, test := range map[string]struct {
		kernel   kernel
		reloaded bool
		code     codes.Code
	}{
		"complete":                {kernel{device: device, size: 8 * mib}, false, codes.OK},
		"the device is smaller":   {kernel{device: device, size: 4 * mib}, true, codes.OK},
		"the device is suspended": {kernel{device: suspended, size: 8 * mib}, true, codes.OK},
		"the device has no table": {kernel{device: device}, false, codes.OK},
		"not active":              {kernel{}, false, codes.OK},
		"no answer":               {kernel{device: device, err: errors.New("no answer")}, false, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			e, fake := newEngine(t)
			_, err := e.CreateLV(ctx, &proto.CreateLVRequest{Name: "a", DeviceClass: "thick", SizeBytes: 8 * mib})
			must(t, err)
			e.kernel = &test.kernel
			for range 2 {
				_, err = e.ResizeLV(ctx, &proto.ResizeLVRequest{Name: "a", DeviceClass: "thick", SizeBytes: 8 * mib})
				wantCode(t, "resize", err, test.code)
			}
			if reloaded := fake.Calls()["LVRefresh"] > 0; reloaded != test.reloaded {
				t.Errorf("reloaded %t", reloaded)
			}
			if test.reloaded {
				fake.Fail("LVRefresh", errors.New("no answer"))
				if _, err = e.ResizeLV(ctx, &proto.ResizeLVRequest{Name: "a", DeviceClass: "thick",
					SizeBytes: 8 * mib}); err == nil {
					t.Error("a device that does not match its metadata is reported as extended")
				}
			}
		})
	}
}
