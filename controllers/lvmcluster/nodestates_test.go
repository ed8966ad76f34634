package lvmcluster

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// TestEveryStateOfANode records the status of an LVMCluster for each combination of states of a node. The other node is
// healthy and must remain so. People review the table in testdata/node_states.golden.
func TestEveryStateOfANode(t *testing.T) {
	reports := []struct {
		name    string
		entries []lvmv1alpha1.VGStatus
	}{
		{"nothing", nil},
		{"Ready", []lvmv1alpha1.VGStatus{withDevice(vg("vg1", lvmv1alpha1.VGStatusReady, ""))}},
		{"Degraded", []lvmv1alpha1.VGStatus{withDevice(vg("vg1", lvmv1alpha1.VGStatusDegraded, "disk 1 is gone"))}},
		{"Removed", []lvmv1alpha1.VGStatus{vg("vg1", lvmv1alpha1.VGStatusRemoved, "")}},
	}
	matters := []struct {
		name string
		set  func(*corev1.Node)
	}{
		{"selected", func(n *corev1.Node) { n.Labels = map[string]string{"disks": ""} }},
		{"cordoned", func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Spec.Taints = append(n.Spec.Taints,
				nodeTaint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule))
		}},
		{"tainted", func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, nodeTaint("x", corev1.TaintEffectNoSchedule))
		}},
		{"unreachable", func(n *corev1.Node) {
			down(n)
			n.Spec.Taints = append(n.Spec.Taints, nodeTaint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute))
		}},
	}
	cluster := newTestCluster(on(thick("vg1"), "disks"))
	var table strings.Builder
	for combination := range 1 << len(matters) {
		for _, report := range reports {
			node := readyNode("n", nil)
			var names []string
			for i, matter := range matters {
				if combination&(1<<i) != 0 {
					matter.set(node)
					names = append(names, matter.name)
				}
			}
			well := readyNode("well", map[string]string{"disks": ""})
			seen := seenWith([]*corev1.Node{node, well},
				map[string][]lvmv1alpha1.VGStatus{"n": report.entries,
					"well": {withDevice(vg("vg1", lvmv1alpha1.VGStatusReady, ""))}})
			fmt.Fprintf(&table, "%s; reports %s\n    %s\n", orNone(names), report.name, saidOf(t, cluster, seen))
		}
	}
	goldenText(t, "node_states.golden", table.String())
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "not selected"
	}
	return strings.Join(names, ", ")
}

// saidOf returns the status of node n and of the LVMCluster.
func saidOf(t *testing.T, cluster *lvmv1alpha1.LVMCluster, seen Observation) string {
	t.Helper()
	classes := must(deviceClassStatuses(cluster, seen))
	said := "not shown"
	for _, entry := range classes[0].NodeStatus {
		switch entry.Node {
		case "n":
			said = string(entry.Status)
			if entry.Reason != "" {
				said += ": " + entry.Reason
			}
		case "well":
			if entry.Status != lvmv1alpha1.VGStatusReady || entry.Reason != "" {
				t.Errorf("the other node is said to be %s: %s", entry.Status, entry.Reason)
			}
		}
	}
	conditions := newConditions(cluster)
	reason := reportVolumeGroups(conditions, cluster, seen, classes)
	agent := "no agent"
	for _, node := range must(seen.agentNodes(cluster)) {
		if node.Name == "n" {
			agent = "agent"
		}
	}
	return fmt.Sprintf("%s → %s; %s", said, reason, agent)
}
