package session

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	ExitHealthy       = 0
	ExitError         = 1
	ExitProblems      = 2
	ExitTimeout       = 3
	ExitNeedsApproval = 4
)

// ErrProblems means that `status` found problems and printed them.
var ErrProblems = errors.New("LVM Storage is not healthy")

// ErrIncomplete means that `status` could not read everything, and printed what is missing.
var ErrIncomplete = errors.New("the state could not be read completely")

// The errors of commands that write and that have an exit code of their own.
var (
	ErrNotPossible   = errors.New("the request cannot be carried out")
	ErrTimeout       = errors.New("the time of --timeout is over")
	ErrNeedsApproval = errors.New("the plan is not approved")
)

// Execute runs a command with arguments, and returns its exit code.
func Execute(ctx context.Context, command *cobra.Command, args []string, in io.Reader, out, errOut io.Writer) int {
	command.SetArgs(args)
	command.SetIn(in)
	command.SetOut(out)
	command.SetErr(errOut)
	err := command.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, ErrProblems) && !errors.Is(err, ErrIncomplete) {
		fmt.Fprintln(errOut, "error:", err)
	}
	switch {
	case err == nil:
		return ExitHealthy
	case errors.Is(err, ErrProblems), errors.Is(err, ErrNotPossible):
		return ExitProblems
	case errors.Is(err, ErrTimeout):
		return ExitTimeout
	case errors.Is(err, ErrNeedsApproval):
		return ExitNeedsApproval
	}
	return ExitError
}
