package guest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const udevLimit = 2 * time.Minute

// udev starts the daemon and triggers events only for block devices: "udevadm trigger" would process two hundred
// devices, and the node uses no other kind.
func (m *machine) udev() error {
	log, err := m.log("udevd")
	if err != nil {
		return err
	}
	cmd := exec.Command("/lib/systemd/systemd-udevd")
	cmd.Stdout = log
	cmd.Stderr = log
	if _, err := m.reaper.Start(cmd); err != nil {
		return err
	}
	if err := waitFor(udevLimit, "udev's netlink socket", udevListens); err != nil {
		return err
	}
	devices, err := filepath.Glob("/sys/class/block/*")
	if err != nil {
		return err
	}
	for _, dev := range append(devices, "/sys/class/misc/device-mapper") {
		if err := os.WriteFile(dev+"/uevent", []byte("add"), 0o644); err != nil {
			return err
		}
	}
	return settle(devices...)
}

// udevListens reports whether a process receives the kernel's events. Events that are triggered before that are lost.
func udevListens() bool {
	const (
		kobjectUevent = "15"
		kernelGroup   = 1
	)
	sockets, err := os.ReadFile("/proc/net/netlink")
	if err != nil {
		return false
	}
	for _, line := range strings.Split(string(sockets), "\n") {
		f := strings.Fields(line)
		if len(f) < 4 || f[1] != kobjectUevent || f[2] == "0" {
			continue
		}
		if groups, err := strconv.ParseUint(f[3], 16, 32); err == nil && groups&kernelGroup != 0 {
			return true
		}
	}
	return false
}

// settle waits until udev has a record of the block devices and an empty queue.
func settle(devices ...string) error {
	var missing string
	err := waitFor(udevLimit, "udev", func() bool {
		for _, missing = range devices {
			number, err := os.ReadFile(missing + "/dev")
			if err == nil && !exists("/run/udev/data/b"+strings.TrimSpace(string(number))) {
				return false
			}
		}
		missing = "its queue"
		return !exists("/run/udev/queue")
	})
	if err != nil {
		return fmt.Errorf("%w: waits for %s", err, missing)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func waitFor(limit time.Duration, what string, ready func() bool) error {
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if ready() {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s not ready after %s", what, limit)
		}
	}
}

// log opens a log file of the node for appending.
func (m *machine) log(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(m.LogDir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
}
