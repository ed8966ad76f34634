//go:build lab

package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
)

// bench creates volume groups of devices of any size on the first disk of the lab.
type bench struct {
	lvm    *lvmexec.LVM
	engine *Engine
	disk   string
	names  []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	disk, _, _ := strings.Cut(os.Getenv("LVMS_TEST_DISKS"), ",")
	if disk == "" {
		t.Fatal("LVMS_TEST_DISKS must name a blank disk of a lab node")
	}
	l := lvmexec.New(host.NewLocal())
	e, err := New(l, nil, "")
	must(t, err)
	return &bench{lvm: l, engine: e, disk: disk}
}

// group creates the volume group "raid" on devices with the given numbers of extents.
func (b *bench) group(t *testing.T, options []string, sizes ...int64) {
	t.Helper()
	const extent, label = 8192, 2048 // sectors
	at := int64(8192)
	b.names = nil
	for i, size := range sizes {
		name := fmt.Sprintf("raid%d", i)
		length := size*extent + label
		b.run(t, "/usr/sbin/dmsetup", "create", name, "--table", fmt.Sprintf("0 %d linear %s %d", length, b.disk, at))
		b.names = append(b.names, "/dev/mapper/"+name)
		at += length
	}
	must(t, b.lvm.Apply(t.Context(), lvm.VGCreate{Name: "raid", Devices: b.names}))
	class := thickClass("raid")
	class.LVCreateOptions = append(slices.Clone(options), "--nosync")
	if strings.Contains(strings.Join(options, " "), "raid6") || len(options) == 0 || options[0] != "--type" {
		// LVM rejects --nosync for raid6, and without a level.
		class.LVCreateOptions = options
	}
	setClasses(t, b.engine, class)
}

// end removes everything.
func (b *bench) end(t *testing.T) {
	t.Helper()
	_, vg := b.see(t)
	for _, lv := range vg.LVs {
		must(t, b.lvm.Apply(t.Context(), lvm.LVRemove{VG: "raid", Names: []string{lv.Name}}))
	}
	must(t, b.lvm.Apply(t.Context(), lvm.VGRemove{VG: "raid"}))
	for i, name := range b.names {
		b.run(t, "/usr/sbin/wipefs", "--quiet", "--all", name)
		b.run(t, "/usr/sbin/dmsetup", "remove", "--retry", fmt.Sprintf("raid%d", i))
	}
}

func (b *bench) run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

func (b *bench) see(t *testing.T) (*lvm.Report, *lvm.VG) {
	t.Helper()
	report, err := b.lvm.Report(t.Context())
	must(t, err)
	return report, report.VG("raid")
}

func (b *bench) told(t *testing.T) int64 {
	t.Helper()
	free, err := b.engine.FreeBytes(t.Context(), "raid")
	must(t, err)
	return int64(free)
}

// seeApart checks that no two images of a volume share a device.
func (b *bench) seeApart(t *testing.T, name string) {
	t.Helper()
	_, vg := b.see(t)
	holder := map[string]string{}
	images := 0
	for _, part := range vg.Hidden {
		if part.Parent != name || !part.Attr.IsImage() {
			continue
		}
		images++
		for _, uuid := range part.PVs {
			if other := holder[uuid]; other != "" {
				t.Errorf("%s and %s of %s are both on %s", other, part.Name, name, uuid)
			}
			holder[uuid] = part.Name
		}
	}
	if images < 2 {
		t.Errorf("%s has %d images", name, images)
	}
}

// createAll creates one volume with the reported capacity, and checks that the remaining capacity is not exceeded.
func (b *bench) createAll(t *testing.T) {
	t.Helper()
	told := b.told(t)
	if told == 0 {
		t.Fatal("there is no capacity")
	}
	_, err := b.engine.CreateLV(t.Context(),
		NewVolume{Name: "over", Class: "raid", Size: told + 1})
	wantCode(t, "more than is told", err, codes.ResourceExhausted)
	response, err := b.engine.CreateLV(t.Context(),
		NewVolume{Name: "all", Class: "raid", Size: told})
	if err != nil || sizeOf(response) != told {
		t.Fatalf("of the %d bytes that were told: got %v, %v", told, response, err)
	}
}

var levels = [][]string{
	deviceclass.RAIDOptions("raid1", 1, 0, 0),
	deviceclass.RAIDOptions("raid1", 2, 0, 0),
	deviceclass.RAIDOptions("raid4", 0, 2, 64<<10),
	deviceclass.RAIDOptions("raid5", 0, 2, 64<<10),
	deviceclass.RAIDOptions("raid6", 0, 3, 64<<10),
	deviceclass.RAIDOptions("raid10", 1, 2, 64<<10),
	{"--type=raid5"},
	{"--stripes", "2", "--stripesize", "64k"},
}

func TestAVolumeOfTheToldCapacitySucceeds(t *testing.T) {
	b := newBench(t)
	for _, options := range levels {
		for _, sizes := range lane.Cases([]int64{12, 12, 12, 12, 12}, []int64{20, 15, 9, 7, 5},
			[]int64{9, 9, 9, 9, 9, 9, 9, 9, 9, 9}) {
			t.Run(fmt.Sprint(strings.Join(options, " "), sizes), func(t *testing.T) {
				b.group(t, options, sizes...)
				defer b.end(t)
				b.createAll(t)
				if strings.Contains(options[0], "--type") {
					b.seeApart(t, "all")
				}
			})
		}
	}
}

// TestAVolumeOfTheToldCapacitySucceedsInGroupsOfAnyShape uses pseudorandom sizes and used and cordoned devices, with
// a fixed seed.
func TestAVolumeOfTheToldCapacitySucceedsInGroupsOfAnyShape(t *testing.T) {
	b := newBench(t)
	random := rand.New(rand.NewPCG(1, 2))
	between := func(low, high int64) int64 { return low + random.Int64N(high-low+1) }
	for i := range 25 {
		options := levels[random.IntN(len(levels))]
		sizes := make([]int64, between(5, 8))
		for j := range sizes {
			sizes[j] = between(3, 12)
		}
		used := between(0, 6)
		t.Run(fmt.Sprint(i, " ", strings.Join(options, " "), sizes, " with ", used, " in use"), func(t *testing.T) {
			b.group(t, options, sizes...)
			defer b.end(t)
			for j := range used {
				at := between(0, 2)
				err := b.lvm.Apply(t.Context(), lvm.LVCreateThick{
					VG: "raid", Name: fmt.Sprintf("used%d", j), Size: 4 << 20,
					Devices: []string{fmt.Sprintf("%s:%d-%d", b.names[random.IntN(len(b.names))], at, at)},
				})
				if err != nil && !strings.Contains(err.Error(), "No") && !strings.Contains(err.Error(), "nsufficient") {
					t.Fatal(err)
				}
			}
			if b.told(t) == 0 {
				t.Logf("no capacity")
				return
			}
			b.createAll(t)
			if options[0] == "--type" {
				b.seeApart(t, "all")
			}
		})
	}
}

func TestAVolumeGrowsByWhatIsTold(t *testing.T) {
	b := newBench(t)
	for _, options := range levels[:7] {
		for name, prepare := range map[string]func(*testing.T){
			"in place": func(*testing.T) {},
			"its devices are closed": func(t *testing.T) {
				_, vg := b.see(t)
				holders := map[string]bool{}
				for _, part := range vg.Hidden {
					for _, uuid := range part.PVs {
						holders[uuid] = holders[uuid] || part.Parent == "a"
					}
				}
				for _, pv := range vg.PVs {
					if holders[pv.UUID] {
						must(t, b.lvm.Apply(t.Context(), lvm.PVSetAllocatable{Device: pv.Name}))
					}
				}
			},
		} {
			t.Run(strings.Join(options, " ")+", "+name, func(t *testing.T) {
				b.group(t, options, 12, 11, 10, 10, 9, 8, 8, 8, 8, 8)
				defer b.end(t)
				ctx := t.Context()
				_, err := b.engine.CreateLV(ctx, NewVolume{Name: "a", Class: "raid",
					Size: 16 * mib})
				must(t, err)
				prepare(t)
				b.waitForSync(t)
				_, vg := b.see(t)
				lv := vg.LV("a")
				g := view.Class{VG: vg}.PlaceGrowth(lv, view.AllDisks(vg))
				if g.Room == 0 {
					t.Fatalf("there is no room: %+v", vg.PVs)
				}
				_, err = b.engine.ResizeLV(ctx, "raid", "a", int64(lv.Size+g.Room)+1)
				wantCode(t, "more than is there", err, codes.ResourceExhausted)
				for range 2 {
					size, err := b.engine.ResizeLV(ctx, "raid", "a", int64(lv.Size+g.Room))
					if err != nil || size != int64(lv.Size+g.Room) {
						t.Fatalf("from %d by %d on %v: got %v, %v", lv.Size, g.Room, g.Devices, size, err)
					}
				}
				b.seeApart(t, "a")
			})
		}
	}
}

// waitForSync waits for volumes that LVM synchronizes in spite of --nosync.
func (b *bench) waitForSync(t *testing.T) {
	t.Helper()
	for range 300 {
		_, vg := b.see(t)
		if p := vg.LV("a").SyncPercent; p != nil && *p == 100 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the volume is not in sync")
}

// TestLabTopoLVMsOwnClientsAreServed is TestTopoLVMsOwnClientsAreServed on real LVM.
// TestLabNamespaceLimits creates volumes, snapshots and clones of two namespaces until a limit.
func TestLabNamespaceLimits(t *testing.T) {
	b := newBench(t)
	b.group(t, nil, 60)
	defer b.end(t)
	must(t, b.lvm.Apply(t.Context(), lvm.LVCreateThinPool{VG: "raid", Name: "pool", PercentFree: 50}))
	limits := []deviceclass.NamespaceLimit{{Namespace: "shop", PerNodeBytes: 50 << 20}}
	thick, thin := thickClass("thick"), thinClass("thin", 10)
	for _, class := range []*deviceclass.Class{&thick, &thin} {
		class.VolumeGroup, class.NamespaceLimits = "raid", limits
	}
	setClasses(t, b.engine, thick, thin)
	for _, class := range []string{"thick", "thin"} {
		shop, other := tenant{b.engine, "shop", class}, tenant{b.engine, "other", class}
		must(t, shop.create(t, class+"-a", 20))
		must(t, shop.create(t, class+"-a", 20))
		if class == "thin" {
			must(t, shop.copy(t, "copy", "thin-a", "ro", 0))
			wantCode(t, "a clone", shop.copy(t, "clone", "thin-a", "rw", 20), codes.ResourceExhausted)
			must(t, other.copy(t, "clone", "thin-a", "rw", 20))
			err := b.engine.RemoveLV(t.Context(), class, "copy")
			must(t, err)
		}
		wantCode(t, class+": a volume", shop.create(t, class+"-b", 32), codes.ResourceExhausted)
		must(t, other.create(t, class+"-b", 32))
		wantCode(t, class+": an expansion", shop.resize(t, class+"-a", 52), codes.ResourceExhausted)
		must(t, shop.resize(t, class+"-a", 48))
		_, vg := b.see(t)
		if lv := vg.LV(class + "-a"); lv == nil || int64(lv.Size) != 48*mib {
			t.Errorf("%s: got %+v", class, lv)
		}
	}
	inPool := []string{"thin-a", "thin-b", "clone"} // They are removed before their pool.
	must(t, b.lvm.Apply(t.Context(), lvm.LVRemove{VG: "raid", Names: inPool}))
}
