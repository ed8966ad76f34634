package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// newPlacedEngine returns an engine with the thick class "placed" on disks of these numbers of extents.
func newPlacedEngine(t *testing.T, class deviceclass.Class, sizes ...int64) (*Engine, *lvmtest.Fake) {
	t.Helper()
	fake := lvmtest.New()
	var devices []string
	for i, size := range sizes {
		device := fmt.Sprintf("/dev/%c", 'a'+i)
		fake.AddDisk(device, lvm.Bytes(size*4*mib+mib), uint32(16*(i+1)))
		devices = append(devices, device)
	}
	must(t, fake.Apply(t.Context(), lvm.VGCreate{Name: "placed", Devices: devices}))
	e, err := New(fake, nil, "")
	must(t, err)
	class.Name, class.VolumeGroup = "placed", "placed"
	must(t, e.Publish(class))
	return e, fake
}

// diskNames returns the disks that a volume is on.
func diskNames(t *testing.T, fake *lvmtest.Fake, name string) string {
	t.Helper()
	report, err := fake.Report(t.Context())
	must(t, err)
	vg := report.VG("placed")
	var names []string
	for _, pv := range vg.PVs {
		if slices.Contains(vg.LV(name).PVs, pv.UUID) {
			names = append(names, pv.Name)
		}
	}
	return strings.Join(names, ", ")
}

func createExtents(t *testing.T, e *Engine, name string, extents int64, tags ...string) error {
	t.Helper()
	_, err := e.CreateLV(t.Context(), NewVolume{Name: name, Class: "placed",
		Size: extents * 4 * mib, Tags: tags})
	return err
}

func resizeTo(t *testing.T, e *Engine, name string, extents int64) error {
	t.Helper()
	_, err := e.ResizeLV(t.Context(), "placed", name, extents*4*mib)
	return err
}

func TestAVolumeOnOneDeviceStaysThere(t *testing.T) {
	e, fake := newPlacedEngine(t, deviceclass.Class{Allocation: deviceclass.AllocationSingleDevice}, 10, 20)
	for range 2 {
		must(t, createExtents(t, e, "v1", 12))
	}
	if got := diskNames(t, fake, "v1"); got != "/dev/b" {
		t.Errorf("v1 is on %s, want the largest device", got)
	}
	must(t, createExtents(t, e, "v2", 9))
	wantCode(t, "more than a device has", createExtents(t, e, "v3", 9), codes.ResourceExhausted)
	for range 2 {
		must(t, resizeTo(t, e, "v1", 20))
	}
	err := resizeTo(t, e, "v1", 21)
	wantCode(t, "more than its device has", err, codes.ResourceExhausted)
	for _, want := range []string{"only 0 are free on /dev/b", "allocation SingleDevice", "placed/v1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q in it", err, want)
		}
	}
	if got := diskNames(t, fake, "v1"); got != "/dev/b" {
		t.Errorf("v1 is on %s after it was extended", got)
	}
	if told := capacityOf(t, e, "placed"); told != 4*mib {
		t.Errorf("%d bytes are announced, want an extent", told)
	}
}

func TestAnExtensionKeepsTheStripes(t *testing.T) {
	two, three := uint(2), uint(3)
	e, fake := newPlacedEngine(t, deviceclass.Class{Stripe: &two, StripeSize: "64k"}, 10, 10, 4)
	must(t, createExtents(t, e, "v1", 7)) // rounded up to 8
	must(t, e.Publish(deviceclass.Class{Name: "placed", VolumeGroup: "placed", Stripe: &three}))
	must(t, resizeTo(t, e, "v1", 19))
	err := resizeTo(t, e, "v1", 40)
	wantCode(t, "more than two devices have", err, codes.ResourceExhausted)
	if !strings.Contains(err.Error(), "on 2 devices of volume group placed at the same time") {
		t.Errorf("got %q", err)
	}
	report, err := fake.Report(t.Context())
	must(t, err)
	if lv := report.VG("placed").LV("v1"); lv.Stripes != 2 || int64(lv.Size) != 20*4*mib {
		t.Errorf("got %+v, want 20 extents in two stripes", lv)
	}
}

func TestAReadThatFailedPlacesNoVolume(t *testing.T) {
	e, fake := newPlacedEngine(t, deviceclass.Class{Allocation: deviceclass.AllocationSingleDevice}, 10, 20)
	must(t, createExtents(t, e, "v1", 2))
	fake.Fail("Report", errors.New("no answer"))
	fake.Fail("Recent", errors.New("no answer"))
	if err := createExtents(t, e, "v2", 2); err == nil {
		t.Error("a volume was created")
	}
	if err := resizeTo(t, e, "v1", 3); err == nil {
		t.Error("a volume was extended")
	}
	if calls := fake.Calls(); calls["LVCreateThick"] != 1 || calls["LVExtend"] != 0 {
		t.Errorf("got %v", calls)
	}
}

// TestWhatIsAnnouncedIsGranted fills groups of any shape with volumes up to the announced capacity: none is refused,
// and one that is larger by an extent is.
func TestWhatIsAnnouncedIsGranted(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	two, three := uint(2), uint(3)
	for i := range 200 {
		class := []deviceclass.Class{{Allocation: deviceclass.AllocationSingleDevice}, {}, {Stripe: &two},
			{Stripe: &three}}[i%4]
		disks := 1 + random.IntN(5)
		if class.Stripe != nil { // The fake uses one disk for a stripe; the test on real LVM has the other cases.
			disks = min(disks, 2*int(*class.Stripe)-1)
		}
		sizes := make([]int64, disks)
		for j := range sizes {
			sizes[j] = 1 + random.Int64N(30)
		}
		e, fake := newPlacedEngine(t, class, sizes...)
		for n := 0; ; n++ {
			told := capacityOf(t, e, "placed")
			wantCode(t, "more than is announced", createExtents(t, e, "over", told/(4*mib)+1), codes.ResourceExhausted)
			if told == 0 {
				break
			}
			size := max(1, min(told/(4*mib), 1+random.Int64N(20)))
			name := fmt.Sprintf("v%d", n)
			if err := createExtents(t, e, name, size); err != nil {
				t.Fatalf("case %d: %d of the announced %d extents on %v: %v", i, size, told/(4*mib), sizes, err)
			}
			if on := diskNames(t, fake, name); class.IsSingleDevice() && strings.Contains(on, ",") {
				t.Fatalf("case %d: %s is on %s", i, name, on)
			}
		}
	}
}
