//go:build lab

package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// TestLabSpreadOverDevices creates and extends volumes of one group. With the policy required, no device has two of
// them; with preferred, only if there is no other space.
func TestLabSpreadOverDevices(t *testing.T) {
	b := newBench(t)
	two := uint(2)
	raid1 := append(deviceclass.RAIDOptions("raid1", 1, 0, 0), "--nosync")
	for name, class := range map[string]deviceclass.Class{
		"any":           {},
		"single device": {Allocation: deviceclass.AllocationSingleDevice},
		"stripes":       {Stripe: &two, StripeSize: "64k"},
		"redundancy":    {LVCreateOptions: raid1},
	} {
		t.Run(name, func(t *testing.T) {
			b.placed(t, class, 0, rand.New(rand.NewPCG(1, 1)), 20, 20, 16, 16)
			defer b.end(t)
			create := func(name, tag string) error {
				_, err := b.engine.CreateLV(t.Context(), NewVolume{Name: name, Class: "raid",
					Size: 4 * 4 * mib, Tags: []string{tag}})
				return err
			}
			n := 0
			for ; n < 4; n++ {
				if err := create(fmt.Sprint("v", n), requiredTag); err != nil {
					t.Log(err)
					break
				}
			}
			if want := map[bool]int{true: 4, false: 2}[class.Stripe == nil && class.LVCreateOptions == nil]; n != want {
				t.Errorf("%d volumes were created, want %d", n, want)
			}
			for range 2 {
				wantCode(t, "one more", create("more", requiredTag), codes.ResourceExhausted)
				_, err := b.engine.ResizeLV(t.Context(), "raid", "v0", 8*4*mib)
				must(t, err)
			}
			_, err := b.engine.ResizeLV(t.Context(), "raid", "v0", 42*4*mib)
			wantCode(t, "onto the devices of others", err, codes.ResourceExhausted)
			_, vg := b.see(t)
			for _, pv := range vg.PVs {
				if users := vg.VolumesOn(pv.UUID); len(users) != 1 {
					t.Errorf("%s has data of %s", pv.Name, strings.Join(users, ", "))
				}
			}
			must(t, create("preferred", preferredTag))
			must(t, create("outside", "lvms.spread=device:required:other/group"))
		})
	}
}
