package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

func statusCommand(e *session.Environment) *cobra.Command {
	o := &output.Options{}
	command := &cobra.Command{
		Use:   "status",
		Short: "Show whether LVM Storage is healthy, and what to do about each problem",
		Long: `Show whether LVM Storage is healthy. For each problem, show where it is and the action to take:
problems of LVMClusters, nodes, device classes, devices and volumes, recoveries that have not ended, and orphans.

With -o wide, each problem has its complete message.

The state is what the operator and the node agents report. If the operator has no ready Pod, or a node agent no longer
reports, status says so.

The exit code is 0 if everything is healthy, 2 if there are problems, and 1 if something could not be read. In that
case, the output says what, and there may be more problems than listed.`,
		Example: `  # Check the state in a script
  kubectl lvms status --no-headers || echo "not healthy, or not readable"

  # Show the complete message of each problem
  kubectl lvms status -o wide`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return showStatus(command.Context(), e, o, command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	o.AddFlags(command)
	return command
}

func showStatus(ctx context.Context, e *session.Environment, o *output.Options, out, errOut io.Writer) error {
	if err := o.Validate(); err != nil {
		return err
	}
	s, err := e.Source(e.Namespace())
	if err != nil {
		return err
	}
	objects, err := observe(ctx, s)
	if err != nil {
		return err
	}
	status := newStatus(objects, e.Now())
	if err := printStatus(out, errOut, o, status); err != nil {
		return err
	}
	switch {
	case !status.Complete:
		return session.ErrIncomplete
	case !status.Healthy:
		return session.ErrProblems
	}
	return nil
}

// observe reads all objects that `status` needs. A kind that cannot be read does not keep it from reading the others.
func observe(ctx context.Context, s *session.Source) (observed, error) {
	var o observed
	var err error
	if o.clusters, err = s.Clusters(ctx); errors.Is(err, session.ErrNotInstalled) {
		return o, err
	}
	o.failed(session.ClustersResource, err)
	o.operators, err = operators(ctx, s, o.clusters)
	o.failed(session.DeploymentsResource, err)
	o.nodeStatuses, err = s.NodeStatuses(ctx)
	o.failed(session.NodeStatusesResource, err)
	o.recoveries, err = s.Recoveries(ctx)
	o.failed(session.RecoveriesResource, err)
	o.volumes, err = s.Volumes(ctx)
	o.failed(session.VolumesResource, err)
	slices.Sort(s.Notes)
	o.notes = slices.Compact(s.Notes)
	return o, nil
}

// failed records that a kind of object could not be read.
func (o *observed) failed(resource string, err error) {
	switch {
	case err == nil:
	case errors.Is(err, session.ErrNotInstalled):
		o.unreadable = append(o.unreadable, output.Unreadable{Resource: resource,
			Message: "the API server does not have " + resource +
				": upgrade LVM Storage, which is older than this plugin, or another product with the same APIs"})
	default:
		o.unreadable = append(o.unreadable, output.Unreadable{Resource: resource, Message: output.OneLine(err.Error())})
	}
}

func printStatus(out, errOut io.Writer, o *output.Options, status output.Status) error {
	if !o.IsTable() {
		return o.Print(out, status, nil)
	}
	output.PrintNotes(errOut, o, status.Notes)
	for _, u := range status.Unreadable {
		fmt.Fprintln(errOut, "error:", u.Message)
	}
	if !o.NoHeaders {
		printSummary(out, status)
	}
	if len(status.Problems) == 0 {
		return nil
	}
	if !o.NoHeaders {
		fmt.Fprintln(out)
	}
	return o.Print(out, status, statusTable(status))
}

func printSummary(out io.Writer, status output.Status) {
	problems := counted(len(status.Problems), "problem")
	switch {
	case status.Healthy:
		fmt.Fprintln(out, "Healthy")
	case !status.Complete:
		fmt.Fprintf(out, "Unknown: %s could not be read. %s found\n",
			counted(len(status.Unreadable), "kind of object", "kinds of objects"), problems)
	default:
		fmt.Fprintf(out, "Not healthy: %s\n", problems)
	}
	if status.SuspendedVolumes+status.SuspendedDevices > 0 {
		fmt.Fprintf(out, "Suspended: %s, %s\n", counted(status.SuspendedVolumes, "volume"),
			counted(status.SuspendedDevices, "device"))
	}
	for _, c := range status.LVMClusters {
		fmt.Fprintf(out, "LVMCluster %s/%s: %s", c.Namespace, c.Name, c.State)
		if c.VolumeGroups != "" {
			fmt.Fprintf(out, ", %s volume groups ready", c.VolumeGroups)
		}
		if c.Size != nil && c.Free != nil {
			fmt.Fprintf(out, ", %s free of %s", output.SizeOf(c.Free), output.SizeOf(c.Size))
		}
		fmt.Fprintln(out)
	}
}

// counted returns a number with its noun. The plural is the noun with s if it is not given.
func counted(n int, noun string, plural ...string) string {
	if n != 1 {
		noun += "s"
		if len(plural) > 0 {
			noun = plural[0]
		}
	}
	return fmt.Sprintf("%d %s", n, noun)
}
