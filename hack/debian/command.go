package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Command runs a program of the machine with a timeout, and returns its output.
type Command func(ctx context.Context, limit time.Duration, name string, args ...string) ([]byte, error)

// RunCommand is the Command that executes the program.
func RunCommand(ctx context.Context, limit time.Duration, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	// Limits the wait for a child process that keeps the output open.
	c.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	c.Stdout = &stdout
	c.Stderr = &stderr
	err := c.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%s is not installed: run this on Debian 12 or in a debian:12 container: %w", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), errors.Join(err, context.Cause(ctx)),
			strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
