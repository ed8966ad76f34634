package lvmexec

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// degradedLVM reports a volume group that misses a physical volume. Changes return failure if it is not nil.
func degradedLVM(t *testing.T, failure error) *LVM {
	t.Helper()
	r := reporting(t, "missing")
	report := r.answer
	r.answer = func(ctx context.Context, args []string) ([]byte, error) {
		if args[0] == "fullreport" {
			return report(ctx, args)
		}
		return nil, failure
	}
	return New(r)
}

// flushes records which devices were flushed.
type flushes struct {
	mu      sync.Mutex
	devices []string
	broken  []string
}

func (f *flushes) flush(_ context.Context, device string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.devices = append(f.devices, device)
	if slices.Contains(f.broken, device) {
		return errors.New("flush " + device + ": input/output error")
	}
	return nil
}

func (f *flushes) flushed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.devices)
	got := f.devices
	f.devices = nil
	return got
}

func TestChangesAreFlushed(t *testing.T) {
	f := &flushes{}
	l := degradedLVM(t, nil)
	l.FlushWith(f.flush)
	ctx := t.Context()
	if err := l.Apply(ctx, lvm.VGRemove{VG: "vg1"}); err != nil || len(f.flushed()) != 0 {
		t.Errorf("before the first report no device is known: %v", err)
	}
	for name, c := range map[string]struct {
		change lvm.Change
		want   []string
	}{
		"a device of no volume group": {lvm.PVRemove{Device: "/dev/sdd"}, []string{"/dev/sdd"}},
		"a new volume group": {lvm.VGCreate{Name: "new", Devices: []string{"/dev/sde", "/dev/sdf"}},
			[]string{"/dev/sde", "/dev/sdf"}},
		"a volume group":                        {lvm.VGRemove{VG: "vg1"}, []string{"/dev/sdb", "/dev/sdd"}},
		"an unknown volume group":               {lvm.VGRemove{VG: "vg3"}, nil},
		"an activation changes nothing on disk": {lvm.LVActivate{VG: "vg1", Name: "a"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := l.Report(ctx); err != nil {
				t.Fatal(err)
			}
			if err := l.Apply(ctx, c.change); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(c.want, f.flushed()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAFlushThatFails(t *testing.T) {
	f := &flushes{broken: []string{"/dev/sdb"}}
	l := degradedLVM(t, nil)
	l.FlushWith(f.flush)
	if _, err := l.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Apply(t.Context(), lvm.VGRemove{VG: "vg1"}); err != nil {
		t.Errorf("the metadata on the other device was flushed: %v", err)
	}
	f.broken = append(f.broken, "/dev/sdd")
	if _, err := l.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := l.Apply(t.Context(), lvm.VGRemove{VG: "vg1"})
	for _, want := range []string{"vgremove", "may be lost in a power failure", "/dev/sdb", "/dev/sdd"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestAChangeThatFailsFlushesNothing(t *testing.T) {
	f := &flushes{}
	l := degradedLVM(t, errors.New("exit status 5"))
	l.FlushWith(f.flush)
	if _, err := l.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Apply(t.Context(), lvm.VGRemove{VG: "vg1"}); err == nil || len(f.flushed()) != 0 {
		t.Errorf("got %v", err)
	}
}
