package status

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// ago returns a time before noon.
func ago(before time.Duration) *metav1.Time {
	t := metav1.NewTime(noon.Add(-before))
	return &t
}

// observedBy returns a node with a Ready volume group whose agent last observed it at a time before noon; nil for an
// agent that does not report the time.
func observedBy(last *metav1.Time) observe.State {
	current := stateOfNodes([]*corev1.Node{fixture.Node("n", map[string]string{"disks": ""})},
		map[string][]lvmv1alpha1.VGStatus{"n": {withDevice(fixture.VG("vg1", lvmv1alpha1.VGStatusReady, ""))}})
	current.Time = noon
	status := current.NodeStatuses["n"]
	status.Name = "n"
	status.Status.LastObserved = last
	status.Status.Conditions = []metav1.Condition{{Type: lvmv1alpha1.ConditionDevicesObserved,
		Status: metav1.ConditionTrue}}
	current.NodeStatuses["n"] = status
	return current
}

func TestAStatusOlderThanItsLimitSaysSo(t *testing.T) {
	cluster := fixture.Cluster(fixture.On(fixture.Thick("vg1"), "disks"))
	for name, test := range map[string]struct {
		last *metav1.Time
		want lvmv1alpha1.VGState
		next time.Duration
	}{
		"an agent that does not tell": {nil, lvmv1alpha1.VGStatusReady, 0},
		"a moment ago": {ago(0), lvmv1alpha1.VGStatusReady,
			lvmv1alpha1.ObservationLimit + time.Second},
		"at the limit": {ago(lvmv1alpha1.ObservationLimit), lvmv1alpha1.VGStatusReady, time.Second},
		"past the limit": {ago(lvmv1alpha1.ObservationLimit + time.Second),
			lvmv1alpha1.VGStatusDegraded, 0},
		"a clock that goes ahead": {ago(-time.Minute), lvmv1alpha1.VGStatusReady,
			lvmv1alpha1.ObservationLimit + time.Minute + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			current := observedBy(test.last)
			classes, err := deviceClassStatuses(cluster, current)
			if err != nil {
				t.Fatal(err)
			}
			got := classes[0].NodeStatus[0]
			if got.Status != test.want || current.NextStale() != test.next {
				t.Errorf("got %+v, next in %s", got, current.NextStale())
			}
			const since = "has not observed node n since 2026-01-02 11:29:59 UTC"
			if stale := test.want != lvmv1alpha1.VGStatusReady; strings.Contains(got.Reason, since) != stale {
				t.Errorf("got %q", got.Reason)
			}
			if listing := listedNodes(current); (listing == "1 node") == (test.want != lvmv1alpha1.VGStatusReady) {
				t.Errorf("got %q", listing)
			}
		})
	}
}
