package extender

import (
	"encoding/json"
	"reflect"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const gib = int64(1) << 30

// capacities are the capacity annotations of an object.
type capacities map[string]string

// inGiB returns the annotations of the device classes dc1, dc2 and so on.
func inGiB(sizes ...int64) capacities {
	all := capacities{}
	for i, size := range sizes {
		all["dc"+strconv.Itoa(i+1)] = strconv.FormatInt(size*gib, 10)
	}
	return all
}

func metaOf(name string, of capacities) metav1.ObjectMeta {
	annotations := map[string]string{"example.com/other": "1"}
	for class, text := range of {
		annotations["capacity.topolvm.io/"+class] = text
	}
	return metav1.ObjectMeta{Name: name, Annotations: annotations}
}

func nodeWith(name string, of capacities) corev1.Node {
	return corev1.Node{ObjectMeta: metaOf(name, of)}
}

func podWith(of capacities) *corev1.Pod { return &corev1.Pod{ObjectMeta: metaOf("pod", of)} }

func namesOf(list *corev1.NodeList) []string {
	names := []string{}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// The first three cases are those of TopoLVM v0.41 (internal/scheduler/predicate_test.go).
func TestNodesWithoutTheCapacityAreFilteredOut(t *testing.T) {
	for name, test := range map[string]struct {
		nodes     []corev1.Node
		requested map[string]int64
		passed    []string
		failed    extenderv1.FailedNodesMap
	}{
		"one device class": {
			nodes: []corev1.Node{
				nodeWith("10.1.1.1", inGiB(5, 10, 10)),
				nodeWith("10.1.1.2", inGiB(1, 10, 10)),
				{ObjectMeta: metav1.ObjectMeta{Name: "10.1.1.3"}},
				nodeWith("10.1.1.4", capacities{"dc1": "foo"}),
			},
			requested: map[string]int64{"dc1": 2 * gib},
			passed:    []string{"10.1.1.1"},
			failed: extenderv1.FailedNodesMap{
				"10.1.1.2": "out of VG free space",
				"10.1.1.3": "no capacity annotation",
				"10.1.1.4": "bad capacity annotation: foo",
			},
		},
		"three device classes": {
			nodes: []corev1.Node{
				nodeWith("10.1.1.1", inGiB(10, 20, 30)),
				nodeWith("10.1.1.2", inGiB(1, 5, 10)),
				nodeWith("10.1.1.3", inGiB(100, 5, 100)),
			},
			requested: map[string]int64{"dc1": 5 * gib, "dc2": 10 * gib, "dc3": 20 * gib},
			passed:    []string{"10.1.1.1"},
			failed: extenderv1.FailedNodesMap{"10.1.1.2": "out of VG free space",
				"10.1.1.3": "out of VG free space"},
		},
		"nothing of a device class": {
			nodes:     []corev1.Node{nodeWith("10.1.1.1", inGiB(5, 10, 10))},
			requested: map[string]int64{"dc1": 0},
			passed:    []string{"10.1.1.1"},
			failed:    extenderv1.FailedNodesMap{},
		},
		"no request": {
			nodes:  []corev1.Node{nodeWith("a", inGiB(0)), {ObjectMeta: metav1.ObjectMeta{Name: "b"}}},
			passed: []string{"a", "b"},
			failed: extenderv1.FailedNodesMap{},
		},
		"exactly the free space": {
			nodes: []corev1.Node{nodeWith("a", inGiB(2)), nodeWith("b",
				capacities{"dc1": strconv.FormatInt(2*gib-1, 10)})},
			requested: map[string]int64{"dc1": 2 * gib},
			passed:    []string{"a"},
			failed:    extenderv1.FailedNodesMap{"b": "out of VG free space"},
		},
		"a negative request": {
			nodes:     []corev1.Node{nodeWith("a", inGiB(5))},
			requested: map[string]int64{"dc1": -1},
			passed:    []string{},
			failed:    extenderv1.FailedNodesMap{"a": "out of VG free space"},
		},
		"the first class by name is reported": {
			nodes:     []corev1.Node{nodeWith("a", capacities{"dc1": "-5"})},
			requested: map[string]int64{"dc2": 1, "dc1": 1},
			passed:    []string{},
			failed:    extenderv1.FailedNodesMap{"a": "bad capacity annotation: -5"},
		},
		"no nodes": {
			requested: map[string]int64{"dc1": 1},
			passed:    []string{},
			failed:    extenderv1.FailedNodesMap{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			result := filter(test.nodes, test.requested)
			if passed := namesOf(result.Nodes); !reflect.DeepEqual(passed, test.passed) {
				t.Errorf("passed %q, want %q", passed, test.passed)
			}
			if !reflect.DeepEqual(result.FailedNodes, test.failed) ||
				!reflect.DeepEqual(result.FailedAndUnresolvableNodes, test.failed) {
				t.Errorf("failed %v and unresolvable %v, want %v", result.FailedNodes,
					result.FailedAndUnresolvableNodes,
					test.failed)
			}
		})
	}
}

// kube-scheduler continues with the nodes in the response.
func TestANodeThatPassesIsReturnedAsItWasSent(t *testing.T) {
	node := nodeWith("a", inGiB(5))
	node.Status.Allocatable = corev1.ResourceList{}
	node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	result := filter([]corev1.Node{node}, map[string]int64{"dc1": 1})
	before, err := json.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	after, err := json.Marshal(result.Nodes.Items[0])
	if err != nil || string(before) != string(after) {
		t.Errorf("%v: sent %s, returned %s", err, before, after)
	}
}

// The first case has those of TopoLVM v0.41, whose Pods also have the extended resource.
func TestRequestedSizes(t *testing.T) {
	for name, test := range map[string]struct {
		pod  capacities
		want map[string]int64
	}{
		"a size":        {capacities{"dc1": strconv.FormatInt(5*gib, 10)}, map[string]int64{"dc1": 5 * gib}},
		"two classes":   {inGiB(3, 4), map[string]int64{"dc1": 3 * gib, "dc2": 4 * gib}},
		"default class": {capacities{"00default": "7"}, map[string]int64{"00default": 7}},
		"not a number":  {capacities{"dc1": "foo", "dc2": "1"}, map[string]int64{"dc2": 1}},
		"a quantity":    {capacities{"dc1": "5Gi"}, map[string]int64{}},
		"too large":     {capacities{"dc1": "9223372036854775808"}, map[string]int64{}},
		"nothing":       {nil, map[string]int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := requestedBy(podWith(test.pod)); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
