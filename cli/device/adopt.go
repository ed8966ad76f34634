package device

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

func adoptCommand(e *session.Environment) *cobra.Command {
	f := &deviceFlags{}
	uuid := ""
	command := &cobra.Command{Use: "adopt", Short: "Use a volume group whose disks came from another node or cluster",
		Long: `Allow a device class to use a volume group on a node whose disks came from another node or from another
cluster. It is renamed to the name of the device class. Do this only if other nodes and other clusters no longer
use its disks.

The status of the device class says VGMoved or OtherClusterVG, with the UUID of the volume group. Afterwards, import
moves or creates the objects of its volumes.`,
		Example: `  # Use the volume group of disks that were moved to worker-2
  kubectl lvms adopt --node worker-2 --class vg1 --volume-group wJBM8n-pLyu-fxzD-iQVk-tJvr-OI5T-WoXVtA`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := f.Writing.Validate(); err != nil {
				return err
			}
			r, err := newDeviceRun(e, command, f)
			if err != nil {
				return err
			}
			if err := checkVolumeGroup(r.at, uuid); err != nil {
				return err
			}
			r.compute = func(clusters []v1alpha1.LVMCluster) (change, error) { return adoption(clusters, r.at, uuid) }
			if goOn, err := r.apply(command.Context()); err != nil || !goOn {
				return err
			}
			fmt.Fprintf(r.terminal.Out, "The node agent uses the volume group within a minute: see kubectl lvms "+
				"classes --node %s -o wide. Then import its volumes: kubectl lvms import --node %s --class "+
				"%s\n", r.at.Node, r.at.Node,
				r.at.Class)
			return nil
		}}
	e.AddTargetFlags(command, &f.TargetFlags)
	f.Writing.AddWriteFlags(command)
	command.Flags().StringVar(&uuid, "volume-group", "", "the UUID of the volume group")
	completeVolumeGroups(e, command)
	return command
}

// checkVolumeGroup returns an error if no device of the node has the volume group.
func checkVolumeGroup(at session.Target, uuid string) error {
	var known []string
	for _, device := range at.Status.Status.Devices {
		if name := device.VolumeGroupUUID + " (" + device.VolumeGroup + ")"; device.VolumeGroupUUID != "" &&
			!slices.Contains(known, name) {
			known = append(known, name)
		}
		if uuid != "" && device.VolumeGroupUUID == uuid {
			return nil
		}
	}
	if len(known) == 0 {
		known = []string{"none"}
	}
	if uuid == "" {
		return fmt.Errorf("--volume-group is missing: give the UUID of one of the volume groups on node %s: "+
			"%s", at.Node, strings.Join(known, ", "))
	}
	return fmt.Errorf("no device of node %s has the volume group %s: it has "+
		"%s", at.Node, uuid, strings.Join(known, ", "))
}

// adoption returns the change that adopts a volume group on a node.
func adoption(clusters []v1alpha1.LVMCluster, at session.Target, uuid string) (change, error) {
	class, err := findClass(clusters, at.Class)
	if err != nil {
		return change{}, err
	}
	return change{class: class, operations: adoptOperations(class, at.Node, uuid), effects: []string{
		"The node agent uses the volume group with its volumes. If it has another name, it is renamed.",
		"No other node and no other cluster may use its disks: two writers destroy the data.",
		"The objects of its volumes are not changed: kubectl lvms import does that."}}, nil
}

// completeVolumeGroups completes the UUIDs of the volume groups on the node of --node.
func completeVolumeGroups(e *session.Environment, command *cobra.Command) {
	completeOfNode(e, command, "volume-group", func(device *v1alpha1.DeviceStatus) string {
		return device.VolumeGroupUUID
	})
}
