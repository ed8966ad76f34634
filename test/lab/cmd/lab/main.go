// Command lab runs clusters for tests on this machine: see the README of test/lab. It is also the supervisor of a lab
// and the first process of a lab's nodes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/guest"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/self"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/supervisor"
)

func main() {
	if file := os.Getenv(spec.GuestEnv); file != "" && os.Getpid() == 1 {
		guest.Main(file)
	}
	if len(os.Args) == 3 && os.Args[1] == "supervise" {
		os.Exit(supervisor.Main(os.Args[2]))
	}
	self.IsLab = true
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := root().ExecuteContext(ctx)
	var code exitCode
	switch {
	case errors.As(err, &code):
		os.Exit(int(code))
	case err != nil:
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

// exitCode is the exit code of a command that was run for the user, which has already printed its error.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// carry converts an exit code to an error, unless it is 0.
func carry(code int, err error) error {
	if err != nil {
		return err
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}
