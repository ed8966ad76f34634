package view

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/output"
)

// TestActionOfAMissingDevice has the ends of the messages of vgmanager/group/volumegroup/plan/health.go.
func TestActionOfAMissingDevice(t *testing.T) {
	const forget = "create an LVMRecovery {nodeName: n, deviceClassName: vg1, action: RemoveLostDevices}, which lists"
	for message, want := range map[string]string{
		"": "run `kubectl lvms forget`",
		"attach the disk again; if the disk is lost, so is data of volumes: " + forget: "run `kubectl lvms forget`",
		"create an LVMRecovery {nodeName: n, deviceClassName: vg1, action: RestoreLabels}, which changes nothing; if " +
			"the data was overwritten, too, " + forget: "Do not restart the node. Run `kubectl lvms restore-labels`",
		"create an LVMRecovery {nodeName: n, deviceClassName: vg1, action: RestoreMetadata}, which changes nothing; " +
			"if its data is not needed, " + forget: "Run `kubectl lvms restore-metadata`",
		"LVM does not list it: run on the node: lvmdevices --adddev /dev/sdb": "lvmdevices --adddev",
		"no volume is affected: add to the deviceRequests of the device class: {node: n, device: u, action: " +
			"Remove}": "run `kubectl lvms remove`",
	} {
		got := actionOf("DeviceMissing", message)
		if !strings.Contains(got, want) || want != "run `kubectl lvms forget`" && strings.Contains(got, "forget") {
			t.Errorf("%s: got %q", message, got)
		}
	}
}

// TestActionOfAVolumeGroupThatIsNotOurs has the messages of vgmanager/group/volumegroup/plan/owner.go.
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
		got := problemOfState(v1alpha1.VGStatusFailed, message, output.Problem{Node: "n", DeviceClass: "vg1"}).Action
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
