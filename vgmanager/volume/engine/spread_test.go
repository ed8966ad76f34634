package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

const (
	requiredTag  = "lvms.spread=device:required:ns/db"
	preferredTag = "lvms.spread=device:preferred:ns/db"
)

func TestVolumesOfAGroupAreOnDifferentDevices(t *testing.T) {
	two := uint(2)
	raid1 := deviceclass.RAIDOptions("raid1", 1, 0, 0)
	tests := map[string]struct {
		class  deviceclass.Class
		sizes  []int64
		before []string // tags of volumes of two extents
		tags   []string
		size   int64
		code   codes.Code
		want   string // its disks, or a part of the error
	}{
		"the first one": {deviceclass.Class{}, []int64{10, 10}, nil, []string{requiredTag}, 4, codes.OK, "/dev/a"},
		"no group": {deviceclass.Class{}, []int64{10, 10}, []string{requiredTag}, []string{"x"}, 4, codes.OK,
			"/dev/a"},
		"apart": {deviceclass.Class{}, []int64{10, 10}, []string{requiredTag}, []string{requiredTag}, 4, codes.OK,
			"/dev/b"},
		"apart if preferred": {deviceclass.Class{}, []int64{10, 10}, []string{requiredTag}, []string{preferredTag}, 4,
			codes.OK, "/dev/b"},
		"from one of another policy": {deviceclass.Class{}, []int64{10, 10}, []string{preferredTag}, []string{requiredTag}, 4,
			codes.OK, "/dev/b"},
		"from one of another scope": {deviceclass.Class{}, []int64{10, 10}, []string{"lvms.spread=node:preferred:ns/db"},
			[]string{requiredTag}, 4, codes.OK, "/dev/b"},
		"another scope": {deviceclass.Class{}, []int64{10, 10}, []string{requiredTag},
			[]string{"lvms.spread=node:required:ns/db"}, 4, codes.OK, "/dev/a"},
		"another group": {deviceclass.Class{}, []int64{10, 10}, []string{requiredTag},
			[]string{"lvms.spread=device:required:other/db"}, 4, codes.OK, "/dev/a"},
		"not apart, preferred": {deviceclass.Class{}, []int64{10, 3}, []string{requiredTag}, []string{preferredTag}, 4,
			codes.OK, "/dev/a"},
		"not apart, required": {deviceclass.Class{}, []int64{10, 3}, []string{requiredTag}, []string{requiredTag}, 4,
			codes.ResourceExhausted, "spread group ns/db, which it must not share: /dev/a (before0)"},
		"no device left": {deviceclass.Class{Allocation: deviceclass.AllocationSingleDevice}, []int64{10, 10},
			[]string{requiredTag, requiredTag}, []string{requiredTag}, 4, codes.ResourceExhausted,
			"/dev/a (before0), /dev/b (before1)"},
		"neither apart nor together": {deviceclass.Class{}, []int64{10, 3}, []string{requiredTag}, []string{preferredTag}, 12,
			codes.ResourceExhausted, "only 46137344 are free in volume group placed"},
		"a single device": {deviceclass.Class{Allocation: deviceclass.AllocationSingleDevice}, []int64{20, 10, 12},
			[]string{requiredTag}, []string{requiredTag}, 12, codes.OK, "/dev/c"},
		"several devices": {deviceclass.Class{}, []int64{20, 10, 12}, []string{requiredTag}, []string{requiredTag}, 13,
			codes.OK, "/dev/b, /dev/c"},
		"stripes": {deviceclass.Class{Stripe: &two}, []int64{10, 10, 9, 8}, []string{requiredTag}, []string{requiredTag}, 12,
			codes.OK, "/dev/c, /dev/d"},
		"too few for stripes": {deviceclass.Class{Stripe: &two}, []int64{10, 10, 9}, []string{requiredTag},
			[]string{requiredTag}, 2, codes.ResourceExhausted, "at the same time"},
		"redundancy": {deviceclass.Class{LVCreateOptions: raid1}, []int64{10, 10, 9, 8}, []string{requiredTag},
			[]string{requiredTag}, 4, codes.OK, "/dev/c, /dev/d"},
		"too few for redundancy": {deviceclass.Class{LVCreateOptions: raid1}, []int64{10, 10, 9}, []string{requiredTag},
			[]string{requiredTag}, 2, codes.ResourceExhausted, "/dev/a (before0), /dev/b (before0)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e, fake := newPlacedEngine(t, tt.class, tt.sizes...)
			for i, tag := range tt.before {
				must(t, createExtents(t, e, fmt.Sprintf("before%d", i), 2, tag))
			}
			for range 2 {
				err := createExtents(t, e, "v", tt.size, tt.tags...)
				wantCode(t, "create", err, tt.code)
				if tt.code != codes.OK && err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %q, want %q in it", err, tt.want)
				}
			}
			report, err := fake.Report(t.Context())
			must(t, err)
			if vg := report.VG("placed"); tt.code == codes.OK && disksWith(vg, "v") != tt.want {
				t.Errorf("it is on %s, want %s", disksWith(vg, "v"), tt.want)
			}
		})
	}
}

// disksWith returns the physical volumes with data of a volume or its images.
func disksWith(vg *lvm.VG, name string) string {
	var names []string
	for _, pv := range vg.PVs {
		if vg.HasDataOn(name, pv.UUID) {
			names = append(names, pv.Name)
		}
	}
	return strings.Join(names, ", ")
}

func TestVolumesOfAGroupStayApartWhenTheyAreExtended(t *testing.T) {
	for name, tt := range map[string]struct {
		tag  string
		to   int64
		code codes.Code
		want string
	}{
		"on its device":               {requiredTag, 10, codes.OK, "/dev/b"},
		"required, no device left":    {requiredTag, 11, codes.ResourceExhausted, "/dev/b"},
		"preferred, no device left":   {preferredTag, 11, codes.OK, "/dev/a, /dev/b"},
		"preferred, not enough space": {preferredTag, 19, codes.ResourceExhausted, "/dev/b"},
	} {
		t.Run(name, func(t *testing.T) {
			e, fake := newPlacedEngine(t, deviceclass.Class{}, 10, 10)
			must(t, createExtents(t, e, "other", 2, preferredTag))
			must(t, createExtents(t, e, "v", 4, tt.tag))
			for range 2 {
				wantCode(t, "extend", resizeTo(t, e, "v", tt.to), tt.code)
			}
			if got := diskNames(t, fake, "v"); got != tt.want {
				t.Errorf("it is on %s, want %s", got, tt.want)
			}
		})
	}
}

// TestAVolumeGrowsOnADeviceThatItAlreadyShares: an extension there brings no volumes together.
func TestAVolumeGrowsOnADeviceThatItAlreadyShares(t *testing.T) {
	e, fake := newPlacedEngine(t, deviceclass.Class{}, 10)
	must(t, createExtents(t, e, "first", 2, requiredTag))
	must(t, createExtents(t, e, "second", 2, preferredTag))
	must(t, resizeTo(t, e, "first", 4))
	if got := diskNames(t, fake, "first"); got != "/dev/a" {
		t.Errorf("it is on %s", got)
	}
}

func TestAThinPoolKeepsNoVolumesApart(t *testing.T) {
	e, _ := newEngine(t)
	for tag, code := range map[string]codes.Code{requiredTag: codes.InvalidArgument, preferredTag: codes.OK,
		"lvms.spread=node:required:ns/db": codes.OK} {
		name := fmt.Sprint("v", len(tag))
		_, err := e.CreateLV(t.Context(), NewVolume{Name: name, Class: "thin", Size: mib,
			Tags: []string{tag}})
		wantCode(t, tag, err, code)
		if code != codes.OK && !strings.Contains(err.Error(), "thin pool thin/pool are on the same devices") {
			t.Errorf("got %q", err)
		}
	}
	create := NewVolume{Name: "source", Class: "thin", Size: mib}
	_, err := e.CreateLV(t.Context(), create)
	must(t, err)
	_, err = e.CreateLVSnapshot(t.Context(), NewSnapshot{Name: "s", Class: "thin",
		Source: "source", Tags: []string{requiredTag}})
	wantCode(t, "a clone", err, codes.InvalidArgument)
}

func TestAReadThatFailedBringsNoVolumesTogether(t *testing.T) {
	e, fake := newPlacedEngine(t, deviceclass.Class{}, 10, 10)
	must(t, createExtents(t, e, "other", 2, requiredTag))
	fake.Fail("Report", errors.New("no answer"))
	fake.Fail("Recent", errors.New("no answer"))
	if err := createExtents(t, e, "v", 2, requiredTag); err == nil || fake.Calls()["LVCreateThick"] != 1 {
		t.Errorf("got %v, %v", err, fake.Calls())
	}
}
