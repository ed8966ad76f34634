package engine

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
)

func setSuspended(t *testing.T, fake *lvmtest.Fake, device string, suspended bool) {
	t.Helper()
	o := lvm.PVSetAllocatable{Device: device, Allocatable: true, RemoveTag: wellknown.SuspendedTag}
	if suspended {
		o = lvm.PVSetAllocatable{Device: device, Allocatable: true, AddTag: wellknown.SuspendedTag}
	}
	for range 2 {
		must(t, fake.Apply(t.Context(), o))
	}
}

func wantSuspended(t *testing.T, e *Engine, class, name string, want ...string) {
	t.Helper()
	for range 2 {
		got, err := e.SuspendedDevices(t.Context(), class, name)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s/%s: got %q, %v, want %q", class, name, got, err, want)
		}
	}
	volumes, _, err := e.Volumes(t.Context())
	must(t, err)
	at := slices.IndexFunc(volumes, func(v VolumeState) bool { return v.Class == class && v.Name == name })
	if at < 0 || !slices.Equal(volumes[at].SuspendedDevices, want) {
		t.Errorf("%s/%s: the state is %+v, want %q", class, name, volumes, want)
	}
}

func TestAVolumeOnASuspendedDeviceIsSuspended(t *testing.T) {
	e, fake := newEngine(t)
	for _, class := range []string{"thick", "thin"} {
		_, err := e.CreateLV(t.Context(), NewVolume{Name: "a", Class: class, Size: 8 * mib})
		must(t, err)
	}
	wantSuspended(t, e, "thick", "a")
	setSuspended(t, fake, "/dev/a", true)
	wantSuspended(t, e, "thick", "a", "/dev/a")
	wantSuspended(t, e, "thin", "a")
	setSuspended(t, fake, "/dev/b", true)
	wantSuspended(t, e, "thin", "a", "/dev/b")
	setSuspended(t, fake, "/dev/a", false)
	wantSuspended(t, e, "thick", "a")
}

func TestASuspensionThatCannotBeReadIsAnError(t *testing.T) {
	e, fake := newEngine(t)
	_, err := e.SuspendedDevices(t.Context(), "thin", "nosuch")
	wantCode(t, "an unknown volume", err, codes.NotFound)
	_, err = e.SuspendedDevices(t.Context(), "thin", "--all")
	wantCode(t, "an option for a name", err, codes.InvalidArgument)
	fake.Fail("Report", errors.New("lvm does not answer"))
	if got, err := e.SuspendedDevices(t.Context(), "thin", "a"); err == nil {
		t.Errorf("got %q", got)
	}
}

// TestASuspendedThinPoolTakesNoNewVolume checks that the scheduler selects another node. Snapshots are possible.
func TestASuspendedThinPoolTakesNoNewVolume(t *testing.T) {
	e, fake := newEngine(t)
	ctx := t.Context()
	create := func(name string) error {
		_, err := e.CreateLV(ctx, NewVolume{Name: name, Class: "thin", Size: 8 * mib})
		return err
	}
	capacity := func() uint64 {
		states, err := e.States(ctx)
		must(t, err)
		return states[slices.IndexFunc(states, func(s ClassState) bool { return s.Name == "thin" })].Capacity
	}
	setSuspended(t, fake, "/dev/b", true)
	wantCode(t, "in an empty pool", create("a"), codes.ResourceExhausted)
	setSuspended(t, fake, "/dev/b", false)
	must(t, create("a"))
	before := capacity()
	setSuspended(t, fake, "/dev/b", true)
	wantCode(t, "beside another volume", create("b"), codes.ResourceExhausted)
	must(t, create("a")) // a repeated request
	if got := capacity(); got != 0 || before == 0 {
		t.Errorf("the capacity was %d and is %d", before, got)
	}
	_, err := e.CreateLVSnapshot(ctx, NewSnapshot{Name: "s", Class: "thin",
		Source: "a", Size: 8 * mib, ReadOnly: true})
	must(t, err)
	_, err = e.ResizeLV(ctx, "thin", "a", 16*mib)
	must(t, err)
	wantSuspended(t, e, "thin", "s", "/dev/b")
	setSuspended(t, fake, "/dev/b", false)
	must(t, create("b"))
}
