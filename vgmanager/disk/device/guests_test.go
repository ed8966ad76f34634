package device

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/stack"
)

// guestNode has the disk sda with volume group vg1, and a loop device on its volume, which has a copy of the label of
// sda. lsblk lists all three.
func guestNode(t *testing.T) *Node {
	t.Helper()
	n := New(&runner{out: []byte(`{"blockdevices":[
		{"name":"/dev/sda","kname":"/dev/sda","path":"/dev/sda","type":"disk","size":99999999,"maj:min":"8:0",
			"fstype":"LVM2_member","uuid":"u1"},
		{"name":"/dev/mapper/vg1-a","kname":"/dev/dm-0","path":"/dev/mapper/vg1-a","type":"lvm","size":99999999,
			"maj:min":"254:0","fstype":"LVM2_member","uuid":"u1"},
		{"name":"/dev/loop0","kname":"/dev/loop0","path":"/dev/loop0","type":"loop","size":99999999,"maj:min":"7:0",
			"fstype":"LVM2_member","uuid":"u1","label":"x","pttype":"gpt"}]}`)})
	n.sysfs, n.udev = t.TempDir(), t.TempDir()
	files := map[string]string{
		"sda/dev": "8:0", "sda/size": "2048", "dm-0/dev": "254:0", "dm-0/size": "2048", "dm-0/dm/name": "vg1-a",
		"dm-0/dm/uuid": "LVM-11111111111111111111111111111111a", "loop0/dev": "7:0", "loop0/size": "2048",
		"loop0/loop/backing_file": "/dev/vg1/a",
	}
	for name, text := range files {
		path := filepath.Join(n.sysfs, "class/block", name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	record := []byte("S:disk/by-label/x\nE:ID_FS_TYPE=LVM2_member\n")
	if err := os.WriteFile(filepath.Join(n.udev, "b7:0"), record, 0o600); err != nil {
		t.Fatal(err)
	}
	n.loop = func(string) (stack.Backing, error) { return stack.Backing{Device: "254:0"}, nil }
	n.UseGroups(func() []string { return []string{"vg1"} })
	return n
}

func TestTheContentOfAGuestIsNotListed(t *testing.T) {
	n := guestNode(t)
	for range 2 {
		devices, err := n.List(t.Context())
		if err != nil || len(devices) != 3 {
			t.Fatalf("got %+v, %v", devices, err)
		}
		loop, disk := devices[0], devices[2]
		if !loop.Guest || loop.Signature+loop.UUID+loop.Label+loop.PartitionTable != "" || len(loop.Signatures) != 0 {
			t.Errorf("the loop device is %+v", loop)
		}
		if got := codes(Explain(loop, nil)); !cmp.Equal(got, []Code{LVMInternal}) {
			t.Errorf("the loop device: got %v", got)
		}
		if disk.Guest || disk.UUID != "u1" {
			t.Errorf("the disk is %+v", disk)
		}
	}
	n.UseGroups(func() []string { return nil })
	if devices, err := n.List(t.Context()); err != nil || devices[0].Guest || devices[0].UUID != "u1" {
		t.Errorf("on a logical volume of others: got %+v, %v", devices, err)
	}
}

// A loop device that is not set up is not readable: a user's volume can be behind it when LVM reads it.
func TestLVMReadsTheDisksAlone(t *testing.T) {
	n := guestNode(t)
	guests := map[string][]string{"7:0": {"/dev/disk/by-label/x", "/dev/loop0"}}
	disks := map[string][]string{"8:0": {"/dev/sda"}}
	check := func() {
		t.Helper()
		readable, got, err := n.ForLVM()
		if err != nil || !cmp.Equal(got, guests, cmpopts.EquateEmpty()) || !cmp.Equal(readable, disks) {
			t.Errorf("readable %v, guests %v, %v", readable, got, err)
		}
	}
	check()
	check()
	file := filepath.Join(n.sysfs, "class/block/loop0/loop/backing_file")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	guests = nil
	check()
	n.loop = func(string) (stack.Backing, error) { return stack.Backing{FileSystem: "8:0"}, nil }
	if err := os.WriteFile(file, []byte("/disk.img"), 0o600); err != nil {
		t.Fatal(err)
	}
	disks["7:0"] = []string{"/dev/loop0"}
	check()
}

func TestWithoutSysfsNothingIsListed(t *testing.T) {
	n := guestNode(t)
	n.sysfs = filepath.Join(n.sysfs, "nothing")
	devices, listErr := n.List(t.Context())
	readable, _, err := n.ForLVM()
	if listErr == nil || err == nil {
		t.Errorf("got %v, %v, and %v, %v", devices, listErr, readable, err)
	}
}
