package device

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/test/expect"
)

const scsiRecord = `S:disk/by-path/scsi-0:0:1:0
S:disk/by-id/wwn-0x3333333000000fa0
S:disk/by-id/scsi-33333333000000fa0
I:2770000
E:ID_SERIAL=33333333000000fa0
E:ID_SERIAL_SHORT=4000
E:ID_BUS=scsi
E:ID_MODEL=a=b
G:systemd
V:1
`

func TestDecodeRecord(t *testing.T) {
	r, err := decodeRecord([]byte(scsiRecord))
	if err != nil {
		t.Fatalf("got %+v, %v", r, err)
	}
	expect.Equal(t, "len(r.links)", len(r.links), 3)
	expect.Equal(t, `properties["ID_SERIAL_SHORT"]`, r.properties["ID_SERIAL_SHORT"], "4000")
	expect.Equal(t, `properties["ID_MODEL"]`, r.properties["ID_MODEL"], "a=b")
	expect.Equal(t, "initialized", r.initialized, 2770*time.Millisecond)
	expect.Equal(t, "initializedKnown", r.initializedKnown, true)
	if r, err := decodeRecord(nil); err != nil || r.initializedKnown {
		t.Errorf("an empty record: %+v, %v", r, err)
	}
	for _, bad := range []string{"I:soon\n", "I:-5\n", "I:99999999999999999999\n"} {
		if _, err := decodeRecord([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// fakeNode returns a Node with udev, sysfs and mounts in a temporary directory.
func fakeNode(t *testing.T, files map[string]string) *Node {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := New(&runner{})
	n.sysfs, n.udev, n.mounts = filepath.Join(dir, "sys"), filepath.Join(dir, "udev"), filepath.Join(dir, "mountinfo")
	n.uptime = func() (time.Duration, error) { return time.Minute, nil }
	return n
}

func TestDeviceIsCompleted(t *testing.T) {
	n := fakeNode(t, map[string]string{
		"udev/b8:16":                            scsiRecord,
		"sys/class/block/sdb/holders/dm-4/x":    "",
		"sys/class/block/dm-4/dm/name":          "secret\n",
		"sys/class/block/sdb/holders/bcache0/x": "",
	})
	d := Device{Name: "/dev/sdb", KernelName: "/dev/sdb", Number: "8:16", Type: "disk",
		Children: []Child{{"/dev/dm-9", "lvm"}}, Mountpoints: []string{"/a"}}
	n.complete(&d, map[Number][]string{"8:16": {"/a", "/in/a/container"}})
	if diff := cmp.Diff([]string{"/dev/disk/by-id/scsi-33333333000000fa0", "/dev/disk/by-id/wwn-0x3333333000000fa0"},
		d.ByID); diff != "" {
		t.Error(diff)
	}
	if !cmp.Equal(d.Holders, []string{"/dev/bcache0", "/dev/mapper/secret"}) ||
		!cmp.Equal(d.Mountpoints, []string{"/a", "/in/a/container"}) {
		t.Errorf("got the holders %v and mounts %v", d.Holders, d.Mountpoints)
	}
	expect.Equal(t, "Appeared", d.Appeared, time.Minute-2770*time.Millisecond)
	expect.Equal(t, "AppearedKnown", d.AppearedKnown, true)
	expect.Equal(t, "Serial", d.Serial, "4000")
	expect.Equal(t, "Transport", d.Transport, "scsi")
	expect.Equal(t, "len(d.Problems)", len(d.Problems), 0)
}

func TestDeviceThatCannotBeCompletedIsNotUsable(t *testing.T) {
	n := fakeNode(t, map[string]string{"udev/b8:16": "I:soon\n", "udev/b8:32": scsiRecord})
	broken := Device{Number: "8:16", KernelName: "/dev/sdb", Size: 1 << 30}
	fine := Device{Number: "8:32", KernelName: "/dev/sdc", Size: 1 << 30}
	n.complete(&broken, nil)
	n.complete(&fine, nil)
	if got := codes(Explain(broken, nil)); !cmp.Equal(got, []Code{ProbeError}) {
		t.Errorf("got %v", got)
	}
	if got := Explain(fine, nil); len(got) != 0 {
		t.Errorf("the other one: %v", got)
	}
}

func TestIdentity(t *testing.T) {
	tests := map[string]struct {
		device Device
		want   string
	}{
		"WWN before serial": {Device{Type: "disk", WWN: "0x1", Serial: "s"}, "wwn:0x1"},
		"serial":            {Device{Type: "disk", Serial: "s", Signature: "ext4", UUID: "u"}, "serial:s"},
		"physical volume":   {Device{Type: "disk", Signature: "LVM2_member", UUID: "u"}, "pv:u"},
		"file system":       {Device{Type: "disk", Signature: "ext4", UUID: "u"}, "fs:u"},
		"nothing":           {Device{Type: "disk", KernelName: "/dev/vdb"}, ""},
		"partition":         {Device{Type: "part", WWN: "0x1", KernelName: "/dev/sda3"}, "wwn:0x1-part3"},
		"partition of an NVMe": {Device{Type: "part", Serial: "s", KernelName: "/dev/nvme0n1p12"},
			"serial:s-part12"},
		"partition by its UUID": {Device{Type: "part", KernelName: "/dev/vda1",
			properties: map[string]string{"ID_PART_ENTRY_UUID": "p"}}, "part:p"},
		"partition of a multipath": {Device{Type: "part", WWN: "0x1", KernelName: "/dev/dm-3",
			properties: map[string]string{"DM_UUID": "part1-mpath-3600"}}, "dm:part1-mpath-3600"},
		"the same, unknown": {Device{Type: "part", WWN: "0x1", KernelName: "/dev/dm-3"}, ""},
		"multipath": {Device{Type: "mpath", properties: map[string]string{"DM_UUID": "mpath-3600"}},
			"dm:mpath-3600"},
		"array": {Device{Type: "raid1", properties: map[string]string{"MD_UUID": "a:b"}}, "md:a:b"},
	}
	for name, tt := range tests {
		if got := tt.device.Identity(); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestIdentitiesThatCollideAreNone(t *testing.T) {
	devices := []Device{
		{Number: "8:0", Serial: "same"}, {Number: "8:16", Serial: "same"}, {Number: "8:32", Serial: "own"},
		{Number: "8:48", WWN: "0x9", Children: []Child{{"/dev/mapper/mpatha", "mpath"}}},
		{Number: "8:64", WWN: "0x9", Children: []Child{{"/dev/mapper/mpatha", "mpath"}}},
		{Number: "253:0", Type: "mpath", WWN: "0x9"},
	}
	if diff := cmp.Diff(map[Number]string{"8:32": "serial:own", "253:0": "wwn:0x9"}, Identities(devices)); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeMounts(t *testing.T) {
	mounts, err := decodeMounts(
		[]byte(
			"36 35 8:16 / /mnt/my\\040disk rw,noatime master:1 - ext4 /dev/sdb rw\n37 35 0:5 / /proc rw " +
				"- proc proc rw\n"))
	if err != nil || !cmp.Equal(mounts["8:16"], []string{"/mnt/my disk"}) {
		t.Errorf("got %v, %v", mounts, err)
	}
	if _, err := decodeMounts([]byte("nonsense\n")); err == nil {
		t.Error("nonsense is accepted")
	}
}

func TestListFailsWithoutTheMounts(t *testing.T) {
	n := fakeNode(t, nil)
	n.runner = &runner{out: record(t, "lsblk-blank")}
	if devices, err := n.List(t.Context()); err == nil || devices != nil ||
		!strings.Contains(err.Error(), "mounts of the node") {
		t.Errorf("got %v, %v", devices, err)
	}
}

func TestWhatTheMachineRunsFrom(t *testing.T) {
	devices := []Device{
		{Name: "/dev/sda", Children: []Child{{"/dev/sda1", "part"}, {"/dev/sda2", "part"}}},
		{Name: "/dev/sda1", Mountpoints: []string{"/data"}},
		{Name: "/dev/sda2", Children: []Child{{"/dev/mapper/root", "crypt"}}},
		{Name: "/dev/mapper/root", Mountpoints: []string{"/sysroot"}},
		{Name: "/dev/sdb", Mountpoints: []string{"/data"}}, {Name: "/dev/sdc", Mountpoints: []string{"[SWAP]"}},
	}
	markOSDisks(devices)
	var got []string
	for _, d := range devices {
		if d.OSDisk {
			got = append(got, d.Name)
		}
	}
	if diff := cmp.Diff([]string{"/dev/sda", "/dev/sda2", "/dev/mapper/root", "/dev/sdc"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestBelow(t *testing.T) {
	n := fakeNode(t, map[string]string{"sys/dev/block/253:0/slaves/sdb/dev": "8:16\n",
		"sys/dev/block/253:0/slaves/gone/x": ""})
	if got, err := n.Below("253:0"); err != nil || !cmp.Equal(got, []Number{"8:16"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := n.Below("253:1"); err == nil {
		t.Errorf("a device that is not there is made of %v", got)
	}
}

// TestIdentityOfAMappingWithoutUdevRules: a host without LVM does not have the rules that set DM_UUID.
func TestIdentityOfAMappingWithoutUdevRules(t *testing.T) {
	n := fakeNode(t, map[string]string{
		"sys/class/block/dm-0/dm/uuid":   "mpath-3600\n",
		"sys/class/block/dm-1/dm/uuid":   "mpath-3601\n",
		"sys/class/block/dm-2/dm/uuid":   "\n",
		"sys/class/block/dm-3/dm/uuid/x": "",
		"sys/class/block/sdb/size":       "1",
		"udev/b253:0":                    "E:DM_NAME=a\n",
		"udev/b253:1":                    "E:DM_UUID=mpath-udev\n",
	})
	for number, want := range map[string]string{"0": "dm:mpath-3600", "1": "dm:mpath-udev", "2": "", "3": ""} {
		d := Device{KernelName: "/dev/dm-" + number, Number: Number("253:" + number), Type: "mpath"}
		n.complete(&d, nil)
		if got := d.Identity(); got != want || (len(d.Problems) > 0) != (number == "3") {
			t.Errorf("dm-%s: got %q, problems %q", number, got, d.Problems)
		}
	}
	disk := Device{KernelName: "/dev/sdb", Number: "8:16"}
	n.complete(&disk, nil)
	if got := disk.Identity(); got != "" || len(disk.Problems) > 0 {
		t.Errorf("a disk: got %q, problems %q", got, disk.Problems)
	}
}

func TestHoldersThatLsblkDoesNotShow(t *testing.T) {
	n := fakeNode(t, map[string]string{
		"sys/class/block/sdb/holders/dm-4/x":    "",
		"sys/class/block/dm-4/dm/name":          "mpatha\n",
		"sys/class/block/dm-4/dm/uuid":          "mpath-3600\n",
		"sys/class/block/sdc/holders/bcache0/x": "",
	})
	path := Device{Name: "/dev/sdb", KernelName: "/dev/sdb", Number: "8:16", Size: 1 << 30}
	cache := Device{Name: "/dev/sdc", KernelName: "/dev/sdc", Number: "8:32", Size: 1 << 30}
	n.complete(&path, nil)
	n.complete(&cache, nil)
	if got := codes(Explain(path, nil)); !cmp.Equal(got, []Code{HasHolders, MultipathMember}) {
		t.Errorf("a path of a multipath device: %v", got)
	}
	if got := codes(Explain(cache, nil)); !cmp.Equal(got, []Code{HasHolders}) {
		t.Errorf("the disk of a cache: %v", got)
	}
}
