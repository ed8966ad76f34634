package host

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// Ready is the line that a companion writes to stdout when it is ready.
	Ready = "ready"
	// readyLimit is the time limit for it.
	readyLimit = 10 * time.Second
	// companionLimit is the time limit for the end of a companion whose stdin is closed. Then it is killed.
	companionLimit = 30 * time.Second
)

// Companion is a program of the agent's image that runs beside this process and may outlive it, in a session of its
// own. Its stdin ends when this process ends, however it ends, or calls Stop.
type Companion struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *bounded
	ended  chan error
}

// StartCompanion starts a program that has the files as its descriptors 3 and up, and waits until it is ready. The
// program must end when its stdin ends.
func (l *Local) StartCompanion(files []*os.File, name string, args ...string) (*Companion, error) {
	return startCompanion(files, readyLimit, name, args)
}

func startCompanion(files []*os.File, limit time.Duration, name string, args []string) (*Companion, error) {
	c := &Companion{cmd: exec.Command(name, args...), stderr: &bounded{limit: maxStderr}, ended: make(chan error, 1)}
	c.cmd.Env = []string{"LC_ALL=C", "PATH=" + ownPath, "HOME=/"}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.cmd.ExtraFiles = files
	c.cmd.Stderr = c.stderr
	c.cmd.WaitDelay = killDelay
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), stdin.Close())
	}
	c.stdin = stdin
	ready := make(chan bool, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(stdout, 64)).ReadString('\n')
		ready <- strings.TrimSpace(line) == Ready
		c.ended <- c.cmd.Wait()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	is := false
	select {
	case is = <-ready:
	case <-timer.C:
	}
	if is {
		return c, nil
	}
	_ = c.cmd.Process.Kill()
	return nil, c.failure(errors.Join(errors.New("it was not ready in time or has ended"), <-c.ended, stdin.Close()))
}

// Signal writes a byte to the stdin of the program. It returns an error if the program has ended.
func (c *Companion) Signal() error {
	if _, err := c.stdin.Write([]byte{'\n'}); err != nil {
		return fmt.Errorf("signal %s: %w", c.cmd.Path, err)
	}
	return nil
}

// Stop ends the program by the end of its stdin, and returns an error if it failed. It kills a program that does not
// end in 30 s.
func (c *Companion) Stop() error { return c.stop(companionLimit) }

func (c *Companion) stop(limit time.Duration) error {
	closed := c.stdin.Close()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-c.ended:
		return c.failure(err)
	case <-timer.C:
	}
	return c.failure(errors.Join(errors.New("it has not ended in time and was killed"), closed, c.cmd.Process.Kill(),
		<-c.ended))
}

// failure returns an *Error, or nil.
func (c *Companion) failure(err error) error {
	if err == nil {
		return nil
	}
	code := -1
	if c.cmd.ProcessState != nil {
		code = c.cmd.ProcessState.ExitCode()
	}
	return &Error{Command: strings.Join(c.cmd.Args, " "), ExitCode: code, Err: err,
		Stderr: strings.TrimSpace(c.stderr.kept.String())}
}
