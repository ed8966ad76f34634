package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// groupOf returns a volume group with extents of 4 MiB. Each text is a physical volume: its free areas, and "closed"
// or "missing".
func groupOf(t *testing.T, pvs ...string) *lvm.VG {
	t.Helper()
	vg := &lvm.VG{Name: "vg", ExtentSize: 4 << 20}
	for i, text := range pvs {
		pv := lvm.PV{Name: fmt.Sprintf("/dev/%d", i), UUID: fmt.Sprint(i), Allocatable: true}
		for _, word := range strings.Fields(text) {
			var n lvm.Bytes
			switch _, err := fmt.Sscan(word, &n); {
			case word == "closed":
				pv.Allocatable = false
			case word == "missing":
				pv.Missing = true
				vg.MissingPVs++
			case err != nil:
				t.Fatal(err)
			default:
				pv.FreeAreas = append(pv.FreeAreas, n<<22)
				pv.Free += n << 22
			}
		}
		vg.Free += pv.Free
		vg.PVs = append(vg.PVs, pv)
	}
	return vg
}

func TestCreateRoom(t *testing.T) {
	tests := []struct {
		options string
		pvs     []string
		want    lvm.Bytes // extents
	}{
		{"", []string{"10", "7 2", "5 closed", "5 missing", ""}, 19},
		{"--type raid1", []string{"10", "10"}, 9},
		{"--type raid1", []string{"10", "6"}, 5},
		{"--type raid1", []string{"10", "6", "8"}, 7},
		{"--type raid1", []string{"10", "10", "4", "4"}, 13},
		{"--type raid1", []string{"10"}, 0},
		{"--type raid1", []string{"10", "10 closed"}, 0},
		{"--type raid1", []string{"10", "10 missing"}, 0},
		{"--type raid1", []string{"10", "1"}, 0},
		{"--type raid1", []string{"6 4", "10", "9", "9"}, 9},
		{"--type raid1", []string{"1 1 1 1 1 1 1 1", "10", "4"}, 3},
		{"--type raid1 -m 2", []string{"10", "9", "8", "7"}, 7},
		{"--type raid5", []string{"10", "9", "8", "7"}, 14},
		{"--type raid5 --stripes 3", []string{"10", "9", "8", "7"}, 18},
		{"--type raid6", []string{"10", "10", "10", "10", "10"}, 27},
		{"--type raid10", []string{"10", "10", "10", "10"}, 18},
		{"--type raid10", []string{"10", "10", "10"}, 0},
		{"--stripes 2", []string{"10", "10", "10", "10"}, 40},
		{"--stripes 2", []string{"10", "4"}, 8},
	}
	for _, tt := range tests {
		layout, err := lvm.NewLayout(strings.Fields(tt.options))
		must(t, err)
		if got := createRoom(layout, 4<<20, groupOf(t, tt.pvs...).FreeDisks()) >> 22; got != tt.want {
			t.Errorf("%s on %q: got %d extents, want %d", tt.options, tt.pvs, got, tt.want)
		}
	}
}

func TestSmallExtentsHaveMoreMetadata(t *testing.T) {
	layout, err := lvm.NewLayout([]string{"--type", "raid1"})
	must(t, err)
	vg := groupOf(t, "2", "2")
	vg.ExtentSize = 256 << 10
	if got, want := createRoom(layout, vg.ExtentSize, vg.FreeDisks()), lvm.Bytes(7<<20); got != want {
		t.Errorf("got %d bytes, want %d", got, want)
	}
}

func TestOnePerImageNamesTheLargest(t *testing.T) {
	layout, err := lvm.NewLayout([]string{"--type", "raid1"})
	must(t, err)
	vg := groupOf(t, "4", "9", "1 1 1 1 1 1 1 1 1 1", "8", "20 closed")
	if diff := cmp.Diff([]string{"/dev/1", "/dev/3"}, onePerImage(layout, vg.ExtentSize, vg.FreeDisks(), 7)); diff != "" {
		t.Error(diff)
	}
	if got := onePerImage(layout, vg.ExtentSize, vg.FreeDisks(), 8); got != nil {
		t.Errorf("got %v where one device for each image is not enough", got)
	}
}

// withImages adds a RAID volume with images of n extents, each on the physical volumes of a text.
func withImages(vg *lvm.VG, data, n lvm.Bytes, on ...string) *lvm.LV {
	vg.LVs = append(vg.LVs, lvm.LV{Name: "a", Attr: "rwi-a-r---", SegType: "raid5", Size: data * n << 22})
	for i, uuids := range on {
		vg.Hidden = append(vg.Hidden,
			lvm.LV{Name: fmt.Sprintf("a_rimage_%d", i), Parent: "a", Attr: "iwi-aor---", Size: n << 22,
				PVs: strings.Fields(uuids)},
			lvm.LV{Name: fmt.Sprintf("a_rmeta_%d", i), Parent: "a", Attr: "ewi-aor---", Size: 4 << 20,
				PVs: strings.Fields(uuids)})
	}
	return &vg.LVs[0]
}

func TestGrowthOfAVolumeWithImages(t *testing.T) {
	tests := map[string]struct {
		pvs     []string
		data    lvm.Bytes
		images  []string
		want    lvm.Bytes
		devices string
	}{
		"where it is": {[]string{"5", "9"}, 1, []string{"0", "1"}, 5, "/dev/1 /dev/0"},
		"an image on two": {[]string{"5", "9", "1"}, 1, []string{"0 2", "1"}, 6,
			"/dev/1 /dev/0 /dev/2"},
		"parity": {[]string{"5", "9", "7"}, 2, []string{"0", "1", "2"}, 10,
			"/dev/1 /dev/2 /dev/0"},
		"elsewhere": {[]string{"5", "1", "7", "6"}, 1, []string{"0", "1"}, 6, "/dev/2 /dev/3"},
		"its device is closed": {[]string{"5", "5 closed", "7", "6"}, 1, []string{"0", "1"}, 6,
			"/dev/2 /dev/3"},
		"its device is closed, one other": {[]string{"5", "5 closed", "7"}, 1, []string{"0", "1"}, 0, "/dev/0"},
		"an image is being moved":         {[]string{"5", "5"}, 1, []string{"0", ""}, 0, ""},
		"its parts are not known":         {[]string{"5", "5"}, 1, nil, 0, ""},
	}
	for name, tt := range tests {
		vg := groupOf(t, tt.pvs...)
		g := imageGrowth(vg, withImages(vg, tt.data, 4, tt.images...), allDisks(vg))
		if g.room>>22 != tt.want || strings.Join(g.devices, " ") != tt.devices {
			t.Errorf("%s: got %d on %v, want %d on %s", name, g.room>>22, g.devices, tt.want, tt.devices)
		}
	}
}

// newRAIDEngine returns an engine with a raid5 class on four disks of 100 extents.
func newRAIDEngine(t *testing.T) (*Engine, *lvmtest.Fake) {
	t.Helper()
	fake := lvmtest.New()
	devices := []string{"/dev/a", "/dev/b", "/dev/c", "/dev/d"}
	for i, d := range devices {
		fake.AddDisk(d, lvm.Bytes(401*mib), uint32(16*(i+1)))
	}
	must(t, fake.Apply(t.Context(), lvm.VGCreate{Name: "raid", Devices: devices}))
	e, err := New(fake, nil, "")
	must(t, err)
	class := thickClass("raid")
	class.LVCreateOptions = deviceclass.RAIDOptions("raid5", 0, 2, 64<<10)
	must(t, e.Publish(class))
	return e, fake
}

func capacityOf(t *testing.T, e *Engine, class string) int64 {
	t.Helper()
	free, err := e.GetFreeBytes(t.Context(), &proto.GetFreeBytesRequest{DeviceClass: class})
	must(t, err)
	return int64(free.FreeBytes)
}

func TestRAIDClassTellsAndGrantsWhatIsLeftAfterRedundancy(t *testing.T) {
	e, fake := newRAIDEngine(t)
	ctx := t.Context()
	told := capacityOf(t, e, "raid")
	if told != 2*99*4*mib {
		t.Fatalf("%d bytes are told", told)
	}
	_, err := e.CreateLV(ctx, &proto.CreateLVRequest{Name: "over", DeviceClass: "raid", SizeBytes: told + 1})
	wantCode(t, "more than is told", err, codes.ResourceExhausted)
	if fake.Calls()["LVCreateThick"] != 0 {
		t.Error("LVM was asked for what does not fit")
	}
	response, err := e.CreateLV(ctx, &proto.CreateLVRequest{Name: "a", DeviceClass: "raid", SizeBytes: 5 * mib})
	if err != nil || response.Volume.SizeBytes != 8*mib {
		t.Errorf("got %v, %v, want the size that the volume has", response, err)
	}
	for range 2 {
		grown, err := e.ResizeLV(ctx, &proto.ResizeLVRequest{Name: "a", DeviceClass: "raid", SizeBytes: 17 * mib})
		if err != nil || grown.SizeBytes != 24*mib {
			t.Errorf("got %v, %v", grown, err)
		}
	}
	_, err = e.ResizeLV(ctx, &proto.ResizeLVRequest{Name: "a", DeviceClass: "raid", SizeBytes: gib})
	wantCode(t, "grown over all", err, codes.ResourceExhausted)
	if fake.Calls()["LVExtend"] != 1 {
		t.Errorf("got %v", fake.Calls())
	}
	_, err = e.CreateLVSnapshot(ctx, &proto.CreateLVSnapshotRequest{Name: "s", DeviceClass: "raid", SourceVolume: "a",
		AccessType: "ro"})
	wantCode(t, "a snapshot of a RAID volume", err, codes.Unimplemented)
}

func TestRAIDClassWithALostDeviceHasNoCapacity(t *testing.T) {
	e, fake := newRAIDEngine(t)
	fake.Detach("/dev/b")
	if told := capacityOf(t, e, "raid"); told != 0 {
		t.Errorf("%d bytes are told", told)
	}
	_, err := e.CreateLV(t.Context(), &proto.CreateLVRequest{Name: "a", DeviceClass: "raid", SizeBytes: mib})
	wantCode(t, "create", err, codes.ResourceExhausted)
}

func TestClosedDevicesHaveNoCapacity(t *testing.T) {
	e, fake := newRAIDEngine(t)
	ctx := t.Context()
	must(t, fake.Apply(ctx, lvm.PVSetAllocatable{Device: "/dev/a"}))
	if told := capacityOf(t, e, "raid"); told != 2*99*4*mib {
		t.Errorf("three of four devices: %d bytes are told", told)
	}
	must(t, fake.Apply(ctx, lvm.PVSetAllocatable{Device: "/dev/b"}))
	if told := capacityOf(t, e, "raid"); told != 0 {
		t.Errorf("two of four devices: %d bytes are told", told)
	}
	must(t, e.setClasses([]DeviceClass{{Name: "plain", VolumeGroup: "raid"}}))
	if told := capacityOf(t, e, "plain"); told != 2*100*4*mib {
		t.Errorf("a plain class: %d bytes are told", told)
	}
	_, err := e.CreateLV(ctx, &proto.CreateLVRequest{Name: "a", DeviceClass: "plain", SizeBytes: gib})
	wantCode(t, "more than the open devices have", err, codes.ResourceExhausted)
}

func TestOptionsThatMakeNoSenseHaveNoCapacity(t *testing.T) {
	e, _ := newRAIDEngine(t)
	class := thickClass("raid")
	class.LVCreateOptions = []string{"--type", "raid1", "--mirrors", "many"}
	must(t, e.Publish(class))
	if told := capacityOf(t, e, "raid"); told != 0 {
		t.Errorf("%d bytes are told", told)
	}
	_, err := e.CreateLV(t.Context(), &proto.CreateLVRequest{Name: "a", DeviceClass: "raid", SizeBytes: mib})
	wantCode(t, "create", err, codes.InvalidArgument)
}

func TestARequestDoesNotWaitForEverForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := newEngine(t)
		leave, err := e.enter(t.Context(), "thick")
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		create := &proto.CreateLVRequest{Name: "a", DeviceClass: "thick", SizeBytes: mib}
		_, err = e.CreateLV(t.Context(), &proto.CreateLVRequest{Name: "b", DeviceClass: "thin", SizeBytes: mib})
		wantCode(t, "in another volume group", err, codes.OK)
		_, err = e.CreateLV(ctx, create)
		wantCode(t, "create", err, codes.DeadlineExceeded)
		begun := time.Now()
		_, err = e.RemoveLV(t.Context(), &proto.RemoveLVRequest{Name: "a", DeviceClass: "thick"})
		wantCode(t, "remove", err, codes.DeadlineExceeded)
		if time.Since(begun) != semaphoreTimeout {
			t.Errorf("waited %s", time.Since(begun))
		}
		leave()
		_, err = e.CreateLV(t.Context(), create)
		wantCode(t, "after the other ended", err, codes.OK)
	})
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(upstream))
	f.Add(
		[]byte(
			"device-classes: [{name: a, volume-group: b, type: thin, thin-pool: {name: p, overprovision-ratio: 1e999}}]"))
	f.Add([]byte("device-classes: [{name: a, volume-group: b, spare-gb: 18446744073709551615, stripe: 4294967295}]"))
	f.Add([]byte("{}"))
	f.Add([]byte("device-classes: {"))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := parseConfig("lvmd.yaml", data)
		if err != nil {
			return
		}
		if err := validate(config.DeviceClasses); err != nil {
			t.Errorf("what was read is not valid: %v", err)
		}
		for i := range config.DeviceClasses {
			c := &config.DeviceClasses[i]
			layout, err := lvm.NewLayout(c.CreateOptions())
			if err == nil && (layout.Images < 1 || layout.Data < 1) {
				t.Errorf("got %+v", layout)
			}
			if spare(c) < 0 || c.SpareGB != nil && *c.SpareGB > 0 && spare(c) == 0 {
				t.Errorf("the spare of %v is %d", *c.SpareGB, spare(c))
			}
		}
	})
}
