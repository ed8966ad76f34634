package lvmcluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/apply"
	"github.com/lvm-storage/lvm-operator/internal/condition"
)

// seenWith returns an observation of nodes with the entries that their agents report, by node.
func seenWith(nodes []*corev1.Node, reports map[string][]lvmv1alpha1.VGStatus) Observation {
	seen := Observation{VolumeGroups: map[string]lvmv1alpha1.LVMVolumeGroup{},
		NodeStatuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{}}
	for _, node := range nodes {
		seen.Nodes = append(seen.Nodes, *node)
		seen.NodeStatuses[node.Name] = lvmv1alpha1.LVMVolumeGroupNodeStatus{
			Status: lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{NodeStatus: reports[node.Name]}}
	}
	return seen
}

func vg(name string, state lvmv1alpha1.VGState, reason string) lvmv1alpha1.VGStatus {
	return lvmv1alpha1.VGStatus{Name: name, Status: state, Reason: reason}
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
	nodes := []*corev1.Node{readyNode("a", map[string]string{"disks": ""}), readyNode("b", nil)}
	classes, err := deviceClassStatuses(newTestCluster(class), seenWith(nodes, nil))
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
	ready := vg("vg1", lvmv1alpha1.VGStatusReady, "")
	a := readyNode("a", nil)
	b := readyNode("b", nil)
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
			"b": {vg("vg1", lvmv1alpha1.VGStatusFailed, "/dev/sdb has a file system")}},
			"False/VGsFailed: device class vg1 on node b: /dev/sdb has a file system", 2},
		"worst first": {two, map[string][]lvmv1alpha1.VGStatus{"a": {vg("vg1", lvmv1alpha1.VGStatusDegraded,
			"a disk is gone")}, "b": {vg("vg1", lvmv1alpha1.VGStatusFailed, "no device")}},
			"False/VGsFailed: device class vg1 on node b: no device; device class vg1 on node a: a disk is gone", 2},
		"no device on one node": {two, map[string][]lvmv1alpha1.VGStatus{"a": {withDevice(ready)},
			"b": {vg("vg1", lvmv1alpha1.VGStatusReady, "no device here")}}, "True/VGsReady", 2},
		"no device anywhere": {two, map[string][]lvmv1alpha1.VGStatus{"a": {vg("vg1", lvmv1alpha1.VGStatusReady,
			"no device")}, "b": {vg("vg1", lvmv1alpha1.VGStatusReady, "no device")}},
			"False/VGsFailed: device class vg1: none of its nodes has a device for it", 2},
		"says nothing": {two[:1], map[string][]lvmv1alpha1.VGStatus{"a": {vg("vg1", "", "")}},
			"False/VGReadinessInProgress: device class vg1 on node a: no reason reported", 1},
		"no node": {nil, nil,
			"False/VGReadinessInProgress: device class vg1: it selects no node: check its nodeSelector", 0},
		"down after ready": {[]*corev1.Node{a, down(readyNode("b", nil))},
			map[string][]lvmv1alpha1.VGStatus{"a": {ready}, "b": {ready}}, "False/VGsDegraded: device class vg1 on " +
				"node b: the node has not been ready since 2026-01-02 03:04:05 UTC (NodeStatusUnknown); last reported: Ready",
			2},
		"down from start": {[]*corev1.Node{a, down(readyNode("b", nil))},
			map[string][]lvmv1alpha1.VGStatus{"a": {ready}}, "False/VGReadinessInProgress: device class vg1 on node " +
				"b: the node has not been ready since 2026-01-02 03:04:05 UTC (NodeStatusUnknown) and has not reported its " +
				"volume group", 2},
		"down after failed": {[]*corev1.Node{down(readyNode("b", nil))},
			map[string][]lvmv1alpha1.VGStatus{"b": {vg("vg1", lvmv1alpha1.VGStatusFailed, "no device")}},
			"False/VGsFailed: device class vg1 on node b: the node has not been ready since 2026-01-02 03:04:05 UTC " +
				"(NodeStatusUnknown); last reported: Failed, no device", 1},
		"ready, not healthy": {two[:1], map[string][]lvmv1alpha1.VGStatus{"a": {withConditionFalse(ready,
			"device /dev/sdb is missing")}},
			"False/VGsDegraded: device class vg1 on node a: device /dev/sdb is missing", 1},
		"not healthy, no words": {two[:1], map[string][]lvmv1alpha1.VGStatus{"a": {withConditionFalse(ready, "")}},
			"False/VGsDegraded: device class vg1 on node a: DevicesHealthy: DeviceMissing", 1},
		"failed, not healthy": {two[:1], map[string][]lvmv1alpha1.VGStatus{
			"a": {withConditionFalse(vg("vg1", lvmv1alpha1.VGStatusFailed, "no group"), "x")}},
			"False/VGsFailed: device class vg1 on node a: no group", 1},
		"tainted, empty": {[]*corev1.Node{a, tainted(readyNode("b", nil))},
			map[string][]lvmv1alpha1.VGStatus{"a": {ready}}, "True/VGsReady", 1},
		"tainted, has one": {[]*corev1.Node{a, tainted(readyNode("b", nil))},
			map[string][]lvmv1alpha1.VGStatus{"a": {ready}, "b": {ready}}, "True/VGsReady", 2},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newTestCluster(thin("vg1"))
			classes, err := deviceClassStatuses(cluster, seenWith(test.nodes, test.reports))
			if err != nil {
				t.Fatal(err)
			}
			if len(classes) != 1 || len(classes[0].NodeStatus) != test.shown {
				t.Errorf("shown %+v", classes)
			}
			conditions := newConditions(cluster)
			reportVolumeGroups(conditions, cluster, seenWith(test.nodes, test.reports), classes)
			got := meta.FindStatusCondition(conditions.Merge(nil, metav1.Now()), lvmv1alpha1.ConditionVolumeGroupsReady)
			if text := fmt.Sprintf("%s/%s: %s", got.Status, got.Reason,
				got.Message); !strings.HasPrefix(text, test.want) {
				t.Errorf("condition\n%s\nwant\n%s", text, test.want)
			}
		})
	}
}

func TestOldReportOfAChangedClassIsProgress(t *testing.T) {
	seen := seenWith([]*corev1.Node{readyNode("a", nil)},
		map[string][]lvmv1alpha1.VGStatus{"a": {{Name: "vg1", Status: lvmv1alpha1.VGStatusReady,
			ObservedGeneration: 1}}})
	seen.VolumeGroups["vg1"] = lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1", Generation: 2}}
	classes := must(deviceClassStatuses(newTestCluster(thin("vg1")), seen))
	if got := classes[0].NodeStatus[0].Status; got != lvmv1alpha1.VGStatusProgressing {
		t.Errorf("status %s", got)
	}
}

func TestOldReportOfABrokenGroupStays(t *testing.T) {
	report := withConditionFalse(vg("vg1", lvmv1alpha1.VGStatusDegraded, "device /dev/sdb is missing"),
		"device /dev/sdb is missing")
	report.ObservedGeneration = 1
	seen := seenWith([]*corev1.Node{readyNode("a", nil)}, map[string][]lvmv1alpha1.VGStatus{"a": {report}})
	seen.VolumeGroups["vg1"] = lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1", Generation: 2}}
	classes := must(deviceClassStatuses(newTestCluster(thin("vg1")), seen))
	if got := classes[0].NodeStatus[0]; got.Status != lvmv1alpha1.VGStatusDegraded ||
		got.Reason != "device /dev/sdb is missing" {
		t.Errorf("%+v", got)
	}
}

func TestClassesAndNodesAreSorted(t *testing.T) {
	reports := map[string][]lvmv1alpha1.VGStatus{}
	seen := seenWith([]*corev1.Node{readyNode("a", nil), readyNode("b", nil)}, reports)
	seen.Leaving = []Leaving{{VolumeGroup: lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "m"}}}}
	status := seen.NodeStatuses["b"]
	status.Status.NodeStatus = []lvmv1alpha1.VGStatus{vg("m", lvmv1alpha1.VGStatusReady, "")}
	seen.NodeStatuses["b"] = status
	var got []string
	for _, class := range must(deviceClassStatuses(newTestCluster(thick("z"), thin("a")), seen)) {
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
	if got, want := firstOf(problems), "0; 1; 2; 3; 4; 5; 6; 7; 8; 9; and 3 more"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	users := Users{Claims: []string{"a", "b", "c", "d", "e", "f", "g"}, Volumes: []string{"v"}}
	if got, want := users.String(),
		"7 PersistentVolumeClaims: a, b, c, d, e and 2 more; 1 PersistentVolume: v"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestStateInOneWord(t *testing.T) {
	failed := outcome{failures: []string{"x"}}
	waiting := outcome{waits: []string{"x"}}
	for _, test := range []struct {
		outcome outcome
		groups  string
		want    lvmv1alpha1.LVMState
	}{
		{outcome{}, lvmv1alpha1.ReasonVGsReady, lvmv1alpha1.LVMStatusReady},
		{outcome{}, lvmv1alpha1.ReasonVGsUnmanaged, lvmv1alpha1.LVMStatusReady},
		{waiting, lvmv1alpha1.ReasonVGsReady, lvmv1alpha1.LVMStatusProgressing},
		{outcome{}, lvmv1alpha1.ReasonVGReadinessInProgress, lvmv1alpha1.LVMStatusProgressing},
		{waiting, lvmv1alpha1.ReasonVGsDegraded, lvmv1alpha1.LVMStatusDegraded},
		{waiting, lvmv1alpha1.ReasonVGsFailed, lvmv1alpha1.LVMStatusFailed},
		{failed, lvmv1alpha1.ReasonVGsReady, lvmv1alpha1.LVMStatusFailed},
		{failed, "", lvmv1alpha1.LVMStatusFailed},
	} {
		if got := summarize(test.outcome, test.groups); got != test.want {
			t.Errorf("%+v with %s: %s, want %s", test.outcome, test.groups, got, test.want)
		}
	}
}

func TestJoinedErrorsAreSortedIntoFailuresAndWaits(t *testing.T) {
	o := outcome{}
	o.add("m", nil)
	o.add("m", errors.Join(errors.New("broken"), nil, waitFor([]string{"w1"}),
		errors.Join(&apply.RemainingError{Objects: []string{"DaemonSet x"}},
			fmt.Errorf("list: %w", errors.New("away")))))
	want := outcome{failures: []string{"m: broken", "m: list: away"},
		waits: []string{"w1", "still being deleted: DaemonSet x"}}
	if diff := cmp.Diff(want, o, cmp.AllowUnexported(outcome{})); diff != "" {
		t.Error(diff)
	}
}

func TestReasonOfTheUnobservedIsTheSameInBothPackages(t *testing.T) {
	if condition.NotObserved != lvmv1alpha1.ReasonNotObserved {
		t.Errorf("%s, want %s", condition.NotObserved, lvmv1alpha1.ReasonNotObserved)
	}
}

func TestPodsOfNodesThatAreDownDoNotHoldTheDeletion(t *testing.T) {
	pod := func(name, node string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	}
	if err := podsLeft([]corev1.Pod{pod("p", "down")}, []string{"up"}); err != nil {
		t.Error(err)
	}
	if err := podsLeft([]corev1.Pod{pod("p", "up")}, []string{"up"}); err == nil ||
		err.Error() != "waiting: 1 Pod: p on node up still running" {
		t.Error(err)
	}
}
