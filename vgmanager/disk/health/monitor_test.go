package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

// mapper simulates the kernel.
type mapper struct {
	devices []devicemapper.Device
	err     error
	status  map[string]string

	mu    sync.Mutex
	asked []string
}

func (m *mapper) List(context.Context) ([]devicemapper.Device, error) {
	if m.err != nil {
		return nil, m.err
	}
	return m.devices, nil
}

func (m *mapper) Status(_ context.Context, number string) ([]devicemapper.Target, error) {
	m.mu.Lock()
	m.asked = append(m.asked, number)
	m.mu.Unlock()
	text, ok := m.status[number]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: %w", number, devicemapper.ErrNotFound)
	case text == "broken":
		return nil, fmt.Errorf("the kernel does not answer for %d s", time.Now().UnixNano())
	}
	for _, d := range m.devices {
		if d.Number == number {
			return []devicemapper.Target{{Type: d.Types[0], Params: text}}, nil
		}
	}
	return nil, errors.New("asked about what is not listed")
}

func pool(data, metadata int, mode string) string {
	return fmt.Sprintf("1 %d/100 %d/100 - %s discard_passdown queue_if_no_space - 1024", metadata, data, mode)
}

// watched is a monitor whose rounds the test runs.
type watched struct {
	*Monitor
	mapper  *mapper
	failing map[string]error
	told    int
}

func newWatched() *watched {
	w := &watched{mapper: &mapper{
		status: map[string]string{"253:1": pool(50, 10, "rw"), "253:2": "raid1 2 AA 64/64 idle 0 0 -",
			"253:6": "2 8:0 8:16 1/80 1 AA 1 core"},
		devices: []devicemapper.Device{
			{Name: "vg1-p-tpool", UUID: "LVM-abcd-tpool", Number: "253:1", Types: []string{"thin-pool"}},
			{Name: "vg1-p_tdata", UUID: "LVM-efgh-tdata", Number: "253:2", Types: []string{"raid"}},
			{Name: "vg1-p_tdata_rimage_0", UUID: "LVM-ijkl", Number: "253:3", Types: []string{"linear"}},
			{Name: "vg1-t", UUID: "LVM-mnop", Number: "253:4", Types: []string{"thin"}},
			{Name: "other", UUID: "other-x", Number: "253:5", Types: []string{"raid"}},
			{Name: "vg1-pvmove0", UUID: "LVM-qrst", Number: "253:6", Types: []string{"mirror"}},
		}}}
	w.Monitor = New(Options{Mapper: w.mapper, Failing: func(context.Context) map[string]error { return w.failing }})
	w.Subscribe(func() { w.told++ })
	w.round(context.Background())
	return w
}

// rounds runs n rounds.
func (w *watched) rounds(t *testing.T, n int) {
	t.Helper()
	for range n {
		w.round(t.Context())
	}
}

func TestWhatIsTold(t *testing.T) {
	tests := map[string]struct {
		change func(*watched)
		rounds int // maximum number of rounds until the notification
		want   int
	}{
		"nothing":             {func(*watched) {}, 5, 0},
		"a device fails":      {func(w *watched) { w.failing = map[string]error{"8:0": errors.New("x")} }, 1, 1},
		"a pool is read-only": {func(w *watched) { w.mapper.status["253:1"] = pool(50, 10, "ro") }, 1, 1},
		"a pool is out of space": {func(w *watched) {
			w.mapper.status["253:1"] = pool(50, 10,
				"out_of_data_space")
		}, 1, 1},
		"a pool needs a check": {
			func(w *watched) { w.mapper.status["253:1"] = "1 10/100 50/100 - rw x queue_if_no_space needs_check 1" }, 1,
			1},
		"a pool fails":          {func(w *watched) { w.mapper.status["253:1"] = "Fail" }, 1, 1},
		"a pool fills a little": {func(w *watched) { w.mapper.status["253:1"] = pool(54, 14, "rw") }, 5, 0},
		"a pool fills":          {func(w *watched) { w.mapper.status["253:1"] = pool(55, 10, "rw") }, 1, 1},
		"its metadata fill":     {func(w *watched) { w.mapper.status["253:1"] = pool(50, 91, "rw") }, 1, 1},
		"a leg is lost": {func(w *watched) { w.mapper.status["253:2"] = "raid1 2 AD 64/64 idle 0 0 -" }, 1,
			1},
		"synchronization begins": {func(w *watched) { w.mapper.status["253:2"] = "raid1 2 Aa 0/64 recover 0 0 -" },
			1, 1},
		"the first synchronization": {func(w *watched) { w.mapper.status["253:2"] = "raid1 2 AA 8/64 resync 0 0 -" },
			1, 1},
		"a check begins": {func(w *watched) { w.mapper.status["253:2"] = "raid1 2 AA 64/64 check 0 0 -" },
			5, 0},
		"a move goes on": {func(w *watched) { w.mapper.status["253:6"] = "2 8:0 8:16 7/80 1 AA 1 core" }, 5,
			0},
		"a move cannot write": {func(w *watched) { w.mapper.status["253:6"] = "2 8:0 8:16 7/80 1 AD 1 core" }, 1,
			1},
		"a move is done": {func(w *watched) { w.mapper.status["253:6"] = "2 8:0 8:16 80/80 1 AA 1 core" },
			1, 1},
		"the status cannot be read":  {func(w *watched) { w.mapper.status["253:2"] = "broken" }, 1, 1},
		"the status makes no sense":  {func(w *watched) { w.mapper.status["253:2"] = "raid1 2 A" }, 1, 1},
		"a volume goes away":         {func(w *watched) { delete(w.mapper.status, "253:2") }, 1, 1},
		"the list cannot be read":    {func(w *watched) { w.mapper.err = errors.New("x") }, 3, 1},
		"it could not be read twice": {func(w *watched) { w.mapper.err = errors.New("x") }, 2, 0},
		"a volume is suspended":      {func(w *watched) { w.mapper.devices[3].Suspended = true }, 2, 1},
		"it was for a moment":        {func(w *watched) { w.mapper.devices[3].Suspended = true }, 1, 0},
		"another's is suspended":     {func(w *watched) { w.mapper.devices[4].Suspended = true }, 5, 0},
	}
	for name, tt := range tests {
		w := newWatched()
		w.rounds(t, 2)
		tt.change(w)
		w.rounds(t, tt.rounds)
		if w.told != tt.want {
			t.Errorf("%s: told %d times in %d rounds, want %d", name, w.told, tt.rounds, tt.want)
		}
		if tt.want == 0 {
			continue
		}
		w.rounds(t, 5)
		if w.told != tt.want {
			t.Errorf("%s: it stayed so, and was told %d times, want %d", name, w.told, tt.want)
		}
	}
}

func TestADeviceThatFailsFromTheBeginningIsTold(t *testing.T) {
	w := &watched{mapper: &mapper{}}
	w.Monitor = New(Options{Mapper: w.mapper,
		Failing: func(context.Context) map[string]error { return map[string]error{"8:0": errors.New("x")} }})
	w.Subscribe(func() { w.told++ })
	w.rounds(t, 3)
	if w.told != 1 {
		t.Errorf("told %d times, want 1", w.told)
	}
}

func TestWhatCouldNotBeReadStaysAsItWas(t *testing.T) {
	w := newWatched()
	w.mapper.devices[3].Suspended = true
	w.failing = map[string]error{"8:0": errors.New("x")}
	w.rounds(t, 2)
	before := w.Snapshot()
	if before.Err != nil {
		t.Fatalf("got %+v", before)
	}
	expect.Equal(t, "Time.IsZero()", before.Time.IsZero(), false)
	expect.Equal(t, "len(before.Pools)", len(before.Pools), 1)
	expect.Equal(t, "len(before.RAIDs)", len(before.RAIDs), 1)
	expect.Equal(t, "len(before.Mirrors)", len(before.Mirrors), 1)
	w.mapper.err = errors.New("no list")
	w.rounds(t, 5)
	after := w.Snapshot()
	if after.Err == nil || !strings.Contains(after.Err.Error(), "no list") {
		t.Errorf("the error is %v", after.Err)
	}
	if diff := cmp.Diff(before.Pools, after.Pools) + cmp.Diff(before.RAIDs, after.RAIDs) +
		cmp.Diff(before.Suspended, after.Suspended); diff != "" {
		t.Errorf("a failed read changed what was known: %s", diff)
	}
	if len(w.Failing()) != 1 || !w.Suspended()["253:4"] {
		t.Errorf("failing %v, suspended %v", w.Failing(), w.Suspended())
	}
	told := w.told
	w.mapper.err = nil
	w.rounds(t, 1)
	if w.Snapshot().Err != nil || w.told != told+1 {
		t.Errorf("it can be read again: %v, told %d times", w.Snapshot().Err, w.told-told)
	}
}

func TestDevicesThatDoNotAnswerHoldNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched()
		w.rounds(t, 1)
		w.failingLimit = time.Millisecond
		release := make(chan struct{})
		calls := 0
		w.Options.Failing = func(context.Context) map[string]error {
			calls++
			<-release
			return map[string]error{"8:0": errors.New("late")}
		}
		w.mapper.status["253:1"] = pool(50, 10, "ro")
		begun := time.Now()
		w.rounds(t, 1)
		if took := time.Since(begun); took != w.failingLimit {
			t.Errorf("the round took %s", took)
		}
		if w.told != 1 || w.Snapshot().Pools["vg1-p-tpool"].Mode != "ro" {
			t.Errorf("told %d times of the pool, which is %+v", w.told, w.Snapshot().Pools)
		}
		w.rounds(t, 2)
		if w.told != 2 || w.Snapshot().Err == nil {
			t.Errorf("told %d times, %v: three rounds saw no device", w.told, w.Snapshot().Err)
		}
		close(release)
		w.failingLimit = 5 * time.Second
		w.rounds(t, 1)
		if calls != 1 || len(w.Failing()) != 1 {
			t.Errorf("asked %d times, want once; failing are %v", calls, w.Failing())
		}
	})
}

func TestProgressAloneIsNotTold(t *testing.T) {
	w := newWatched()
	w.mapper.status["253:2"] = "raid1 2 Aa 0/64 recover 0 0 -"
	w.rounds(t, 1)
	told := w.told
	for i := range 60 {
		w.mapper.status["253:2"] = fmt.Sprintf("raid1 2 Aa %d/64 recover 0 0 -", i)
		w.rounds(t, 1)
	}
	if w.told != told {
		t.Errorf("told %d times of percents", w.told-told)
	}
}

func TestLevels(t *testing.T) {
	tests := map[string]struct{ fills, want []int }{
		"it fills": {[]int{0, 4, 5, 9, 10, 89, 90, 91, 92, 100},
			[]int{0, 0, 5, 5, 10, 85, 90, 91, 92, 100}},
		"it empties":                 {[]int{100, 99, 98, 97, 90, 87, 80}, []int{100, 100, 100, 99, 92, 85, 80}},
		"up and down around 80":      {[]int{79, 80, 79, 80, 78, 80, 77}, []int{75, 80, 80, 80, 80, 80, 75}},
		"up and down around 95":      {[]int{94, 95, 94, 95, 93, 95}, []int{94, 95, 95, 95, 95, 95}},
		"everything is deleted":      {[]int{98, 0}, []int{98, 0}},
		"it begins between two ones": {[]int{83}, []int{80}},
	}
	for name, tt := range tests {
		l := levels{}
		got := []int{}
		for _, fill := range tt.fills {
			l["x"] = l.next("x", fill)
			got = append(got, l["x"])
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAVolumeThatIsRemovedMeanwhileIsNotUnreadable(t *testing.T) {
	w := newWatched()
	delete(w.mapper.status, "253:2")
	w.rounds(t, 1)
	if seen := w.Snapshot(); len(seen.Unreadable) != 0 || len(seen.RAIDs) != 0 {
		t.Errorf("got %+v", seen)
	}
	w.mapper.status["253:1"] = "broken"
	w.rounds(t, 1)
	if seen := w.Snapshot(); seen.Unreadable["vg1-p-tpool"] == nil || len(seen.Pools) != 0 {
		t.Errorf("got %+v", seen)
	}
}

func TestAPoolThatIsGoneLeavesNoLevel(t *testing.T) {
	l := levels{}
	l.pools(map[string]devicemapper.ThinPool{"p": {Mode: "rw", UsedData: 9, TotalData: 10}})
	l.pools(nil)
	if len(l) != 0 {
		t.Errorf("left: %v", l)
	}
}

func TestAMomentOfSuspensionIsNotHeld(t *testing.T) {
	w := newWatched()
	w.mapper.devices[1].Suspended = true
	w.rounds(t, 1)
	if len(w.Suspended()) != 0 {
		t.Error("one round is LVM's own work")
	}
	w.rounds(t, 1)
	if !w.Suspended()["253:2"] {
		t.Error("two rounds are too long")
	}
	w.mapper.devices[1].Suspended = false
	w.rounds(t, 1)
	if len(w.Suspended()) != 0 {
		t.Error("it goes on")
	}
}

func TestOnlyWhatHasAStateIsAsked(t *testing.T) {
	w := newWatched()
	got := map[string]bool{}
	for _, number := range w.mapper.asked {
		got[number] = true
	}
	if diff := cmp.Diff(map[string]bool{"253:1": true, "253:2": true, "253:6": true}, got); diff != "" {
		t.Errorf("want the pool, the RAID volume below it, and the move: %s", diff)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched()
		w.Interval = time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Start(ctx) }()
		before := w.Snapshot().Time
		time.Sleep(2 * w.Interval)
		if !w.Snapshot().Time.After(before) {
			t.Error("it makes no rounds")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// BenchmarkRound runs a round with 1,000 thin volumes in one pool, without the time in the kernel.
func BenchmarkRound(b *testing.B) {
	w := newWatched()
	for i := range 1000 {
		w.mapper.devices = append(w.mapper.devices, devicemapper.Device{
			Name: fmt.Sprintf("vg1-%d", i), UUID: "LVM-x", Number: fmt.Sprintf("254:%d", i), Types: []string{"thin"}})
	}
	b.ReportAllocs()
	for b.Loop() {
		w.mapper.asked = w.mapper.asked[:0]
		w.round(b.Context())
	}
	b.ReportMetric(float64(len(w.mapper.asked)), "statuses/op")
}

func TestUnknown(t *testing.T) {
	w := newWatched()
	if err := errors.Join(w.Unknown("vg1"), w.Unknown("vg2")); err != nil {
		t.Errorf("all is known, and yet %v", err)
	}
	w.mapper.status["253:1"] = "broken"
	w.rounds(t, 1)
	if err := w.Unknown("vg1"); err == nil || !strings.Contains(err.Error(), "vg1-p-tpool") {
		t.Errorf("got %v", err)
	}
	// The group vg1-p has the name vg1--p in device-mapper.
	if err := errors.Join(w.Unknown("vg"), w.Unknown("vg1-p")); err != nil {
		t.Errorf("of other groups: %v", err)
	}
	w.mapper.status["253:1"] = pool(50, 10, "rw")
	w.rounds(t, 1)
	w.mapper.err = errors.New("no answer")
	w.rounds(t, maxFailedRounds-1)
	if err := w.Unknown("vg1"); err != nil {
		t.Errorf("a moment is enough: %v", err)
	}
	w.rounds(t, 1)
	if err := w.Unknown("vg2"); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("got %v", err)
	}
	w.mapper.err = nil
	w.rounds(t, 1)
	if err := w.Unknown("vg1"); err != nil {
		t.Errorf("it is known again, and yet %v", err)
	}
}

// TestChangesOfOthersAreTold: another process changes a volume group. Changes of this process are known to it.
func TestChangesOfOthersAreTold(t *testing.T) {
	w := newWatched()
	digest := ""
	own := uint64(0)
	running := false
	w.Metadata = func() string { return digest }
	w.Own = func() (uint64, bool) { return own, running }
	for _, step := range []struct {
		what   string
		digest string
		do     func()
		told   bool
	}{
		{"no device yet", "", nil, false},
		{"the first devices", "1", nil, false},
		{"no change", "1", nil, false},
		{"another process", "2", nil, true},
		{"once", "2", nil, false},
		{"this process", "3", func() { own += 2 }, false},
		{"after this process", "3", nil, false},
		{"this process begins", "3", func() { own++; running = true }, false},
		{"while this process works", "4", nil, false},
		{"this process ends", "5", func() { own++; running = false }, false},
		{"another process again", "6", nil, true},
	} {
		if digest = step.digest; step.do != nil {
			step.do()
		}
		before := w.told
		w.round(t.Context())
		if told := w.told > before; told != step.told {
			t.Errorf("%s: told %t, want %t", step.what, told, step.told)
		}
	}
}
