package guest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

const (
	devicesFile = "/etc/lvm/devices/system.devices"
	// multipathConf is the configuration that mpathconf writes on RHEL.
	multipathConf  = "defaults {\n\tuser_friendly_names yes\n\tfind_multipaths yes\n}\n"
	multipathLimit = 2 * time.Minute

	hostVGName = "host"
	hostLV     = "/dev/" + hostVGName + "/root"
	// hostMount is the mount point of the logical volume in the node's own volume group.
	hostMount = "/var/lib/host"
	hostDone  = labDir + "/host-vg"
)

// applyFlavor changes the node's files to fit its flavor, before udev starts.
func (m *machine) applyFlavor() error {
	if m.Flavor.DevicesFile == spec.DevicesFileEmpty && !exists(devicesFile) {
		if err := writeFile(devicesFile, ""); err != nil {
			return err
		}
	}
	if m.Flavor.SectorSize != 0 {
		text := "options scsi_debug sector_size=" + strconv.Itoa(m.Flavor.SectorSize) + "\n"
		if err := writeFile("/etc/modprobe.d/lab.conf", text); err != nil {
			return err
		}
	}
	if m.Flavor.Multipath {
		if err := writeFile("/etc/multipath.conf", multipathConf); err != nil {
			return err
		}
	}
	if err := removeFiles(m.Flavor.Without); err != nil {
		return err
	}
	if m.Flavor.ReadOnlyUsr {
		return readOnly("/usr")
	}
	return nil
}

// removeFiles removes files and directories from the node. The machine keeps them.
func removeFiles(patterns []string) error {
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := os.RemoveAll(file); err != nil {
				return err
			}
		}
	}
	return nil
}

func readOnly(dir string) error {
	return mountAll([]mount{
		{dir, dir, "", unix.MS_BIND, ""},
		{"", dir, "", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY, ""},
	})
}

// multipathd starts the daemon, and returns when it answers: it must run before the first path exists.
func (m *machine) multipathd() error {
	if !m.Flavor.Multipath {
		return nil
	}
	if err := m.loadModules("dm-multipath", "dm-round-robin", "dm-service-time"); err != nil {
		return err
	}
	log, err := m.log("multipathd")
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command("/usr/sbin/multipathd", "-d", "-s")
	cmd.Stdout = log
	cmd.Stderr = log
	if _, err := m.reaper.Start(cmd); err != nil {
		return err
	}
	return waitFor(multipathLimit, "multipathd",
		func() bool { return m.run("/usr/sbin/multipathd", "show", "daemon") == nil })
}

// hostVG creates the node's own volume group, as the installer does on a system with its root on LVM. The volume group
// exists, and its logical volume is in use, before the node has any other LVM object.
func (m *machine) hostVG() error {
	if m.Flavor.HostVG == "" {
		return nil
	}
	i := slices.IndexFunc(m.Node.Disks, func(d spec.Disk) bool { return d.Name == m.Flavor.HostVG })
	if i < 0 {
		return fmt.Errorf("the node has no disk %q", m.Flavor.HostVG)
	}
	if !exists(hostDone) {
		if err := m.createHostVG(m.Node.Disks[i].Device); err != nil {
			return err
		}
	}
	if err := m.run("/usr/sbin/lvm", "vgchange", "--activate", "y", hostVGName); err != nil {
		return err
	}
	return mountAll([]mount{{hostLV, hostMount, "ext4", 0, ""}})
}

func (m *machine) createHostVG(disk string) error {
	for _, args := range [][]string{
		{"/usr/sbin/lvm", "vgcreate", hostVGName, disk},
		{"/usr/sbin/lvm", "lvcreate", "--name", "root", "--extents", "75%VG", hostVGName},
		{"/usr/sbin/mkfs.ext4", "-q", hostLV},
	} {
		if err := m.run(args[0], args[1:]...); err != nil {
			return err
		}
	}
	return writeFile(hostDone, "")
}

// run runs a program until it ends. Its output goes to the node's log "flavor".
func (m *machine) run(program string, args ...string) error {
	log, err := m.log("flavor")
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(program, args...)
	cmd.Stdout = log
	cmd.Stderr = log
	child, err := m.reaper.Start(cmd)
	if err != nil {
		return err
	}
	<-child.Done()
	if child.ExitCode() != 0 {
		return fmt.Errorf("%s %s: exit code %d: see the node's log flavor", program, strings.Join(args, " "),
			child.ExitCode())
	}
	return nil
}
