package liveness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A process is quiet if it uses less than a tenth of a processor, and reads and writes less than quietBytes, in Limit.
const (
	quietCPU   = Limit / 10
	quietBytes = 1 << 20
)

// usage is what a process has used since it began. bytes is what it has read from and written to devices. blocked is
// true if a thread waits for a device and cannot be interrupted: a process that is ended then does not end.
type usage struct {
	cpu     time.Duration
	bytes   uint64
	blocked bool
}

type sample struct {
	at   time.Time
	used usage
}

// isQuiet adds a sample, and returns true if the process was quiet for Limit. If its usage cannot be read, or if it
// waits for a device, for the API server or for a command, it was not.
func (m *Monitor) isQuiet(now sample, err error) bool {
	if err != nil && err.Error() != m.reported {
		m.reported = err.Error()
		m.report(err)
	}
	commands := m.commandsRun(now.at)
	if err != nil || now.used.blocked || m.waitsForRequest(now.at) {
		m.past = nil
		return false
	}
	m.past = append(m.past, now)
	for len(m.past) > 1 && now.at.Sub(m.past[1].at) >= Limit {
		m.past = m.past[1:]
	}
	first := m.past[0]
	return !commands && now.at.Sub(first.at) >= Limit && now.used.cpu-first.used.cpu < quietCPU &&
		now.used.bytes-first.used.bytes < quietBytes
}

// commandsRun returns true if a command runs or has run a moment ago: work can wait for commands of other work, one
// after the other.
func (m *Monitor) commandsRun(now time.Time) bool {
	started, running := m.commands.Running()
	if running > 0 || started != m.started {
		m.started, m.commanded = started, now
	}
	return !m.commanded.IsZero() && now.Sub(m.commanded) < settled
}

// waitsForRequest returns true if a request to the API server has not been answered for an interval.
func (m *Monitor) waitsForRequest(now time.Time) bool {
	for sent := range m.requests {
		if now.Sub(*sent) >= interval {
			return true
		}
	}
	return false
}

// processUsage returns the usage of this process (getrusage(2), proc_pid_io(5)).
func processUsage() (used usage, err error) {
	var spent unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &spent); err != nil {
		return usage{}, fmt.Errorf("getrusage: %w", err)
	}
	used.cpu = time.Duration(spent.Utime.Nano() + spent.Stime.Nano())
	if used.bytes, err = deviceBytes("/proc/self/io"); err != nil {
		return usage{}, err
	}
	used.blocked, err = blockedThread("/proc/self/task")
	return used, err
}

// blockedThread returns true if a thread is in state D (proc_pid_stat(5)).
func blockedThread(tasks string) (bool, error) {
	entries, err := os.ReadDir(tasks)
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		stat, err := os.ReadFile(filepath.Join(tasks, entry.Name(), "stat"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		} else if err != nil {
			return false, err
		}
		// The name of the thread, in parentheses, can contain any character.
		if _, rest, found := strings.Cut(string(stat[max(0, strings.LastIndex(string(stat), ")")):]), " "); !found {
			return false, fmt.Errorf("the state of thread %s is %q", entry.Name(), stat)
		} else if strings.HasPrefix(rest, "D") {
			return true, nil
		}
	}
	return false, nil
}

// deviceBytes returns 0 if the kernel does not count them (CONFIG_TASK_IO_ACCOUNTING). Work that reads a device then
// only shows by threads that wait for the device.
func deviceBytes(file string) (uint64, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	var sum uint64
	found := 0
	for line := range strings.Lines(string(data)) {
		var n uint64
		for _, field := range []string{"read_bytes: %d", "write_bytes: %d"} {
			if _, err := fmt.Sscanf(line, field, &n); err == nil {
				sum += n
				found++
			}
		}
	}
	if found != 2 {
		return 0, fmt.Errorf("%s has no read_bytes and write_bytes", file)
	}
	return sum, nil
}
