// Package guest is the first process of a lab's node. It turns a User Mode Linux kernel and the host's own root file
// system into a machine, runs the node's agent, and keeps the Kubernetes programs running. It is Go and not a script
// because a fork takes 10 to 60 ms there: a boot of system calls takes a fraction of the time of one that runs mount,
// ip and modprobe.
package guest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/reap"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

type machine struct {
	spec.Guest
	start  time.Time
	reaper *reap.Reaper
	disks  scsi
	// services is nil on a bare node.
	services *services
}

// Main boots the node and never returns. If the boot fails, the node powers off, and its console has the reason.
func Main(path string) {
	m := &machine{start: time.Now()}
	if err := m.boot(path); err != nil {
		fmt.Printf("lab: node cannot boot: %v\n", err)
		unix.Sync()
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	}
	select {}
}

func (m *machine) boot(path string) error {
	if err := spec.Load(path, &m.Guest); err != nil {
		return err
	}
	os.Clearenv() // the kernel passes its whole command line
	for _, kv := range []string{spec.PathEnv(m.Path), "HOME=/root", "LANG=C.UTF-8", "TERM=linux"} {
		setenv(kv)
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"root file system", m.mountRoot},
		{"kernel modules", m.bootModules},
		{"mounts", m.mountRest},
		{"files", m.writeFiles},
		{"flavor " + m.Flavor.Name, m.applyFlavor},
		{"SELinux", m.enforceSELinux},
		{"network", m.network},
		{"udev", m.udev},
		{"multipathd", m.multipathd},
		{"scsi disks", m.disks.restore},
		{"volume group of the host", m.hostVG},
	}
	m.reaper = reap.New()
	m.disks.flavor = m.Flavor
	m.disks.modules = m.Modules
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		m.say("%s", s.name)
	}
	if err := m.serveAgent(); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	m.say("ready")
	if m.Bare {
		return nil
	}
	return m.startKubernetes(context.Background())
}

// say writes a line to the console, with the time since the kernel started.
func (m *machine) say(format string, args ...any) {
	var up unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &up)
	fmt.Printf("lab: %6.2f %s\n", float64(up.Nano())/1e9, fmt.Sprintf(format, args...))
}

func setenv(kv string) {
	name, value, _ := strings.Cut(kv, "=")
	_ = os.Setenv(name, value)
}
