//go:build lab

package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
)

// placed creates the volume group "raid" for a class, on devices with the given numbers of extents, with some single
// extents in use.
func (b *bench) placed(t *testing.T, class deviceclass.Class, used int, random *rand.Rand, sizes ...int64) {
	t.Helper()
	b.group(t, nil, sizes...)
	class.Name, class.VolumeGroup = "raid", "raid"
	setClasses(t, b.engine, class)
	for j := range used {
		at := random.IntN(len(sizes))
		extent := random.Int64N(sizes[at])
		err := b.lvm.Apply(t.Context(), lvm.LVCreateThick{VG: "raid", Name: fmt.Sprintf("used%d", j),
			Size: 4 << 20, Devices: []string{fmt.Sprintf("%s:%d-%d", b.names[at], extent, extent)}})
		if err != nil {
			t.Logf("extent %d of %s is in use already: %v", extent, b.names[at], err)
		}
	}
}

func (b *bench) create(t *testing.T, name string, size int64) error {
	t.Helper()
	_, err := b.engine.CreateLV(t.Context(), NewVolume{Name: name, Class: "raid", Size: size})
	return err
}

// placedClasses are the classes with a placement of thick volumes.
func placedClasses() map[string]deviceclass.Class {
	two, three := uint(2), uint(3)
	return map[string]deviceclass.Class{
		"any":           {Allocation: deviceclass.AllocationAny, LVCreateOptions: []string{"--readahead=8192"}},
		"single device": {Allocation: deviceclass.AllocationSingleDevice},
		"two stripes":   {Allocation: deviceclass.AllocationAny, Stripe: &two, StripeSize: "64k"},
		"three stripes": {Allocation: deviceclass.AllocationAny, Stripe: &three, StripeSize: "16k"},
	}
}

// TestFillingAGroupWithTheToldCapacitySucceeds creates volumes of at most the announced capacity until it is 0. None is
// refused, and each is where its class says.
func TestFillingAGroupWithTheToldCapacitySucceeds(t *testing.T) {
	b := newBench(t)
	random := rand.New(rand.NewPCG(5, 6))
	cases := 3
	if testing.Short() {
		cases = 1
	}
	for _, name := range slices.Sorted(maps.Keys(placedClasses())) {
		class := placedClasses()[name]
		for i := range cases {
			sizes := make([]int64, 3+random.IntN(3))
			for j := range sizes {
				sizes[j] = 4 + random.Int64N(20)
			}
			used := random.IntN(5)
			t.Run(fmt.Sprint(name, i, sizes, " with ", used, " in use"), func(t *testing.T) {
				b.placed(t, class, used, random, sizes...)
				defer b.end(t)
				b.fill(t, &class, random)
			})
		}
	}
}

func (b *bench) fill(t *testing.T, class *deviceclass.Class, random *rand.Rand) {
	t.Helper()
	for n := 0; ; n++ {
		told := b.told(t)
		wantCode(t, "more than is announced", b.create(t, "over", told+1), codes.ResourceExhausted)
		if told == 0 {
			return
		}
		name := fmt.Sprintf("v%d", n)
		if err := b.create(t, name, min(told, (4+random.Int64N(8))*4*mib)); err != nil {
			_, vg := b.see(t)
			t.Fatalf("%d bytes are announced: %v; %+v", told, err, vg.PVs)
		}
		_, vg := b.see(t)
		lv := vg.LV(name)
		stripes := 1
		if class.Stripe != nil {
			stripes = int(*class.Stripe)
		}
		if lv.Stripes != stripes || class.IsSingleDevice() && len(lv.PVs) != 1 {
			t.Errorf("%s has %d stripes on %d devices", name, lv.Stripes, len(lv.PVs))
		}
	}
}

// TestExtendingByTheToldCapacitySucceeds extends a volume of each class by all that is possible for it.
func TestExtendingByTheToldCapacitySucceeds(t *testing.T) {
	b := newBench(t)
	random := rand.New(rand.NewPCG(7, 8))
	for _, name := range slices.Sorted(maps.Keys(placedClasses())) {
		class := placedClasses()[name]
		t.Run(name, func(t *testing.T) {
			b.placed(t, class, 3, random, 20, 18, 12, 12, 7)
			defer b.end(t)
			must(t, b.create(t, "a", 6*4*mib))
			must(t, b.create(t, "b", 4*mib))
			_, vg := b.see(t)
			before := vg.LV("a")
			room := view.Class{Config: &class, VG: vg}.PlaceGrowth(before, view.AllDisks(vg)).Room
			most := int64(before.Size + room)
			_, err := b.engine.ResizeLV(t.Context(), "raid", "a", most+1)
			wantCode(t, "more than fits", err, codes.ResourceExhausted)
			t.Log(err)
			for range 2 {
				response, err := b.engine.ResizeLV(t.Context(), "raid", "a", most)
				if err != nil || room == 0 || response != most {
					t.Fatalf("from %d by %d: got %v, %v", before.Size, room, response, err)
				}
			}
			_, vg = b.see(t)
			if lv := vg.LV("a"); lv.Stripes != before.Stripes || class.IsSingleDevice() && len(lv.PVs) != 1 {
				t.Errorf("got %+v", lv)
			}
		})
	}
}
