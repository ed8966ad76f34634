// Package host runs programs on the node, and those of the agent's image. It is the only package of the product that
// starts processes. It does not start a shell.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
)

// Limits of one command. A caller can set a shorter deadline on its context. It cannot raise the output limits.
const (
	// DefaultTimeout is the time limit of a command whose context has no deadline.
	DefaultTimeout = 2 * time.Minute
	// killDelay is the time between SIGTERM and SIGKILL. LVM blocks signals while it commits metadata, which can take
	// long on a busy disk. SIGKILL during a commit can leave the metadata of a volume group half written.
	killDelay = time.Minute
	// maxOutput is the maximum size of stdout in bytes. A report of 10,000 logical volumes has about 6 MiB.
	maxOutput = 32 << 20
	// maxStderr is the number of bytes of stderr that are kept, and of stdout in an error. The rest is dropped.
	maxStderr = 16 << 10
	// maxReport is the number of bytes that RunReporting keeps.
	maxReport = 1 << 20
)

// ErrOutputTooLong is returned if a command prints more than maxOutput to stdout. The output is then incomplete.
var ErrOutputTooLong = errors.New("output is longer than the limit of 32 MiB")

// Runner runs one program and returns its stdout.
//
// The name is an absolute path. Run returns an *Error and no output if the program does not start, exits with a code
// other than 0, reaches its time limit or prints too much. The output of a failed command must not be used.
type Runner interface {
	Run(ctx context.Context, name string, args ...string) ([]byte, error)
}

// Streamer is a Runner that can also pass on the stdout of a program while it runs.
type Streamer interface {
	Runner
	// Stream runs one program and writes its stdout to out. The output has no limit. If Stream returns an error, what
	// was written is incomplete and must not be used.
	Stream(ctx context.Context, out io.Writer, name string, args ...string) error
}

// Error describes a command that failed.
type Error struct {
	// Command is the command line without the nsenter prefix.
	Command string
	// ExitCode is -1 if the program did not start or was ended by a signal.
	ExitCode int
	// Stderr and Stdout are the beginning of stderr and stdout, without surrounding white space. Stdout is for messages
	// only: some programs write there why they failed.
	Stderr, Stdout string
	// Err is the cause: *exec.ExitError, context.DeadlineExceeded, ErrOutputTooLong, and so on.
	Err error
}

// Error returns the command, the cause and the stderr of the program.
func (e *Error) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("%s: %v", e.Command, e.Err)
	}
	return fmt.Sprintf("%s: %v: %s", e.Command, e.Err, strings.Join(strings.Fields(e.Stderr), " "))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Local runs programs in the namespaces of this process: those of the agent's image, or, for a process that runs
// directly on the node, those of the node.
type Local struct {
	started Counter
}

// NewLocal returns a Runner for the namespaces of this process.
func NewLocal() *Local { return &Local{} }

// Run implements Runner.
func (l *Local) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, _, err := run(ctx, &l.started, nil, success, name, args)
	return out, err
}

// RunAccepting is Run for a program whose exit code is part of its result. An exit code for which accepted returns
// true is not an error. RunAccepting returns the exit code.
func (l *Local) RunAccepting(ctx context.Context, accepted func(code int) bool, name string,
	args ...string) ([]byte, int, error) {
	return run(ctx, &l.started, nil, accepted, name, args)
}

// RunReporting is RunAccepting for a program whose stdout and stderr are a report for people, such as e2fsck. It
// returns both together in their order, and only the first maxReport bytes: more is not an error.
func (l *Local) RunReporting(ctx context.Context, accepted func(code int) bool, name string,
	args ...string) (string, int, error) {
	out := &report{bounded{limit: maxReport}}
	code, err := runTo(ctx, &l.started, nil, accepted, out, name, args)
	return out.kept.String(), code, err
}

// Stream implements Streamer.
func (l *Local) Stream(ctx context.Context, out io.Writer, name string, args ...string) error {
	_, err := runTo(ctx, &l.started, nil, success, out, name, args)
	return err
}

// Started returns the counter of started processes.
func (l *Local) Started() *Counter { return &l.started }

// Namespace runs the node's own programs from a privileged container with hostPID.
type Namespace struct {
	started Counter
}

// NewNamespace returns a Runner for a privileged container with hostPID.
func NewNamespace() *Namespace { return &Namespace{} }

// enterHost enters the mount, UTS, IPC and network namespaces of PID 1 of the node. It does not use -p: with hostPID
// the container already is in the PID namespace of the node. With -p, nsenter forks and waits, so SIGTERM at the time
// limit ends nsenter and leaves LVM running. Without -p, nsenter execs the program.
var enterHost = []string{"/usr/bin/nsenter", "-t", "1", "-m", "-u", "-i", "-n", "--"}

// Run implements Runner.
func (n *Namespace) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, _, err := run(ctx, &n.started, enterHost, success, name, args)
	return out, err
}

// Stream implements Streamer.
func (n *Namespace) Stream(ctx context.Context, out io.Writer, name string, args ...string) error {
	_, err := runTo(ctx, &n.started, enterHost, success, out, name, args)
	return err
}

// Started returns the counter of started processes.
func (n *Namespace) Started() *Counter { return &n.started }

// Prefixed runs one configured command for every program and appends the arguments of the program to it. It is for
// configurations that specify how to run LVM.
type Prefixed struct {
	started Counter
	command []string
}

// NewPrefixed returns a Runner for a command. The first word must be an absolute path. The last word is the program
// itself; the words before it are its prefix.
func NewPrefixed(command []string) (*Prefixed, error) {
	if len(command) == 0 || !filepath.IsAbs(command[0]) {
		return nil, errors.New("the first word must be the absolute path of a program")
	}
	return &Prefixed{command: command}, nil
}

// Run implements Runner. It ignores the name and runs the configured command.
func (p *Prefixed) Run(ctx context.Context, _ string, args ...string) ([]byte, error) {
	out, _, err := run(ctx, &p.started, p.command[:len(p.command)-1], success, p.command[len(p.command)-1], args)
	return out, err
}

// success accepts no exit code besides 0, which is always accepted.
func success(int) bool { return false }

func run(ctx context.Context, counter *Counter, prefix []string, accepted func(int) bool, name string,
	args []string) ([]byte, int, error) {
	stdout := &bounded{limit: maxOutput}
	code, err := runTo(ctx, counter, prefix, accepted, stdout, name, args)
	if err != nil {
		return nil, code, err
	}
	return stdout.kept.Bytes(), code, nil
}

func runTo(ctx context.Context, counter *Counter, prefix []string, accepted func(int) bool, out io.Writer, name string,
	args []string) (int, error) {
	failure := &Error{Command: strings.Join(append([]string{name}, args...), " "), ExitCode: -1}
	if len(prefix) == 0 && !filepath.IsAbs(name) {
		failure.Err = errors.New("the path of a program must be absolute")
		return failure.ExitCode, failure
	}
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultTimeout)
		defer cancel()
	}
	stdout, _ := out.(*bounded)
	stderr := &bounded{limit: maxStderr}
	cmd := command(ctx, prefix, name, args)
	cmd.Stdout = out
	cmd.Stderr = stderr
	both, reports := out.(*report)
	if reports {
		cmd.Stderr = both // os/exec writes to the same writer from one goroutine
	}

	begun := time.Now()
	command := label(name, args)
	err := cmd.Start()
	if err == nil {
		counter.started(command)
		if err = wait(ctx, cmd, accepted); err == nil && stdout != nil && stdout.overflow {
			err = ErrOutputTooLong
		}
		counter.ended(command, time.Since(begun), err != nil)
	}
	logger := loggerOf(ctx).WithName("host").WithValues("command", failure.Command, "took",
		time.Since(begun).Round(time.Millisecond).String())
	if err == nil {
		logger.V(1).Info("command succeeded")
		return cmd.ProcessState.ExitCode(), nil
	}
	failure.Err = err
	failure.Stderr = strings.TrimSpace(stderr.kept.String())
	if reports {
		failure.Stdout = strings.TrimSpace(both.beginning(maxStderr))
	}
	if stdout != nil {
		failure.Stdout = strings.TrimSpace(stdout.beginning(maxStderr))
	}
	if cmd.ProcessState != nil {
		failure.ExitCode = cmd.ProcessState.ExitCode()
	}
	logger.Info("command failed", "exitCode", failure.ExitCode, "cause", failure.Err.Error(), "stderr", failure.Stderr)
	return failure.ExitCode, failure
}

// fallback is the logger for commands whose context has no logger.
var fallback atomic.Pointer[logr.Logger]

// SetLogger sets the logger for commands whose context has none. Without it, these commands are not logged.
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

// command returns a command without stdin. If LVM asks a question and has no stdin, it takes "no" as the answer.
func command(ctx context.Context, prefix []string, name string, args []string) *exec.Cmd {
	argv := append(append(append([]string{}, prefix...), name), args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// The environment of the container does not apply to the node's programs. Callers parse messages in the C locale.
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killDelay
	return cmd
}

// wait waits for cmd to end. If the context ended the program, the error wraps ctx.Err(). If the program succeeded
// and left a daemon (dmeventd) behind that keeps stdout open, wait returns no error.
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
