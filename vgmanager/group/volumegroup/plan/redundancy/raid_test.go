package redundancy

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
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
