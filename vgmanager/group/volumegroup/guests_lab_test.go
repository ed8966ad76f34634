//go:build lab

package volumegroup

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/stack"
)

const guestSize = 24 << 20

// guestImage returns a disk with a volume group, as the virtual machine of a user writes it to a volume.
func (s *scene) guestImage(group string, tags ...string) []byte {
	s.Helper()
	image := filepath.Join(s.TempDir(), "image")
	s.ok(os.WriteFile(image, make([]byte, guestSize), 0o600))
	loop := s.losetup(image)
	on := func(command string, args ...string) {
		s.Helper()
		s.sh("/usr/sbin/lvm", append([]string{command, "--devices", loop, "--config", "backup{backup=0 archive=0}"},
			args...)...)
	}
	// udev does not activate it, or it would still be there when the device class is set up.
	create := []string{"--setautoactivation", "n"}
	for _, tag := range tags {
		create = append(create, "--addtag", tag)
	}
	on("vgcreate", append(create, group, loop)...)
	on("lvcreate", "--activate", "n", "--name", "root", "--extents", "2", "--wipesignatures", "n", "--zero", "n", group)
	s.detach(loop)
	data, err := os.ReadFile(image)
	s.ok(err)
	return data
}

// losetup sets up a loop device as the kubelet does for a volume in block mode.
func (s *scene) losetup(path string, options ...string) string {
	s.Helper()
	loop := strings.TrimSpace(s.output("losetup", append([]string{"--find", "--show", "--partscan", path}, options...)...))
	s.settleUdev()
	return loop
}

func (s *scene) detach(loop string) {
	s.Helper()
	s.sh("/usr/sbin/losetup", "--detach", loop)
	s.settleUdev()
}

// partitionTable returns a master boot record with one partition. Its arguments are in sectors.
func partitionTable(start, size uint32) []byte {
	record := make([]byte, 512)
	entry := record[446:462]
	entry[4] = 0x83 // Linux
	binary.LittleEndian.PutUint32(entry[8:], start)
	binary.LittleEndian.PutUint32(entry[12:], size)
	record[510], record[511] = 0x55, 0xaa
	return record
}

func (s *scene) write(path string, offset int64, data []byte) {
	s.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	s.ok(err)
	_, err = f.WriteAt(data, offset)
	s.ok(err)
	s.ok(f.Sync())
	s.ok(f.Close())
}

// nothingChanges checks that the device class works as before, and that LVM was not asked about the guest.
func (s *scene) nothingChanges(ours string) {
	s.Helper()
	s.agent.Wake()
	if e := s.ready(); e.UUID != ours || falseCondition(e, v1alpha1.ConditionDevicesHealthy, "") != nil {
		s.Errorf("got %+v", e)
	}
	report, err := s.real.Report(s.Context())
	s.ok(err)
	for _, pv := range report.PVs() {
		if strings.Contains(pv.Name, "loop") || strings.Contains(pv.Name, "mapper") {
			s.Errorf("the report has physical volume %s (%s)", pv.Name, pv.VGName)
		}
	}
	s.volume("other", 8<<20)
	s.ok(s.delete("other"))
	for _, dir := range []string{lvm.ArchiveDir, lvm.BackupDir} {
		files, err := filepath.Glob(filepath.Join(dir, "*vg1*"))
		s.ok(err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			s.ok(err)
			if strings.Contains(string(data), `"root"`) || strings.Contains(string(data), "root {") {
				s.Errorf("the metadata of the guest is archived in %s", file)
			}
		}
	}
}

// seenByLVM checks that LVM of the host reads a device, so that it matters that the product's commands do not.
func (s *scene) seenByLVM(device string) {
	s.Helper()
	out, _ := nodelvm.Command("/usr/sbin/lvm", "pvs", "--noheadings", "-o", "pv_name", device).Output()
	if !s.hasDevicesFile() && !strings.Contains(string(out), device) {
		s.Fatalf("LVM of the host does not list %s: this shows nothing", device)
	}
}

// notReadMeanwhile sets up a loop device with a guest after a command of LVM got its list of devices, and detaches it
// when the command has ended.
func (s *scene) notReadMeanwhile(volume string) {
	s.Helper()
	devices := device.New(s.runner)
	devices.UseGroups(s.engine.VolumeGroups)
	list := listOf(devices)
	defer s.real.UseDevices(list)
	lists, loop := 0, ""
	s.real.UseDevices(func() (lvm.Devices, error) {
		if lists++; lists == 2 {
			s.detach(loop)
		}
		found, err := list()
		if lists == 1 {
			loop = s.losetup(volume)
			s.seenByLVM(loop)
		}
		return found, err
	})
	report, err := s.real.Report(s.Context())
	s.ok(err)
	for _, pv := range report.PVs() {
		if strings.Contains(pv.Name, "loop") {
			s.Errorf("the report has physical volume %s (%s)", pv.Name, pv.VGName)
		}
	}
	if lists != 2 {
		s.Fatalf("the devices were listed %d times, want before and after the command", lists)
	}
}

// setFilter adds a filter to the configuration of the host's LVM, and returns what takes it back. The rest stays: LVM
// renames the devices file of a host that is told not to use one (devices_file_rename_unused in
// lib/device/dev-cache.c).
func (s *scene) setFilter(filter string) (restore func()) {
	s.Helper()
	const local = "/etc/lvm/lvmlocal.conf"
	before, err := os.ReadFile(local)
	s.ok(err)
	restore = func() { s.ok(os.WriteFile(local, before, 0o600)) }
	s.Cleanup(restore)
	s.ok(os.WriteFile(local, fmt.Appendf(before, "devices { filter = %s }\n", filter), 0o600))
	return restore
}

// TestSceneGuestsOfVolumes has a user of a volume write everything to it that the LVM of the host reads: a volume group
// with the name and the tags of the class, the same in a partition, and a copy of a physical volume of the class. Then
// the disk of the copy is pulled.
func TestSceneGuestsOfVolumes(t *testing.T) {
	s := newScene(t, twoDisks)
	image := s.guestImage("vg1", "lvms", "lvms.class=vg1", "lvms.node="+nodeName)
	ours := s.ready().UUID
	s.volume("filler", 140<<20) // so that the next volume is on the second disk
	volume := s.volume("a", 48<<20)
	s.ready()

	loop := s.losetup(volume)
	s.write(loop, 0, image)
	s.seenByLVM(loop)
	s.nothingChanges(ours)
	s.boot()
	s.nothingChanges(ours)
	s.detach(loop)

	t.Log("in a partition")
	s.write(volume, 0, make([]byte, 2<<20))
	s.write(volume, 0, partitionTable(2048, guestSize/512))
	loop = s.losetup(volume)
	s.write(loop+"p1", 0, image)
	s.seenByLVM(loop + "p1")
	s.nothingChanges(ours)
	s.detach(loop)

	s.write(volume, 0, make([]byte, 2<<20))
	s.write(volume, 0, image)
	s.notReadMeanwhile(volume)
	restore := s.setFilter(`[ "r|^/dev/none$|", "a|.*|" ]`)
	s.notReadMeanwhile(volume)
	s.nothingChanges(ours)
	restore()
	s.nothingChanges(ours)

	t.Log("a copy of a physical volume")
	s.write(volume, 0, make([]byte, 2<<20))
	first := make([]byte, 1<<20)
	disk, err := os.Open(kernelName(s.disks[0]))
	s.ok(err)
	_, err = disk.ReadAt(first, 0)
	s.ok(err)
	s.ok(disk.Close())
	loop = s.losetup(volume)
	s.write(loop, 0, first)
	s.nothingChanges(ours)
	s.pull(s.disks[0])
	s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing)
	s.detach(loop)
	rescan()
	s.nothingChanges(ours)
	s.write(volume, 0, make([]byte, 2<<20))
	s.discard()
}

// TestSceneHostHoldsAGuest has the host activate the volume group of a guest, as udev does. The message for the volume
// names what holds it and the commands that end that. They work, and the volume can be removed.
func TestSceneHostHoldsAGuest(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[0])}
	})
	image := s.guestImage("guestvg")
	ours := s.ready().UUID
	volume := s.volume("a", 48<<20)
	s.write(volume, 0, image)
	loop := s.losetup(volume)
	s.sh("/usr/sbin/lvm", "vgchange", "--devices", loop, "--activate", "y", "guestvg")
	s.settleUdev()
	s.nothingChanges(ours)
	number := strings.TrimSpace(s.output("dmsetup", "info", "-c", "--noheadings", "--separator", ":", "-o",
		"major,minor", "vg1-a"))
	search := stack.NewSearch(stack.New())
	text := search.Describe(t.Context(), number)
	for _, want := range []string{"loop device " + loop, "/dev/mapper/guestvg-root", "dmsetup remove guestvg-root",
		"losetup --detach " + loop} {
		if !strings.Contains(text, want) {
			t.Fatalf("%q does not name %q", text, want)
		}
	}
	if err := s.delete("a"); err == nil {
		t.Fatal("a volume in use was removed")
	}
	_, ends, _ := strings.Cut(text, "if nothing needs it, ")
	for _, end := range strings.Split(ends, ", then ") {
		command, ok := strings.CutPrefix(end, "run on the node: ")
		if !ok {
			t.Fatalf("%q is no command", end)
		}
		words := strings.Fields(command)
		s.sh(words[0], words[1:]...)
	}
	s.settleUdev()
	if text := search.Describe(t.Context(), number); !strings.Contains(text, "was not found") {
		t.Errorf("got %q after the commands", text)
	}
	s.ok(s.delete("a"))
	s.discard()
}
