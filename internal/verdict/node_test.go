package verdict

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

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
