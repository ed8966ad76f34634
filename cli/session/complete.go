package session

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

const (
	// completionTimeout is how long a shell waits for values.
	completionTimeout = 3 * time.Second
	// completionObjects is the maximum number of objects that are read to complete a value.
	completionObjects = 500
)

// Names returns the values for a flag or an argument. It reads one page of objects.
type Names func(ctx context.Context, reader client.Reader, command *cobra.Command) ([]string, error)

// CompleteNodes completes the nodes of --node.
func (e *Environment) CompleteNodes(command *cobra.Command) {
	e.Complete(command, "node", func(ctx context.Context, reader client.Reader, _ *cobra.Command) ([]string, error) {
		return NamesOfNodes(ctx, reader, func(n *v1alpha1.LVMVolumeGroupNodeStatus) []string {
			return []string{n.Name}
		})
	})
}

// CompleteClasses completes the device classes of --class.
func (e *Environment) CompleteClasses(command *cobra.Command) {
	e.Complete(command, "class", func(ctx context.Context, reader client.Reader, _ *cobra.Command) ([]string, error) {
		return NamesOfNodes(ctx, reader, func(n *v1alpha1.LVMVolumeGroupNodeStatus) []string {
			var classes []string
			for i := range n.Status.NodeStatus {
				classes = append(classes, n.Status.NodeStatus[i].Name)
			}
			return classes
		})
	})
}

// CompleteDevices completes the devices of --device: those that a device class of the node of --node uses.
func (e *Environment) CompleteDevices(command *cobra.Command) {
	e.Complete(command, "device", func(ctx context.Context, reader client.Reader, c *cobra.Command) ([]string, error) {
		node, _ := c.Flags().GetString("node")
		return NamesOfNodes(ctx, reader, func(n *v1alpha1.LVMVolumeGroupNodeStatus) []string {
			var devices []string
			for i := range n.Status.Devices {
				device := &n.Status.Devices[i]
				if (node == "" || node == n.Name) && len(verdict.ClassesOf(n, device)) > 0 {
					devices = append(devices, device.Name)
				}
			}
			return devices
		})
	})
}

// CompleteClaims completes the claims of --claim.
func (e *Environment) CompleteClaims(command *cobra.Command) {
	e.Complete(command, "claim", func(ctx context.Context, reader client.Reader, _ *cobra.Command) ([]string, error) {
		return NamesOfVolumes(ctx, reader, func(lv *topolvmv1.LogicalVolume) string {
			claim := view.Claim(lv)
			if namespace := e.Namespace(); namespace != "" && !strings.HasPrefix(claim, namespace+"/") {
				return ""
			}
			return claim
		})
	})
}

// NamesOfVolumes returns names in the LogicalVolumes.
func NamesOfVolumes(ctx context.Context, reader client.Reader,
	of func(*topolvmv1.LogicalVolume) string) ([]string, error) {
	page := &topolvmv1.LogicalVolumeList{}
	if err := reader.List(ctx, page, client.Limit(completionObjects)); err != nil {
		return nil, err
	}
	var found []string
	for i := range page.Items {
		found = append(found, of(&page.Items[i]))
	}
	return found, nil
}

// NamesOfNodes returns names in the node statuses of all namespaces, or of the default one if the user may not list in
// all.
func NamesOfNodes(ctx context.Context, reader client.Reader,
	of func(*v1alpha1.LVMVolumeGroupNodeStatus) []string) ([]string, error) {
	page := &v1alpha1.LVMVolumeGroupNodeStatusList{}
	if err := reader.List(ctx, page, client.Limit(completionObjects)); err != nil {
		err = reader.List(ctx, page, client.Limit(completionObjects), client.InNamespace(DefaultNamespace))
		if err != nil {
			return nil, err
		}
	}
	var found []string
	for i := range page.Items {
		found = append(found, of(&page.Items[i])...)
	}
	return found, nil
}

// Complete completes the values of a flag.
func (e *Environment) Complete(command *cobra.Command, flag string, values Names) {
	_ = command.RegisterFlagCompletionFunc(flag,
		func(command *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
			return e.Suggest(command, "--"+flag, begin, values)
		})
}

// Suggest returns the values that have a beginning. If they cannot be read in time, there are none.
func (e *Environment) Suggest(command *cobra.Command, what, begin string,
	values Names) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
	defer cancel()
	reader, err := e.Connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, err := values(ctx, reader, command)
	if err != nil {
		cobra.CompDebugln("cannot complete "+what+": "+err.Error(), false)
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found = slices.DeleteFunc(found, func(v string) bool { return v == "" || !strings.HasPrefix(v, begin) })
	slices.Sort(found)
	return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
}
