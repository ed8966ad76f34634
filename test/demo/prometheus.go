package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/prometheus"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// Files in the lab's directory. The process that keeps Prometheus running holds the lock, and the file has its process
// ID.
const (
	authorityFile  = "prometheus-authority.pem"
	prometheusLock = "prometheus.lock"
	prometheusLog  = "prometheus.log"
)

const (
	// keeperLimit is the timeout for the start and the end of that process.
	keeperLimit = 90 * time.Second
	// labInterval is the interval at which it checks whether the lab still runs.
	labInterval = 2 * time.Second
)

// startPrometheus starts a Prometheus that runs longer than the demo and ends with the lab. It replaces that of an
// earlier demo and its data, whose alerts would look like alerts of this demo.
func (d *demo) startPrometheus(ctx context.Context) (*prometheus.Prometheus, error) {
	ctx, cancel := context.WithTimeout(ctx, keeperLimit)
	defer cancel()
	state := d.cluster.Lab.State()
	if err := stopKeeper(ctx, state); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(state, authorityFile), d.authority, 0o600); err != nil {
		return nil, err
	}
	ended, err := startKeeper(state)
	if err != nil {
		return nil, err
	}
	p := prometheus.Open(d.cluster)
	err = story.Wait(ctx, "Prometheus", func(ctx context.Context) (bool, string, error) {
		select {
		case err := <-ended:
			return false, "", fmt.Errorf("the process that keeps it has ended: %w", errors.Join(err, errEnded))
		default:
			return p.Ready(ctx) == nil, "", nil
		}
	})
	if err != nil {
		said, _ := os.ReadFile(filepath.Join(state, prometheusLog))
		return nil, fmt.Errorf("%w\n%s", err, said)
	}
	return p, nil
}

var errEnded = errors.New("see its output below")

// startKeeper starts this program again, detached, with --keep-prometheus.
func startKeeper(state string) (<-chan error, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(state, prometheusLog))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	command := exec.Command(self, "--keep-prometheus", state)
	command.Stdout = log
	command.Stderr = log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	return ended, nil
}

// stopKeeper ends the process that keeps Prometheus running, if there is one, and waits for its end.
func stopKeeper(ctx context.Context, state string) error {
	lock, err := os.OpenFile(filepath.Join(state, prometheusLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		// The lock is held, so the process is running and the ID is valid.
		text, err := os.ReadFile(lock.Name())
		if err != nil {
			return err
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = unix.Kill(pid, unix.SIGTERM)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the Prometheus of an earlier demo has not ended: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// keepPrometheus runs Prometheus until a signal arrives or the lab ends.
func keepPrometheus(ctx context.Context, state string) error {
	lock, err := os.OpenFile(filepath.Join(state, prometheusLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%s: another process keeps Prometheus: %w", lock.Name(), err)
	}
	if err := errors.Join(lock.Truncate(0), writeAt(lock, fmt.Sprintln(os.Getpid()))); err != nil {
		return err
	}
	authority, err := os.ReadFile(filepath.Join(state, authorityFile))
	if err != nil {
		return err
	}
	l, err := lab.Open(state)
	if err != nil {
		return err
	}
	cluster, err := story.Open(l)
	if err != nil {
		return err
	}
	p, err := prometheus.Start(ctx, cluster, authority)
	if err != nil {
		return err
	}
	defer p.Stop()
	return p.Wait(whileLabRuns(ctx, state))
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// whileLabRuns returns a context that ends with ctx or with the lab.
func whileLabRuns(ctx context.Context, state string) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(labInterval):
			}
			if _, err := lab.Open(state); errors.Is(err, lab.ErrNotRunning) {
				return
			}
		}
	}()
	return ctx
}
