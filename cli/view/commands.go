// Package view has the commands that show the state and what to do about problems: status, devices, classes, volumes,
// and must-gather analyze.
package view

import (
	"github.com/spf13/cobra"

	"github.com/lvm-storage/lvm-operator/cli/session"
)

// Commands returns the commands that show the state and change nothing.
func Commands(e *session.Environment) []*cobra.Command {
	return []*cobra.Command{statusCommand(e), devicesCommand(e), classesCommand(e), volumesCommand(e),
		mustGatherCommand(e)}
}
