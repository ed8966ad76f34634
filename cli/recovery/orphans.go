package recovery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

func orphansCommand(e *session.Environment) *cobra.Command {
	o := &output.Options{}
	node := ""
	class := ""
	command := &cobra.Command{
		Use:   "orphans",
		Short: "List the volumes that nothing refers to",
		Long: `List the logical volumes without an object (LogicalVolume), the objects without a logical volume
(Object), the volumes that nothing claims (Unclaimed), and the volumes whose object names another node, which
lacks them (OtherNode). docs/how-to/orphans.md says what to do about each.

To keep the data of a logical volume, use import. To delete it, use orphans delete.`,
		Example: `  # List the orphans of a node
  kubectl lvms orphans --node worker-1`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			nodes, s, err := e.ReadNodes(command.Context(), o, node)
			if err != nil {
				return err
			}
			orphans := newOrphans(nodes, node, class)
			orphans.Nodes = objects.NewNodes(nodes, e.Now())
			orphans.Notes = append(s.Notes, orphans.Notes...)
			output.PrintWithoutDevices(command.ErrOrStderr(), o, orphans.Notes, orphans.Nodes)
			return output.PrintList(command, o, orphans, orphanTable(orphans))
		},
	}
	o.AddFlags(command)
	command.Flags().StringVar(&node, "node", "", "list only the orphans on this node")
	command.Flags().StringVar(&class, "class", "", "list only the orphans of this device class")
	e.CompleteNodes(command)
	e.CompleteClasses(command)
	command.AddCommand(deleteOrphansCommand(e))
	return command
}

func deleteOrphansCommand(e *session.Environment) *cobra.Command {
	var volumes []string
	return newRecoveryCommand(e, recoveryCommand{
		use: "delete", action: v1alpha1.RecoveryDeleteOrphans,
		short: "Delete logical volumes that no object refers to, with their data",
		long: `Delete logical volumes by name that no object of the cluster refers to, with their data. The node agent
refuses to delete a volume that is in use, or to which a LogicalVolume or a PersistentVolume refers.`,
		example: `  # Delete an orphan that is not needed
  kubectl lvms orphans delete --node worker-1 --class vg1 --volume 2f0c8f6e-7d5f-4b0e-a8d3-3a4c7e0c7c11`,
		addFlags: func(command *cobra.Command) {
			command.Flags().StringSliceVar(&volumes, "volume", nil, "delete this logical volume. It can be repeated")
			completeOrphans(e, command)
		},
		complete: func(r *recoveryRequest) error {
			if r.volumes = volumeNames(volumes, r.at.Group().Group()); len(r.volumes) == 0 {
				return errors.New("--volume is missing: give the logical volumes to delete; kubectl lvms orphans " +
					"lists them")
			}
			return nil
		},
	})
}

// newOrphans returns the orphans of nodes, on one node and in one device class if they are given.
func newOrphans(nodes []v1alpha1.LVMVolumeGroupNodeStatus, node, class string) output.OrphanList {
	all := output.OrphanList{TypeMeta: output.TypeMeta("OrphanList"), Items: []output.Orphan{}}
	for i := range nodes {
		if node != "" && nodes[i].Name != node {
			continue
		}
		for _, group := range nodes[i].Status.NodeStatus {
			if class != "" && group.Name != class {
				continue
			}
			for _, orphan := range group.Orphans {
				all.Items = append(all.Items, output.Orphan{Node: nodes[i].Name, DeviceClass: group.Name,
					OrphanStatus: orphan})
			}
			if more := int(group.OrphanCount) - len(group.Orphans); more > 0 {
				all.Notes = append(all.Notes, fmt.Sprintf("Device class %s on node %s has %d more orphans, which the "+
					"node status does not list.", group.Name, nodes[i].Name, more))
			}
		}
	}
	slices.SortStableFunc(all.Items, func(a, b output.Orphan) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.DeviceClass, b.DeviceClass),
			cmp.Compare(a.Name, b.Name))
	})
	return all
}

func orphanTable(orphans output.OrphanList) *metav1.Table {
	table := output.NewTable([]string{"Node", "Class", "Kind", "Name", "Size", "Claim"},
		[]string{"Created", "Removed at", "Object", "Object node"})
	for i := range orphans.Items {
		o := &orphans.Items[i]
		output.AddRow(table, o.Node, o.DeviceClass, string(o.Kind), o.Name, output.SizeOf(o.Size), o.Claim,
			output.TimeText(o.Created), output.TimeText(o.RemovalTime), o.Object, o.ObjectNode)
	}
	return table
}
