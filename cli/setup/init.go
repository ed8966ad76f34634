package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

// initFlags are the flags of init.
type initFlags struct {
	session.Writing
	class, thinPool string
	isDefault       bool
	approve         bool
}

func initCommand(e *session.Environment) *cobra.Command {
	f := &initFlags{}
	command := &cobra.Command{Use: "init [FILE]",
		Short: "Create an LVMCluster, or a device class with the devices of a review",
		Long: `Without a file, create an LVMCluster if the cluster has none, so that node agents list the devices. It
has the name my-lvmcluster and no device class.

With a file of discover, create a device class in the LVMCluster, with the devices that have "select: true" in the file.
It selects them by path on each node, and has "approval: Required": a device that was changed since the review is left
alone with the reason ChangedSinceReview. Then it creates the approvals, with your user name. If more than 16 sets of
paths are necessary, which is the limit of the API, nodes share selectors with optionalPaths.

With --approve=false, it creates no approvals: others review the devices and run approve.`,
		Example: `  # Create an LVMCluster
  kubectl lvms init

  # Create a device class with a thin pool
  kubectl lvms discover > review.yaml
  kubectl lvms init review.yaml --class vg1 --thin-pool thin-pool-1`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := f.Writing.Validate(); err != nil {
				return err
			}
			if len(args) == 0 {
				return initCluster(e, command, f)
			}
			review, err := readReview(args[0])
			if err != nil {
				return err
			}
			return createClass(e, command, f, review)
		}}
	command.Flags().StringVar(&f.class, "class", "vg1", "the name of the new device class and of its volume groups")
	command.Flags().StringVar(&f.thinPool, "thin-pool", "", "the name of a thin pool for thin volumes and snapshots, "+
		"with the default size and a ratio of 10. Without it, volumes are thick")
	command.Flags().BoolVar(&f.isDefault, "default", false, "make its StorageClass the default one")
	command.Flags().BoolVar(&f.approve, "approve", true, "approve the devices")
	f.Writing.AddWriteFlags(command)
	return command
}

// readReview returns the devices of a file that are selected.
func readReview(file string) ([]output.ReviewedDevice, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the review: %w", err)
	}
	review := output.DeviceReview{}
	if err := yaml.UnmarshalStrict(text, &review); err != nil {
		return nil, fmt.Errorf("%s is not a file of kubectl lvms discover: %w", file, err)
	}
	if review.TypeMeta != output.TypeMeta(reviewKind) {
		return nil, fmt.Errorf("%s is not a file of kubectl lvms discover: it has the kind %q of %q", file, review.Kind,
			review.APIVersion)
	}
	chosen := slices.DeleteFunc(review.Devices, func(d output.ReviewedDevice) bool { return !d.Select })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no device is selected: set \"select: true\" for devices in %s", file)
	}
	return chosen, nil
}

func createClass(e *session.Environment, command *cobra.Command, f *initFlags, review []output.ReviewedDevice) error {
	ctx := command.Context()
	s, err := e.Source(e.Namespace())
	if err != nil {
		return err
	}
	class, err := newReviewedClass(f, review)
	if err != nil {
		return err
	}
	clusters, err := s.Clusters(ctx)
	if err != nil {
		return err
	}
	cluster, patch, err := additionOf(clusters, class)
	if err != nil {
		return err
	}
	nodes, err := s.NodeStatuses(ctx)
	if err != nil {
		return err
	}
	chosen, err := matchReview(nodes, review, f.class)
	if err != nil {
		return err
	}
	user, err := f.approver(ctx, s.Client)
	if err != nil {
		return err
	}
	t := e.Terminal(command)
	for _, note := range s.Notes {
		fmt.Fprintln(t.ErrOut, "note:", note)
	}
	text := initText(cluster, class, chosen, user)
	if f.IsDryRun() {
		fmt.Fprint(t.ErrOut, text)
		return printInit(t, cluster, patch, chosen, user)
	}
	fmt.Fprint(t.Out, text)
	if err := t.Confirm(ctx, &f.Writing, "Create the device class?"); err != nil {
		return err
	}
	if err := session.PatchWith(ctx, s.Client, cluster, patch); err != nil {
		return session.ExplainWrite(err, "patch", session.ClustersResource, clusterName(cluster))
	}
	fmt.Fprintf(t.Out, "%s was changed.\n", clusterName(cluster))
	if !f.approve {
		return nil
	}
	for i := range chosen {
		if err := createApproval(ctx, s.Client, t, newApproval(&chosen[i], cluster.Namespace, user)); err != nil {
			return err
		}
	}
	return nil
}

// approver returns the name of the user if the devices are to be approved, or "".
func (f *initFlags) approver(ctx context.Context, c client.Client) (string, error) {
	if !f.approve {
		return "", nil
	}
	return session.WhoAmI(ctx, c)
}

// printInit prints the patch of the LVMCluster and the approvals. user is empty if nothing is approved.
func printInit(t *session.Terminal, cluster *v1alpha1.LVMCluster, patch []session.Operation,
	chosen []output.WaitingDevice, user string) error {
	text, err := yaml.Marshal(patch)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.ErrOut, "This is the JSON patch of %s:\n", clusterName(cluster))
	fmt.Fprint(t.Out, string(text))
	if user == "" {
		return nil
	}
	fmt.Fprintln(t.Out, "---")
	return printApprovals(t, chosen, cluster.Namespace, user)
}

// matchReview returns the reviewed devices as the nodes list them now. It is an error if one has changed.
func matchReview(nodes []v1alpha1.LVMVolumeGroupNodeStatus, review []output.ReviewedDevice,
	class string) ([]output.WaitingDevice, error) {
	var chosen []output.WaitingDevice
	for _, r := range review {
		at := slices.IndexFunc(nodes, func(n v1alpha1.LVMVolumeGroupNodeStatus) bool { return n.Name == r.Node })
		if at < 0 {
			return nil, fmt.Errorf("node %s has no LVMVolumeGroupNodeStatus: it does not exist, or no node agent runs "+
				"on it", r.Node)
		}
		devices := nodes[at].Status.Devices
		now := slices.IndexFunc(devices, func(d v1alpha1.DeviceStatus) bool { return objects.IsNamed(&d, r.Path) })
		switch {
		case now < 0:
			return nil, fmt.Errorf("node %s no longer lists the device %s: run kubectl lvms discover again",
				r.Node, r.Path)
		case r.Fingerprint == "" || devices[now].Fingerprint != r.Fingerprint:
			return nil, fmt.Errorf("device %s of node %s has changed since the review: its fingerprint was %s and is "+
				"%s. Run kubectl lvms discover again", r.Path, r.Node, cmp.Or(r.Fingerprint, "missing"),
				cmp.Or(devices[now].Fingerprint, "missing"))
		}
		chosen = append(chosen, output.WaitingDevice{Node: r.Node, DeviceClass: class, Reason: objects.AwaitingApproval,
			Content: contentOf(&devices[now]), DeviceStatus: devices[now]})
	}
	return chosen, nil
}

// additionOf returns the LVMCluster that gets a device class, and the patch that adds it.
func additionOf(clusters []v1alpha1.LVMCluster, class v1alpha1.DeviceClass) (*v1alpha1.LVMCluster, []session.Operation,
	error) {
	switch {
	case len(clusters) == 0:
		return nil, nil, errors.New("there is no LVMCluster, so the devices cannot be compared with the review: run " +
			"kubectl lvms init without a file, which creates one, and then kubectl lvms discover again")
	case len(clusters) > 1:
		return nil, nil, errors.New("there are several LVMClusters: give the namespace of the operator with -n")
	}
	cluster := &clusters[0]
	present := cluster.Spec.Storage.DeviceClasses
	if slices.ContainsFunc(present, func(c v1alpha1.DeviceClass) bool { return c.Name == class.Name }) {
		return nil, nil, fmt.Errorf("%s already has the device class %s: give another name with --class, or add the "+
			"devices to its selector and run kubectl lvms approve", clusterName(cluster), class.Name)
	}
	add := session.Operation{Op: "add", Path: "/spec/storage/deviceClasses/-", Value: class}
	if len(present) == 0 {
		add = session.Operation{Op: "add", Path: "/spec/storage", Value: v1alpha1.Storage{
			DeviceClasses: []v1alpha1.DeviceClass{class}}}
	}
	return cluster, []session.Operation{{Op: "test", Path: "/metadata/uid", Value: cluster.UID},
		{Op: "replace", Path: "/metadata/resourceVersion", Value: cluster.ResourceVersion}, add}, nil
}

func clusterName(cluster *v1alpha1.LVMCluster) string {
	return "LVMCluster " + cluster.Namespace + "/" + cluster.Name
}

// initText returns what init does, as a person reads it. user is empty if nothing is approved.
func initText(cluster *v1alpha1.LVMCluster, class v1alpha1.DeviceClass, chosen []output.WaitingDevice,
	user string) string {
	var text strings.Builder
	kind := "thick volumes"
	if class.ThinPoolConfig != nil {
		kind = "the thin pool " + class.ThinPoolConfig.Name
	}
	fmt.Fprintf(&text, "%s gets the device class %s, with %s and these devices:\n", clusterName(cluster), class.Name,
		kind)
	for i := range chosen {
		d := &chosen[i]
		fmt.Fprintf(&text, "  node %s: %s (%s, %s, %s), content: %s\n", d.Node, objects.StablePath(&d.DeviceStatus),
			d.Name, cmp.Or(output.SizeOf(d.Size), "unknown size"), cmp.Or(d.Model, "unknown model"), d.Content)
	}
	if hasOptionalPaths(&class) {
		fmt.Fprintf(&text, "- Their paths are optionalPaths, because the API allows %d deviceSelectors, and more "+
			"nodes have paths of their own. A device that a node does not have is not reported.\n", maxSelectors)
	}
	if user == "" {
		fmt.Fprintln(&text, "- No device is used before it is approved: kubectl lvms approve")
		return text.String()
	}
	fmt.Fprintf(&text, "- The user %s approves these devices. The node agents create volume groups on them, if they "+
		"still have the fingerprints of the review.\n", user)
	return text.String()
}
