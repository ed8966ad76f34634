package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/internal/kube/condition"
)

// stateOfNodes returns the state of nodes with the entries that their agents report, by node.
func stateOfNodes(nodes []*corev1.Node, reports map[string][]lvmv1alpha1.VGStatus) observe.State {
	current := observe.State{VolumeGroups: map[string]lvmv1alpha1.LVMVolumeGroup{},
		NodeStatuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{}}
	for _, node := range nodes {
		current.Nodes = append(current.Nodes, *node)
		current.NodeStatuses[node.Name] = lvmv1alpha1.LVMVolumeGroupNodeStatus{
			Status: lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{NodeStatus: reports[node.Name]}}
	}
	return current
}

func withDevice(status lvmv1alpha1.VGStatus) lvmv1alpha1.VGStatus {
	status.Devices = []string{"/dev/sdb"}
	return status
}

// withConditionFalse returns an unhealthy volume group, whatever its state.
func withConditionFalse(status lvmv1alpha1.VGStatus, message string) lvmv1alpha1.VGStatus {
	status = withDevice(status)
	status.Conditions = []metav1.Condition{
		{Type: lvmv1alpha1.ConditionVolumesHealthy, Status: metav1.ConditionTrue,
			Reason: lvmv1alpha1.ConditionVolumesHealthy},
		{Type: lvmv1alpha1.ConditionDevicesHealthy, Status: metav1.ConditionFalse,
			Reason: lvmv1alpha1.ReasonDeviceMissing, Message: message},
	}
	return status
}

func TestNodeThatNoDeviceSelectorSelectsNeedsNoVolumeGroup(t *testing.T) {
	class := lvmv1alpha1.DeviceClass{Name: "vg1",
		DeviceSelectors: []lvmv1alpha1.NodeDeviceSelector{
			{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disks",
					Operator: corev1.NodeSelectorOpExists}}}}}}}}
	nodes := []*corev1.Node{fixture.Node("a", map[string]string{"disks": ""}), fixture.Node("b", nil)}
	classes, err := deviceClassStatuses(fixture.Cluster(class), stateOfNodes(nodes, nil))
	if err != nil || len(classes[0].NodeStatus) != 1 || classes[0].NodeStatus[0].Node != "a" {
		t.Errorf("got %+v, %v", classes, err)
	}
}

func down(node *corev1.Node) *corev1.Node {
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	node.Status.Conditions[0].Reason = "NodeStatusUnknown"
	node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return node
}

func tainted(node *corev1.Node) *corev1.Node {
	node.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
	return node
}

func TestVolumeGroupsReady(t *testing.T) {
	ready := fixture.VG("vg1", lvmv1alpha1.VGStatusReady, "")
	a := fixture.Node("a", nil)
	b := fixture.Node("b", nil)
	two := []*corev1.Node{a, b}
	for name, test := range map[string]struct {
		nodes   []*corev1.Node
		reports map[string][]lvmv1alpha1.VGStatus
		want    string
		shown   int
	}{
		"ready on all": {two, map[string][]lvmv1alpha1.VGStatus{"a": {ready}, "b": {ready}},
			"True/VGsReady: every device class has its volume group on every node that it selects", 2},
		"one has not said": {two, map[string][]lvmv1alpha1.VGStatus{"a": {ready}},
			"False/VGReadinessInProgress: device class vg1 on node b: the node has not reported its volume group yet",
			2},
		"one failed": {two, map[string][]lvmv1alpha1.VGStatus{"a": {ready},
			"b": {fixture.VG("vg1", lvmv1alpha1.VGStatusFailed, "/dev/sdb has a file system")}},
			"False/VGsFailed: device class vg1 on node b: /dev/sdb has a file system", 2},
		"worst first": {two, map[string][]lvmv1alpha1.VGStatus{"a": {fixture.VG("vg1", lvmv1alpha1.VGStatusDegraded,
			"a disk is gone")}, "b": {fixture.VG("vg1", lvmv1alpha1.VGStatusFailed, "no device")}},
			"False/VGsFailed: device class vg1 on node b: no device; device class vg1 on node a: a disk is gone", 2},
		"no device on one node": {two, map[string][]lvmv1alpha1.VGStatus{"a": {withDevice(ready)},
			"b": {fixture.VG("vg1", lvmv1alpha1.VGStatusReady, "no device here")}}, "True/VGsReady", 2},
		"no device anywhere": {two, map[string][]lvmv1alpha1.VGStatus{"a": {fixture.VG("vg1", lvmv1alpha1.VGStatusReady,
			"no device")}, "b": {fixture.VG("vg1", lvmv1alpha1.VGStatusReady, "no device")}},
			"False/VGsFailed: device class vg1: none of its nodes has a device for it", 2},
		"says nothing": {two[:1], map[string][]lvmv1alpha1.VGStatus{"a": {fixture.VG("vg1", "", "")}},
			"False/VGReadinessInProgress: device class vg1 on node a: no reason reported", 1},
		"no node": {nil, nil,
			"False/VGReadinessInProgress: device class vg1: it selects no node: check its nodeSelector", 0},
		"down after ready": {[]*corev1.Node{a, down(fixture.Node("b", nil))},
			map[string][]lvmv1alpha1.VGStatus{"a": {ready}, "b": {ready}}, "False/VGsDegraded: device class vg1 on " +
				"node b: the node has not been ready since 2026-01-02 03:04:05 UTC (NodeStatusUnknown); last reported: Ready",
			2},
		"down from start": {[]*corev1.Node{a, down(fixture.Node("b", nil))},
			map[string][]lvmv1alpha1.VGStatus{"a": {ready}}, "False/VGReadinessInProgress: device class vg1 on node " +
				"b: the node has not been ready since 2026-01-02 03:04:05 UTC (NodeStatusUnknown) and has not reported its " +
				"volume group", 2},
		"down after failed": {[]*corev1.Node{down(fixture.Node("b", nil))},
			map[string][]lvmv1alpha1.VGStatus{"b": {fixture.VG("vg1", lvmv1alpha1.VGStatusFailed, "no device")}},
			"False/VGsFailed: device class vg1 on node b: the node has not been ready since 2026-01-02 03:04:05 UTC " +
				"(NodeStatusUnknown); last reported: Failed, no device", 1},
		"ready, not healthy": {two[:1], map[string][]lvmv1alpha1.VGStatus{"a": {withConditionFalse(ready,
			"device /dev/sdb is missing")}},
			"False/VGsDegraded: device class vg1 on node a: device /dev/sdb is missing", 1},
		"not healthy, no words": {two[:1], map[string][]lvmv1alpha1.VGStatus{"a": {withConditionFalse(ready, "")}},
			"False/VGsDegraded: device class vg1 on node a: DevicesHealthy: DeviceMissing", 1},
		"failed, not healthy": {two[:1], map[string][]lvmv1alpha1.VGStatus{
			"a": {withConditionFalse(fixture.VG("vg1", lvmv1alpha1.VGStatusFailed, "no group"), "x")}},
			"False/VGsFailed: device class vg1 on node a: no group", 1},
		"tainted, empty": {[]*corev1.Node{a, tainted(fixture.Node("b", nil))},
			map[string][]lvmv1alpha1.VGStatus{"a": {ready}}, "True/VGsReady", 1},
		"tainted, has one": {[]*corev1.Node{a, tainted(fixture.Node("b", nil))},
			map[string][]lvmv1alpha1.VGStatus{"a": {ready}, "b": {ready}}, "True/VGsReady", 2},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := fixture.Cluster(fixture.Thin("vg1"))
			classes, err := deviceClassStatuses(cluster, stateOfNodes(test.nodes, test.reports))
			if err != nil {
				t.Fatal(err)
			}
			if len(classes) != 1 || len(classes[0].NodeStatus) != test.shown {
				t.Errorf("shown %+v", classes)
			}
			report := New(cluster)
			report.SetVolumeGroupsReady(stateOfNodes(test.nodes, test.reports))
			got := meta.FindStatusCondition(report.Status(metav1.Now()).Conditions,
				lvmv1alpha1.ConditionVolumeGroupsReady)
			if text := fmt.Sprintf("%s/%s: %s", got.Status, got.Reason,
				got.Message); !strings.HasPrefix(text, test.want) {
				t.Errorf("condition\n%s\nwant\n%s", text, test.want)
			}
		})
	}
}

func TestOldReportOfAChangedClassIsProgress(t *testing.T) {
	current := stateOfNodes([]*corev1.Node{fixture.Node("a", nil)},
		map[string][]lvmv1alpha1.VGStatus{"a": {{Name: "vg1", Status: lvmv1alpha1.VGStatusReady,
			ObservedGeneration: 1}}})
	current.VolumeGroups["vg1"] = lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1", Generation: 2}}
	classes := fixture.Must(deviceClassStatuses(fixture.Cluster(fixture.Thin("vg1")), current))
	if got := classes[0].NodeStatus[0].Status; got != lvmv1alpha1.VGStatusProgressing {
		t.Errorf("status %s", got)
	}
}

func TestOldReportOfABrokenGroupStays(t *testing.T) {
	report := withConditionFalse(fixture.VG("vg1", lvmv1alpha1.VGStatusDegraded, "device /dev/sdb is missing"),
		"device /dev/sdb is missing")
	report.ObservedGeneration = 1
	current := stateOfNodes([]*corev1.Node{fixture.Node("a", nil)}, map[string][]lvmv1alpha1.VGStatus{"a": {report}})
	current.VolumeGroups["vg1"] = lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1", Generation: 2}}
	classes := fixture.Must(deviceClassStatuses(fixture.Cluster(fixture.Thin("vg1")), current))
	if got := classes[0].NodeStatus[0]; got.Status != lvmv1alpha1.VGStatusDegraded ||
		got.Reason != "device /dev/sdb is missing" {
		t.Errorf("%+v", got)
	}
}

func TestClassesAndNodesAreSorted(t *testing.T) {
	reports := map[string][]lvmv1alpha1.VGStatus{}
	current := stateOfNodes([]*corev1.Node{fixture.Node("a", nil), fixture.Node("b", nil)}, reports)
	current.RemovedClasses = []observe.RemovedClass{
		{VolumeGroup: lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "m"}}}}
	status := current.NodeStatuses["b"]
	status.Status.NodeStatus = []lvmv1alpha1.VGStatus{fixture.VG("m", lvmv1alpha1.VGStatusReady, "")}
	current.NodeStatuses["b"] = status
	var got []string
	cluster := fixture.Cluster(fixture.Thick("z"), fixture.Thin("a"))
	for _, class := range fixture.Must(deviceClassStatuses(cluster, current)) {
		for _, node := range class.NodeStatus {
			got = append(got, class.Name+" "+node.Node+" "+string(node.Status))
		}
	}
	want := []string{"a a Progressing", "a b Progressing", "m b Progressing", "z a Progressing", "z b Progressing"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestManyProblemsAreCounted(t *testing.T) {
	var problems []string
	for i := range 13 {
		problems = append(problems, fmt.Sprint(i))
	}
	if got, want := firstProblems(problems), "0; 1; 2; 3; 4; 5; 6; 7; 8; 9; and 3 more"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReasonOfTheUnobservedIsTheSameInBothPackages(t *testing.T) {
	if condition.NotObserved != lvmv1alpha1.ReasonNotObserved {
		t.Errorf("%s, want %s", condition.NotObserved, lvmv1alpha1.ReasonNotObserved)
	}
}

// A node that a device class no longer selects is shown as long as it is a member of the class.
func TestMembersThatAreNotSelectedAreShown(t *testing.T) {
	cluster := fixture.Cluster(fixture.On(fixture.Thick("vg1"), "disks"))
	current := stateOfNodes([]*corev1.Node{fixture.Node("a", map[string]string{"disks": ""}), fixture.Node("b", nil),
		fixture.Node("c", nil)}, map[string][]lvmv1alpha1.VGStatus{
		"b": {fixture.VG("vg1", lvmv1alpha1.VGStatusReady, "no longer selected")}})
	var shown []string
	for _, entry := range fixture.Must(deviceClassStatuses(cluster, current))[0].NodeStatus {
		shown = append(shown, entry.Node+" "+string(entry.Status))
	}
	if diff := cmp.Diff([]string{"a Progressing", "b Ready"}, shown); diff != "" {
		t.Error(diff)
	}
}
