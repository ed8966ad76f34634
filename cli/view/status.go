package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
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

// observed are the objects of which `status` tells.
type observed struct {
	verdict.Objects
	unreadable []output.Unreadable
	notes      []string
}

// observe reads all objects that `status` needs. A kind that cannot be read does not keep it from reading the others.
func observe(ctx context.Context, s *session.Source) (observed, error) {
	var o observed
	var err error
	if o.Clusters, err = s.Clusters(ctx); errors.Is(err, session.ErrNotInstalled) {
		return o, err
	}
	o.ClustersUnread = o.failed(session.ClustersResource, err)
	o.Deployments, err = operators(ctx, s, o.Clusters)
	o.DeploymentsUnread = o.failed(session.DeploymentsResource, err)
	o.NodeStatuses, err = s.NodeStatuses(ctx)
	o.failed(session.NodeStatusesResource, err)
	o.Recoveries, err = s.Recoveries(ctx)
	o.failed(session.RecoveriesResource, err)
	o.Volumes, err = s.Volumes(ctx)
	o.failed(session.VolumesResource, err)
	slices.Sort(s.Notes)
	o.notes = slices.Compact(s.Notes)
	return o, nil
}

// operators reads the Deployments of the operators of LVMClusters and of their standby replicas.
func operators(ctx context.Context, s *session.Source, clusters []v1alpha1.LVMCluster) ([]appsv1.Deployment, error) {
	var found []appsv1.Deployment
	var read []string
	for i := range clusters {
		namespace := clusters[i].Namespace
		if slices.Contains(read, namespace) {
			continue
		}
		read = append(read, namespace)
		for _, name := range []string{verdict.OperatorName, verdict.StandbyName} {
			deployment := appsv1.Deployment{}
			err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &deployment)
			switch {
			case err == nil:
				found = append(found, deployment)
			case apierrors.IsForbidden(err):
				return nil, fmt.Errorf("cannot tell whether the operator runs: you need the permission for the verb "+
					"get on the resource deployments of the API group apps in the namespace %s. Ask an "+
					"administrator of the cluster for it: %w", namespace, err)
			case !apierrors.IsNotFound(err):
				return nil, fmt.Errorf("cannot tell whether the operator runs: read the Deployment %s/%s: %w",
					namespace, name, err)
			}
		}
	}
	return found, nil
}

// failed returns true if a kind of object could not be read, and records that.
func (o *observed) failed(resource string, err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, session.ErrNotInstalled):
		o.unreadable = append(o.unreadable, output.Unreadable{Resource: resource,
			Message: "the API server does not have " + resource +
				": upgrade LVM Storage, which is older than this plugin, or another product with the same APIs"})
	default:
		o.unreadable = append(o.unreadable, output.Unreadable{Resource: resource, Message: output.OneLine(err.Error())})
	}
	return true
}

// newStatus returns the problems in the objects. It depends only on its arguments.
func newStatus(o observed, now time.Time) output.Status {
	status := output.Status{TypeMeta: output.TypeMeta("Status"), LVMClusters: []output.Cluster{},
		Problems: []output.Problem{}, Unreadable: append([]output.Unreadable{}, o.unreadable...), Notes: o.notes,
		Complete: len(o.unreadable) == 0}
	for _, p := range verdict.Problems(o.Objects, now) {
		status.Problems = append(status.Problems, output.Problem{Reason: p.Reason, Node: p.Node,
			DeviceClass: p.DeviceClass, Device: p.Device, Claim: p.Claim, Object: p.Object, Message: p.Message,
			Action: p.Action})
	}
	status.SuspendedVolumes, status.SuspendedDevices = suspendedIn(o)
	for _, cluster := range o.Clusters {
		status.LVMClusters = append(status.LVMClusters, output.Cluster{Namespace: cluster.Namespace, Name: cluster.Name,
			State: cmp.Or(cluster.Status.State, v1alpha1.LVMStatusUnknown), VolumeGroups: cluster.Status.VolumeGroups,
			Size: cluster.Status.Size, Free: cluster.Status.Free})
	}
	status.Healthy = status.Complete && len(status.Problems) == 0
	return status
}

// suspendedIn returns the numbers of suspended volumes and devices. They are no problem: somebody requested it.
func suspendedIn(o observed) (volumes, devices int) {
	for i := range o.Volumes {
		if suspensionText(&o.Volumes[i]) != "" {
			volumes++
		}
	}
	for i := range o.NodeStatuses {
		found := map[string]bool{} // several device classes can share a volume group
		for _, group := range o.NodeStatuses[i].Status.NodeStatus {
			for _, pv := range group.PhysicalVolumes {
				found[pv.UUID] = found[pv.UUID] || pv.Suspended
			}
		}
		for _, suspended := range found {
			if suspended {
				devices++
			}
		}
	}
	return volumes, devices
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
	problems := output.CountOf(len(status.Problems), "problem", "problems")
	switch {
	case status.Healthy:
		fmt.Fprintln(out, "Healthy")
	case !status.Complete:
		fmt.Fprintf(out, "Unknown: %s could not be read. %s found\n",
			output.CountOf(len(status.Unreadable), "kind of object", "kinds of objects"), problems)
	default:
		fmt.Fprintf(out, "Not healthy: %s\n", problems)
	}
	if status.SuspendedVolumes+status.SuspendedDevices > 0 {
		fmt.Fprintf(out, "Suspended: %s, %s\n", output.CountOf(status.SuspendedVolumes, "volume", "volumes"),
			output.CountOf(status.SuspendedDevices, "device", "devices"))
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
