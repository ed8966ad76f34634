// Package cli runs the commands of the kubectl plugin `kubectl lvms`. The commands read and write objects of the API
// only. Functions that read nothing but their arguments compute from the objects what the commands print and write.
package cli

import (
	"context"
	"io"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/cli/device"
	"github.com/lvm-storage/lvm-operator/cli/label"
	"github.com/lvm-storage/lvm-operator/cli/move"
	"github.com/lvm-storage/lvm-operator/cli/recovery"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/cli/setup"
	"github.com/lvm-storage/lvm-operator/cli/view"
)

// Run runs the command with arguments, and returns its exit code: 0 for success and, for `status`, healthy; 1 if
// something could not be read or written; 2 if `status` found problems, or if a request cannot be carried out; 3 if the
// time of --timeout is over; 4 if a plan is not approved.
func Run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	log.SetLogger(logr.Discard()) // the libraries would complain on stderr that nothing sets a logger
	e := session.New(errOut)
	root := e.Root()
	root.AddCommand(commands(e)...)
	return session.Execute(ctx, root, args, in, out, errOut)
}

// commands returns all commands.
func commands(e *session.Environment) []*cobra.Command {
	return slices.Concat(view.Commands(e), recovery.Commands(e), device.Commands(e), label.Commands(e),
		move.Commands(e), setup.Commands(e))
}
