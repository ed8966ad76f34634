package lvmcluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
)

func TestUpgradeObstacles(t *testing.T) {
	ready := lvmv1alpha1.VGStatus{Name: "vg1", Status: lvmv1alpha1.VGStatusReady}
	with := func(change func(*lvmv1alpha1.VGStatus)) lvmv1alpha1.VGStatus {
		entry := *ready.DeepCopy()
		change(&entry)
		return entry
	}
	deleted := metav1.Now()
	tests := map[string]struct {
		entry lvmv1alpha1.VGStatus
		group *lvmv1alpha1.LVMVolumeGroup
		want  []string
	}{
		"ready": {entry: ready},
		"degraded": {entry: with(func(e *lvmv1alpha1.VGStatus) {
			e.Status = lvmv1alpha1.VGStatusDegraded
			e.Reason = "a disk is gone"
		})},
		"draining": {entry: with(func(e *lvmv1alpha1.VGStatus) {
			e.PhysicalVolumes = []lvmv1alpha1.PhysicalVolumeStatus{{Name: "/dev/sda",
				State: lvmv1alpha1.PhysicalVolumeReady}, {Name: "/dev/sdb", State: lvmv1alpha1.PhysicalVolumeDraining}}
		}), want: []string{"device class vg1 on node a: device /dev/sdb is being drained"}},
		"in sync": {entry: with(func(e *lvmv1alpha1.VGStatus) {
			e.RAIDStatus = &lvmv1alpha1.RAIDStatus{MinSyncPercent: ptr.To[int32](100)}
		})},
		"resync": {entry: with(func(e *lvmv1alpha1.VGStatus) {
			e.RAIDStatus = &lvmv1alpha1.RAIDStatus{MinSyncPercent: ptr.To[int32](40)}
		}), want: []string{"device class vg1 on node a: redundancy is being restored (40%)"}},
		"being made": {entry: with(func(e *lvmv1alpha1.VGStatus) { e.Status = lvmv1alpha1.VGStatusProgressing }),
			want: []string{"device class vg1 on node a: its devices are being prepared"}},
		"a drain that waits for space": {entry: with(func(e *lvmv1alpha1.VGStatus) {
			e.PhysicalVolumes = []lvmv1alpha1.PhysicalVolumeStatus{{Name: "/dev/sdb",
				State: lvmv1alpha1.PhysicalVolumeBlocked, Message: "add a device"}}
		})},
		"waits for an approval": {entry: with(func(e *lvmv1alpha1.VGStatus) {
			e.Status = lvmv1alpha1.VGStatusProgressing
			e.Excluded = []lvmv1alpha1.ExcludedDevice{{Name: "/dev/sdb", Reasons: []string{"AwaitingApproval: approve it"}}}
		})},
		"waits for another review": {entry: with(func(e *lvmv1alpha1.VGStatus) {
			e.Status = lvmv1alpha1.VGStatusProgressing
			e.Excluded = []lvmv1alpha1.ExcludedDevice{{Name: "/dev/sdb", Reasons: []string{"Other: x",
				"ChangedSinceReview: approve it again"}}}
		})},
		"prepares one device while another one waits": {entry: with(func(e *lvmv1alpha1.VGStatus) {
			e.Status = lvmv1alpha1.VGStatusProgressing
			e.PhysicalVolumes = []lvmv1alpha1.PhysicalVolumeStatus{{Name: "/dev/sda", State: lvmv1alpha1.PhysicalVolumeReady}}
			e.Excluded = []lvmv1alpha1.ExcludedDevice{{Name: "/dev/sdb", Reasons: []string{"AwaitingApproval: approve it"}}}
		}), want: []string{"device class vg1 on node a: its devices are being prepared"}},
		"being removed": {entry: with(func(e *lvmv1alpha1.VGStatus) { e.Status = lvmv1alpha1.VGStatusProgressing }),
			group: &lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1",
				DeletionTimestamp: &deleted}}},
	}
	for name, tt := range tests {
		if tt.group == nil {
			tt.group = &lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1"}}
		}
		current := stateWith(tt.entry, tt.group)
		gate := upgradeGate{}
		if diff := cmp.Diff(tt.want, gate.obstacles(current, noon)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// stateWith returns the state of the ready node a, whose agent has just reported an entry.
func stateWith(entry lvmv1alpha1.VGStatus, group *lvmv1alpha1.LVMVolumeGroup) observe.State {
	return observe.State{
		Time: noon,
		Nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}},
		NodeStatuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{
			"a": {Status: lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{LastObserved: ptr.To(metav1.NewTime(noon)),
				NodeStatus: []lvmv1alpha1.VGStatus{entry}}}},
		VolumeGroups: map[string]lvmv1alpha1.LVMVolumeGroup{"vg1": *group},
	}
}

// draining returns an entry with a device that is being drained.
func draining() lvmv1alpha1.VGStatus {
	return lvmv1alpha1.VGStatus{Name: "vg1", Status: lvmv1alpha1.VGStatusReady,
		PhysicalVolumes: []lvmv1alpha1.PhysicalVolumeStatus{{Name: "/dev/sdb",
			State: lvmv1alpha1.PhysicalVolumeDraining}}}
}

// TestOnlyARunningAgentPreventsAnUpgrade: the last report of a node that is gone, not ready or silent does not.
func TestOnlyARunningAgentPreventsAnUpgrade(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*observe.State)
		want int
	}{
		"it runs":                  {func(*observe.State) {}, 1},
		"the node does not exist":  {func(s *observe.State) { s.Nodes = nil }, 0},
		"the node is not ready":    {func(s *observe.State) { s.Nodes[0].Status.Conditions[0].Status = "Unknown" }, 0},
		"the node has no status":   {func(s *observe.State) { s.NodeStatuses = nil }, 0},
		"the agent has not looked": {func(s *observe.State) { s.Time = noon.Add(24 * time.Hour) }, 0},
	} {
		current := stateWith(draining(), &lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1"}})
		tt.edit(&current)
		gate := upgradeGate{}
		if got := gate.obstacles(current, noon); len(got) != tt.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// TestAnObstacleEnds: an operation prevents an upgrade for a day at most, whatever its progress is; another one and the
// next one of the same kind begin again.
func TestAnObstacleEnds(t *testing.T) {
	syncing := func(percent int32) lvmv1alpha1.VGStatus {
		return lvmv1alpha1.VGStatus{Name: "vg1", Status: lvmv1alpha1.VGStatusReady,
			RAIDStatus: &lvmv1alpha1.RAIDStatus{MinSyncPercent: &percent}}
	}
	gate := upgradeGate{}
	for _, step := range []struct {
		after time.Duration
		entry lvmv1alpha1.VGStatus
		want  int
	}{
		{0, syncing(1), 1},
		{0, syncing(1), 1},
		{maxObstacle - time.Second, syncing(2), 1},
		{maxObstacle, syncing(3), 0},
		{maxObstacle, draining(), 1},
		{maxObstacle + time.Hour, syncing(1), 1},
		{2*maxObstacle + time.Hour, syncing(1), 0},
	} {
		current := stateWith(step.entry, &lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1"}})
		if got := gate.obstacles(current, noon.Add(step.after)); len(got) != step.want {
			t.Errorf("after %s: got %q", step.after, got)
		}
	}
}
