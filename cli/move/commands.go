// Package move has the commands that move volumes between nodes, and those that show which moves are useful.
package move

import (
	"github.com/spf13/cobra"

	"github.com/lvm-storage/lvm-operator/cli/session"
)

// Commands returns the commands that move volumes between nodes.
func Commands(e *session.Environment) []*cobra.Command {
	return []*cobra.Command{moveCommand(e), movesCommand(e), evacuateCommand(e), balanceCommand(e)}
}
