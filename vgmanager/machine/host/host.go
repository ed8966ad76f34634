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
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
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

// ErrNoProgram is returned if none of the directories of a Namespace has a program with this name. It is not returned
// if there is one that cannot be executed.
var ErrNoProgram = errors.New("the node does not have the program")

// Runner runs one program and returns its stdout.
//
// The name is an absolute path, of which Namespace uses only the last element. Run returns an *Error and no output if
// the program does not start, exits with a code other than 0, reaches its time limit or prints too much. The output of
// a failed command must not be used.
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

// longestWord is the number of bytes of a word of a command line that a message has. A message of Kubernetes is cut at
// its end, where the cause is.
const longestWord = 100

// Error returns the command, with the beginnings of long words such as lists of devices or fields, the cause, and the
// stderr of the program.
func (e *Error) Error() string {
	words := strings.Split(e.Command, " ")
	for i, word := range words {
		if len(word) > longestWord {
			words[i] = strings.ToValidUTF8(word[:longestWord], "") + "…"
		}
	}
	message := fmt.Sprintf("%s: %v", strings.Join(words, " "), e.Err)
	if e.Stderr != "" {
		message += ": " + strings.Join(strings.Fields(e.Stderr), " ")
	}
	return message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Signal returns the signal that ended the program, or 0. The time limit also ends a program with a signal, but Err is
// context.DeadlineExceeded then.
func (e *Error) Signal() syscall.Signal {
	var ended *exec.ExitError
	if !errors.As(e.Err, &ended) {
		return 0
	}
	if status, is := ended.Sys().(syscall.WaitStatus); is && status.Signaled() {
		return status.Signal()
	}
	return 0
}

// Local runs programs in the namespaces of this process: those of the agent's image, or, for a process that runs
// directly on the node, those of the node.
type Local struct {
	started Counter
}

// NewLocal returns a Runner for the namespaces of this process.
func NewLocal() *Local { return &Local{} }

// Run implements Runner.
func (l *Local) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, _, err := run(ctx, way{counter: &l.started}, success, name, args)
	return out, err
}

// RunAccepting is Run for a program whose exit code is part of its result. An exit code for which accepted returns
// true is not an error. RunAccepting returns the exit code.
func (l *Local) RunAccepting(ctx context.Context, accepted func(code int) bool, name string,
	args ...string) ([]byte, int, error) {
	return run(ctx, way{counter: &l.started}, accepted, name, args)
}

// RunReporting is RunAccepting for a program whose stdout and stderr are a report for people, such as e2fsck. It
// returns both together in their order, and only the first maxReport bytes: more is not an error.
func (l *Local) RunReporting(ctx context.Context, accepted func(code int) bool, name string,
	args ...string) (string, int, error) {
	out := &report{bounded{limit: maxReport}}
	code, err := runTo(ctx, way{counter: &l.started}, accepted, out, name, args)
	return out.kept.String(), code, err
}

// RunWithInput is RunAccepting for a program that reads secrets, and that maps devices. Each input is in a pipe, and so
// in no file, argument or log: the first is the program's stdin, and it can open the second as SecondInput. Without
// inputs, it has no stdin. An input has at most MaxInput bytes, and there are at most two. The program does not wait
// for the node's udev: see Image.
func (l *Local) RunWithInput(ctx context.Context, inputs [][]byte, accepted func(code int) bool, name string,
	args ...string) ([]byte, int, error) {
	return run(ctx, way{counter: &l.started, environment: withoutUdev, inputs: inputs}, accepted, name, args)
}

// Stream implements Streamer.
func (l *Local) Stream(ctx context.Context, out io.Writer, name string, args ...string) error {
	_, err := runTo(ctx, way{counter: &l.started}, success, out, name, args)
	return err
}

// Started returns the counter of started processes.
func (l *Local) Started() *Counter { return &l.started }

// Namespace runs the node's own programs from a privileged container with hostPID. Nodes differ in where they have
// them, so it looks for the last element of a program's path in its own list of directories.
type Namespace struct {
	started     Counter
	enter       []string
	directories []string
}

// NewNamespace returns a Runner for a privileged container with hostPID. directories has the directories of the node
// with programs, in the order of the search.
func NewNamespace(directories []string) *Namespace {
	return &Namespace{enter: enterHost, directories: directories}
}

// enterHost enters the mount, UTS, IPC and network namespaces of PID 1 of the node. It does not use -p: with hostPID
// the container already is in the PID namespace of the node. With -p, nsenter forks and waits, so SIGTERM at the time
// limit ends nsenter and leaves LVM running. Without -p, nsenter execs the program. If its name has no slash, nsenter
// looks for it in the directories of the variable PATH (execvp(3)), after it has entered the namespaces. So the search
// needs no access to the files of the node from outside, where absolute symbolic links lead elsewhere, and no other
// process.
var enterHost = []string{nsenter, "-t", "1", "-m", "-u", "-i", "-n", "--"}

const nsenter = "/usr/bin/nsenter"

// Run implements Runner.
func (n *Namespace) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, _, err := run(ctx, n.way(), success, name, args)
	return out, err
}

// Stream implements Streamer.
func (n *Namespace) Stream(ctx context.Context, out io.Writer, name string, args ...string) error {
	_, err := runTo(ctx, n.way(), success, out, name, args)
	return err
}

func (n *Namespace) way() way {
	return way{counter: &n.started, prefix: n.enter, directories: n.directories}
}

// Started returns the counter of started processes.
func (n *Namespace) Started() *Counter { return &n.started }

// Image runs programs of the agent's image that manage devices of the node and would otherwise be the node's own. It
// uses the devices and directories that are mounted in the container.
type Image struct {
	started Counter
	prefix  []string
}

// NewImage returns a Runner for a privileged container with hostPID. The programs run in the UTS namespace of the node:
// LVM records the name of the host in its metadata.
func NewImage() *Image { return &Image{prefix: []string{nsenter, "-t", "1", "-u", "--"}} }

// NewImageIn returns a Runner for the files of the image in a directory, for a process that runs directly on a node.
func NewImageIn(root string) *Image { return &Image{prefix: []string{"/usr/sbin/chroot", root}} }

// Run implements Runner.
func (i *Image) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, _, err := run(ctx, i.way(), success, name, args)
	return out, err
}

// Stream implements Streamer.
func (i *Image) Stream(ctx context.Context, out io.Writer, name string, args ...string) error {
	_, err := runTo(ctx, i.way(), success, out, name, args)
	return err
}

// Started returns the counter of started processes.
func (i *Image) Started() *Counter { return &i.started }

// way has DM_DISABLE_UDEV: LVM and dmsetup then create the nodes and links in /dev themselves, and do not wait for the
// node's udev, which without the rules of the package dmsetup would never answer (dmsetup(8)).
func (i *Image) way() way {
	return way{counter: &i.started, prefix: i.prefix, environment: withoutUdev}
}

var withoutUdev = []string{"DM_DISABLE_UDEV=1"}

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
	last := len(p.command) - 1
	out, _, err := run(ctx, way{counter: &p.started, prefix: p.command[:last]}, success, p.command[last], args)
	return out, err
}

// success accepts no exit code besides 0, which is always accepted.
func success(int) bool { return false }

// way is how programs are started.
type way struct {
	counter *Counter
	// prefix is the command line before the program. Without one, the path of the program must be absolute.
	prefix []string
	// directories are those in which the last command of the prefix looks for the program. Without any, it runs the
	// path that it is given.
	directories []string
	// environment has further environment variables of the program.
	environment []string
	// inputs are what the program can read: see Local.RunWithInput.
	inputs [][]byte
}

// name returns the name of a program on the command line.
func (w way) name(path string) string {
	if len(w.directories) == 0 {
		return path
	}
	return filepath.Base(path)
}

// notExecuted is what nsenter writes if it cannot execute a program, before the program's name.
const notExecuted = "nsenter: failed to execute "

// explain adds the directories to the error of a program that is in none of them.
func (w way) explain(failure *Error, name string) {
	if len(w.directories) == 0 || !strings.HasPrefix(failure.Stderr, notExecuted+name+": ") {
		return
	}
	failure.Err = fmt.Errorf("the node has no executable program %s in %s (HOST_PATH): %w", name,
		strings.Join(w.directories, ":"), failure.Err)
	if failure.Stderr == notExecuted+name+": No such file or directory" {
		failure.Err = noProgram{failure.Err}
	}
}

// noProgram is an error that wraps ErrNoProgram too, with its own text only.
type noProgram struct{ error }

// Unwrap returns both errors.
func (e noProgram) Unwrap() []error { return []error{ErrNoProgram, e.error} }

func run(ctx context.Context, w way, accepted func(int) bool, name string, args []string) ([]byte, int, error) {
	stdout := &bounded{limit: maxOutput}
	code, err := runTo(ctx, w, accepted, stdout, name, args)
	if err != nil {
		return nil, code, err
	}
	return stdout.kept.Bytes(), code, nil
}

func runTo(ctx context.Context, w way, accepted func(int) bool, out io.Writer, path string,
	args []string) (int, error) {
	name := w.name(path)
	failure := &Error{Command: strings.Join(append([]string{name}, args...), " "), ExitCode: -1}
	if len(w.prefix) == 0 && !filepath.IsAbs(name) {
		failure.Err = errors.New("the path of a program must be absolute")
		return failure.ExitCode, failure
	}
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultTimeout)
		defer cancel()
	}
	defer liveness.Busy(ctx)()
	stdout, _ := out.(*bounded)
	stderr := &bounded{limit: maxStderr}
	cmd := w.command(ctx, name, args)
	cmd.Stdout = out
	cmd.Stderr = stderr
	both, reports := out.(*report)
	if reports {
		cmd.Stderr = both // os/exec writes to the same writer from one goroutine
	}

	begun := time.Now()
	command := label(name, args)
	inputs, err := attach(cmd, w.inputs)
	if err == nil {
		err = w.counter.starts(command, cmd.Start)
	}
	closeAll(inputs)
	if err == nil {
		if err = wait(ctx, cmd, accepted); err == nil && stdout != nil && stdout.overflow {
			err = ErrOutputTooLong
		}
		w.counter.ended(command, time.Since(begun), err != nil)
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
	w.explain(failure, name)
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

// ownPath has the directories of the image with programs.
const ownPath = "/usr/sbin:/usr/bin:/sbin:/bin"

// command returns a command without stdin. If LVM asks a question and has no stdin, it takes "no" as the answer.
func (w way) command(ctx context.Context, name string, args []string) *exec.Cmd {
	argv := slices.Concat(w.prefix, []string{name}, args)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// The environment of the container does not apply to the node's programs. Callers parse messages in the C locale.
	cmd.Env = []string{"LC_ALL=C", "PATH=" + ownPath, "HOME=/"}
	if len(w.directories) > 0 {
		cmd.Env[1] = "PATH=" + strings.Join(w.directories, ":")
	}
	cmd.Env = append(cmd.Env, w.environment...)
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
