package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/version"
)

// The exit codes.
const (
	exitHealthy       = 0
	exitError         = 1
	exitProblems      = 2
	exitTimeout       = 3
	exitNeedsApproval = 4
)

// errProblems means that `status` found problems and printed them.
var errProblems = errors.New("LVM Storage is not healthy")

// errIncomplete means that `status` could not read everything, and printed what is missing.
var errIncomplete = errors.New("the state could not be read completely")

// environment is what the commands depend on.
type environment struct {
	flags *genericclioptions.ConfigFlags
	// connect returns the client for the cluster.
	connect func() (client.Client, error)
	now     func() time.Time
	// pause waits, and returns an error if the context ends before.
	pause func(context.Context, time.Duration) error
	// isTerminal returns true if a person types the input.
	isTerminal func(io.Reader) bool
}

// newEnvironment returns what the commands depend on outside of tests. Warnings of the API server are written to
// errOut.
func newEnvironment(errOut io.Writer) *environment {
	flags := genericclioptions.NewConfigFlags(true)
	return &environment{flags: flags, now: time.Now, pause: sleep, isTerminal: isTerminal,
		connect: func() (client.Client, error) {
			config, err := flags.ToRESTConfig()
			if err != nil {
				return nil, err
			}
			config.UserAgent = "kubectl-lvms/" + version.Version
			config.WarningHandler = rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true})
			return newClient(config)
		}}
}

// execute runs a command with arguments, and returns its exit code.
func execute(ctx context.Context, command *cobra.Command, args []string, in io.Reader, out, errOut io.Writer) int {
	command.SetArgs(args)
	command.SetIn(in)
	command.SetOut(out)
	command.SetErr(errOut)
	err := command.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errProblems) && !errors.Is(err, errIncomplete) {
		fmt.Fprintln(errOut, "error:", err)
	}
	switch {
	case err == nil:
		return exitHealthy
	case errors.Is(err, errProblems), errors.Is(err, errNotPossible):
		return exitProblems
	case errors.Is(err, errTimeout):
		return exitTimeout
	case errors.Is(err, errNeedsApproval):
		return exitNeedsApproval
	}
	return exitError
}

const about = `Show the state of LVM Storage: what is wrong and what to do, and its devices, device classes and
volumes. Repair it.

The commands read the objects of the operator in all namespaces, or in the namespace of -n; volumes uses -n for the
namespace of claims. If you may not list in all namespaces, they read ` + defaultNamespace + `, and say so.

Commands that change something say before what they change and what it leads to, and ask. --dry-run prints what they
would write, and --yes answers the question. They write objects of the API, which the operator and the node agents carry
out; they run nothing on a node.`

// root returns the command of the plugin, which has the others.
func (e *environment) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-lvms",
		Short:         "Show the state of LVM Storage, and repair it",
		Long:          about,
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl lvms"},
	}
	e.flags.AddFlags(root.PersistentFlags())
	return root
}

// namespace returns the namespace that the user gave with -n, or "". The namespace of the kubeconfig does not count.
func (e *environment) namespace() string {
	if e.flags.Namespace == nil {
		return ""
	}
	return *e.flags.Namespace
}

// source returns the source of objects in the namespace of the operator, or in all namespaces if it is "".
func (e *environment) source(namespace string) (*source, error) {
	c, err := e.connect()
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the cluster: %w", err)
	}
	return &source{client: c, namespace: namespace}, nil
}

// printNotes tells people what the output does not cover. JSON and YAML contain the notes.
func printNotes(errOut io.Writer, o *output, notes []string) {
	if !o.isTable() {
		return
	}
	for _, note := range notes {
		fmt.Fprintln(errOut, "note:", note)
	}
}

// printWithoutDevices prints the notes of a list that has no devices, and warns of nodes whose state is not current.
func printWithoutDevices(errOut io.Writer, o *output, notes []string, nodes []Node) {
	for i := range nodes {
		nodes[i].DevicesOmitted = 0
	}
	printNotes(errOut, o, notes)
	printNodes(errOut, o, nodes)
}

// printNodes warns people of nodes whose state is not current or not complete.
func printNodes(errOut io.Writer, o *output, nodes []Node) {
	if !o.isTable() {
		return
	}
	for _, node := range nodes {
		if !node.Current {
			fmt.Fprintf(errOut, "warning: node %s: the state is not current: %s\n", node.Name, node.Message)
		}
		if node.DevicesOmitted > 0 {
			fmt.Fprintf(errOut, "note: node %s: %d devices that cannot be used are not listed\n", node.Name,
				node.DevicesOmitted)
		}
	}
}
