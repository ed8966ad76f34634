package lvmcluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
		"being removed": {entry: with(func(e *lvmv1alpha1.VGStatus) { e.Status = lvmv1alpha1.VGStatusProgressing }),
			group: &lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1",
				DeletionTimestamp: &deleted}}},
	}
	for name, tt := range tests {
		if tt.group == nil {
			tt.group = &lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1"}}
		}
		current := observe.State{
			NodeStatuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{
				"a": {Status: lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{
					NodeStatus: []lvmv1alpha1.VGStatus{tt.entry}}}},
			VolumeGroups: map[string]lvmv1alpha1.LVMVolumeGroup{"vg1": *tt.group},
		}
		if diff := cmp.Diff(tt.want, upgradeObstacles(current)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
