// Package session has what all commands need: the clients, flags, questions, waiting, completion and exit codes, and
// what they read and write of the API.
package session

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/version"
)

// Environment is what the commands depend on.
type Environment struct {
	// Flags select the cluster, the user and the namespace.
	Flags *genericclioptions.ConfigFlags
	// Connect returns the client for the cluster.
	Connect func() (client.Client, error)
	// Now returns the time.
	Now func() time.Time
	// Pause waits, and returns an error if the context ends before.
	Pause func(context.Context, time.Duration) error
	// IsTerminal returns true if a person types the input.
	IsTerminal func(io.Reader) bool
}

// New returns what the commands depend on outside of tests. Warnings of the API server are written to errOut.
func New(errOut io.Writer) *Environment {
	flags := genericclioptions.NewConfigFlags(true)
	return &Environment{Flags: flags, Now: time.Now, Pause: sleep, IsTerminal: isTerminal,
		Connect: func() (client.Client, error) {
			config, err := flags.ToRESTConfig()
			if err != nil {
				return nil, err
			}
			config.UserAgent = "kubectl-lvms/" + version.Version
			config.WarningHandler = rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true})
			return NewClient(config)
		}}
}

const about = `Show the state of LVM Storage: what is wrong and what to do, and its devices, device classes and
volumes. Repair it.

The commands read the objects of the operator in all namespaces, or in the namespace of -n; volumes uses -n for the
namespace of claims. If you may not list in all namespaces, they read ` + DefaultNamespace + `, and say so.

Commands that change something say before what they change and what it leads to, and ask. --dry-run prints what they
would write, and --yes answers the question. They write objects of the API, which the operator and the node agents carry
out; they run nothing on a node.`

// Root returns the command of the plugin, which has the others.
func (e *Environment) Root() *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-lvms",
		Short:         "Show the state of LVM Storage, and repair it",
		Long:          about,
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl lvms"},
	}
	e.Flags.AddFlags(root.PersistentFlags())
	return root
}

// Namespace returns the namespace that the user gave with -n, or "". The namespace of the kubeconfig does not count.
func (e *Environment) Namespace() string {
	if e.Flags.Namespace == nil {
		return ""
	}
	return *e.Flags.Namespace
}
