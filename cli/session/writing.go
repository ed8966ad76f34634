package session

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

const (
	dryRunNone   = "none"
	dryRunClient = "client"
)

// Writing is how a command changes something.
type Writing struct {
	dryRun  string
	Yes     bool
	Wait    bool
	timeout time.Duration
}

// AddFlags adds the flags of a command that writes, and waits until what it has requested is done.
func (w *Writing) AddFlags(command *cobra.Command) {
	w.AddWriteFlags(command)
	command.Flags().BoolVar(&w.Wait, "wait", true, "wait until it is done, and show the progress")
	command.Flags().DurationVar(&w.timeout, "timeout", w.timeout, "how long to wait at most. After that, the request "+
		"stays, and the same command continues to wait for it")
}

// AddWriteFlags adds the flags of a command that writes, and does not wait.
func (w *Writing) AddWriteFlags(command *cobra.Command) {
	w.timeout = 30 * time.Minute
	command.Flags().StringVar(&w.dryRun, "dry-run", dryRunNone, "client: print what would be written as YAML and "+
		"change nothing; none: change it")
	command.Flags().Lookup("dry-run").NoOptDefVal = dryRunClient
	command.Flags().BoolVarP(&w.Yes, "yes", "y", false, "do not ask. It is required if there is no terminal")
	_ = command.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]string{dryRunNone, dryRunClient},
		cobra.ShellCompDirectiveNoFileComp))
}

// Validate returns an error if a flag has a value that is not supported.
func (w *Writing) Validate() error {
	if w.dryRun != dryRunNone && w.dryRun != dryRunClient {
		return fmt.Errorf("--dry-run %q is not supported: use %s or %s", w.dryRun, dryRunNone, dryRunClient)
	}
	if w.timeout <= 0 {
		return fmt.Errorf("--timeout %s is not supported: use a time above 0, for example 30m", w.timeout)
	}
	return nil
}

// IsDryRun returns true if nothing is to be written.
func (w *Writing) IsDryRun() bool { return w.dryRun == dryRunClient }
