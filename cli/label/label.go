// Package label has the command that sets and removes labels of devices.
package label

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

// Commands returns the command that labels devices.
func Commands(e *session.Environment) []*cobra.Command { return []*cobra.Command{labelCommand(e)} }

func labelCommand(e *session.Environment) *cobra.Command {
	r := &labelRun{env: e}
	command := &cobra.Command{Use: "label NODE DEVICE KEY=VALUE... [KEY-...]",
		Short: "Set and remove labels of a device, by which device classes select it",
		Long: `Set and remove labels of a device. A device class selects devices by their labels with labels in its
deviceSelector, for example to have a device class and a StorageClass for each kind of disk.

A label belongs to the ID of the device, not to its name, so it stays on the same disk after a reboot. A device without
an ID, or whose ID is its content (pv: or fs:), cannot have labels.

A device that is in a volume group stays there, whatever its labels are. The labels are in spec.deviceLabels of the
LVMVolumeGroupNodeStatus of the node, and are deleted with it.

A device is a path, a link in /dev/disk/by-id or /dev/disk/by-path, or an ID. A device that is no longer attached is
given by its ID.`,
		Example: `  # Label a disk
  kubectl lvms label worker-1 /dev/disk/by-id/wwn-0x5000c500a1b2c3d4 tier=fast

  # Change a label, and remove another one
  kubectl lvms label worker-1 /dev/sdb tier=slow rack- --overwrite`,
		ValidArgsFunction: func(c *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
			return completeLabel(e, c, args, begin)
		},
		RunE: func(command *cobra.Command, args []string) error {
			if err := r.writing.Validate(); err != nil {
				return err
			}
			if err := r.parse(args); err != nil {
				return err
			}
			return r.run(command)
		}}
	r.writing.AddWriteFlags(command)
	command.Flags().BoolVar(&r.request.overwrite, "overwrite", false, "change labels that the device has with another "+
		"value")
	return command
}

// labelRun is a command that changes the labels of a device.
type labelRun struct {
	env          *session.Environment
	source       *session.Source
	writing      session.Writing
	terminal     *session.Terminal
	node, device string
	request      labelRequest
}

func (r *labelRun) parse(args []string) error {
	if len(args) < 2 || args[0] == "" || args[1] == "" {
		return errors.New("give the node and the device: kubectl lvms devices lists them")
	}
	r.node = args[0]
	r.device = args[1]
	return r.request.parse(args[2:])
}

func (r *labelRun) run(command *cobra.Command) error {
	ctx := command.Context()
	s, err := r.env.Source(r.env.Namespace())
	if err != nil {
		return err
	}
	r.source = s
	r.terminal = r.env.Terminal(command)
	shown, err := r.read(ctx)
	if err != nil {
		return err
	}
	r.terminal.NoteTarget(s, session.Target{Node: r.node, Status: shown.before}, r.env.Now())
	out := r.terminal.Out
	if r.writing.IsDryRun() {
		out = r.terminal.ErrOut
	}
	fmt.Fprint(out, shown.preview())
	switch {
	case r.writing.IsDryRun():
		return r.print(shown)
	case len(shown.lines) == 0:
		return nil
	}
	if err := r.terminal.Confirm(ctx, &r.writing, "Change the labels?"); err != nil {
		return err
	}
	return r.write(ctx, shown)
}

func (r *labelRun) read(ctx context.Context) (labelChange, error) {
	nodes, err := r.source.NodeStatuses(ctx)
	if err != nil {
		return labelChange{}, err
	}
	return newLabelChange(nodes, r.node, r.device, r.request)
}

// print prints the merge patch, or an empty one if nothing changes.
func (r *labelRun) print(shown labelChange) error {
	fmt.Fprintln(r.terminal.ErrOut, "This is the merge patch of "+shown.object()+":")
	patch := []byte("{}\n")
	if len(shown.lines) > 0 {
		data, err := shown.patch().Data(shown.after)
		if err != nil {
			return err
		}
		if patch, err = yaml.JSONToYAML(data); err != nil {
			return err
		}
	}
	fmt.Fprint(r.terminal.Out, string(patch))
	return nil
}

// write writes the change that was shown. The node agent often writes the status of the same object: after a conflict,
// it reads again, and writes only if the change is still the same.
func (r *labelRun) write(ctx context.Context, shown labelChange) error {
	now := shown
	for pause := session.FirstPause / 4; ; pause *= 2 {
		err := r.source.Client.Patch(ctx, now.after.DeepCopy(), now.patch())
		switch {
		case err == nil:
			fmt.Fprintf(r.terminal.Out, "The labels of the %s were changed.\n", now.device)
			return nil
		case !apierrors.IsConflict(err) || pause >= session.FirstPause<<(session.MaxConflicts-2):
			return session.ExplainWrite(err, "patch", session.NodeStatusesResource, now.object())
		}
		if err := r.env.Pause(ctx, pause); err != nil {
			return err
		}
		if now, err = r.read(ctx); err != nil {
			return err
		}
		if now.preview() != shown.preview() {
			return fmt.Errorf("the labels of the %s were changed in the meantime, so that this change is another one "+
				"than the one above. Nothing was changed: run the command again", shown.device)
		}
	}
}

// completeLabel completes the node, then the device, then the labels that devices have.
func completeLabel(e *session.Environment, command *cobra.Command, args []string,
	begin string) ([]string, cobra.ShellCompDirective) {
	return e.Suggest(command, "the arguments", begin,
		func(ctx context.Context, reader client.Reader, _ *cobra.Command) ([]string, error) {
			return session.NamesOfNodes(ctx, reader, func(n *v1alpha1.LVMVolumeGroupNodeStatus) []string {
				switch {
				case len(args) == 0:
					return []string{n.Name}
				case len(args) == 1 && args[0] == n.Name:
					return deviceNames(n)
				case len(args) > 1:
					return labelsOn(n, args[0])
				}
				return nil
			})
		})
}

func deviceNames(n *v1alpha1.LVMVolumeGroupNodeStatus) []string {
	var found []string
	for i := range n.Status.Devices {
		found = append(found, n.Status.Devices[i].Name)
	}
	return found
}

// labelsOn returns the labels of devices of a node as arguments that set them and, if it is the node of the command,
// those that remove them.
func labelsOn(n *v1alpha1.LVMVolumeGroupNodeStatus, node string) []string {
	var found []string
	for _, entry := range n.Spec.DeviceLabels {
		for key, value := range entry.Labels {
			found = append(found, key+"="+string(value))
			if n.Name == node {
				found = append(found, key+"-")
			}
		}
	}
	return found
}
