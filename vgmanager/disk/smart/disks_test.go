package smart

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// newSysfs creates a sysfs with block devices: a disk with a partition, two paths of a multipath device, a loop
// device.
func newSysfs(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write := func(path string) {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(path, to string) {
		write(path + ".folder")
		if err := os.Symlink(to, filepath.Join(root, path)); err != nil {
			t.Fatal(err)
		}
	}
	for _, disk := range []string{"sda", "sdb", "sdc", "sdd"} {
		write("devices/" + disk + "/device")
		if err := os.MkdirAll(filepath.Join(root, "devices", disk, "slaves"), 0o755); err != nil {
			t.Fatal(err)
		}
		link("class/block/"+disk, "../../devices/"+disk)
	}
	write("devices/sda/sda1/partition")
	link("class/block/sda1", "../../devices/sda/sda1")
	write("devices/dm-0/uevent")
	link("devices/dm-0/slaves/sdb", "../../sdb")
	link("devices/dm-0/slaves/sdc", "../../sdc")
	_ = os.Remove(filepath.Join(root, "devices/dm-0/slaves/sdb.folder"))
	_ = os.Remove(filepath.Join(root, "devices/dm-0/slaves/sdc.folder"))
	link("class/block/dm-0", "../../devices/dm-0")
	write("devices/loop0/uevent")
	link("class/block/loop0", "../../devices/loop0")
	return root
}

// statusOf returns the status of a node with the device class vg1.
func statusOf(devices []v1alpha1.DeviceStatus) *v1alpha1.LVMVolumeGroupNodeStatusStatus {
	return &v1alpha1.LVMVolumeGroupNodeStatusStatus{Devices: devices, NodeStatus: []v1alpha1.VGStatus{{Name: "vg1"}}}
}

func TestDisks(t *testing.T) {
	sysfs := newSysfs(t)
	for name, c := range map[string]struct {
		devices []v1alpha1.DeviceStatus
		want    []Disk
	}{
		"nothing": {},
		"a partition stands for its disk": {
			devices: []v1alpha1.DeviceStatus{
				{Name: "/dev/sda", ID: "wwn:a", Type: "disk", State: v1alpha1.DeviceExcluded},
				{Name: "/dev/sda1", ID: "wwn:a-part1", Type: "part", State: v1alpha1.DeviceInUse, VolumeGroup: "vg1"},
			},
			want: []Disk{{"/dev/sda", "wwn:a"}},
		},
		"each path of a multipath device, once": {
			devices: []v1alpha1.DeviceStatus{
				{Name: "/dev/mapper/mpatha", KernelName: "/dev/dm-0", Type: "mpath", State: v1alpha1.DeviceAvailable},
				{Name: "/dev/sdb", Type: "disk", State: v1alpha1.DeviceAvailable},
			},
			want: []Disk{{"/dev/sdb", ""}, {"/dev/sdc", ""}},
		},
		"not what others use: mounted, or in a volume group that is not of the product": {
			devices: []v1alpha1.DeviceStatus{{Name: "/dev/sda", State: v1alpha1.DeviceInUse},
				{Name: "/dev/sdb", State: v1alpha1.DeviceInUse, VolumeGroup: "rhel"},
				{Name: "/dev/sdc", State: v1alpha1.DeviceFailing}},
		},
		"not what is excluded, missing, or unknown": {
			devices: []v1alpha1.DeviceStatus{
				{Name: "/dev/sda", State: v1alpha1.DeviceExcluded}, {Name: "/dev/sdb", State: v1alpha1.DeviceMissing},
				{Name: "/dev/sdc", State: v1alpha1.DeviceUnknown},
			},
		},
		"one that fails is asked all the more": {
			devices: []v1alpha1.DeviceStatus{{Name: "/dev/sdd", ID: "serial:d", State: v1alpha1.DeviceFailing,
				VolumeGroup: "vg1"}},
			want: []Disk{{"/dev/sdd", "serial:d"}},
		},
		"the ID is not that of a disk which had the name before": {
			devices: []v1alpha1.DeviceStatus{{Name: "/dev/sdd", ID: "serial:old", State: v1alpha1.DeviceMissing},
				{Name: "/dev/sdd", ID: "serial:new", State: v1alpha1.DeviceInUse, VolumeGroup: "vg1"}},
			want: []Disk{{"/dev/sdd", "serial:new"}},
		},
		"what has gone, and what has no hardware": {
			devices: []v1alpha1.DeviceStatus{{Name: "/dev/sdx", State: v1alpha1.DeviceAvailable},
				{Name: "/dev/loop0", State: v1alpha1.DeviceAvailable}},
		},
	} {
		got, err := disks(statusOf(c.devices), sysfs)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

func TestDisksTellsWhatCannotBeRead(t *testing.T) {
	sysfs := newSysfs(t)
	if err := os.Remove(filepath.Join(sysfs, "class/block/sdd")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sdd", filepath.Join(sysfs, "class/block/sdd")); err != nil { // links to itself
		t.Fatal(err)
	}
	got, err := disks(statusOf([]v1alpha1.DeviceStatus{{Name: "/dev/sdd", State: v1alpha1.DeviceAvailable},
		{Name: "/dev/sda", State: v1alpha1.DeviceAvailable}}), sysfs)
	if diff := cmp.Diff([]Disk{{"/dev/sda", ""}}, got); diff != "" || err == nil {
		t.Errorf("%v %s", err, diff)
	}
}
