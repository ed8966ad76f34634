// Package supervisor runs a lab. The supervisor is the first process of the lab's own PID, network and mount
// namespaces, so all other processes of the lab end with it.
package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/pki"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/reap"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// ProgressFD is the file descriptor to which the supervisor writes lines of progress.
const ProgressFD = 3

// lockFD is the file descriptor of the lock on the state folder. The lock is held until this process ends. Child
// processes must not inherit it.
const lockFD = 4

type supervisor struct {
	spec.Lab
	start  time.Time
	reaper *reap.Reaper
	ca     *pki.CA
	kube   *kube
	nodes  map[string]*node
	// essentials are the programs that essential has launched, by name.
	essentials map[string]*process
	// etcdOp is held while etcd is backed up or restored.
	etcdOp   sync.Mutex
	cancel   context.CancelCauseFunc
	mu       sync.Mutex
	progress io.WriteCloser
	up       bool
	failed   string
}

var errOwnerGone = errors.New("the lab's owner is gone")

// Main runs the lab in a state folder until the lab is stopped. It returns the exit code.
func Main(state string) int {
	s := &supervisor{start: time.Now(), progress: os.NewFile(ProgressFD, "progress"), nodes: map[string]*node{},
		essentials: map[string]*process{}}
	signal.Ignore(syscall.SIGPIPE)
	for _, fd := range []int{ProgressFD, lockFD} {
		unix.CloseOnExec(fd)
	}
	if err := spec.Load(filepath.Join(state, spec.File), &s.Lab); err != nil {
		s.report(spec.Step{Error: err.Error()})
		return 1
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s.cancel = cancel
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM, syscall.SIGINT)
	go func() { <-terminate; cancel(errors.New("told to end")) }()
	if s.Owned {
		go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel(errOwnerGone) }()
	}
	s.reaper = reap.New()
	if err := s.run(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		fmt.Printf("lab ends: %v\n", err)
		s.report(spec.Step{Error: err.Error()})
		s.clean(err)
		return 1
	}
	<-ctx.Done()
	fmt.Printf("lab ends: %v\n", context.Cause(ctx))
	s.clean(context.Cause(ctx))
	return 0
}

// run starts the lab.
func (s *supervisor) run(ctx context.Context) error {
	if err := s.isolate(); err != nil {
		return fmt.Errorf("namespaces: %w", err)
	}
	if err := s.serveControl(ctx); err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	if err := s.bringUp(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.up = true
	s.mu.Unlock()
	s.report(spec.Step{Done: true})
	return s.progress.Close()
}

// isolate gives the lab its own /proc, and a memory file system for data that must disappear with the lab: the memory
// and the sockets of its nodes.
func (s *supervisor) isolate() error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	if err := os.Chdir(s.State); err != nil {
		return err
	}
	for _, dir := range []string{spec.RunDir, spec.LogDir, spec.CertDir, spec.RegistryDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return unix.Mount("run", spec.RunDir, "tmpfs", 0, "mode=700,size=90%")
}

// clean ends all processes of the lab. If the lab's owner is gone, it also removes the state folder.
func (s *supervisor) clean(cause error) {
	_ = unix.Kill(-1, unix.SIGKILL)
	if errors.Is(cause, errOwnerGone) {
		_ = unix.Unmount(filepath.Join(s.State, spec.RunDir), unix.MNT_DETACH)
		_ = os.RemoveAll(s.State)
	}
}

// step runs one step of the start and reports how long it took.
func (s *supervisor) step(ctx context.Context, text string, do func(context.Context) error) error {
	begin := time.Now()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	s.report(spec.Step{Text: text, Seconds: time.Since(begin).Seconds()})
	return nil
}

// report sends a line of progress. While the lab starts, the process that requested it reads these lines. If that
// process is gone, the lab ends.
func (s *supervisor) report(step spec.Step) {
	data, err := json.Marshal(step)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.progress.Write(append(data, '\n')); err != nil && !s.up && s.cancel != nil {
		s.cancel(errOwnerGone)
	}
}
