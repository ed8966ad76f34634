package health

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/devicemapper"
)

// mapper is what a test lets the kernel say.
type mapper struct {
	devices []devicemapper.Device
	err     error
	status  map[string]string
	asked   int
}

func (m *mapper) List() ([]devicemapper.Device, error) { return m.devices, m.err }

func (m *mapper) Status(number string) ([]devicemapper.Target, error) {
	m.asked++
	text, ok := m.status[number]
	if !ok {
		return nil, errors.New("no such device")
	}
	kind := "thin-pool"
	if text != "" && text[0] == 'r' {
		kind = "raid"
	}
	return []devicemapper.Target{{Type: kind, Params: text}}, nil
}

func pool(data, metadata int, mode string) string {
	return fmt.Sprintf("1 %d/100 %d/100 - %s discard_passdown queue_if_no_space - 1024", metadata, data, mode)
}

// watched is a monitor whose rounds a test makes.
type watched struct {
	*Monitor
	mapper  *mapper
	failing map[string]error
	told    int
}

func newWatched() *watched {
	w := &watched{mapper: &mapper{status: map[string]string{"253:1": pool(50, 10, "rw"), "253:2": "raid1 2 AA 64/64 idle 0 0 -"}, devices: []devicemapper.Device{
		{Name: "vg1-pool", UUID: "LVM-abcd-tpool", Number: "253:1"}, {Name: "vg1-r", UUID: "LVM-efgh", Number: "253:2"},
		{Name: "vg1-r_rimage_0", UUID: "LVM-ijkl-real", Number: "253:3"}, {Name: "secret", UUID: "CRYPT-x", Number: "253:4"},
	}}}
	w.Monitor = New(Options{Mapper: w.mapper, Failing: func(context.Context) map[string]error { return w.failing }})
	w.Subscribe(func() { w.told++ })
	w.round(context.Background())
	return w
}

func TestWhatIsTold(t *testing.T) {
	tests := map[string]struct {
		change func(*watched)
		want   int
	}{
		"nothing":                   {func(*watched) {}, 0},
		"a device fails":            {func(w *watched) { w.failing = map[string]error{"8:0": errors.New("x")} }, 1},
		"a pool is read-only":       {func(w *watched) { w.mapper.status["253:1"] = pool(50, 10, "ro") }, 1},
		"a pool fails":              {func(w *watched) { w.mapper.status["253:1"] = "Fail" }, 1},
		"a pool fills a little":     {func(w *watched) { w.mapper.status["253:1"] = pool(51, 10, "rw") }, 0},
		"a pool fills":              {func(w *watched) { w.mapper.status["253:1"] = pool(52, 10, "rw") }, 1},
		"its metadata fill":         {func(w *watched) { w.mapper.status["253:1"] = pool(50, 91, "rw") }, 1},
		"a leg is lost":             {func(w *watched) { w.mapper.status["253:2"] = "raid1 2 AD 64/64 idle 0 0 -" }, 1},
		"synchronisation begins":    {func(w *watched) { w.mapper.status["253:2"] = "raid1 2 Aa 0/64 recover 0 0 -" }, 1},
		"the status cannot be read": {func(w *watched) { delete(w.mapper.status, "253:2") }, 1},
		"the list cannot be read":   {func(w *watched) { w.mapper.err = errors.New("x") }, 1},
		"a volume is suspended":     {func(w *watched) { w.mapper.devices[1].Suspended = true }, 1},
	}
	for name, tt := range tests {
		w := newWatched()
		tt.change(w)
		for range 3 {
			w.round(t.Context())
		}
		if got := w.told; got < tt.want || tt.want == 0 && got != 0 || got > 2 {
			t.Errorf("%s: told %d times, want %d", name, got, tt.want)
		}
	}
}

func TestProgressAloneIsNotTold(t *testing.T) {
	w := newWatched()
	w.mapper.status["253:2"] = "raid1 2 Aa 0/64 recover 0 0 -"
	w.round(t.Context())
	told := w.told
	for i := range 60 {
		w.mapper.status["253:2"] = fmt.Sprintf("raid1 2 Aa %d/64 recover 0 0 -", i)
		w.round(t.Context())
	}
	if w.told != told {
		t.Errorf("told %d times of percents", w.told-told)
	}
}

func TestAFillThatGoesUpAndDownIsToldOnce(t *testing.T) {
	w := newWatched()
	for i := range 20 {
		w.mapper.status["253:1"] = pool(94+i%2, 10, "rw")
		w.round(t.Context())
	}
	if w.told > 2 {
		t.Errorf("told %d times", w.told)
	}
}

func TestAMomentOfSuspensionIsNotHeld(t *testing.T) {
	w := newWatched()
	w.mapper.devices[1].Suspended = true
	w.round(t.Context())
	if len(w.Suspended()) != 0 {
		t.Error("one round is LVM's own work")
	}
	w.round(t.Context())
	if !w.Suspended()["253:2"] {
		t.Error("two rounds are too long")
	}
	w.mapper.devices[1].Suspended = false
	w.round(t.Context())
	if len(w.Suspended()) != 0 {
		t.Error("it goes on")
	}
}

func TestPartsAreNotAsked(t *testing.T) {
	w := newWatched()
	if w.mapper.asked != 2 {
		t.Errorf("asked about %d devices, want the pool and the RAID volume", w.mapper.asked)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	w := newWatched()
	w.Interval = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Start(ctx) }()
	time.Sleep(10 * time.Millisecond)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
