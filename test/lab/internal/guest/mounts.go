package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

const (
	containerdDir = "/var/lib/containerd"
	labDir        = "/var/lib/lab"
	rootDisk      = "/dev/ubda"
)

// onRootDisk returns the folders that are on the root disk itself and not on the overlay: an overlay cannot be the
// upper layer of another overlay, and kubelet's mounts must propagate.
func (m *machine) onRootDisk() []string { return []string{containerdDir, m.KubeletDir, labDir} }

// mountRoot mounts the node's root disk over the host's root, which hostfs provides read-only. The node's writes go to
// the root disk and survive a restart, as on a real machine.
func (m *machine) mountRoot() error {
	if err := mountAll([]mount{
		{"proc", "/proc", "proc", 0, ""},
		{"sysfs", "/sys", "sysfs", 0, ""},
	}); err != nil {
		return err
	}
	if err := m.loadModules("overlay"); err != nil {
		return err
	}
	// The host keeps the node's writes even when the node's process is killed: a barrier would only cost a sync of the
	// host's disk.
	if err := mountAll([]mount{{rootDisk, "/mnt", "ext4", unix.MS_NOATIME, "barrier=0"}}); err != nil {
		return err
	}
	if err := m.overlays(); err != nil {
		return err
	}
	for _, dir := range m.onRootDisk() {
		real := filepath.Join("/mnt/disk", dir)
		if err := mkdirs(real, "/mnt/root"+dir); err != nil {
			return err
		}
		if err := mountAll([]mount{{real, "/mnt/root" + dir, "", unix.MS_BIND, ""}}); err != nil {
			return err
		}
	}
	return switchRoot("/mnt/root")
}

// overlays mounts the root disk over the machine's root, or over the root of the node's flavor and the folders of the
// machine that such a node has.
func (m *machine) overlays() error {
	if m.Flavor.Root == "" {
		return overlay("/", "/mnt", "/mnt/root")
	}
	if err := overlayOfMachine(m.Flavor.Root, "/mnt", "/mnt/root"); err != nil {
		return err
	}
	for i, dir := range m.Flavor.Folders {
		if err := overlayOfMachine(dir, fmt.Sprintf("/mnt/folders/%d", i), "/mnt/root"+dir); err != nil {
			return err
		}
	}
	return nil
}

// overlayOfMachine mounts a folder of the machine. It has its own hostfs: the lower layer of an overlay cannot be
// inside another lower layer.
func overlayOfMachine(dir, disk, target string) error {
	lower := disk + "/lower"
	if err := mountAll([]mount{{"hostfs", lower, "hostfs", unix.MS_RDONLY, dir}}); err != nil {
		return err
	}
	return overlay(lower, disk, target)
}

// overlay mounts a folder. The node's writes go to the folder disk.
func overlay(lower, disk, target string) error {
	upper := disk + "/upper"
	work := disk + "/work"
	if err := mkdirs(upper, work); err != nil {
		return err
	}
	return mountAll([]mount{{"overlay", target, "overlay", 0,
		"lowerdir=" + lower + ",upperdir=" + upper + ",workdir=" + work}})
}

func switchRoot(root string) error {
	if err := mkdirs(root + "/old"); err != nil {
		return err
	}
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if err := mountAll([]mount{{dir, root + dir, "", unix.MS_MOVE, ""}}); err != nil {
			return err
		}
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "old"); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Unmount("/old", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root: %w", err)
	}
	return os.Remove("/old")
}

func (m *machine) mountRest() error {
	if err := mountAll([]mount{
		{"run", "/run", "tmpfs", 0, "mode=755"},
		{"devpts", "/dev/pts", "devpts", 0, "gid=5,mode=620,ptmxmode=666"},
		{"shm", "/dev/shm", "tmpfs", 0, "mode=1777"},
		{"hostfs", m.LogDir, "hostfs", 0, m.LogDir},
		{"", "/", "", unix.MS_SHARED | unix.MS_REC, ""},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""},
		{"bpf", "/sys/fs/bpf", "bpf", 0, ""},
		{"configfs", "/sys/kernel/config", "configfs", 0, ""},
	}); err != nil {
		return err
	}
	if err := mkdirs("/run/lock/lvm", "/run/lvm", "/run/udev", "/run/lab/ubd"); err != nil {
		return err
	}
	return cpuinfo()
}

var modelName = regexp.MustCompile(`(?m)^model name.*$`)

// cpuinfo adds a clock speed, which kubelet needs and User Mode Linux does not report.
func cpuinfo() error {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return err
	}
	info = modelName.ReplaceAll(info, []byte("$0\ncpu MHz\t\t: 2000.000"))
	if err := os.WriteFile("/run/cpuinfo", info, 0o444); err != nil {
		return err
	}
	return mountAll([]mount{{"/run/cpuinfo", "/proc/cpuinfo", "", unix.MS_BIND, ""}})
}

type mount struct {
	source, target, kind string
	flags                uintptr
	options              string
}

func mountAll(mounts []mount) error {
	for _, mt := range mounts {
		if err := os.MkdirAll(mt.target, 0o755); err != nil && !errors.Is(err, unix.EROFS) &&
			!errors.Is(err, unix.ENOTDIR) {
			return err
		}
		if err := unix.Mount(mt.source, mt.target, mt.kind, mt.flags, mt.options); err != nil {
			return fmt.Errorf("mount %s on %s: %w", mt.source, mt.target, err)
		}
	}
	return nil
}

func mkdirs(dirs ...string) error {
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}
