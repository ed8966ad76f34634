package supply

import (
	"math"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// A tenant may request any size. Until the node refuses it, the capacity for others is what it was.
func TestARequestThatCannotBeFulfilledTakesNoCapacity(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1",
		Annotations: map[string]string{wellknown.CapacityAnnotationPrefix + "ssd": "1000"}}}
	for name, tt := range map[string]struct {
		requests []int64
		want     int64
	}{
		"none":                         {nil, 1000},
		"one that fits":                {[]int64{400}, 600},
		"one of the whole capacity":    {[]int64{1000}, 0},
		"one that is larger":           {[]int64{1001}, 1000},
		"the maximum":                  {[]int64{1 << 62}, 1000},
		"the maximum, and one":         {[]int64{1 << 62, 400, math.MaxInt64}, 600},
		"two that do not fit together": {[]int64{700, 700}, 0},
		"many":                         {slices.Repeat([]int64{900}, 10), 0},
		"a negative size":              {[]int64{-5}, 1000},
	} {
		requests := Requests{"node2": {1000}}
		for _, size := range tt.requests {
			requests.Add("node1", size)
		}
		if got := requests.Room(node, "ssd"); got != tt.want {
			t.Errorf("%s: %d bytes are free, want %d", name, got, tt.want)
		}
	}
}
