package volumespec

import (
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

// TestRequestsAndSizes are those that are enough for a source, and the size that its snapshots have.
func TestRequestsAndSizes(t *testing.T) {
	const gi = int64(1) << 30
	for name, tt := range map[string]struct {
		record             string
		spec, have         int64
		requested, refused int64
	}{
		"recorded":                             {"1000000000", 1000001536, 956 * mebi, 1e9, 952 * mebi},
		"recorded, large extents":              {"1000000000", 1000001536, gi, 1e9, 1e9 - 1},
		"not recorded":                         {"", 1000001536, 956 * mebi, 1000001536, 952 * mebi},
		"not recorded, large extents":          {"", 1000001536, gi, 1000001536, 1e9},
		"a snapshot, not recorded":             {"", gi, gi, gi, gi - extent},
		"after a repeated call of expansion":   {"", 956 * mebi, 956 * mebi, 956 * mebi, 952 * mebi},
		"an expansion that is not made":        {"1000000000", 2 * gi, 956 * mebi, 1e9, 952 * mebi},
		"more is recorded than the volume has": {"99000000000", 2 * gi, gi, gi, gi - extent},
		"the record is no number":              {"1G", 1000001536, 956 * mebi, 1000001536, 952 * mebi},
		"the record is 0":                      {"0", 1000001536, 956 * mebi, 1000001536, 952 * mebi},
		"the record is negative":               {"-5", 1000001536, 956 * mebi, 1000001536, 952 * mebi},
		"the record is no int64":               {strings.Repeat("9", 30), gi, gi, gi, gi - extent},
		"the spec has no size":                 {"", 0, gi, gi, gi - extent},
		"the largest":                          {"", Maximum, Maximum, Maximum, gi},
	} {
		lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			wellknown.RequestedSizeAnnotation: tt.record}}}
		lv.Spec.Size = *resource.NewQuantity(tt.spec, resource.BinarySI)
		lv.Status.CurrentSize = resource.NewQuantity(tt.have, resource.BinarySI)
		expect.Equal(t, name+": requested", RequestedOf(lv), tt.requested)
		expect.Equal(t, name+": the request is enough", IsEnough(lv, tt.requested), true)
		expect.Equal(t, name+": less is enough", IsEnough(lv, tt.refused), false)
	}
}
