package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

// approveFlags are the flags of approve.
type approveFlags struct {
	session.TargetFlags
	session.Writing
	output.Options
	devices []string
}

func approveCommand(e *session.Environment) *cobra.Command {
	f := &approveFlags{}
	command := &cobra.Command{Use: "approve", Short: "Approve devices for a device class that requires it",
		Long: `Approve devices for a device class with "approval: Required". Without --device, list the devices that
wait for an approval, or that have changed since they were approved.

An approval is valid as long as the device has the fingerprint that the list shows: identity, size, content and use. It
does not allow the device to be wiped; only the selector of the device class can do that. It creates an
LVMDeviceApproval with your user name. To withdraw it before the device is used, delete the LVMDeviceApproval.`,
		Example: `  # List the devices that wait
  kubectl lvms approve

  # Review a device, and approve it
  kubectl lvms approve --node worker-1 --device /dev/disk/by-id/wwn-0x5000c500a1b2c3d4`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := errors.Join(f.Writing.Validate(), f.Options.Validate()); err != nil {
				return err
			}
			return approve(e, command, f)
		}}
	command.Flags().StringVar(&f.Node, "node", "", "the node; without --device, list only its devices")
	command.Flags().StringVar(&f.Class, "class", "", "the device class. It is not required if a device waits for only "+
		"one")
	command.Flags().StringSliceVar(&f.devices, "device", nil, "the device: a path, a link in /dev/disk/by-id or "+
		"/dev/disk/by-path, or an ID. It can be given several times")
	e.CompleteNodes(command)
	e.CompleteClasses(command)
	e.CompleteDevices(command)
	f.Writing.AddWriteFlags(command)
	f.Options.AddFlags(command)
	return command
}

func approve(e *session.Environment, command *cobra.Command, f *approveFlags) error {
	s, err := e.Source(e.Namespace())
	if err != nil {
		return err
	}
	nodes, err := s.NodeStatuses(command.Context())
	if err != nil {
		return err
	}
	if nodes, err = objects.OnNode(nodes, f.Node); err != nil {
		return err
	}
	list := newWaiting(nodes, f.Class)
	list.Nodes = objects.NewNodes(nodes, e.Now())
	list.Notes = s.Notes
	if len(f.devices) == 0 {
		output.PrintNotes(command.ErrOrStderr(), &f.Options, list.Notes)
		output.PrintWithoutDevices(command.ErrOrStderr(), &f.Options, nil, list.Nodes)
		if f.Options.IsTable() && len(list.Items) == 0 {
			fmt.Fprintln(command.ErrOrStderr(), "No device waits for an approval.")
			return nil
		}
		return output.PrintList(command, &f.Options, list, waitingTable(list))
	}
	if f.Node == "" {
		return errors.New("--node is missing: give the node of the device; kubectl lvms approve lists the devices " +
			"that wait")
	}
	t := e.Terminal(command)
	t.NoteTarget(s, session.Target{Node: f.Node, Status: &nodes[0]}, e.Now())
	chosen, err := chooseWaiting(&nodes[0], list.Items, f.devices)
	if err != nil {
		return err
	}
	return createApprovals(command.Context(), e, s, t, &f.Writing, nodes[0].Namespace, chosen)
}

// newWaiting returns the devices that wait for an approval for a device class, or for any if the name is empty.
func newWaiting(nodes []v1alpha1.LVMVolumeGroupNodeStatus, class string) output.WaitingList {
	all := output.WaitingList{TypeMeta: output.TypeMeta("WaitingList"), Items: []output.WaitingDevice{}}
	for i := range nodes {
		for j := range nodes[i].Status.Devices {
			device := &nodes[i].Status.Devices[j]
			for _, e := range device.Eligibility {
				if reason := objects.WaitReason(e.Reasons); reason != "" && (class == "" || class == e.DeviceClass) {
					all.Items = append(all.Items, output.WaitingDevice{Node: nodes[i].Name, DeviceClass: e.DeviceClass,
						Reason: reason, Content: contentOf(device), DeviceStatus: *device})
				}
			}
		}
	}
	slices.SortStableFunc(all.Items, func(a, b output.WaitingDevice) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.DeviceClass, b.DeviceClass))
	})
	return all
}

// contentOf returns what is on a device, in words.
func contentOf(device *v1alpha1.DeviceStatus) string {
	var found []string
	for _, s := range device.Signatures {
		text := s.Type
		if s.UUID != "" {
			text += " " + s.UUID
		}
		found = append(found, text)
	}
	switch {
	case len(found) > 0:
		return strings.Join(found, ", ")
	case device.State == v1alpha1.DeviceAvailable:
		return "blank"
	}
	return "unknown"
}

// chooseWaiting returns the devices with these names, each with the device class for which it waits.
func chooseWaiting(node *v1alpha1.LVMVolumeGroupNodeStatus, waiting []output.WaitingDevice,
	names []string) ([]output.WaitingDevice, error) {
	var chosen []output.WaitingDevice
	for _, name := range names {
		var found []output.WaitingDevice
		for _, w := range waiting {
			if objects.IsNamed(&w.DeviceStatus, name) {
				found = append(found, w)
			}
		}
		switch {
		case len(found) == 0 && len(objects.DevicesNamed(node, name)) == 0:
			return nil, fmt.Errorf("node %s has no device %s: kubectl lvms devices lists the devices", node.Name, name)
		case len(found) == 0:
			return nil, fmt.Errorf("device %s of node %s does not wait for an approval: kubectl lvms approve lists "+
				"the devices that wait, and kubectl lvms devices why others are not used", name, node.Name)
		case len(found) > 1:
			return nil, fmt.Errorf("device %s of node %s waits for several device classes: give one of them with "+
				"--class", name, node.Name)
		case found[0].Fingerprint == "":
			return nil, fmt.Errorf("device %s of node %s cannot be approved, because it has no fingerprint: it could "+
				"not be read, or nothing but its name or content identifies it", name, node.Name)
		}
		chosen = append(chosen, found[0])
	}
	return chosen, nil
}

// createApprovals shows what is approved, asks, and creates the LVMDeviceApprovals.
func createApprovals(ctx context.Context, e *session.Environment, s *session.Source, t *session.Terminal,
	w *session.Writing, namespace string, chosen []output.WaitingDevice) error {
	user, err := session.WhoAmI(ctx, s.Client)
	if err != nil {
		return err
	}
	out := t.Out
	if w.IsDryRun() {
		out = t.ErrOut
	}
	fmt.Fprint(out, approvalText(chosen, user))
	if w.IsDryRun() {
		return printApprovals(t, chosen, namespace, user)
	}
	if err := t.Confirm(ctx, w, "Approve "+output.CountOf(len(chosen), "device?", "devices?")); err != nil {
		return err
	}
	for i := range chosen {
		if err := createApproval(ctx, s.Client, t, newApproval(&chosen[i], namespace, user)); err != nil {
			return err
		}
	}
	return nil
}

func printApprovals(t *session.Terminal, chosen []output.WaitingDevice, namespace, user string) error {
	for i := range chosen {
		text, err := session.Manifest(newApproval(&chosen[i], namespace, user))
		if err != nil {
			return err
		}
		if i > 0 {
			text = "---\n" + text
		}
		fmt.Fprint(t.Out, text)
	}
	return nil
}

// approvalText returns the devices that are approved, and what that leads to, as a person reads it.
func approvalText(chosen []output.WaitingDevice, user string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "The user %s approves:\n", user)
	for i := range chosen {
		w := &chosen[i]
		fmt.Fprintf(&text, "  device %s of node %s for device class %s\n", w.Name, w.Node, w.DeviceClass)
		fmt.Fprintf(&text, "    ID %s, size %s, model %s\n", cmp.Or(w.ID, "none"),
			cmp.Or(output.SizeOf(w.Size), "unknown"), cmp.Or(w.Model, "unknown"))
		fmt.Fprintf(&text, "    content: %s\n    fingerprint: %s\n", w.Content, w.Fingerprint)
		if w.Reason == objects.ChangedSinceReview {
			fmt.Fprintln(&text, "    It was approved before, and has CHANGED since then.")
		}
	}
	fmt.Fprintln(&text, "- The node agents add the devices to the volume groups, if they still have these "+
		"fingerprints.")
	if slices.ContainsFunc(chosen, func(w output.WaitingDevice) bool { return len(w.Signatures) > 0 }) {
		fmt.Fprintln(&text, "- A device with content is used only if the selector of the device class allows it to be "+
			"wiped. Then its content is DESTROYED.")
	}
	return text.String()
}

// newApproval returns the LVMDeviceApproval of a device. The same approval always has the same name.
func newApproval(w *output.WaitingDevice, namespace, user string) *v1alpha1.LVMDeviceApproval {
	node := strings.TrimRight(w.Node[:min(len(w.Node), maxNodeInName)], "-.")
	_, hash, _ := strings.Cut(w.Fingerprint, "-")
	return &v1alpha1.LVMDeviceApproval{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: node + "-" + w.DeviceClass + "-" + hash[:min(len(hash), hashInName)]},
		Spec: v1alpha1.LVMDeviceApprovalSpec{NodeName: w.Node, DeviceClassName: w.DeviceClass,
			Device: objects.StablePath(&w.DeviceStatus), Fingerprint: w.Fingerprint, ApprovedBy: user}}
}

const (
	// maxNodeInName is how much of the name of a node is in the name of an approval.
	maxNodeInName = 150
	// hashInName is how much of a fingerprint is in the name of an approval.
	hashInName = 12
)

// createApproval creates an approval, unless it already exists.
func createApproval(ctx context.Context, c client.Client, t *session.Terminal,
	approval *v1alpha1.LVMDeviceApproval) error {
	name := "LVMDeviceApproval " + approval.Namespace + "/" + approval.Name
	err := c.Create(ctx, approval)
	if !apierrors.IsAlreadyExists(err) {
		if err == nil {
			fmt.Fprintln(t.Out, name+" was created.")
		}
		return session.ExplainWrite(err, "create", session.ApprovalsResource, name)
	}
	present := &v1alpha1.LVMDeviceApproval{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(approval), present); err != nil {
		return session.ExplainGet(err, session.ApprovalsResource, name)
	}
	same := approval.Spec
	same.ApprovedBy = present.Spec.ApprovedBy
	same.Device = present.Spec.Device
	if present.Spec != same {
		return fmt.Errorf("%s already exists, and is for another device: delete it, and run the command again", name)
	}
	fmt.Fprintf(t.Out, "%s already exists: %s approved the device on %s.\n", name, present.Spec.ApprovedBy,
		present.CreationTimestamp.UTC().Format("2006-01-02 15:04 UTC"))
	return nil
}

func waitingTable(waiting output.WaitingList) *metav1.Table {
	table := output.NewTable([]string{"Node", "Device", "Class", "Reason", "Size", "Content"},
		[]string{"ID", "Model", "Fingerprint"})
	for i := range waiting.Items {
		w := &waiting.Items[i]
		output.AddRow(table, w.Node, w.Name, w.DeviceClass, w.Reason, output.SizeOf(w.Size), w.Content, w.ID, w.Model,
			w.Fingerprint)
	}
	return table
}
