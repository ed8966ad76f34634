package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

const (
	// completionTimeout is how long a shell waits for values.
	completionTimeout = 3 * time.Second
	// completionObjects is the maximum number of objects that are read to complete a value.
	completionObjects = 500
)

// names returns the values for a flag or an argument. It reads one page of objects.
type names func(ctx context.Context, reader client.Reader, command *cobra.Command) ([]string, error)

// completeNodes completes the nodes of --node.
func (e *environment) completeNodes(command *cobra.Command) {
	e.complete(command, "node", func(ctx context.Context, reader client.Reader, _ *cobra.Command) ([]string, error) {
		return namesOfNodes(ctx, reader, func(n *v1alpha1.LVMVolumeGroupNodeStatus) []string {
			return []string{n.Name}
		})
	})
}

// completeClasses completes the device classes of --class.
func (e *environment) completeClasses(command *cobra.Command) {
	e.complete(command, "class", func(ctx context.Context, reader client.Reader, _ *cobra.Command) ([]string, error) {
		return namesOfNodes(ctx, reader, func(n *v1alpha1.LVMVolumeGroupNodeStatus) []string {
			var classes []string
			for i := range n.Status.NodeStatus {
				classes = append(classes, n.Status.NodeStatus[i].Name)
			}
			return classes
		})
	})
}

// completeDevices completes the devices of --device: those that a device class of the node of --node uses.
func (e *environment) completeDevices(command *cobra.Command) {
	e.complete(command, "device", func(ctx context.Context, reader client.Reader, c *cobra.Command) ([]string, error) {
		node, _ := c.Flags().GetString("node")
		return namesOfNodes(ctx, reader, func(n *v1alpha1.LVMVolumeGroupNodeStatus) []string {
			var devices []string
			for i := range n.Status.Devices {
				if device := &n.Status.Devices[i]; (node == "" || node == n.Name) && len(classesOf(n, device)) > 0 {
					devices = append(devices, device.Name)
				}
			}
			return devices
		})
	})
}

// completeClaims completes the claims of --claim.
func (e *environment) completeClaims(command *cobra.Command) {
	e.complete(command, "claim", func(ctx context.Context, reader client.Reader, _ *cobra.Command) ([]string, error) {
		return namesOfVolumes(ctx, reader, func(lv *topolvmv1.LogicalVolume) string {
			claim := lv.Annotations[v1alpha1.ClaimAnnotation]
			if namespace := e.namespace(); namespace != "" && !strings.HasPrefix(claim, namespace+"/") {
				return ""
			}
			return claim
		})
	})
}

// namesOfVolumes returns names in the LogicalVolumes.
func namesOfVolumes(ctx context.Context, reader client.Reader,
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

// namesOfNodes returns names in the node statuses of all namespaces, or of the default one if the user may not list in
// all.
func namesOfNodes(ctx context.Context, reader client.Reader,
	of func(*v1alpha1.LVMVolumeGroupNodeStatus) []string) ([]string, error) {
	page := &v1alpha1.LVMVolumeGroupNodeStatusList{}
	if err := reader.List(ctx, page, client.Limit(completionObjects)); err != nil {
		err = reader.List(ctx, page, client.Limit(completionObjects), client.InNamespace(defaultNamespace))
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

// complete completes the values of a flag.
func (e *environment) complete(command *cobra.Command, flag string, values names) {
	_ = command.RegisterFlagCompletionFunc(flag,
		func(command *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
			return e.suggest(command, "--"+flag, begin, values)
		})
}

// suggest returns the values that have a beginning. If they cannot be read in time, there are none.
func (e *environment) suggest(command *cobra.Command, what, begin string,
	values names) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
	defer cancel()
	reader, err := e.connect()
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
