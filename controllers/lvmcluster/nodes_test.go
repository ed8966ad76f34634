package lvmcluster

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

func nodeTaint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect}
}

func TestWhereTheAgentRuns(t *testing.T) {
	selector := on(thick("vg1"), "disks").NodeSelector
	for name, test := range map[string]struct {
		labels    map[string]string
		taints    []corev1.Taint
		selectors []*corev1.NodeSelector
		obstacle  string
	}{
		"no selector selects all": {selectors: []*corev1.NodeSelector{nil}},
		"no class selects none":   {obstacle: "no device class selects the node"},
		"selected": {labels: map[string]string{"disks": ""},
			selectors: []*corev1.NodeSelector{selector}},
		"not selected": {selectors: []*corev1.NodeSelector{selector},
			obstacle: "no device class selects the node"},
		"selected by one of two": {selectors: []*corev1.NodeSelector{selector, nil}},
		"cordoned": {taints: []corev1.Taint{nodeTaint(corev1.TaintNodeUnschedulable,
			corev1.TaintEffectNoSchedule)}, selectors: []*corev1.NodeSelector{nil}},
		"not ready": {taints: []corev1.Taint{nodeTaint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule)},
			selectors: []*corev1.NodeSelector{nil}},
		"unreachable": {taints: []corev1.Taint{nodeTaint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)},
			selectors: []*corev1.NodeSelector{nil}},
		"disk pressure": {taints: []corev1.Taint{nodeTaint(corev1.TaintNodeDiskPressure,
			corev1.TaintEffectNoSchedule)}, selectors: []*corev1.NodeSelector{nil}},
		"tainted": {taints: []corev1.Taint{nodeTaint("x", corev1.TaintEffectNoSchedule),
			nodeTaint("y", corev1.TaintEffectNoExecute)}, selectors: []*corev1.NodeSelector{nil}},
		"out of service": {taints: []corev1.Taint{nodeTaint(corev1.TaintNodeOutOfService,
			corev1.TaintEffectNoExecute)}, selectors: []*corev1.NodeSelector{nil}},
		"Linux": {labels: map[string]string{corev1.LabelOSStable: "linux"},
			selectors: []*corev1.NodeSelector{nil}},
		"Windows": {labels: map[string]string{corev1.LabelOSStable: "windows"},
			selectors: []*corev1.NodeSelector{nil}, obstacle: "the node runs Windows"},
		"Virtual Kubelet": {labels: map[string]string{"type": "virtual-kubelet", "disks": ""},
			selectors: []*corev1.NodeSelector{selector}, obstacle: "is a virtual node"},
	} {
		t.Run(name, func(t *testing.T) {
			node := readyNode("a", test.labels)
			node.Spec.Taints = test.taints
			obstacle, err := placement{test.selectors}.allows(node)
			if err != nil {
				t.Fatal(err)
			}
			if (test.obstacle == "") != (obstacle == "") || !strings.Contains(obstacle, test.obstacle) {
				t.Errorf("obstacle %q, want %q", obstacle, test.obstacle)
			}
		})
	}
}

func TestImpossibleSelectorIsAnErrorAndNotNoNode(t *testing.T) {
	selector := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "x", Operator: "Like"}}}}}
	if _, err := selects(selector, readyNode("a", nil)); err == nil {
		t.Error("no error")
	}
}

func TestPlacementIncludesClassesThatAreLeaving(t *testing.T) {
	cluster := newTestCluster(on(thick("vg1"), "disks"))
	leaving := Leaving{VolumeGroup: lvmv1alpha1.LVMVolumeGroup{
		Spec: lvmv1alpha1.LVMVolumeGroupSpec{NodeSelector: on(thick("vg2"), "old").NodeSelector}}}
	seen := Observation{Leaving: []Leaving{leaving}}
	seen.Nodes = append(seen.Nodes, *readyNode("a", map[string]string{"disks": ""}),
		*readyNode("b", map[string]string{"old": ""}), *readyNode("c", nil))
	nodes, err := seen.agentNodes(cluster)
	if err != nil || len(nodes) != 2 || nodes[0].Name != "a" || nodes[1].Name != "b" {
		t.Errorf("nodes %v, error %v", nodes, err)
	}
}

// A node that a device class no longer selects keeps its agent as long as it is a member of the class.
func TestPlacementIncludesNodesThatHaveVolumes(t *testing.T) {
	cluster := newTestCluster(on(thick("vg1"), "disks"), on(thick("vg2"), "disks"))
	long := strings.Repeat("long-name.", 20) + "x"
	seen := Observation{VolumeGroups: map[string]lvmv1alpha1.LVMVolumeGroup{},
		NodeStatuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{}}
	for _, node := range []string{"a", long, "gone"} {
		status := lvmv1alpha1.LVMVolumeGroupNodeStatus{}
		status.Status.NodeStatus = []lvmv1alpha1.VGStatus{vg("vg1", lvmv1alpha1.VGStatusReady, "")}
		seen.NodeStatuses[node] = status
	}
	// Upstream ran on the node, but its node status has no entry.
	group := lvmv1alpha1.LVMVolumeGroup{}
	group.Finalizers = []string{lvmv1alpha1.NodeCleanupFinalizer("b")}
	seen.VolumeGroups["vg2"] = group
	seen.Nodes = append(seen.Nodes, *readyNode("a", map[string]string{"disks": ""}), *readyNode("b", nil),
		*readyNode("c", nil), *readyNode(long, nil))
	nodes, err := seen.agentNodes(cluster)
	if err != nil || len(nodes) != 3 || nodes[1].Name != "b" || nodes[2].Name != long {
		t.Errorf("nodes %v, error %v", nodes, err)
	}
	first := seen.placement(cluster)
	again := seen.placement(cluster)
	if len(first.selectors) != 3 || !reflect.DeepEqual(first, again) {
		t.Errorf("got %v, then %v", first.selectors, again.selectors)
	}
	all := newTestCluster(thick("vg1"), on(thick("vg2"), "disks"))
	if p := seen.placement(all); len(p.selectors) != 1 || p.selectors[0] != nil {
		t.Errorf("every node is selected, and the agent is for %v", p.selectors)
	}
	reports := map[string][]lvmv1alpha1.VGStatus{"b": {vg("vg1", lvmv1alpha1.VGStatusReady, "not selected any longer")}}
	for node, entries := range reports {
		status := lvmv1alpha1.LVMVolumeGroupNodeStatus{}
		status.Status.NodeStatus = entries
		seen.NodeStatuses = map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{node: status}
	}
	classes, err := deviceClassStatuses(cluster, seen)
	if err != nil || len(classes) != 2 {
		t.Fatal(classes, err)
	}
	shown := map[string]lvmv1alpha1.VGState{}
	for _, entry := range classes[0].NodeStatus {
		shown[entry.Node] = entry.Status
	}
	if shown["b"] != lvmv1alpha1.VGStatusReady || shown["c"] != "" {
		t.Errorf("got %v", shown)
	}
}
