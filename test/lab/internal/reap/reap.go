// Package reap starts and waits for children in a process that is the first of its PID namespace, and so must wait for
// orphans too. Such a process cannot use exec.Cmd.Wait: it and the wait for orphans would take each other's children.
package reap

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Reaper waits for every child of this process. The zero value is not usable: see New.
type Reaper struct {
	mu       sync.Mutex
	children map[int]*Child
}

// Child is a process that Start started.
type Child struct {
	PID    int
	done   chan struct{}
	status syscall.WaitStatus
}

// Done returns a channel that is closed when the process has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Running reports whether the process is running.
func (c *Child) Running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// ExitCode returns the exit code as a shell reports it: 128 plus the signal for a process that was killed. Call it only
// after Done.
func (c *Child) ExitCode() int {
	if c.status.Signaled() {
		return 128 + int(c.status.Signal())
	}
	return c.status.ExitStatus()
}

// New returns a Reaper that waits for children until the process ends.
func New() *Reaper {
	r := &Reaper{children: map[int]*Child{}}
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGCHLD)
	go func() {
		for range ch {
			r.reap()
		}
	}()
	return r
}

// Start starts a command whose standard streams must be files or nil, because Start copies no data.
func (r *Reaper) Start(cmd *exec.Cmd) (*Child, error) {
	for _, w := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		if _, isFile := w.(*os.File); w != nil && !isFile {
			return nil, errors.New("reap: standard streams have to be files")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &Child{PID: cmd.Process.Pid, done: make(chan struct{})}
	r.children[c.PID] = c
	_ = cmd.Process.Release()
	return c, nil
}

func (r *Reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG|unix.WALL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if c, ok := r.children[pid]; ok {
			delete(r.children, pid)
			c.status = syscall.WaitStatus(ws)
			close(c.done)
		}
	}
}
