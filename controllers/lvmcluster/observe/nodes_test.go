package observe

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
)

func nodeTaint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect}
}

func TestWhereTheAgentRuns(t *testing.T) {
	selector := fixture.On(fixture.Thick("vg1"), "disks").NodeSelector
	arbiter := map[string]string{arbiterKey: "", "disks": ""}
	for name, test := range map[string]struct {
		labels    map[string]string
		taints    []corev1.Taint
		selectors []*corev1.NodeSelector
		arbiters  bool
		members   []string
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
		"an arbiter": {labels: arbiter, selectors: []*corev1.NodeSelector{nil}, obstacle: "the node is an arbiter"},
		"a selected arbiter": {labels: arbiter, selectors: []*corev1.NodeSelector{selector},
			obstacle: "the node is an arbiter"},
		"an arbiter that is tolerated": {labels: arbiter, selectors: []*corev1.NodeSelector{selector}, arbiters: true},
		"an arbiter with a volume group": {labels: arbiter, selectors: []*corev1.NodeSelector{nil},
			members: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			node := fixture.Node("a", test.labels)
			node.Spec.Taints = test.taints
			p := Placement{selectors: test.selectors, arbiters: test.arbiters, members: test.members}
			obstacle, err := p.Allows(node)
			if err != nil {
				t.Fatal(err)
			}
			// The affinity of the DaemonSet agrees.
			possible, err := Selects(&corev1.NodeSelector{NodeSelectorTerms: p.Terms()}, node)
			if err != nil || possible != (test.obstacle == "") {
				t.Errorf("the affinity selects the node: %v, %v", possible, err)
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
	if _, err := Selects(selector, fixture.Node("a", nil)); err == nil {
		t.Error("no error")
	}
}

func TestPlacementIncludesRemovedClasses(t *testing.T) {
	cluster := fixture.Cluster(fixture.On(fixture.Thick("vg1"), "disks"))
	removed := RemovedClass{VolumeGroup: lvmv1alpha1.LVMVolumeGroup{
		Spec: lvmv1alpha1.LVMVolumeGroupSpec{NodeSelector: fixture.On(fixture.Thick("vg2"), "old").NodeSelector}}}
	current := State{RemovedClasses: []RemovedClass{removed}}
	current.Nodes = append(current.Nodes, *fixture.Node("a", map[string]string{"disks": ""}),
		*fixture.Node("b", map[string]string{"old": ""}), *fixture.Node("c", nil))
	nodes, err := current.AgentNodes(cluster)
	if err != nil || len(nodes) != 2 || nodes[0].Name != "a" || nodes[1].Name != "b" {
		t.Errorf("nodes %v, error %v", nodes, err)
	}
}

// A node that a device class no longer selects keeps its agent as long as it is a member of the class.
func TestPlacementIncludesNodesThatHaveVolumes(t *testing.T) {
	cluster := fixture.Cluster(fixture.On(fixture.Thick("vg1"), "disks"), fixture.On(fixture.Thick("vg2"), "disks"))
	long := strings.Repeat("long-name.", 20) + "x"
	current := State{VolumeGroups: map[string]lvmv1alpha1.LVMVolumeGroup{},
		NodeStatuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{}}
	for _, node := range []string{"a", long, "gone"} {
		status := lvmv1alpha1.LVMVolumeGroupNodeStatus{}
		status.Status.NodeStatus = []lvmv1alpha1.VGStatus{fixture.VG("vg1", lvmv1alpha1.VGStatusReady, "")}
		current.NodeStatuses[node] = status
	}
	// Upstream ran on the node, but its node status has no entry.
	group := lvmv1alpha1.LVMVolumeGroup{}
	group.Finalizers = []string{wellknown.NodeCleanupFinalizer("b")}
	current.VolumeGroups["vg2"] = group
	current.Nodes = append(current.Nodes, *fixture.Node("a", map[string]string{"disks": ""}), *fixture.Node("b", nil),
		*fixture.Node("c", nil), *fixture.Node(long, nil))
	nodes, err := current.AgentNodes(cluster)
	if err != nil || len(nodes) != 3 || nodes[1].Name != "b" || nodes[2].Name != long {
		t.Errorf("nodes %v, error %v", nodes, err)
	}
	first := current.Placement(cluster)
	again := current.Placement(cluster)
	if len(first.selectors) != 3 || !reflect.DeepEqual(first, again) {
		t.Errorf("got %v, then %v", first.selectors, again.selectors)
	}
	all := fixture.Cluster(fixture.Thick("vg1"), fixture.On(fixture.Thick("vg2"), "disks"))
	if p := current.Placement(all); len(p.selectors) != 1 || p.selectors[0] != nil {
		t.Errorf("every node is selected, and the agent is for %v", p.selectors)
	}
}

// TestAnArbiterKeepsTheAgentOfItsVolumes removes the toleration of a cluster whose arbiter has a volume group.
func TestAnArbiterKeepsTheAgentOfItsVolumes(t *testing.T) {
	tolerated := fixture.Cluster(fixture.Thick("vg1"))
	tolerated.Spec.Tolerations = []corev1.Toleration{{Key: arbiterKey, Operator: corev1.TolerationOpExists}}
	current := State{NodeStatuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{}}
	label := map[string]string{arbiterKey: ""}
	current.Nodes = append(current.Nodes, *fixture.Node("a", nil), *fixture.Node("empty", label),
		*fixture.Node("used", label))
	status := lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	status.Status.NodeStatus = []lvmv1alpha1.VGStatus{fixture.VG("vg1", lvmv1alpha1.VGStatusReady, "")}
	current.NodeStatuses["used"] = status
	for want, cluster := range map[string]*lvmv1alpha1.LVMCluster{
		"a empty used": tolerated, "a used": fixture.Cluster(fixture.Thick("vg1")), "a": fixture.Cluster(),
	} {
		nodes, err := current.AgentNodes(cluster)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, node := range nodes {
			names = append(names, node.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("the agent runs on %q, want %q", got, want)
		}
	}
}

func TestManyUsersAreCounted(t *testing.T) {
	users := Users{Claims: []string{"a", "b", "c", "d", "e", "f", "g"}, Volumes: []string{"v"}}
	if got, want := users.String(),
		"7 PersistentVolumeClaims: a, b, c, d, e and 2 more; 1 PersistentVolume: v"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
