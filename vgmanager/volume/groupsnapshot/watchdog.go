package groupsnapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

const (
	// watchdogCommand is the command of lvms that is the watchdog.
	watchdogCommand = "resume-watchdog"
	// watchInterval is the time between two attempts of the watchdog after its time limit.
	watchInterval = time.Second
	// watchEnd is when the watchdog ends, although the process that it watches has not.
	watchEnd = time.Hour
	// rootCgroup is the root of the node's cgroups, by the process with ID 1 of the node.
	rootCgroup = "/proc/1/root/sys/fs/cgroup"
)

// WatchWith returns a Watch that runs the command of WatchdogCommand in a process of its own. program is the absolute
// path of lvms.
func WatchWith(programs *host.Local, program string) Watch {
	return func(_ context.Context, devices []string, limit time.Duration, locks []*os.File) (Watchdog, error) {
		args := append([]string{watchdogCommand, "--limit", limit.String(), "--"}, devices...)
		companion, err := programs.StartCompanion(locks, program, args...)
		if err != nil {
			return nil, err
		}
		return companion, nil
	}
}

// WatchdogCommand returns the command `resume-watchdog`, which only the node agent runs.
//
// The watchdog leaves the cgroup of its container, because the container runtime kills the processes in it when the
// agent ends, and it ignores the signals that end a process. It resumes the devices when its stdin ends, or at the time
// limit after the first byte in its stdin, and then once a second until its stdin ends: the kernel may complete a
// suspension late. The kernel closes the stdin of the watchdog only after the last thread of the agent has left the
// kernel, so nothing is suspended later.
// Until the watchdog ends, it holds the locks of LVM that it has inherited.
func WatchdogCommand() *cobra.Command {
	var limit time.Duration
	command := &cobra.Command{
		Use:    watchdogCommand + " --limit DURATION -- UUID...",
		Short:  "Resume mapped devices when the node agent ends; only the node agent runs it",
		Hidden: true,
		RunE: func(c *cobra.Command, devices []string) error {
			signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
			if err := leaveCgroup(rootCgroup); err != nil {
				return err
			}
			return watch(c.InOrStdin(), c.OutOrStdout(), devicemapper.NewChanger(), devices, limit)
		},
	}
	command.Flags().DurationVar(&limit, "limit", 0,
		"time from the first byte of stdin until the devices are resumed in any case")
	return command
}

// leaveCgroup moves this process to the root of the node's cgroups. Only cgroup v2 has all processes in one hierarchy.
func leaveCgroup(root string) error {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		return fmt.Errorf("group snapshots need a node with cgroup v2: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(root, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("leave the cgroup of the container: %w", err)
	}
	_, err = io.WriteString(file, "0") // this process (Documentation/admin-guide/cgroup-v2.rst)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("leave the cgroup of the container: %w", err)
	}
	return nil
}

// watch resumes the devices when stdin ends and, if it does not, once a second after the limit, which begins with the
// first byte in stdin.
func watch(stdin io.Reader, stdout io.Writer, kernel Kernel, devices []string, limit time.Duration) error {
	begun, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := io.ReadFull(stdin, make([]byte, 1)); err == nil {
			begun <- struct{}{}
			_, _ = io.Copy(io.Discard, stdin)
		}
	}()
	if _, err := fmt.Fprintln(stdout, host.Ready); err != nil {
		return err
	}
	last := time.NewTimer(watchEnd)
	defer last.Stop()
	var next <-chan time.Time
	for {
		select {
		case <-begun:
			next = time.After(limit)
		case <-ended:
			return resumeSuspended(kernel, devices)
		case <-last.C:
			return errors.Join(errors.New("the node agent has neither resumed the devices nor ended"),
				resumeSuspended(kernel, devices))
		case <-next:
			_ = resumeSuspended(kernel, devices) // again after a second
			next = time.After(watchInterval)
		}
	}
}
