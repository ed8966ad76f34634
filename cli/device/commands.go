// Package device has the commands for devices of volume groups: cordon, drain, remove, replace, adopt, suspend and
// resume; the last two also for volumes.
package device

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

const howRequestsWork = `

It changes the device class in the LVMCluster. A request is in effect as long as the LVMCluster has it; uncordon
withdraws it. If you interrupt the command, the request stays, and the same command shows the progress again.`

// Commands returns the commands that change what is done with devices of volume groups, and those that suspend
// and resume volumes.
func Commands(e *session.Environment) []*cobra.Command {
	return []*cobra.Command{
		requestCommand(e, "cordon", v1alpha1.DeviceActionCordon, "Place no new data on a device",
			"Place no new data on a device of a volume group. Existing data stays and can be used.",
			`  # Place no new data on a disk
  kubectl lvms cordon --node worker-1 --device /dev/sdb`),
		requestCommand(e, "drain", v1alpha1.DeviceActionDrain, "Move the data of a device to the other devices of the "+
			"node",
			`Move the data of a device to the other devices of the volume group on the same node, while Pods use the
volumes. The device stays in the volume group, empty. All data is moved, or none.`,
			`  # Empty a disk, and show the progress
  kubectl lvms drain --node worker-1 --device /dev/disk/by-id/wwn-0x5000c500a1b2c3d4`),
		requestCommand(e, "remove", v1alpha1.DeviceActionRemove, "Drain a device and remove it from its volume group",
			`Move the data of a device to the other devices of the volume group on the same node, and remove the
device from the volume group. A lost device of a device class with raidConfig is removed after its volumes were
rebuilt on other devices. No data is discarded: for lost devices without redundancy, see forget.`,
			`  # See what would be changed
  kubectl lvms remove --node worker-1 --device /dev/sdb --dry-run

  # Remove a lost device of a device class with redundancy, by the UUID of its physical volume
  kubectl lvms remove --node worker-1 --class vg1 --device wJBM8n-pLyu-fxzD-iQVk-tJvr-OI5T-WoXVtA`),
		replaceCommand(e), uncordonCommand(e), adoptCommand(e), suspendCommand(e), resumeCommand(e),
	}
}

// deviceFlags are the flags of a command for one device.
type deviceFlags struct {
	session.TargetFlags
	session.Writing
	device string
}

func addDeviceFlags(e *session.Environment, command *cobra.Command, f *deviceFlags) {
	e.AddTargetFlags(command, &f.TargetFlags)
	f.Writing.AddFlags(command)
	command.Flags().StringVar(&f.device, "device", "", "the device: a path, a link in /dev/disk/by-id or "+
		"/dev/disk/by-path, an ID, or the UUID of a physical volume")
	e.CompleteDevices(command)
}

// runOfDevice reads where a device is.
func runOfDevice(e *session.Environment, command *cobra.Command, f *deviceFlags) (*deviceRun, error) {
	if err := f.Writing.Validate(); err != nil {
		return nil, err
	}
	if f.device == "" {
		return nil, fmt.Errorf("--device is missing: give the device; kubectl lvms devices lists the devices")
	}
	return newDeviceRun(e, command, f)
}

// memberRun reads where a device is that must be in a volume group.
func memberRun(e *session.Environment, command *cobra.Command, f *deviceFlags) (*deviceRun, member, error) {
	r, err := runOfDevice(e, command, f)
	if err != nil {
		return nil, member{}, err
	}
	m, err := findMember(r.at, f.device)
	return r, m, err
}

func newDeviceRun(e *session.Environment, command *cobra.Command, f *deviceFlags) (*deviceRun, error) {
	s, err := e.Source(e.Namespace())
	if err != nil {
		return nil, err
	}
	t := e.Terminal(command)
	nodes, err := s.NodeStatuses(command.Context())
	if err != nil {
		return nil, err
	}
	if f.Class == "" && f.device != "" {
		f.Class = classOfDevice(nodes, f.Node, f.device)
	}
	at, err := session.NewTarget(nodes, f.TargetFlags)
	if err != nil {
		return nil, err
	}
	t.NoteTarget(s, at, e.Now())
	return &deviceRun{env: e, source: s, terminal: t, writing: &f.Writing, at: at}, nil
}

// classOfDevice returns the only device class of a node that has a device, or "".
func classOfDevice(nodes []v1alpha1.LVMVolumeGroupNodeStatus, node, device string) string {
	found, err := objects.OnNode(slices.Clone(nodes), node)
	if err != nil {
		return ""
	}
	if at, _ := objects.Locate(found, device); len(at.Places) == 1 {
		return at.Places[0].Class
	}
	return ""
}

func requestCommand(e *session.Environment, use string, action v1alpha1.DeviceAction,
	short, long, example string) *cobra.Command {
	f := &deviceFlags{}
	command := &cobra.Command{Use: use, Short: short, Long: long + howRequestsWork, Example: example,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			r, m, err := memberRun(e, command, f)
			if err != nil {
				return err
			}
			if m.pv.State == v1alpha1.PhysicalVolumeMissing && action != v1alpha1.DeviceActionRemove {
				return fmt.Errorf("device %s of the %s is missing, so no data can be moved from it: attach it again, "+
					"or see kubectl lvms remove and kubectl lvms forget", m.name(), r.at)
			}
			r.compute = func(clusters []v1alpha1.LVMCluster) (change, error) {
				class, err := findClass(clusters, r.at.Class)
				if err != nil {
					return change{}, err
				}
				return change{class: class, operations: requestOperations(class, m, action),
					effects: m.effects(class.class(), action)}, nil
			}
			if goOn, err := r.apply(command.Context()); err != nil || !goOn {
				return err
			}
			return r.follow(command.Context(), m, action, false)
		}}
	addDeviceFlags(e, command, f)
	return command
}

func uncordonCommand(e *session.Environment) *cobra.Command {
	f := &deviceFlags{}
	command := &cobra.Command{Use: "uncordon", Short: "Withdraw the request for a device",
		Long: `Withdraw the request to cordon, drain or remove a device. What is not complete is canceled: the data
stays where it was, and the volume group places new data on the device again.

If the device has left the volume group, give the device as the request names it. If the device class still selects it,
it is used again.`,
		Example: `  # Use a device again that was cordoned
  kubectl lvms uncordon --node worker-1 --device /dev/sdb`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			r, err := runOfDevice(e, command, f)
			if err != nil {
				return err
			}
			m, notMember := findMember(r.at, f.device)
			r.compute = func(clusters []v1alpha1.LVMCluster) (change, error) {
				return withdrawal(clusters, r.at, m, f.device, notMember)
			}
			// Without a request, there is nothing to wait for: an administrator may have cordoned the device.
			if goOn, err := r.apply(command.Context()); err != nil || !goOn || notMember != nil || !r.changed {
				return err
			}
			return r.follow(command.Context(), m, "", false)
		}}
	addDeviceFlags(e, command, f)
	return command
}

// withdrawal returns the change that removes the requests for a device, which may have left the volume group.
func withdrawal(clusters []v1alpha1.LVMCluster, at session.Target, m member, device string, notMember error) (change,
	error) {
	class, err := findClass(clusters, at.Class)
	if err != nil {
		return change{}, err
	}
	if notMember == nil {
		return change{class: class, operations: requestOperations(class, m, ""),
			effects: m.effects(class.class(), "")}, nil
	}
	operations := withdrawOperations(class, at.Node, device)
	if len(operations) == 0 {
		return change{}, fmt.Errorf("%w. %s has no request for it either", notMember, class.name())
	}
	return change{class: class, operations: operations, effects: []string{"The device is not in the volume group. If " +
		"it is still attached to the node and the device class selects it, it is used again."}}, nil
}

func completeOfNode(e *session.Environment, command *cobra.Command, flag string,
	of func(*v1alpha1.DeviceStatus) string) {
	e.Complete(command, flag, func(ctx context.Context, reader client.Reader, c *cobra.Command) ([]string, error) {
		node, _ := c.Flags().GetString("node")
		return session.NamesOfNodes(ctx, reader, func(n *v1alpha1.LVMVolumeGroupNodeStatus) []string {
			var found []string
			for i := range n.Status.Devices {
				if node == "" || node == n.Name {
					found = append(found, of(&n.Status.Devices[i]))
				}
			}
			return found
		})
	})
}
