// Package setup has the commands that begin to use devices, after a review and an approval, and volumes of TopoLVM.
package setup

import (
	"github.com/spf13/cobra"

	"github.com/lvm-storage/lvm-operator/cli/session"
)

// Commands returns the commands that begin to use devices, and volumes of TopoLVM.
func Commands(e *session.Environment) []*cobra.Command {
	return []*cobra.Command{discoverCommand(e), initCommand(e), approveCommand(e), migrateCommand(e)}
}
