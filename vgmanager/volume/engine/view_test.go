package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
)

// outdated is an LVM whose cached report is outdated.
type outdated struct {
	*lvmtest.Fake
	view *lvm.Report
}

func (o *outdated) Recent(context.Context, time.Duration) (*lvm.Report, error) { return o.view, nil }

// outdatedEngine returns an engine whose cached report does not include what happens after this call.
func outdatedEngine(t *testing.T) (*Engine, *lvmtest.Fake) {
	t.Helper()
	e, fake := newEngine(t)
	view, err := fake.Report(t.Context())
	must(t, err)
	e.lvm = &outdated{Fake: fake, view: view}
	return e, fake
}

// TestAnOutdatedViewLeadsToNoWrongAnswer: another program has changed the volume groups. The engine must return the
// same results as with a new report.
func TestAnOutdatedViewLeadsToNoWrongAnswer(t *testing.T) {
	ctx := t.Context()
	e, fake := outdatedEngine(t)
	must(t, fake.Apply(ctx, lvm.LVCreateThin{VG: "thin", Pool: "pool", Name: "others",
		VirtualSize: lvm.Bytes(4 * mib)}))
	for _, name := range []string{"others", "nosuch"} {
		want := codes.OK
		if name == "nosuch" {
			want = codes.NotFound
		}
		_, err := e.ResizeLV(ctx, "thin", name, 8*mib)
		wantCode(t, "resize "+name, err, want)
		_, err = e.CreateLVSnapshot(ctx, NewSnapshot{Name: "s", Source: name,
			Class: "thin"})
		wantCode(t, "snapshot of "+name, err, codes.OK) // the second time it exists
		_, err = e.FindLV(ctx, "thin", name)
		wantCode(t, "find "+name, err, want)
		err = e.RemoveLV(ctx, "thin", name)
		wantCode(t, "remove "+name, err, want)
	}
	response, err := e.CreateLV(ctx, NewVolume{Name: "a", Class: "thin", Size: 4 * mib})
	must(t, err)
	again, err := e.CreateLV(ctx, NewVolume{Name: "a", Class: "thin", Size: 4 * mib})
	if err != nil || sizeOf(again) != sizeOf(response) {
		t.Errorf("the second time: %v, %v", again, err)
	}
}

func TestRemovalsThatComeTogetherShareACommand(t *testing.T) {
	const volumes = 10
	ctx := t.Context()
	e, fake := newEngine(t)
	for i := range volumes {
		must(t, fake.Apply(ctx, lvm.LVCreateThin{VG: "thin", Pool: "pool", Name: fmt.Sprint("v", i),
			VirtualSize: lvm.Bytes(mib)}))
	}
	fake.Open("thin", "v3", true)
	leave, err := e.enter(ctx, "thin")
	must(t, err)
	errs := make([]error, volumes+1)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			errs[i] = e.RemoveLV(ctx, "thin", fmt.Sprint("v", i))
		})
	}
	for {
		e.removals.mu.Lock()
		n := len(e.removals.waiting)
		e.removals.mu.Unlock()
		if n == len(errs) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	leave()
	all.Wait()
	for i, err := range errs {
		want := codes.OK
		switch i {
		case 3:
			want = codes.FailedPrecondition
		case volumes:
			want = codes.NotFound
		}
		wantCode(t, fmt.Sprint("v", i), err, want)
	}
	list, err := e.ListLVs(ctx, "thin")
	if err != nil || len(list) != 1 {
		t.Errorf("got %v, %v", list, err)
	}

	fake.Open("thin", "v3", false)
	must(t, fake.Apply(ctx, lvm.LVCreateThin{VG: "thin", Pool: "pool", Name: "w", VirtualSize: lvm.Bytes(mib)}))
	before := fake.Calls()["LVRemove"]
	together := []*removal{{class: "thin", name: "v3", answer: make(chan error, 1)},
		{class: "thin", name: "w", answer: make(chan error, 1)}}
	e.remove(ctx, together)
	if err := errors.Join(<-together[0].answer, <-together[1].answer); err != nil ||
		fake.Calls()["LVRemove"] != before+1 {
		t.Errorf("%d commands, %v", fake.Calls()["LVRemove"]-before, err)
	}
}

// TestARemovalThatIsGivenUpIsNotMade: a request that is canceled while it waits must not remove anything.
func TestARemovalThatIsGivenUpIsNotMade(t *testing.T) {
	e, fake := newEngine(t)
	must(t, fake.Apply(t.Context(), lvm.LVCreateThin{VG: "thin", Pool: "pool", Name: "a", VirtualSize: lvm.Bytes(mib)}))
	leave, err := e.enter(t.Context(), "thin")
	must(t, err)
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err = e.RemoveLV(short, "thin", "a")
	wantCode(t, "given up", err, codes.DeadlineExceeded)
	leave()
	if len(e.removals.waiting) != 0 || fake.Calls()["LVRemove"] != 0 {
		t.Error("the volume was removed, or will be")
	}
}

// kernel simulates one thin pool and one volume. A volume without a number is not active.
type kernel struct {
	pool   devicemapper.ThinPool
	err    error
	device devicemapper.Device
	size   int64
	// mapped and unread are the answers about mapped sectors, one after another. The last one stays.
	mapped []uint64
	unread error
}

func (k *kernel) ThinPool(context.Context, string, string) (devicemapper.ThinPool, error) {
	return k.pool, k.err
}

func (k *kernel) Volume(context.Context, string, string) (devicemapper.Device, error) {
	if k.device.Number == "" {
		return devicemapper.Device{}, devicemapper.ErrNotFound
	}
	return k.device, k.err
}

func (k *kernel) Size(string) (int64, error) { return k.size, k.err }

func (k *kernel) MappedSectors(context.Context, string, string) (uint64, error) {
	if len(k.mapped) == 0 {
		return 0, k.unread
	}
	mapped := k.mapped[0]
	if len(k.mapped) > 1 {
		k.mapped = k.mapped[1:]
	}
	return mapped, k.unread
}

func TestAPoolThatIsNearlyFullTakesNothingNew(t *testing.T) {
	pool := func(mode string, data, metadata uint64, check bool) devicemapper.ThinPool {
		return devicemapper.ThinPool{Mode: mode, UsedData: data, TotalData: 1000, UsedMetadata: metadata,
			TotalMetadata: 1000, NeedsCheck: check}
	}
	for name, tt := range map[string]struct {
		kernel kernel
		says   string
		mark   int
	}{
		"below a low mark": {kernel{pool: pool("rw", 599, 599, false)}, "", 60},
		"above a low mark": {kernel{pool: pool("rw", 600, 600, false)},
			"its data is 60.0% full, and the limit is 60%, and its metadata is 60.0% full, and the limit is 60%",
			60},
		"no mark": {kernel{pool: pool("rw", 999, 0, false)}, "", 100},
		"full, no mark": {kernel{pool: pool("rw", 1000, 0, false)},
			"its data is 100.0% full, and the limit is 100%", 100},
		"no mark, but for that of LVM": {kernel{pool: pool("rw", 0, 750, false)},
			"its metadata is 75.0% full, and the limit is 75%", 100},
		"below both marks": {kernel{pool: pool("rw", 949, 749, false)}, "", 0},
		"data": {kernel{pool: pool("rw", 950, 0, false)},
			"its data is 95.0% full, and the limit is 95%", 0},
		"metadata": {kernel{pool: pool("rw", 0, 750, false)},
			"its metadata is 75.0% full, and the limit is 75%", 0},
		"both": {kernel{pool: pool("rw", 1000, 1000, false)},
			"its data is 100.0% full, and the limit is 95%, and its metadata", 0},
		"read-only":     {kernel{pool: pool("ro", 0, 0, false)}, "is not healthy: ro", 0},
		"failed":        {kernel{pool: devicemapper.ThinPool{Mode: "Fail"}}, "is not healthy: Fail", 0},
		"to be checked": {kernel{pool: pool("rw", 0, 0, true)}, "check needed", 0},
		"not active":    {kernel{err: devicemapper.ErrNotFound}, "", 0},
		"no answer":     {kernel{err: errors.New("the kernel does not answer")}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			e, _ := newEngine(t)
			e.kernel = nil
			classes := slices.Clone(e.Current().Classes)
			for i := range classes {
				if c := classes[i].ThinPoolConfig; c != nil {
					marked := *c
					marked.HighWaterMarkPercent = tt.mark
					classes[i].ThinPoolConfig = &marked
				}
			}
			setClasses(t, e, classes...)
			_, err := e.CreateLV(ctx, NewVolume{Name: "before", Class: "thin", Size: mib})
			must(t, err)
			e.kernel = &tt.kernel
			_, create := e.CreateLV(ctx, NewVolume{Name: "a", Class: "thin", Size: mib})
			_, snapshot := e.CreateLVSnapshot(ctx,
				NewSnapshot{Name: "s", Class: "thin", Source: "before",
					ReadOnly: true})
			_, grow := e.ResizeLV(ctx, "thin", "before", 40*mib)
			for what, err := range map[string]error{"create": create, "snapshot": snapshot, "grow": grow} {
				want := codes.OK
				if tt.says != "" {
					want = codes.ResourceExhausted
				}
				wantCode(t, what, err, want)
				if !strings.Contains(fmt.Sprint(err), tt.says) {
					t.Errorf("%s: %v does not say %q", what, err, tt.says)
				}
			}
			free, err := e.FreeBytes(ctx, "thin")
			if err != nil || (free == 0) != (tt.says != "") {
				t.Errorf("capacity: %d, %v", free, err)
			}
			// Existing volumes stay available and can be removed.
			if err := e.RemoveLV(ctx, "thin", "before"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAThickVolumeThatWasNotFinishedIsMadeAnew: the process or the node ends between lvcreate and the response, so a
// thick volume may not have been wiped.
func TestAThickVolumeThatWasNotFinishedIsMadeAnew(t *testing.T) {
	ctx := t.Context()
	e, fake := newEngine(t)
	request := func(class string, tags ...string) NewVolume {
		return NewVolume{Name: "a", Class: class, Size: mib, Tags: tags}
	}
	for _, class := range []string{"thick", "thin"} {
		_, err := e.CreateLV(ctx, request(class, "lvms.uid=a", wellknown.NewTag))
		must(t, err)
	}
	if _, err := e.CreateLV(ctx, request("thin", "lvms.uid=a", wellknown.NewTag)); err != nil {
		t.Errorf("a thin volume reads as zeroes from the beginning: %v", err)
	}
	for range 2 {
		_, err := e.CreateLV(ctx, request("thick", "lvms.uid=a", wellknown.NewTag))
		if wantCode(t, "again", err, codes.Aborted); !errors.Is(err, ErrUnfinished) {
			t.Errorf("got %v", err)
		}
	}
	if calls := fake.Calls(); calls["LVRemove"] != 0 {
		t.Errorf("it was removed, though somebody may have been told of it: %v", calls)
	}
	for range 2 {
		must(t, e.Discard(ctx, "thick", "a"))
	}
	_, err := e.CreateLV(ctx, request("thick", "lvms.uid=a", wellknown.NewTag))
	must(t, err)
	if calls := fake.Calls(); calls["LVCreateThick"] != 2 || calls["LVRemove"] != 1 || calls["LVCreateThin"] != 1 {
		t.Errorf("got %v", calls)
	}
	must(t, e.TagLV(ctx, "thick", "a", []string{"lvms.formatted=ext4"}, []string{wellknown.NewTag}))
	_, err = e.CreateLV(ctx, request("thick", wellknown.NewTag))
	must(t, err)
	wantCode(t, "a volume that is used", e.Discard(ctx, "thick", "a"), codes.FailedPrecondition)
	wantCode(t, "no such class", e.Discard(ctx, "nosuch", "a"), codes.NotFound)
	fake.Fail("Report", errors.New("no answer"))
	if err := e.Discard(ctx, "thick", "a"); err == nil || fake.Calls()["LVRemove"] != 1 {
		t.Errorf("what cannot be seen is removed, or %v", err)
	}
}

func TestASnapshotThatHadNotGrownGrows(t *testing.T) {
	ctx := t.Context()
	e, fake := newEngine(t)
	_, err := e.CreateLV(ctx, NewVolume{Name: "a", Class: "thin", Size: 8 * mib,
		Tags: []string{"lvms.formatted=xfs", "lvms.pvc=x/y"}})
	must(t, err)
	must(t, fake.Apply(ctx, lvm.LVCreateSnapshot{VG: "thin", Source: "a", Name: "b"}))
	for range 2 {
		response, err := e.CreateLVSnapshot(ctx,
			NewSnapshot{Name: "b", Class: "thin", Source: "a",
				Size: 20 * mib})
		if err != nil || sizeOf(response) != 20*mib {
			t.Errorf("got %v, %v", response, err)
		}
	}
	_, err = e.CreateLVSnapshot(ctx, NewSnapshot{Name: "a", Class: "thin", Source: "b", Size: 20 * mib})
	must(t, err) // LVM does not know the origin of a copy after its source is removed
	_, err = e.CreateLVSnapshot(ctx, NewSnapshot{Name: "b", Class: "thin", Source: "c", Size: 20 * mib})
	wantCode(t, "a copy of another volume", err, codes.AlreadyExists)

	_, err = e.CreateLVSnapshot(ctx, NewSnapshot{Name: "c", Class: "thin", Source: "a", Tags: []string{"lvms.pvc=x/z"}})
	must(t, err)
	lv, err := e.FindLV(ctx, "thin", "c")
	if err != nil || !slices.Contains(lv.Tags, "lvms.formatted=xfs") ||
		slices.Contains(lv.Tags, "lvms.pvc=x/y") {
		t.Errorf("got the tags %q, %v", lv.Tags, err)
	}
}

func TestElsewhereKeepsWhatAnotherNodeCannotHelp(t *testing.T) {
	for err, want := range map[error]codes.Code{
		fault.Of(lvm.ErrBusy):                            codes.Unavailable,
		fault.Of(lvm.ErrExists):                          codes.AlreadyExists,
		fault.Of(context.DeadlineExceeded):               codes.DeadlineExceeded,
		fault.Of(lvm.ErrDuplicatePV):                     codes.ResourceExhausted,
		status.Error(codes.Unavailable, "no such group"): codes.ResourceExhausted,
	} {
		if got := status.Code(asResourceExhausted(err)); got != want {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
	}
	if asResourceExhausted(nil) != nil {
		t.Error("nil became an error")
	}
}
