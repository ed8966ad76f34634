package redundancy

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// TestStripesAreNotLargerThanAnExtent: lvcreate reduces a larger stripe size to that of an extent.
func TestStripesAreNotLargerThanAnExtent(t *testing.T) {
	for size, want := range map[string]string{"": "64k", "4Ki": "4k", "4Mi": "4096k", "8Mi": "4096k", "1Ti": "4096k"} {
		raid := &v1alpha1.RAIDConfig{Type: v1alpha1.RAIDType5}
		if size != "" {
			quantity := resource.MustParse(size)
			raid.StripeSize = &quantity
		}
		if got := Options(raid); !slices.Equal(got,
			[]string{"--type", "raid5", "--stripes", "2", "--stripesize", want}) {
			t.Errorf("stripeSize %q: got %q, want stripes of %s", size, got, want)
		}
	}
}

// TestImagesThatAKilledCommandLeftAreDeactivated: only those of RAID volumes that are known to be inactive.
func TestImagesThatAKilledCommandLeftAreDeactivated(t *testing.T) {
	part := func(name, parent string, attr lvm.LVAttr) lvm.LV {
		return lvm.LV{Name: name, Parent: parent, Attr: attr}
	}
	images := func(attr lvm.LVAttr) []lvm.LV {
		return []lvm.LV{part("a_rimage_0", "a", attr), part("a_rimage_1", "a", "iwi-------"), part("a_rmeta_0", "a", "e"+attr[1:])}
	}
	for name, tt := range map[string]struct {
		volume lvm.LVAttr
		hidden []lvm.LV
		want   []string
	}{
		"the volume is inactive":   {"rwi---r---", images("iwi-a-r---"), []string{"a_rimage_0", "a_rmeta_0"}},
		"an image without a table": {"rwi---r---", images("iwi-XXr-r-"), []string{"a_rimage_0", "a_rmeta_0"}},
		"the volume is active":     {"rwi-a-r---", images("iwi-aor---"), nil},
		"the volume is suspended":  {"rwi-s-r---", images("iwi-a-r---"), nil},
		"its state is not known":   {"rwi-X-r---", images("iwi-a-r---"), nil},
		"no image is active":       {"rwi---r---", images("iwi---r---"), nil},
		"a part of a thin pool":    {"twi-------", []lvm.LV{part("a_tdata", "a", "Twi-a-----")}, nil},
		"a part of another volume": {"rwi---r---", []lvm.LV{part("b_rimage_0", "b", "iwi-a-r---")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			segment := "raid1"
			if tt.volume.IsThinPool() {
				segment = "thin-pool"
			}
			vg := &lvm.VG{Name: "vg1", LVs: []lvm.LV{{Name: "a", Attr: tt.volume, SegType: segment}}, Hidden: tt.hidden}
			change, _ := CloseImages(vg).Change.(lvm.LVDeactivate)
			if !slices.Equal(change.Names, tt.want) {
				t.Errorf("deactivates %q, want %q", change.Names, tt.want)
			}
		})
	}
}
