package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

// deviceStates are the values of --state.
var deviceStates = []string{string(v1alpha1.DeviceAvailable), string(v1alpha1.DeviceInUse),
	string(v1alpha1.DeviceExcluded), string(v1alpha1.DeviceMissing), string(v1alpha1.DeviceFailing),
	string(v1alpha1.DeviceUnknown)}

func devicesCommand(e *session.Environment) *cobra.Command {
	o := &output.Options{}
	node := ""
	states := []string{}
	command := &cobra.Command{
		Use:   "devices",
		Short: "List the block devices of the nodes, with their state and why they are not used",
		Long: `List the block devices of all nodes, used or unused, with their state and the reasons why they are
not used. Logical volumes are not listed. docs/reference/devices.md has the states, and docs/reference/conditions.md
the reasons.

If the state of a node is not current, a warning says so.`,
		Example: `  # List the devices that a device class could use
  kubectl lvms devices --state Available

  # Show why the devices of a node are not used
  kubectl lvms devices --node worker-1 --state Excluded -o wide`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := validateStates(states); err != nil {
				return err
			}
			nodes, s, err := e.ReadNodes(command.Context(), o, node)
			if err != nil {
				return err
			}
			devices := newDevices(nodes, states, e.Now())
			devices.Notes = s.Notes
			output.PrintNotes(command.ErrOrStderr(), o, devices.Notes)
			output.PrintNodes(command.ErrOrStderr(), o, devices.Nodes)
			return output.PrintList(command, o, devices, deviceTable(devices))
		},
	}
	o.AddFlags(command)
	command.Flags().StringVar(&node, "node", "", "list only the devices of this node")
	command.Flags().StringSliceVar(&states, "state", nil, "list only devices in these states: "+
		strings.Join(deviceStates, ", "))
	e.CompleteNodes(command)
	_ = command.RegisterFlagCompletionFunc("state",
		cobra.FixedCompletions(deviceStates, cobra.ShellCompDirectiveNoFileComp))
	return command
}

func validateStates(states []string) error {
	for _, state := range states {
		if !slices.Contains(deviceStates, state) {
			return fmt.Errorf("--state %q is not a state of a device: use one of %s", state,
				strings.Join(deviceStates, ", "))
		}
	}
	return nil
}

func classesCommand(e *session.Environment) *cobra.Command {
	o := &output.Options{}
	node := ""
	class := ""
	command := &cobra.Command{
		Use:   "classes",
		Short: "List the device classes of the nodes, with their state, size and the use of thin pools",
		Long: `List the device classes of each node, with the state, the size and the free space of the volume group,
and the use of data and metadata of the thin pool in percent. A thin pool counts as used space of its volume group.

A device class that no node has reported is not listed: status shows it.`,
		Example: `  # List the device classes of all nodes
  kubectl lvms classes

  # Show what is wrong with a device class
  kubectl lvms classes --class vg1 -o wide`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			nodes, s, err := e.ReadNodes(command.Context(), o, node)
			if err != nil {
				return err
			}
			classes := newClasses(nodes, class, e.Now())
			classes.Notes = s.Notes
			output.PrintWithoutDevices(command.ErrOrStderr(), o, classes.Notes, classes.Nodes)
			return output.PrintList(command, o, classes, classTable(classes))
		},
	}
	o.AddFlags(command)
	command.Flags().StringVar(&node, "node", "", "list only the device classes of this node")
	command.Flags().StringVar(&class, "class", "", "list only this device class")
	e.CompleteNodes(command)
	e.CompleteClasses(command)
	return command
}
