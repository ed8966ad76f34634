package verdict

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

func TestPoolIsNotToBeRepairedWhileADeviceIsMissing(t *testing.T) {
	pool := metav1.Condition{Type: v1alpha1.ConditionThinPoolHealthy, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonThinPoolNeedsCheck, Message: "needs a check"}
	device := metav1.Condition{Type: v1alpha1.ConditionDevicesHealthy, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonDeviceMissing, Message: "gone"}
	failing := device
	failing.Reason = v1alpha1.ReasonDeviceFailing
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		want       string
	}{
		"all devices are present": {[]metav1.Condition{pool}, repairAction},
		"a device is missing":     {[]metav1.Condition{device, pool}, afterDevice},
		"in the other order":      {[]metav1.Condition{pool, device}, afterDevice},
		"a device is failing":     {[]metav1.Condition{failing, pool}, repairAction},
	} {
		t.Run(name, func(t *testing.T) {
			for _, p := range conditionProblems(Problem{}, &v1alpha1.VGStatus{Conditions: c.conditions}) {
				if p.Reason == pool.Reason && p.Action != c.want {
					t.Errorf("got the action %q, want %q", p.Action, c.want)
				}
			}
		})
	}
}

// TestActionOfAVolumeGroupThatIsNotOurs has the messages of vgmanager/group/volumegroup/plan/ownership/owner.go.
func TestActionOfAVolumeGroupThatIsNotOurs(t *testing.T) {
	const adopt = "kubectl lvms adopt --node n --class vg1 --volume-group u-1"
	for message, want := range map[string][]string{
		"OtherClusterVG: volume group vg1 (u-1) on node n belongs to the cluster former, not to this cluster (c), so it " +
			"is not changed. Detach its disks or rename the device class; or, if no other cluster uses the disks, to " +
			"use the group here with its volumes, add to the device class: adopt: [{node: n, volumeGroupUUID: u-1}], " +
			"or, for all nodes that it was on: adoptClusters: [former]; to destroy it, x": {"cluster former", adopt},
		"VGMoved: volume group vg1 (u-1) was moved to node n from node o with its disks, so it is not changed. Attach " +
			"the disks to o again; or, to use the group here with its volumes, add to the device class: " +
			"adopt: [{node: n, volumeGroupUUID: u-1}]; to destroy it, x": {"from node o", adopt},
		"device /dev/sdb does not exist on node n: attach it": {"attach it"},
	} {
		got := problemOfState(v1alpha1.VGStatusFailed, message, Problem{Node: "n", DeviceClass: "vg1"}).Action
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("%s: got %q, without %q", message, got, text)
			}
		}
		if strings.Contains(got, adopt) != strings.Contains(message, "volumeGroupUUID") {
			t.Errorf("%s: got %q", message, got)
		}
	}
}
