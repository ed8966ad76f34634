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

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
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
		_, err := e.ResizeLV(ctx, &proto.ResizeLVRequest{Name: name, DeviceClass: "thin", SizeBytes: 8 * mib})
		wantCode(t, "resize "+name, err, want)
		_, err = e.CreateLVSnapshot(ctx, &proto.CreateLVSnapshotRequest{Name: "s", SourceVolume: name,
			DeviceClass: "thin", AccessType: "rw"})
		wantCode(t, "snapshot of "+name, err, codes.OK) // the second time it exists
		_, err = e.FindLV(ctx, "thin", name)
		wantCode(t, "find "+name, err, want)
		_, err = e.RemoveLV(ctx, &proto.RemoveLVRequest{Name: name, DeviceClass: "thin"})
		wantCode(t, "remove "+name, err, want)
	}
	response, err := e.CreateLV(ctx, &proto.CreateLVRequest{Name: "a", DeviceClass: "thin", SizeBytes: 4 * mib})
	must(t, err)
	again, err := e.CreateLV(ctx, &proto.CreateLVRequest{Name: "a", DeviceClass: "thin", SizeBytes: 4 * mib})
	if err != nil || again.GetVolume().GetSizeBytes() != response.GetVolume().GetSizeBytes() {
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
			_, errs[i] = e.RemoveLV(ctx, &proto.RemoveLVRequest{Name: fmt.Sprint("v", i), DeviceClass: "thin"})
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
	list, err := e.GetLVList(ctx, &proto.GetLVListRequest{DeviceClass: "thin"})
	if err != nil || len(list.GetVolumes()) != 1 {
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
	_, err = e.RemoveLV(short, &proto.RemoveLVRequest{Name: "a", DeviceClass: "thin"})
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
			classes := slices.Clone(e.classes.Load().classes)
			for i := range classes {
				if c := classes[i].ThinPoolConfig; c != nil {
					marked := *c
					marked.HighWaterMarkPercent = tt.mark
					classes[i].ThinPoolConfig = &marked
				}
			}
			must(t, e.setClasses(classes))
			_, err := e.CreateLV(ctx, &proto.CreateLVRequest{Name: "before", DeviceClass: "thin", SizeBytes: mib})
			must(t, err)
			e.kernel = &tt.kernel
			_, create := e.CreateLV(ctx, &proto.CreateLVRequest{Name: "a", DeviceClass: "thin", SizeBytes: mib})
			_, snapshot := e.CreateLVSnapshot(ctx,
				&proto.CreateLVSnapshotRequest{Name: "s", DeviceClass: "thin", SourceVolume: "before",
					AccessType: "ro"})
			_, grow := e.ResizeLV(ctx, &proto.ResizeLVRequest{Name: "before", DeviceClass: "thin", SizeBytes: 40 * mib})
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
			free, err := e.GetFreeBytes(ctx, &proto.GetFreeBytesRequest{DeviceClass: "thin"})
			if err != nil || (free.GetFreeBytes() == 0) != (tt.says != "") {
				t.Errorf("capacity: %d, %v", free.GetFreeBytes(), err)
			}
			// Existing volumes stay available and can be removed.
			if _, err := e.RemoveLV(ctx, &proto.RemoveLVRequest{Name: "before", DeviceClass: "thin"}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMetadataMark(t *testing.T) {
	for size, want := range map[int64]float64{0: 95, 2 * mib: 75, 16 * mib: 75, 32 * mib: 87.5, 80 * mib: 95, gib: 95} {
		if got := metadataMark(lvm.Bytes(size), deviceclass.DefaultHighWaterMark); got != want {
			t.Errorf("%d MiB: got %g, want %g", size/mib, got, want)
		}
	}
}

// TestAThickVolumeThatWasNotFinishedIsMadeAnew: the process or the node ends between lvcreate and the response, so a
// thick volume may not have been wiped.
func TestAThickVolumeThatWasNotFinishedIsMadeAnew(t *testing.T) {
	ctx := t.Context()
	e, fake := newEngine(t)
	request := func(class string, tags ...string) *proto.CreateLVRequest {
		return &proto.CreateLVRequest{Name: "a", DeviceClass: class, SizeBytes: mib, Tags: tags}
	}
	for _, class := range []string{"thick", "thin"} {
		_, err := e.CreateLV(ctx, request(class, "lvms.uid=a", TagNew))
		must(t, err)
	}
	if _, err := e.CreateLV(ctx, request("thin", "lvms.uid=a", TagNew)); err != nil {
		t.Errorf("a thin volume reads as zeroes from the beginning: %v", err)
	}
	for range 2 {
		_, err := e.CreateLV(ctx, request("thick", "lvms.uid=a", TagNew))
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
	_, err := e.CreateLV(ctx, request("thick", "lvms.uid=a", TagNew))
	must(t, err)
	if calls := fake.Calls(); calls["LVCreateThick"] != 2 || calls["LVRemove"] != 1 || calls["LVCreateThin"] != 1 {
		t.Errorf("got %v", calls)
	}
	must(t, e.TagLV(ctx, "thick", "a", []string{"lvms.formatted=ext4"}, []string{TagNew}))
	_, err = e.CreateLV(ctx, request("thick", TagNew))
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
	_, err := e.CreateLV(ctx, &proto.CreateLVRequest{Name: "a", DeviceClass: "thin", SizeBytes: 8 * mib,
		Tags: []string{"lvms.formatted=xfs", "lvms.pvc=x/y"}})
	must(t, err)
	must(t, fake.Apply(ctx, lvm.LVCreateSnapshot{VG: "thin", Source: "a", Name: "b"}))
	for range 2 {
		response, err := e.CreateLVSnapshot(ctx,
			&proto.CreateLVSnapshotRequest{Name: "b", DeviceClass: "thin", SourceVolume: "a", AccessType: "rw",
				SizeBytes: 20 * mib})
		if err != nil || response.GetSnapshot().GetSizeBytes() != 20*mib {
			t.Errorf("got %v, %v", response, err)
		}
	}
	_, err = e.CreateLVSnapshot(ctx, &proto.CreateLVSnapshotRequest{Name: "a", DeviceClass: "thin", SourceVolume: "b",
		AccessType: "rw", SizeBytes: 20 * mib})
	must(t, err) // LVM does not know the origin of a copy after its source is removed
	_, err = e.CreateLVSnapshot(ctx, &proto.CreateLVSnapshotRequest{Name: "b", DeviceClass: "thin", SourceVolume: "c",
		AccessType: "rw", SizeBytes: 20 * mib})
	wantCode(t, "a copy of another volume", err, codes.AlreadyExists)

	_, err = e.CreateLVSnapshot(ctx, &proto.CreateLVSnapshotRequest{Name: "c", DeviceClass: "thin", SourceVolume: "a",
		AccessType: "rw", Tags: []string{"lvms.pvc=x/z"}})
	must(t, err)
	lv, err := e.FindLV(ctx, "thin", "c")
	if err != nil || !slices.Contains(lv.GetTags(), "lvms.formatted=xfs") ||
		slices.Contains(lv.GetTags(), "lvms.pvc=x/y") {
		t.Errorf("got the tags %q, %v", lv.GetTags(), err)
	}
}

func TestElsewhereKeepsWhatAnotherNodeCannotHelp(t *testing.T) {
	for err, want := range map[error]codes.Code{
		statusOf(lvm.ErrBusy):                            codes.Unavailable,
		statusOf(lvm.ErrExists):                          codes.AlreadyExists,
		statusOf(context.DeadlineExceeded):               codes.DeadlineExceeded,
		statusOf(lvm.ErrDuplicatePV):                     codes.ResourceExhausted,
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
