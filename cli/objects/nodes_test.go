package objects_test

import (
	"slices"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/objects"
)

func TestADeviceIsLocatedThroughWhatIsBuiltOnIt(t *testing.T) {
	node := clitest.BrokenNode("storage")
	devices := &node.Status.Devices
	*devices = append(*devices,
		v1alpha1.DeviceStatus{Name: "/dev/sdx", Partitions: []string{"/dev/sdx1"}, State: v1alpha1.DeviceInUse},
		v1alpha1.DeviceStatus{Name: "/dev/sdx1", Holders: []string{"/dev/mapper/crypt"}, State: v1alpha1.DeviceInUse},
		v1alpha1.DeviceStatus{Name: "/dev/mapper/crypt", PVUUID: "pv-x", State: v1alpha1.DeviceInUse,
			KernelName: "/dev/dm-3", ByPath: []string{"pci-1"}},
		// A new disk has the name that the missing one had.
		v1alpha1.DeviceStatus{Name: "/dev/sdy", State: v1alpha1.DeviceAvailable},
	)
	node.Status.NodeStatus = append(node.Status.NodeStatus,
		v1alpha1.VGStatus{Name: "vg2", PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{
			{UUID: "pv-x", Name: "/dev/mapper/crypt", State: v1alpha1.PhysicalVolumeReady},
			{UUID: "pv-y", Name: "/dev/sdy", DeviceID: "wwn:0x9", State: v1alpha1.PhysicalVolumeMissing}}},
		v1alpha1.VGStatus{Name: "upstream", Devices: []string{"/dev/sde"}})
	for name, want := range map[string]string{"/dev/sdx": "vg2", "/dev/sdx1": "vg2", "/dev/dm-3": "vg2",
		"/dev/disk/by-path/pci-1": "vg2", "wwn:0x9": "vg2", "/dev/sdy": "", "/dev/sde": "upstream", "/dev/sdb": "vg1",
		"/dev/sdd": "vg1"} {
		at, found := objects.Locate([]v1alpha1.LVMVolumeGroupNodeStatus{*node}, name)
		var classes []string
		for _, p := range at.Places {
			classes = append(classes, p.Class)
		}
		if !found || !slices.Equal(classes, slices.DeleteFunc([]string{want}, func(c string) bool { return c == "" })) {
			t.Errorf("%s: found %v in %q, want %q", name, found, classes, want)
		}
	}
	if _, found := objects.Locate([]v1alpha1.LVMVolumeGroupNodeStatus{*node}, "/dev/none"); found {
		t.Error("/dev/none was found")
	}
}
