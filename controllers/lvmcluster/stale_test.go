package lvmcluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// looked returns a time before noon.
func looked(before time.Duration) *metav1.Time {
	t := metav1.NewTime(noon.Add(-before))
	return &t
}

// observedBy returns a node with a Ready volume group whose agent last observed it at a time before noon; nil for an
// agent that does not report the time.
func observedBy(last *metav1.Time) Observation {
	seen := seenWith([]*corev1.Node{readyNode("n", map[string]string{"disks": ""})},
		map[string][]lvmv1alpha1.VGStatus{"n": {withDevice(vg("vg1", lvmv1alpha1.VGStatusReady, ""))}})
	seen.Time = noon
	status := seen.NodeStatuses["n"]
	status.Name = "n"
	status.Status.LastObserved = last
	status.Status.Conditions = []metav1.Condition{{Type: lvmv1alpha1.ConditionDevicesObserved,
		Status: metav1.ConditionTrue}}
	seen.NodeStatuses["n"] = status
	return seen
}

func TestAStatusOlderThanItsLimitSaysSo(t *testing.T) {
	cluster := newTestCluster(on(thick("vg1"), "disks"))
	for name, test := range map[string]struct {
		last *metav1.Time
		want lvmv1alpha1.VGState
		next time.Duration
	}{
		"an agent that does not tell": {nil, lvmv1alpha1.VGStatusReady, 0},
		"a moment ago": {looked(0), lvmv1alpha1.VGStatusReady,
			lvmv1alpha1.ObservationLimit + time.Second},
		"at the limit": {looked(lvmv1alpha1.ObservationLimit), lvmv1alpha1.VGStatusReady, time.Second},
		"past the limit": {looked(lvmv1alpha1.ObservationLimit + time.Second),
			lvmv1alpha1.VGStatusDegraded, 0},
		"a clock that goes ahead": {looked(-time.Minute), lvmv1alpha1.VGStatusReady,
			lvmv1alpha1.ObservationLimit + time.Minute + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observedBy(test.last)
			classes, err := deviceClassStatuses(cluster, seen)
			if err != nil {
				t.Fatal(err)
			}
			got := classes[0].NodeStatus[0]
			if got.Status != test.want || seen.nextStale() != test.next {
				t.Errorf("got %+v, next in %s", got, seen.nextStale())
			}
			const since = "has not observed node n since 2026-01-02 11:29:59 UTC"
			if stale := test.want != lvmv1alpha1.VGStatusReady; strings.Contains(got.Reason, since) != stale {
				t.Errorf("got %q", got.Reason)
			}
			if listing := seen.listing(); (listing == "1 node") == (test.want != lvmv1alpha1.VGStatusReady) {
				t.Errorf("got %q", listing)
			}
		})
	}
}

func TestTheTimeOfALookAloneWakesNobody(t *testing.T) {
	status := func(version string, last *metav1.Time, group lvmv1alpha1.VGState) *lvmv1alpha1.LVMVolumeGroupNodeStatus {
		return &lvmv1alpha1.LVMVolumeGroupNodeStatus{
			ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: version},
			Status: lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{
				LastObserved: last, NodeStatus: []lvmv1alpha1.VGStatus{{Name: "vg1", Status: group}},
			},
		}
	}
	const (
		ready    = lvmv1alpha1.VGStatusReady
		degraded = lvmv1alpha1.VGStatusDegraded
	)
	before := status("1", looked(10*time.Minute), ready)
	for name, test := range map[string]struct {
		before, after *lvmv1alpha1.LVMVolumeGroupNodeStatus
		want          bool
	}{
		"the time alone":          {before, status("2", looked(0), ready), false},
		"a volume group":          {before, status("2", looked(0), degraded), true},
		"an agent that told none": {status("1", nil, ready), status("2", looked(0), ready), true},
		"one that was stale":      {status("1", looked(time.Hour), ready), status("2", looked(0), ready), true},
		"a resync":                {before, before, true},
	} {
		if got := nodeStatusChanged().Update(event.UpdateEvent{ObjectOld: test.before,
			ObjectNew: test.after}); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	labeled := status("2", looked(0), ready)
	labeled.Labels = map[string]string{"a": "b"}
	if !nodeStatusChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: labeled}) {
		t.Error("a label")
	}
}
