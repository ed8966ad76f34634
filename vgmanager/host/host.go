// Package host runs programs of the node. It is the only place of the product that starts a process, and it starts
// no shell.
package host

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
)

// Limits of one command. A caller that wants less sets a deadline on its context; nobody can have more output.
const (
	// DefaultTimeout is the time limit of a command whose context has no deadline.
	DefaultTimeout = 2 * time.Minute
	// killDelay is the time between SIGTERM and SIGKILL. LVM holds signals back while it commits metadata, which may
	// take long on a busy disk; a kill in that moment is what leaves a volume group half written.
	killDelay = time.Minute
	// maxOutput is the most that a command may print on stdout. A report of 10,000 logical volumes has about 6 MiB.
	maxOutput = 32 << 20
	// maxStderr is how much of stderr is kept; the rest is dropped.
	maxStderr = 16 << 10
)

// ErrOutputTooLong: the command printed more than maxOutput, so what was read is not all of it.
var ErrOutputTooLong = errors.New("output is longer than the limit of 32 MiB")

// Runner runs one program and returns what it printed on stdout.
//
// The name is an absolute path. A program that does not start, ends with another exit code than 0, is ended by its time
// limit or prints too much gives an *Error, and no output: what a failed command printed must not be read.
type Runner interface {
	Run(ctx context.Context, name string, args ...string) ([]byte, error)
}

// Error is a command that failed.
type Error struct {
	// Command is the command without the way into the host's namespaces.
	Command string
	// ExitCode is -1 if the program did not start or was ended by a signal.
	ExitCode int
	// Stderr is the beginning of what it printed on stderr, without surrounding space.
	Stderr string
	// Err is the cause below: *exec.ExitError, context.DeadlineExceeded, ErrOutputTooLong, …
	Err error
}

// Error names the command, the cause and what the program said about it.
func (e *Error) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("%s: %v", e.Command, e.Err)
	}
	return fmt.Sprintf("%s: %v: %s", e.Command, e.Err, strings.Join(strings.Fields(e.Stderr), " "))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Local runs programs in the namespaces of this process: for a process that runs on the node itself.
type Local struct {
	started Counter
}

// NewLocal returns a Runner for a process that runs on the node itself, not in a container.
func NewLocal() *Local { return &Local{} }

// Run implements Runner.
func (l *Local) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, _, err := run(ctx, &l.started, nil, success, name, args)
	return out, err
}

// RunAccepting is Run for a program whose exit code is a part of its answer: one that accepted says yes to is no
// failure, and is returned.
func (l *Local) RunAccepting(ctx context.Context, accepted func(code int) bool, name string,
	args ...string) ([]byte, int, error) {
	return run(ctx, &l.started, nil, accepted, name, args)
}

// Started returns the counter of the processes that were started.
func (l *Local) Started() *Counter { return &l.started }

// Namespace runs the node's own programs from a privileged container with hostPID.
type Namespace struct {
	started Counter
}

// NewNamespace returns a Runner for a privileged container with hostPID.
func NewNamespace() *Namespace { return &Namespace{} }

// enterHost is the way into the mount, UTS, IPC and network namespaces of the node's first process.
// Not -p: with hostPID the container is in the node's PID namespace already, and with -p nsenter would fork and wait,
// so that a signal at the time limit ends nsenter and leaves LVM running. Without it nsenter becomes the program.
var enterHost = []string{"/usr/bin/nsenter", "-t", "1", "-m", "-u", "-i", "-n", "--"}

// Run implements Runner.
func (n *Namespace) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, _, err := run(ctx, &n.started, enterHost, success, name, args)
	return out, err
}

// Started returns the counter of the processes that were started.
func (n *Namespace) Started() *Counter { return &n.started }

// Prefixed runs every program as one command: what it was given, with the arguments of the program behind it. It is for
// configurations that say how LVM is to be run.
type Prefixed struct {
	started Counter
	command []string
}

// NewPrefixed returns a Runner for a command, whose first word is an absolute path and whose last is the program
// itself.
func NewPrefixed(command []string) (*Prefixed, error) {
	if len(command) == 0 || !filepath.IsAbs(command[0]) {
		return nil, errors.New("the first word must be the absolute path of a program")
	}
	return &Prefixed{command: command}, nil
}

// Run implements Runner. The command that was given says which program runs.
func (p *Prefixed) Run(ctx context.Context, _ string, args ...string) ([]byte, error) {
	out, _, err := run(ctx, &p.started, p.command[:len(p.command)-1], success, p.command[len(p.command)-1], args)
	return out, err
}

// success accepts no other exit code than 0, which always is.
func success(int) bool { return false }

func run(ctx context.Context, counter *Counter, prefix []string, accepted func(int) bool, name string,
	args []string) ([]byte, int, error) {
	failure := &Error{Command: strings.Join(append([]string{name}, args...), " "), ExitCode: -1}
	if len(prefix) == 0 && !filepath.IsAbs(name) {
		failure.Err = errors.New("the path of a program must be absolute")
		return nil, failure.ExitCode, failure
	}
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultTimeout)
		defer cancel()
	}
	stdout := &bounded{limit: maxOutput}
	stderr := &bounded{limit: maxStderr}
	cmd := command(ctx, prefix, name, args)
	cmd.Stdout = stdout
	cmd.Stderr = stderr

	begun := time.Now()
	command := label(name, args)
	err := cmd.Start()
	if err == nil {
		counter.started(command)
		if err = wait(ctx, cmd, accepted); err == nil && stdout.overflow {
			err = ErrOutputTooLong
		}
		counter.ended(command, time.Since(begun), err != nil)
	}
	logger := loggerOf(ctx).WithName("host").WithValues("command", failure.Command, "took",
		time.Since(begun).Round(time.Millisecond).String())
	if err == nil {
		logger.V(1).Info("Command succeeded")
		return stdout.kept.Bytes(), cmd.ProcessState.ExitCode(), nil
	}
	failure.Err, failure.Stderr = err, strings.TrimSpace(stderr.kept.String())
	if cmd.ProcessState != nil {
		failure.ExitCode = cmd.ProcessState.ExitCode()
	}
	logger.Info("Command failed", "exitCode", failure.ExitCode, "error", failure.Err.Error(), "stderr", failure.Stderr)
	return nil, failure.ExitCode, failure
}

// fallback is for commands whose context has no logger.
var fallback atomic.Pointer[logr.Logger]

// SetLogger sets the logger for commands whose context has none. Without it they are not logged.
func SetLogger(logger logr.Logger) { fallback.Store(&logger) }

func loggerOf(ctx context.Context) logr.Logger {
	if logger, err := logr.FromContext(ctx); err == nil {
		return logger
	}
	if logger := fallback.Load(); logger != nil {
		return *logger
	}
	return logr.Discard()
}

// command has no stdin: LVM answers its own questions with no when there is nobody to ask.
func command(ctx context.Context, prefix []string, name string, args []string) *exec.Cmd {
	argv := append(append(append([]string{}, prefix...), name), args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// The environment of the container means nothing to the node's programs; C is the language of the messages that
	// packages above recognize.
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killDelay
	return cmd
}

// wait gives the time limit as the cause when it ended the program, and takes no offense at a daemon (dmeventd) that
// the program left behind with its stdout.
func wait(ctx context.Context, cmd *exec.Cmd, accepted func(int) bool) error {
	err := cmd.Wait()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success():
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w (%w)", ctx.Err(), err)
	case cmd.ProcessState.Exited() && accepted(cmd.ProcessState.ExitCode()):
		return nil
	default:
		return err
	}
}
