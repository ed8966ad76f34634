package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/reap"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// process is a program of the lab with its own log.
type process struct {
	*reap.Child
	name, log string
	// stopping is true if the lab ends the program itself.
	stopping atomic.Bool
}

// launch starts a program from the lab's program folders. Its output goes to log/NAME.log.
func (s *supervisor) launch(name, program string, args, env []string) (*process, error) {
	path, err := s.find(program)
	if err != nil {
		return nil, err
	}
	log := filepath.Join(spec.LogDir, name+".log")
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(path, args...)
	cmd.Stdout = out
	cmd.Stderr = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append([]string{spec.PathEnv(s.Path), "HOME=/root"}, env...)
	child, err := s.reaper.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &process{Child: child, name: name, log: log}, nil
}

func (s *supervisor) find(program string) (string, error) {
	if filepath.IsAbs(program) {
		return program, nil
	}
	for _, dir := range s.Path {
		path := filepath.Join(dir, program)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no program %s in %s", program, strings.Join(s.Path, " "))
}

// await calls ask until it returns no error, the process ends, or the limit expires. The error of await contains the
// end of the process's log.
func (p *process) await(ctx context.Context, what string, limit time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("%s: %s ended with %d\n%s", what, p.name, p.ExitCode(), p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s: not there after %s: %w\n%s", what, limit, err, p.tail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

const tailBytes = 3000

// stopLimit is how long a program may take to end.
const stopLimit = 30 * time.Second

// tail returns the end of the process's log.
func (p *process) tail() string { return tail(p.log) }

func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		_, _ = f.Seek(-tailBytes, io.SeekEnd)
	}
	text, _ := io.ReadAll(f)
	return fmt.Sprintf("--- end of %s\n%s", path, bytes.TrimSpace(text))
}

// essential launches a program that the lab cannot work without. If the program ends, and not because of stop, the
// lab's status reports it.
func (s *supervisor) essential(name, program string, env []string, args ...string) (*process, error) {
	p, err := s.launch(name, program, args, env)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.essentials[name] = p
	s.mu.Unlock()
	go func() {
		<-p.Done()
		if p.stopping.Load() {
			return
		}
		text := fmt.Sprintf("%s ended with %d", name, p.ExitCode())
		fmt.Println(text)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failed = text
	}()
	return p, nil
}

// stop ends an essential program with a signal, and waits until it has ended.
func (s *supervisor) stop(name string, signal syscall.Signal) error {
	s.mu.Lock()
	p := s.essentials[name]
	s.mu.Unlock()
	if p == nil {
		return fmt.Errorf("%s was not started", name)
	}
	p.stopping.Store(true)
	if err := syscall.Kill(p.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	select {
	case <-p.Done():
		return nil
	case <-time.After(stopLimit):
		return fmt.Errorf("%s did not end in %s\n%s", name, stopLimit, p.tail())
	}
}
