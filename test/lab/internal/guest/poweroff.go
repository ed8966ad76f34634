package guest

import (
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stopLimit is the time between SIGTERM and SIGKILL.
const stopLimit = 2 * time.Second

// powerOff shuts the node down in order: processes first, then mounts, then the kernel.
func (m *machine) powerOff() {
	m.say("power off")
	if m.services != nil {
		m.services.stop()
	}
	_ = unix.Kill(-1, unix.SIGTERM)
	_ = waitFor(stopLimit, "processes", func() bool { return userProcesses() == 0 })
	_ = unix.Kill(-1, unix.SIGKILL)
	_ = waitFor(stopLimit, "processes", func() bool { return userProcesses() == 0 })
	unmountDisks()
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// userProcesses counts the processes other than this one and the kernel's threads, which have no command line.
func userProcesses() int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		if e.Name() == "1" || e.Name()[0] < '0' || e.Name()[0] > '9' {
			continue
		}
		if line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && len(line) > 0 {
			n++
		}
	}
	return n
}

// unmountDisks unmounts the file systems of data disks, in reverse order of mounting.
func unmountDisks() {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return
	}
	lines := strings.Split(strings.TrimSpace(string(info)), "\n")
	slices.Reverse(lines)
	for _, line := range lines {
		fields := strings.Fields(line)
		_, after, _ := strings.Cut(line, " - ")
		source := strings.Fields(after)
		if len(fields) < 5 || len(source) < 2 || !strings.HasPrefix(source[1], "/dev/") || source[1] == rootDisk {
			continue
		}
		_ = unix.Unmount(strings.ReplaceAll(fields[4], `\040`, " "), 0)
	}
}
