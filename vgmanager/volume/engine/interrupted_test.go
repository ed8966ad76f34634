package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
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

func (i *interrupted) Apply(ctx context.Context, change lvm.Change) error {
	if _, is := change.(lvm.LVRemove); is {
		i.volume = ""
	}
	return i.Fake.Apply(ctx, change)
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
			source := NewVolume{Name: "source", Class: "thin", Size: mib}
			_, err := e.CreateLV(ctx, source)
			must(t, err)
			requests := map[string]func() error{
				"volume": func() error {
					_, err := e.CreateLV(ctx, NewVolume{Name: "volume", Class: "thin", Size: mib})
					return err
				},
				"snapshot": func() error {
					_, err := e.CreateLVSnapshot(ctx, NewSnapshot{Name: "snapshot",
						Class: "thin", Source: "source", ReadOnly: true})
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
			_, err := e.CreateLV(ctx, NewVolume{Name: "a", Class: "thick", Size: 8 * mib})
			must(t, err)
			e.kernel = &test.kernel
			for range 2 {
				_, err = e.ResizeLV(ctx, "thick", "a", 8*mib)
				wantCode(t, "resize", err, test.code)
			}
			if reloaded := fake.Calls()["LVRefresh"] > 0; reloaded != test.reloaded {
				t.Errorf("reloaded %t", reloaded)
			}
			if test.reloaded {
				fake.Fail("LVRefresh", errors.New("no answer"))
				if _, err = e.ResizeLV(ctx, "thick", "a", 8*mib); err == nil {
					t.Error("a device that does not match its metadata is reported as extended")
				}
			}
		})
	}
}

func thinRequest(tags ...string) NewVolume {
	return NewVolume{Name: "new", Class: "thin", Size: mib, Tags: tags}
}

func has(t *testing.T, fake *lvmtest.Fake, name string) bool {
	t.Helper()
	report, err := fake.Report(t.Context())
	must(t, err)
	return report.VG("thin").LV(name) != nil
}

// TestANewThinVolumeWithDataIsRemoved: the pool has a thin device that LVM does not know.
func TestANewThinVolumeWithDataIsRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		kernel kernel
		says   string
	}{
		"it has data":          {kernel{mapped: []uint64{0x80}}, "already has data of a removed volume in thin pool pool, 65536 bytes"},
		"that cannot be read":  {kernel{unread: errors.New("no answer")}, "no answer"},
		"it does not activate": {kernel{unread: devicemapper.ErrNotFound}, "no such mapped device"},
	} {
		t.Run(name, func(t *testing.T) {
			e, fake := newEngine(t)
			e.kernel = &test.kernel
			for range 2 {
				_, err := e.CreateLV(t.Context(), thinRequest(wellknown.NewTag))
				if wantCode(t, "create", err, codes.Aborted); !strings.Contains(err.Error(), test.says) {
					t.Errorf("got %v", err)
				}
				if has(t, fake, "new") {
					t.Error("it exists")
				}
			}
			fake.Fail("LVRemove", errors.New("cannot be removed"))
			_, err := e.CreateLV(t.Context(), thinRequest(wellknown.NewTag))
			if wantCode(t, "create", err, codes.Aborted); !strings.Contains(err.Error(), test.says) ||
				!strings.Contains(err.Error(), "cannot be removed") {
				t.Errorf("got %v", err)
			}
		})
	}
	e, fake := newEngine(t)
	e.kernel = &kernel{}
	for range 2 {
		if _, err := e.CreateLV(t.Context(), thinRequest(wellknown.NewTag)); err != nil || !has(t, fake, "new") {
			t.Errorf("an empty volume: %v", err)
		}
	}
	if calls := fake.Calls(); calls["LVCreateThin"] != 1 || calls["LVRemove"]+calls["LVActivate"] != 0 {
		t.Errorf("an empty volume: %v", calls)
	}
}

// TestAVolumeOfAnEarlierRequestMustBeEmpty: the command that created it was killed, or its agent.
func TestAVolumeOfAnEarlierRequestMustBeEmpty(t *testing.T) {
	for name, test := range map[string]struct {
		kernel     kernel
		tags       []string
		code       codes.Code
		unfinished bool
	}{
		"it has data":            {kernel{mapped: []uint64{8}}, []string{wellknown.NewTag}, codes.Aborted, true},
		"it may have been used":  {kernel{mapped: []uint64{8}}, nil, codes.OK, false},
		"that cannot be read":    {kernel{unread: errors.New("no answer")}, []string{wellknown.NewTag}, codes.Aborted, false},
		"it cannot be activated": {kernel{unread: devicemapper.ErrNotFound}, []string{wellknown.NewTag}, codes.Aborted, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, fake := newEngine(t)
			_, err := e.CreateLV(t.Context(), thinRequest(test.tags...))
			must(t, err)
			e.kernel = &test.kernel
			for range 2 {
				_, err := e.CreateLV(t.Context(), thinRequest(wellknown.NewTag))
				if wantCode(t, "again", err, test.code); errors.Is(err, ErrUnfinished) != test.unfinished {
					t.Errorf("got %v", err)
				}
			}
			if !has(t, fake, "new") {
				t.Error("it was removed, though somebody may have been told of it")
			}
			if activated := fake.Calls()["LVActivate"] > 0; activated != errors.Is(test.kernel.unread, devicemapper.ErrNotFound) {
				t.Errorf("activated: %t", activated)
			}
		})
	}
}

func TestALeftoverOfThePoolDoesNotPreventSnapshots(t *testing.T) {
	requests := map[string]func(e *Engine, name string) error{
		"snapshot": func(e *Engine, name string) error {
			_, err := e.CreateLVSnapshot(t.Context(), NewSnapshot{Name: name, Class: "thin",
				Source: "source", ReadOnly: true})
			return err
		},
		"snapshot of a group": func(e *Engine, name string) error {
			return e.PrepareSnapshot(t.Context(), NewSnapshot{Name: name, Class: "thin",
				Source: "source", ReadOnly: true})
		},
	}
	for what, request := range requests {
		t.Run(what, func(t *testing.T) {
			e, fake := newEngine(t)
			_, err := e.CreateLV(t.Context(), NewVolume{Name: "source", Class: "thin", Size: mib})
			must(t, err)
			e.lvm = &refusing{Fake: fake, err: lvm.ErrLeftover, times: 1}
			must(t, request(e, "a"))
			if calls := fake.Calls(); !has(t, fake, "a") || has(t, fake, leftoverName) || calls["LVRemove"] != 1 {
				t.Errorf("got %v", calls)
			}
			// An earlier process was killed after it had created the volume that it removes.
			must(t, fake.Apply(t.Context(), lvm.LVCreateThin{VG: "thin", Pool: "pool", Name: leftoverName,
				VirtualSize: lvm.Bytes(4 * mib)}))
			e.lvm = &refusing{Fake: fake, err: lvm.ErrLeftover, times: 1}
			must(t, request(e, "b"))
			if !has(t, fake, "b") || has(t, fake, leftoverName) {
				t.Error("it stays")
			}
			e.lvm = &refusing{Fake: fake, err: lvm.ErrLeftover, times: 2}
			fake.Fail("LVRemove", errors.New("no answer"))
			if err := request(e, "c"); err == nil || !strings.Contains(err.Error(), "no answer") || has(t, fake, "c") {
				t.Errorf("got %v", err)
			}
			fake.Fail("LVRemove", nil)
			e.lvm = &refusing{Fake: fake, err: errors.New("another error"), times: 2}
			if err := request(e, "d"); err == nil || has(t, fake, "d") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// refusing is an LVM that refuses a number of snapshots.
type refusing struct {
	*lvmtest.Fake
	err   error
	times int
}

func (r *refusing) Apply(ctx context.Context, change lvm.Change) error {
	if _, is := change.(lvm.LVCreateSnapshot); is && r.times > 0 {
		r.times--
		return r.err
	}
	return r.Fake.Apply(ctx, change)
}

func TestASuspendedPoolIsResumedBeforeAChange(t *testing.T) {
	e, fake := newEngine(t)
	running := devicemapper.ThinPool{Mode: devicemapper.ModeReadWrite, TotalData: 1, TotalMetadata: 1}
	e.kernel = &kernel{pool: running}
	_, err := e.CreateLV(t.Context(), thinRequest())
	if must(t, err); fake.Calls()["ThinPoolResume"] != 0 {
		t.Errorf("got %v", fake.Calls())
	}
	running.Suspended = true
	e.kernel = &kernel{pool: running}
	changes := map[string]func() error{
		"create": func() error { _, err := e.CreateLV(t.Context(), thinRequest()); return err },
		"extend": func() error {
			_, err := e.ResizeLV(t.Context(), "thin", "new", 8*mib)
			return err
		},
		"remove": func() error {
			err := e.RemoveLV(t.Context(), "thin", "new")
			return err
		},
	}
	for _, name := range []string{"create", "extend", "remove"} {
		fake.Fail("ThinPoolResume", fmt.Errorf("thin pool thin/pool: %w", lvm.ErrBusy))
		before := fake.Calls()
		if err := changes[name](); status.Code(err) != codes.Unavailable || fake.Calls()["LVRemove"] != before["LVRemove"] ||
			fake.Calls()["LVExtend"] != before["LVExtend"] {
			t.Errorf("%s of a pool that stays suspended: %v", name, err)
		}
		fake.Fail("ThinPoolResume", nil)
		if err := changes[name](); err != nil || fake.Calls()["ThinPoolResume"] <= before["ThinPoolResume"] {
			t.Errorf("%s: %v, %v", name, err, fake.Calls())
		}
	}
}
