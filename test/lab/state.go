package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

const downLimit = 30 * time.Second

// ErrNotRunning means that no running lab has the state directory.
var ErrNotRunning = errors.New("no such lab is running")

// lockState acquires the lock that a supervisor holds as long as it runs.
func lockState(state string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(state, spec.LockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s is in use: %w", state, err)
	}
	return f, nil
}

// runs reports whether a supervisor with this state directory is running.
func runs(state string) bool {
	f, err := os.Open(filepath.Join(state, spec.LockFile))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

func supervisorPID(state string) (int, error) {
	data, err := os.ReadFile(filepath.Join(state, spec.PidFile))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(data)))
}

// Down ends the lab with a state directory, and removes the directory. It succeeds if there is none. A supervisor is
// the first process of its PID namespace: when it has ended, all processes of the lab have ended.
func Down(ctx context.Context, state string) error {
	if runs(state) {
		pid, err := supervisorPID(state)
		if err != nil {
			return err
		}
		if err := killAndWait(ctx, pid, func() bool { return runs(state) }); err != nil {
			return fmt.Errorf("lab in %s: %w", state, err)
		}
	}
	return removeState(state)
}

// killAndWait kills a process and waits for its end. After it has a pidfd, so that the ID cannot be reused, it checks
// with still that the process is the intended one.
func killAndWait(ctx context.Context, pid int, still func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if !still() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	for end := time.Now().Add(downLimit); time.Now().Before(end) && ctx.Err() == nil; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return fmt.Errorf("process %d has not ended: %w", pid, errors.Join(ctx.Err(), os.ErrDeadlineExceeded))
}

// removeState removes a state directory, and refuses other directories.
func removeState(state string) error {
	entries, err := os.ReadDir(state)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(state, spec.File))
	if len(entries) > 0 && err != nil {
		return fmt.Errorf("%s is not a lab's folder: it is left alone", state)
	}
	if runs(state) {
		return fmt.Errorf("a lab runs in %s", state)
	}
	return os.RemoveAll(state)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
