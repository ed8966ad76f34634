package setup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

// reviewKind is the kind of the file that discover writes and init reads.
const reviewKind = "DeviceReview"

func discoverCommand(e *session.Environment) *cobra.Command {
	node := ""
	command := &cobra.Command{Use: "discover", Short: "Write the available devices of the nodes to a file for a review",
		Long: `Write the devices of the nodes as YAML: those that can be used, each with its content and fingerprint
and "select: false", and the others with the reasons why they cannot be used. Set "select: true" for the devices to use,
and give the file to init.

An LVMCluster must exist, so that node agents list the devices. It needs no device class: init without a file creates
it.`,
		Example: `  # Review the devices of all nodes
  kubectl lvms discover > review.yaml`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			nodes, s, err := e.ReadNodes(command.Context(), &output.Options{}, node)
			if err != nil {
				return err
			}
			errOut := command.ErrOrStderr()
			output.PrintNotes(errOut, &output.Options{}, s.Notes)
			output.PrintNodes(errOut, &output.Options{}, objects.NewNodes(nodes, e.Now()))
			data, err := yaml.Marshal(newReview(nodes))
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(command.OutOrStdout(), reviewHeader+string(data))
			return err
		}}
	command.Flags().StringVar(&node, "node", "", "list only the devices of this node")
	e.CompleteNodes(command)
	return command
}

const reviewHeader = `# Check each device, and set "select: true" for those to use. Then run: kubectl lvms init FILE
# A device that changes after this review is left alone.
`

// newReview returns the devices of nodes for a review.
func newReview(nodes []v1alpha1.LVMVolumeGroupNodeStatus) output.DeviceReview {
	review := output.DeviceReview{TypeMeta: output.TypeMeta(reviewKind), Devices: []output.ReviewedDevice{}}
	for i := range nodes {
		for j := range nodes[i].Status.Devices {
			device := &nodes[i].Status.Devices[j]
			if why := whyNotReviewed(device); why != "" {
				review.Unavailable = append(review.Unavailable, output.UnavailableDevice{Node: nodes[i].Name,
					Device: device.Name, Content: contentOf(device), Reason: why})
				continue
			}
			review.Devices = append(review.Devices, output.ReviewedDevice{Node: nodes[i].Name, Device: device.Name,
				Path: objects.StablePath(device), ID: device.ID, Size: output.SizeOf(device.Size), Model: device.Model,
				Content: contentOf(device), Fingerprint: device.Fingerprint})
		}
	}
	slices.SortStableFunc(review.Devices, func(a, b output.ReviewedDevice) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Device, b.Device))
	})
	slices.SortStableFunc(review.Unavailable, func(a, b output.UnavailableDevice) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Device, b.Device))
	})
	return review
}

// whyNotReviewed returns why a device cannot be chosen, or "".
func whyNotReviewed(device *v1alpha1.DeviceStatus) string {
	var codes []string
	for _, r := range device.Reasons {
		if !slices.Contains(codes, r.Code) {
			codes = append(codes, r.Code)
		}
	}
	switch {
	case device.State != v1alpha1.DeviceAvailable:
		return string(device.State) + ": " + cmp.Or(strings.Join(codes, ", "), "no reason reported")
	case device.Fingerprint == "":
		return "nothing but its name identifies it, so it has no fingerprint"
	}
	return ""
}
