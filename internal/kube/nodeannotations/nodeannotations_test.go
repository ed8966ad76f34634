package nodeannotations

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOnlyTheMarksOfTheDriverAreRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		finalizers  []string
		want        string
		changed     bool
	}{
		"nothing":       {want: "map[] []"},
		"of others":     {map[string]string{"x.example.com/a": "1"}, []string{"y"}, "map[x.example.com/a:1] [y]", false},
		"an annotation": {map[string]string{"capacity.example.com/a": "1", "b": "2"}, nil, "map[b:2] []", true},
		"a finalizer":   {nil, []string{"x", "example.com/node", "y"}, "map[] [x y]", true},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations, Finalizers: test.finalizers}}
		for _, changed := range []bool{test.changed, false} {
			if got := Remove(node, "capacity.example.com/", "example.com/node"); got != changed {
				t.Errorf("%s: got %t, want %t", name, got, changed)
			}
			if got := fmt.Sprint(node.Annotations, node.Finalizers); got != test.want {
				t.Errorf("%s: got %s, want %s", name, got, test.want)
			}
		}
	}
}
