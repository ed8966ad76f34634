package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// wantDevices checks the names of the devices of a volume; "" is for a missing one. Each has a UUID.
func wantDevices(t *testing.T, e *Engine, class, name string, want ...string) {
	t.Helper()
	for range 2 {
		volumes, _, err := e.Volumes(t.Context())
		must(t, err)
		at := slices.IndexFunc(volumes, func(v VolumeState) bool { return v.Class == class && v.Name == name })
		if at < 0 {
			t.Fatalf("%s/%s is not there", class, name)
		}
		var names []string
		for _, pv := range volumes[at].Devices {
			if pv.UUID == "" {
				t.Errorf("%s/%s: %+v has no UUID", class, name, pv)
			}
			names = append(names, pv.Name)
		}
		slices.Sort(names)
		if !slices.Equal(names, want) {
			t.Errorf("%s/%s is on %q, want %q", class, name, names, want)
		}
	}
}

func TestVolumesNameTheirDevices(t *testing.T) {
	e, fake := newEngine(t)
	for _, class := range []string{"thick", "thin"} {
		_, err := e.CreateLV(t.Context(), NewVolume{Name: "a", Class: class, Size: 8 * mib})
		must(t, err)
	}
	wantDevices(t, e, "thick", "a", "/dev/a")
	wantDevices(t, e, "thin", "a", "/dev/b")
	fake.AddDisk("/dev/c", lvm.Bytes(gib), 48)
	must(t, fake.Apply(t.Context(), lvm.VGExtend{Name: "thick", Devices: []string{"/dev/c"}}))
	wantDevices(t, e, "thick", "a", "/dev/a")
	must(t, fake.Apply(t.Context(), lvm.LVExtend{VG: "thick", Name: "a", Size: lvm.Bytes(16 * mib),
		Devices: []string{"/dev/c"}}))
	wantDevices(t, e, "thick", "a", "/dev/a", "/dev/c")
	fake.Detach("/dev/c")
	wantDevices(t, e, "thick", "a", "", "/dev/a")
}

func TestDevicesOfVolumesThatCannotBeReadAreAnError(t *testing.T) {
	e, fake := newEngine(t)
	fake.Fail("Report", errors.New("exit status 5"))
	if volumes, _, err := e.Volumes(t.Context()); err == nil || len(volumes) > 0 {
		t.Errorf("got %+v, %v", volumes, err)
	}
}
