package view

import (
	"github.com/spf13/cobra"

	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/recovery"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

// plugin has the commands of this package, and orphans.
var plugin clitest.Plugin = func(e *session.Environment) []*cobra.Command {
	return append(Commands(e), recovery.Commands(e)...)
}
