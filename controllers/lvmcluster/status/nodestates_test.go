package status

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
)

// TestEveryStateOfANode records the status of an LVMCluster for each combination of states of a node. The other node is
// healthy and must remain so. People review the table in testdata/node_states.golden.
func TestEveryStateOfANode(t *testing.T) {
	reports := []struct {
		name    string
		entries []lvmv1alpha1.VGStatus
	}{
		{"nothing", nil},
		{"Ready", []lvmv1alpha1.VGStatus{withDevice(fixture.VG("vg1", lvmv1alpha1.VGStatusReady, ""))}},
		{"Degraded", []lvmv1alpha1.VGStatus{withDevice(fixture.VG("vg1", lvmv1alpha1.VGStatusDegraded, "disk 1 is gone"))}},
		{"Removed", []lvmv1alpha1.VGStatus{fixture.VG("vg1", lvmv1alpha1.VGStatusRemoved, "")}},
	}
	matters := []struct {
		name string
		set  func(*corev1.Node)
	}{
		{"selected", func(n *corev1.Node) { n.Labels = map[string]string{"disks": ""} }},
		{"cordoned", func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Spec.Taints = append(n.Spec.Taints,
				corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		}},
		{"tainted", func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoSchedule})
		}},
		{"unreachable", func(n *corev1.Node) {
			down(n)
			n.Spec.Taints = append(n.Spec.Taints,
				corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute})
		}},
	}
	cluster := fixture.Cluster(fixture.On(fixture.Thick("vg1"), "disks"))
	var table strings.Builder
	for combination := range 1 << len(matters) {
		for _, report := range reports {
			node := fixture.Node("n", nil)
			var names []string
			for i, matter := range matters {
				if combination&(1<<i) != 0 {
					matter.set(node)
					names = append(names, matter.name)
				}
			}
			well := fixture.Node("well", map[string]string{"disks": ""})
			current := stateOfNodes([]*corev1.Node{node, well},
				map[string][]lvmv1alpha1.VGStatus{"n": report.entries,
					"well": {withDevice(fixture.VG("vg1", lvmv1alpha1.VGStatusReady, ""))}})
			fmt.Fprintf(&table, "%s; reports %s\n    %s\n", orNone(names), report.name, saidOf(t, cluster, current))
		}
	}
	fixture.Golden(t, "node_states.golden", table.String())
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "not selected"
	}
	return strings.Join(names, ", ")
}

// saidOf returns the status of node n and of the LVMCluster.
func saidOf(t *testing.T, cluster *lvmv1alpha1.LVMCluster, current observe.State) string {
	t.Helper()
	classes := fixture.Must(deviceClassStatuses(cluster, current))
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
	report := New(cluster)
	report.SetVolumeGroupsReady(current)
	agent := "no agent"
	for _, node := range fixture.Must(current.AgentNodes(cluster)) {
		if node.Name == "n" {
			agent = "agent"
		}
	}
	return fmt.Sprintf("%s → %s; %s", said, report.volumeGroups, agent)
}
