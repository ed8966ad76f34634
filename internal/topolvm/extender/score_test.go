package extender

import (
	"math"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// The first seven cases are those of TopoLVM v0.41 (internal/scheduler/prioritize_test.go).
func TestScoreOfACapacity(t *testing.T) {
	for _, test := range []struct {
		capacity uint64
		divisor  float64
		want     int64
	}{
		{0, 1, 0},
		{1, 1, 1},
		{1 << 30, 1, 1},
		{128 << 30, 1, 7},
		{128 << 30, 2, 6},
		{128 << 30, 0.5, 8},
		{math.MaxUint64, 1, 10},
		{1<<30 - 1, 1, 1},
		{3 << 30, 1, 1},
		{1023 << 30, 1, 9},
		{1024 << 30, 1, 10},
		{math.MaxUint64, math.SmallestNonzeroFloat64, 10},
		{1 << 30, math.MaxFloat64, 1},
	} {
		if got := scoreOf(test.capacity, test.divisor); got != test.want {
			t.Errorf("%d bytes with divisor %v: got %d, want %d", test.capacity, test.divisor, got, test.want)
		}
	}
}

// The first case is that of TopoLVM v0.41.
func TestScoresOfNodes(t *testing.T) {
	divisors := Divisors{Default: 2, Classes: map[string]float64{"dc1": 4, "dc2": 10}}
	for name, test := range map[string]struct {
		nodes   []corev1.Node
		classes []string
		want    extenderv1.HostPriorityList
	}{
		"three device classes": {
			nodes: []corev1.Node{
				nodeWith("10.1.1.1", inGiB(128, 128, 128)),
				{ObjectMeta: metav1.ObjectMeta{Name: "10.1.1.2"}},
				nodeWith("10.1.1.3", capacities{"dc1": "foo"}),
			},
			classes: []string{"dc1", "dc2", "dc3"},
			want:    extenderv1.HostPriorityList{{Host: "10.1.1.1", Score: 3}, {Host: "10.1.1.2"}, {Host: "10.1.1.3"}},
		},
		"a class without an annotation does not count": {
			nodes:   []corev1.Node{nodeWith("a", capacities{"dc3": "137438953472"})},
			classes: []string{"dc1", "dc3"},
			want:    extenderv1.HostPriorityList{{Host: "a", Score: 6}},
		},
		"no device classes": {
			nodes: []corev1.Node{nodeWith("a", inGiB(128))},
			want:  extenderv1.HostPriorityList{{Host: "a"}},
		},
		"no nodes": {classes: []string{"dc1"}, want: extenderv1.HostPriorityList{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := divisors.score(test.nodes, test.classes); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
