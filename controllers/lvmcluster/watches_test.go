package lvmcluster

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

func TestTheTimeOfAnObservationAloneTriggersNoReconcile(t *testing.T) {
	status := func(version string, last *metav1.Time, group lvmv1alpha1.VGState) *lvmv1alpha1.LVMVolumeGroupNodeStatus {
		return &lvmv1alpha1.LVMVolumeGroupNodeStatus{
			ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: version},
			Status: lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{
				LastObserved: last, NodeStatus: []lvmv1alpha1.VGStatus{{Name: "vg1", Status: group}},
			},
		}
	}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(-d)} }
	const (
		ready    = lvmv1alpha1.VGStatusReady
		degraded = lvmv1alpha1.VGStatusDegraded
	)
	before := status("1", ago(10*time.Minute), ready)
	for name, test := range map[string]struct {
		before, after *lvmv1alpha1.LVMVolumeGroupNodeStatus
		want          bool
	}{
		"the time alone":          {before, status("2", ago(0), ready), false},
		"a volume group":          {before, status("2", ago(0), degraded), true},
		"an agent that told none": {status("1", nil, ready), status("2", ago(0), ready), true},
		"one that was stale":      {status("1", ago(time.Hour), ready), status("2", ago(0), ready), true},
		"a resync":                {before, before, true},
	} {
		if got := nodeStatusChanged().Update(event.UpdateEvent{ObjectOld: test.before,
			ObjectNew: test.after}); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	labeled := status("2", ago(0), ready)
	labeled.Labels = map[string]string{"a": "b"}
	if !nodeStatusChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: labeled}) {
		t.Error("a label")
	}
}
