package changedblocks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

// fake is a node that fulfills contract. faults are the errors of its calls, by the name of the call; after is how many
// calls with the name succeed before.
type fake struct {
	mu        sync.Mutex
	devices   map[uint64]map[uint64]uint64 // the block of each chunk, by device ID
	ids       map[string]uint64            // by UUID
	held      map[uint64]map[uint64]uint64 // nil if no metadata snapshot is reserved
	sizes     map[string]lvm.Bytes
	suspended bool
	inactive  bool
	state     devicemapper.ThinPool
	faults    map[string]error
	after     int
	calls     map[string]int
	open      int // open metadata
	// slow is how long a walk takes for each range.
	slow time.Duration
	// onRead is called when the metadata is opened.
	onRead func()
}

func newFake() *fake {
	first := map[uint64]uint64{}
	for at := range uint64(10) {
		first[at] = at
	}
	second := maps.Clone(first)
	second[3], second[100], second[1023] = 50, 51, 52
	delete(second, 5)
	return &fake{
		devices: map[uint64]map[uint64]uint64{2: first, 3: second},
		ids:     map[string]uint64{"u-origin": 1, "u-first": 2, "u-second": 3, "u-encrypted": 4},
		state: devicemapper.ThinPool{Mode: devicemapper.ModeReadWrite, TotalData: 2048, UsedMetadata: 10,
			TotalMetadata: 1024},
		sizes: map[string]lvm.Bytes{}, faults: map[string]error{}, calls: map[string]int{},
	}
}

// begin counts a call, and returns its fault.
func (f *fake) begin(name string) error {
	f.calls[name]++
	if f.calls[name] > f.after {
		return f.faults[name]
	}
	return nil
}

func (f *fake) parts() (LVM, Kernel, Open) { return f, f, f.openMetadata }

func (f *fake) Report(context.Context) (*lvm.Report, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("Report"); err != nil {
		return nil, err
	}
	lv := func(name, attr string, tags ...string) lvm.LV {
		found := lvm.LV{Name: name, UUID: "u-" + name, Attr: lvm.LVAttr(attr), Size: volume, Tags: tags}
		if size, has := f.sizes[name]; has {
			found.Size = size
		}
		if found.Attr.IsThinVolume() {
			found.PoolName = "pool"
		}
		return found
	}
	pool := lv("pool", "twi-aotz--")
	pool.ChunkSize = chunk
	return &lvm.Report{VGs: []lvm.VG{{Name: group, UUID: "vg", LVs: []lvm.LV{pool, lv("origin", "Vwi-a-tz--"),
		lv("first", "Vri-a-tz--"), lv("second", "Vri-a-tz--"), lv("encrypted", "Vri-a-tz--", encryptedTag),
		lv("thick", "-ri-a-----")}}}}, nil
}

func (f *fake) ThinDeviceIDs(_ context.Context, vg, pool string) (map[string]uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if vg != group || pool != "pool" {
		return nil, lvm.ErrNotFound
	}
	return maps.Clone(f.ids), f.begin("ThinDeviceIDs")
}

func (f *fake) Apply(_ context.Context, change lvm.Change) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch c := change.(type) {
	case lvm.ThinMetadataReserve:
		return f.takeSnapshot(c.Device)
	case lvm.ThinMetadataRelease:
		return f.dropSnapshot(c.Device)
	}
	return fmt.Errorf("%s: the fake has no %T", change, change)
}

func (f *fake) takeSnapshot(device string) error {
	switch err := f.begin("ThinMetadataReserve"); {
	case err != nil:
		return err
	case device != "LVM-pool-tpool" || f.inactive:
		return errors.New("no such device")
	case f.held != nil:
		return errors.New("device or resource busy")
	}
	f.held = maps.Clone(f.devices)
	return nil
}

func (f *fake) dropSnapshot(device string) error {
	switch err := f.begin("ThinMetadataRelease"); {
	case err != nil:
		return err
	case device != "LVM-pool-tpool" || f.inactive:
		return errors.New("no such device")
	case f.held == nil:
		return errors.New("invalid argument")
	case f.open > 0:
		return errors.New("the metadata snapshot is released while it is read")
	}
	f.held = nil
	return nil
}

func (f *fake) ThinPoolDevice(_ context.Context, vg, _ string) (devicemapper.Device, devicemapper.ThinPool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("ThinPoolDevice"); err != nil {
		return devicemapper.Device{}, devicemapper.ThinPool{}, err
	}
	if f.inactive || vg != group {
		return devicemapper.Device{}, devicemapper.ThinPool{}, devicemapper.ErrNotFound
	}
	state := f.state
	if f.held != nil {
		state.HeldRoot = 9
	}
	return devicemapper.Device{Name: "changed-pool-tpool", UUID: "LVM-pool-tpool", Suspended: f.suspended}, state, nil
}

func (f *fake) Volume(_ context.Context, _, lv string) (devicemapper.Device, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return devicemapper.Device{Name: "changed-" + lv}, f.begin("Volume")
}

func (f *fake) openMetadata(_ context.Context, pool thinmeta.Pool, root uint64) (Metadata, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("open"); err != nil {
		return nil, err
	}
	want := thinmeta.Pool{Device: "/dev/mapper/changed-pool_tmeta", ChunkSectors: 128, Chunks: 2048}
	if diff := cmp.Diff(want, pool); diff != "" || root != 9 || f.held == nil {
		return nil, fmt.Errorf("%w: root %d: %s", thinmeta.ErrDamaged, root, diff)
	}
	if f.onRead != nil {
		f.onRead()
	}
	f.open++
	return fakeMetadata{f}, nil
}

// fakeMetadata is the reserved metadata of a fake.
type fakeMetadata struct{ *fake }

func (m fakeMetadata) Allocated(ctx context.Context, device, from uint64, visit func(thinmeta.Range) error) error {
	return m.Delta(ctx, 0, device, from, visit)
}

func (m fakeMetadata) Delta(ctx context.Context, base, target, from uint64, visit func(thinmeta.Range) error) error {
	m.mu.Lock()
	if err := m.begin("walk"); err != nil {
		m.mu.Unlock()
		return err
	}
	changed := map[uint64]bool{}
	for _, pair := range [][2]uint64{{base, target}, {target, base}} {
		for at, data := range m.held[pair[0]] {
			if other, has := m.held[pair[1]][at]; at >= from && (!has || other != data) {
				changed[at] = true
			}
		}
	}
	m.mu.Unlock()
	var runs []thinmeta.Range
	for _, at := range slices.Sorted(maps.Keys(changed)) {
		if n := len(runs); n > 0 && runs[n-1].End() == at {
			runs[n-1].Count++
		} else {
			runs = append(runs, thinmeta.Range{First: at, Count: 1})
		}
	}
	for _, run := range runs {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(m.slow):
		}
		if err := visit(run); err != nil {
			return err
		}
	}
	return nil
}

func (m fakeMetadata) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
	return m.begin("Close")
}

func (f *fake) isReserved(*testing.T) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held != nil
}

func (f *fake) reserve(t *testing.T) {
	t.Helper()
	change := lvm.ThinMetadataReserve{VG: group, Pool: "pool", Device: "LVM-pool-tpool"}
	if err := f.Apply(t.Context(), change); err != nil {
		t.Fatal(err)
	}
}

func (f *fake) suspend(*testing.T)    { f.suspended = true }
func (f *fake) resume(*testing.T)     { f.suspended = false }
func (f *fake) deactivate(*testing.T) { f.inactive = true }
func (f *fake) activate(*testing.T)   { f.inactive = false }

func TestContract(t *testing.T) { contract(t, newFake()) }

// TestAFailedCallIsNoResult: neither a part of the result nor an empty one. The next read works, and releases what the
// failed one could not release.
func TestAFailedCallIsNoResult(t *testing.T) {
	for _, call := range []string{"Report", "ThinDeviceIDs", "ThinPoolDevice", "ThinMetadataReserve",
		"ThinMetadataRelease", "Volume", "open", "walk", "Close"} {
		for after := range 3 {
			t.Run(fmt.Sprint(call, " ", after), func(t *testing.T) {
				f := newFake()
				failure := errors.New("the disk does not answer")
				f.faults[call] = failure
				f.after = after
				page, err := started(f, nil).Read(t.Context(), deltaQuery)
				if failed := f.calls[call] > after; failed != (err != nil) || failed != errors.Is(err, failure) ||
					failed != (page == nil) {
					t.Errorf("got %+v, %v", page, err)
				}
				if err != nil && !strings.Contains(err.Error(), "changed/second") {
					t.Errorf("the error does not name the snapshot: %v", err)
				}
				canRelease := call != "ThinMetadataRelease" && call != "ThinPoolDevice"
				if f.isReserved(t) && canRelease {
					t.Error("the metadata snapshot is still reserved")
				}
				f.faults = nil
				wantResults(t, f, started(f, nil))
			})
		}
	}
}

func TestReleaseThatFails(t *testing.T) {
	for _, call := range []string{"ThinPoolDevice", "ThinMetadataRelease"} {
		f := newFake()
		f.reserve(t)
		failure := errors.New("the disk does not answer")
		f.faults[call] = failure
		for range 2 {
			if err := started(f, nil).Release(t.Context(), group, "pool"); !errors.Is(err, failure) {
				t.Errorf("%s: got %v", call, err)
			}
		}
	}
}

func TestAPoolThatRefusesMessages(t *testing.T) {
	for text, change := range map[string]func(*devicemapper.ThinPool){
		"has the mode ro":                 func(p *devicemapper.ThinPool) { p.Mode = devicemapper.ModeReadOnly },
		"has the mode Fail":               func(p *devicemapper.ThinPool) { p.Mode = devicemapper.ModeFailed },
		"has the mode Error":              func(p *devicemapper.ThinPool) { p.Mode = devicemapper.ModeError },
		"needs a check of its metadata":   func(p *devicemapper.ThinPool) { p.NeedsCheck = true },
		"thin pool changed/pool needs a ": func(p *devicemapper.ThinPool) { p.NeedsCheck = true },
	} {
		f := newFake()
		change(&f.state)
		wantUnavailable(t, f, text)
		if n := f.calls["ThinMetadataReserve"]; n != 0 {
			t.Errorf("%s: %d messages", text, n)
		}
	}
	f := newFake()
	f.state.Mode = devicemapper.ModeOutOfData // only its data is full
	wantResults(t, f, started(f, nil))
}

// TestASnapshotThatIsReplacedMeanwhile: another volume can get the device ID of a deleted one.
func TestASnapshotThatIsReplacedMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fake)
		err    error
	}{
		"deleted":    {func(f *fake) { delete(f.ids, "u-first") }, lvm.ErrNotFound},
		"another ID": {func(f *fake) { f.ids["u-second"] = 77 }, ErrUnavailable},
	} {
		f := newFake()
		f.onRead = func() { test.change(f) }
		page, err := started(f, nil).Read(t.Context(), deltaQuery)
		if page != nil || !errors.Is(err, test.err) || f.isReserved(t) {
			t.Errorf("%s: got %+v, %v", name, page, err)
		}
	}
}

// TestAPoolThatIsDeactivatedMeanwhile: there is nothing to release.
func TestAPoolThatIsDeactivatedMeanwhile(t *testing.T) {
	f := newFake()
	f.onRead = func() { f.inactive = true }
	page, err := started(f, nil).Read(t.Context(), allocatedQuery)
	if err != nil || page == nil {
		t.Errorf("got %+v, %v", page, err)
	}
}

func TestSizes(t *testing.T) {
	f := newFake()
	f.sizes["second"] = 1023*chunk + 4096 // its last chunk is not whole
	page, err := started(f, nil).Read(t.Context(), Query{VG: group, Target: "second", Offset: 100 * chunk})
	want := &Page{Size: 1023*chunk + 4096, Ranges: []Range{{100 * chunk, chunk}, {1023 * chunk, 4096}}}
	if diff := cmp.Diff(want, page); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	if page, err = started(f, nil).Read(t.Context(), deltaQuery); !errors.Is(err, ErrUnsupported) || page != nil {
		t.Errorf("a base that is larger: got %+v, %v", page, err)
	}
	f.sizes["second"] = 1023 * chunk
	page, err = started(f, nil).Read(t.Context(), Query{VG: group, Target: "second"})
	if page != nil || !errors.Is(err, thinmeta.ErrDamaged) || f.isReserved(t) {
		t.Errorf("a chunk behind the end: got %+v, %v", page, err)
	}
}

// TestReadsOfAPoolRunOneAfterAnother: a release must not end the read of another call.
func TestReadsOfAPoolRunOneAfterAnother(t *testing.T) {
	f := newFake()
	f.slow = time.Millisecond
	r := started(f, nil)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			page, err := r.Read(t.Context(), deltaQuery)
			if diff := cmp.Diff(&Page{Size: volume, Ranges: deltaRanges}, page); err != nil || diff != "" {
				t.Errorf("%v, %s", err, diff)
			}
		})
		all.Go(func() {
			if err := r.Release(t.Context(), group, "pool"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if page, err := r.Read(ctx, deltaQuery); !errors.Is(err, context.Canceled) || page != nil {
		t.Errorf("got %+v, %v", page, err)
	}
	if err := r.Release(ctx, group, "pool"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestASlowReadIsContinued: the metadata snapshot is not held for longer than the limit.
func TestASlowReadIsContinued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.slow = readLimit/2 + time.Second
		r := started(f, nil)
		q := deltaQuery
		var got []Range
		for n := 1; ; n++ {
			page, err := r.Read(t.Context(), q)
			if err != nil || f.isReserved(t) {
				t.Fatalf("got %+v, %v", page, err)
			}
			got = append(got, page.Ranges...)
			if q.Offset = page.Next; q.Offset == 0 {
				if n != len(deltaRanges) {
					t.Errorf("%d reads, want one for each range", n)
				}
				break
			}
		}
		if diff := cmp.Diff(deltaRanges, got); diff != "" {
			t.Error(diff)
		}
		f.slow = readLimit + time.Second
		if page, err := r.Read(t.Context(), deltaQuery); !errors.Is(err, context.DeadlineExceeded) || page != nil {
			t.Errorf("a read without a result: got %+v, %v", page, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), readLimit)
		defer cancel()
		f.slow = readLimit - time.Second
		r.limit = time.Hour
		page, err := r.Read(ctx, deltaQuery)
		if !errors.Is(err, context.DeadlineExceeded) || page != nil {
			t.Errorf("a caller that no longer waits: got %+v, %v", page, err)
		}
		if f.isReserved(t) {
			t.Error("the metadata snapshot is still reserved")
		}
	})
}
