package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

const howRequestsWork = `

It changes the device class in the LVMCluster. A request is in effect as long as the LVMCluster has it; uncordon
withdraws it. If you interrupt the command, the request stays, and the same command shows the progress again.`

// change is a change of a device class in an LVMCluster.
type change struct {
	class      classAt
	operations []operation
	// effects say what the change leads to.
	effects []string
}

// deviceRun is a command that changes a device class.
type deviceRun struct {
	env      *environment
	source   *source
	terminal *terminal
	writing  *writing
	at       target
	// compute returns the change for the LVMClusters as they are now.
	compute func([]v1alpha1.LVMCluster) (change, error)
	// changed is true if there is something to change.
	changed bool
}

// apply shows the change, asks, and writes it. It returns false if nothing is to be waited for, after a dry run.
func (r *deviceRun) apply(ctx context.Context) (bool, error) {
	shown, err := r.read(ctx)
	if err != nil {
		return false, err
	}
	out := r.terminal.out
	if r.writing.isDryRun() {
		out = r.terminal.errOut
	}
	fmt.Fprint(out, shown.preview(r.at))
	if r.writing.isDryRun() {
		fmt.Fprintln(r.terminal.errOut, "This is the JSON patch of "+shown.class.name()+":")
		patch, err := yaml.Marshal(shown.patch())
		fmt.Fprint(r.terminal.out, string(patch))
		return false, err
	}
	if len(shown.operations) == 0 {
		return true, nil
	}
	r.changed = true
	if err := r.terminal.confirm(ctx, r.writing, "Change the LVMCluster?"); err != nil {
		return false, err
	}
	return true, r.write(ctx, shown)
}

func (r *deviceRun) read(ctx context.Context) (change, error) {
	clusters, err := list(ctx, r.source.client, &v1alpha1.LVMClusterList{},
		func(page *v1alpha1.LVMClusterList) []v1alpha1.LVMCluster { return page.Items },
		client.InNamespace(r.at.namespace))
	if err != nil {
		return change{}, explain(err, clustersResource, "in the namespace "+r.at.namespace)
	}
	return r.compute(clusters)
}

// patch returns the JSON patch of a change, or an empty one if nothing is to be changed.
func (c change) patch() []operation {
	if len(c.operations) == 0 {
		return []operation{}
	}
	return c.class.guarded(c.operations)
}

func (c change) preview(at target) string {
	var text strings.Builder
	if len(c.operations) == 0 {
		fmt.Fprintf(&text, "%s already has this for the %s. Nothing is changed.\n", c.class.name(), at)
		return text.String()
	}
	fmt.Fprintf(&text, "The device class %s in %s is changed:\n", at.class, c.class.name())
	for _, o := range c.operations {
		fmt.Fprintln(&text, "  "+c.describe(o))
	}
	for _, effect := range c.effects {
		fmt.Fprintln(&text, "-", effect)
	}
	return text.String()
}

// describe returns an operation as a person reads it.
func (c change) describe(o operation) string {
	field, rest, _ := strings.Cut(strings.TrimPrefix(o.Path, c.class.path("")), "/")
	if requests := c.class.class().DeviceRequests; o.Op == "remove" {
		if index, err := strconv.Atoi(rest); err == nil {
			requests = requests[index : index+1]
		}
		var lines []string
		for _, request := range requests {
			lines = append(lines, "- "+field+": "+inline(request))
		}
		return strings.Join(lines, "\n  ")
	}
	if field == "deviceSelector" {
		field += "." + strings.TrimSuffix(rest, "/-")
	}
	value := o.Value
	if list, ok := value.([]any); ok && len(list) == 1 {
		value = list[0]
	}
	return "+ " + field + ": " + inline(value)
}

// inline returns a value of an LVMCluster as YAML on one line.
func inline(value any) string {
	switch v := value.(type) {
	case v1alpha1.DeviceRequest:
		return fmt.Sprintf("{node: %s, device: %s, action: %s}", v.Node, v.Device, v.Action)
	case v1alpha1.VolumeGroupAdoption:
		return fmt.Sprintf("{node: %s, volumeGroupUUID: %s}", v.Node, v.VolumeGroupUUID)
	}
	return fmt.Sprint(value)
}

// maxConflicts is how often a change is computed again because the LVMCluster was changed in the meantime. The operator
// writes its status often.
const maxConflicts = 5

// write writes the change that was shown. If the LVMCluster was changed in the meantime, it writes only if the change
// is still the same.
func (r *deviceRun) write(ctx context.Context, shown change) error {
	now := shown
	for pause := firstPause / 4; ; pause *= 2 {
		err := patchWith(ctx, r.source.client, now.class.cluster, now.patch())
		switch {
		case err == nil:
			fmt.Fprintf(r.terminal.out, "%s was changed.\n", now.class.name())
			return nil
		case !apierrors.IsConflict(err) || pause >= firstPause<<(maxConflicts-2):
			return explainWrite(err, "patch", clustersResource, now.class.name())
		}
		if err := r.env.pause(ctx, pause); err != nil {
			return err
		}
		if now, err = r.read(ctx); err != nil {
			return err
		}
		if now.preview(r.at) != shown.preview(r.at) {
			return fmt.Errorf("%s was changed in the meantime, so that this change is another one than the one above. "+
				"Nothing was changed: run the command again", shown.class.name())
		}
	}
}

// blockedPolls is after how many reads in a row a blocked request is an error: the state can be that of an earlier one.
const blockedPolls = 5

// follow waits until a request is carried out. If canWait is true, a blocked device is not an error, because the volume
// group is about to get another one.
func (r *deviceRun) follow(ctx context.Context, m member, action v1alpha1.DeviceAction, canWait bool) error {
	if !r.writing.wait {
		return nil
	}
	blocked, last := 0, ""
	err := r.env.poll(ctx, r.writing, r.terminal, func(ctx context.Context) (bool, error) {
		status := &v1alpha1.LVMVolumeGroupNodeStatus{}
		key := client.ObjectKeyFromObject(r.at.status)
		if err := r.source.client.Get(ctx, key, status); err != nil {
			return false, explainGet(err, nodeStatusesResource, "LVMVolumeGroupNodeStatus "+key.String())
		}
		state, text := progressOf(status, m, action)
		if reason, message := notCurrent(status, r.env.now()); reason != "" {
			state, text = requestPending, "the state of the node is not current: "+single(message)
		}
		if text != last {
			last = text
			fmt.Fprintf(r.terminal.out, "%s %s: %s\n", r.env.now().Format("15:04:05"), m.name(), text)
		}
		if blocked++; state != requestBlocked {
			blocked = 0
		}
		if blocked >= blockedPolls && !canWait {
			return false, errFinal{fmt.Errorf("%w: device %s of the %s: %s. The request stays. To withdraw it: "+
				"kubectl lvms uncordon --node %s --class %s --device "+
				"%s", errNotPossible, m.name(), r.at, text, r.at.node, r.at.class,
				m.pv.UUID)}
		}
		return state == requestDone, nil
	})
	if err != nil && isWaitOver(err) {
		return fmt.Errorf("%w: device %s of the %s: %s. The request stays; to wait for it, run the command again",
			interrupted(err), m.name(), r.at, last)
	}
	if err == nil {
		fmt.Fprintf(r.terminal.out, "Done: device %s of the %s.\n", m.name(), r.at)
	}
	return err
}

// isWaitOver returns true if a wait ended before its goal, because of its time or the user.
func isWaitOver(err error) bool {
	return errors.Is(err, errTimeout) || errors.Is(err, context.Canceled)
}

func (e *environment) deviceCommands() []*cobra.Command {
	return []*cobra.Command{
		e.requestCommand("cordon", v1alpha1.DeviceActionCordon, "Place no new data on a device",
			"Place no new data on a device of a volume group. Existing data stays and can be used.",
			`  # Place no new data on a disk
  kubectl lvms cordon --node worker-1 --device /dev/sdb`),
		e.requestCommand("drain", v1alpha1.DeviceActionDrain, "Move the data of a device to the other devices of the "+
			"node",
			`Move the data of a device to the other devices of the volume group on the same node, while Pods use the volumes.
The device stays in the volume group, empty. All data is moved, or none.`,
			`  # Empty a disk, and show the progress
  kubectl lvms drain --node worker-1 --device /dev/disk/by-id/wwn-0x5000c500a1b2c3d4`),
		e.requestCommand("remove", v1alpha1.DeviceActionRemove, "Drain a device and remove it from its volume group",
			`Move the data of a device to the other devices of the volume group on the same node, and remove the device from the
volume group. A lost device of a device class with raidConfig is removed after its volumes were rebuilt on other
devices. No data is discarded: for lost devices without redundancy, see forget.`,
			`  # See what would be changed
  kubectl lvms remove --node worker-1 --device /dev/sdb --dry-run

  # Remove a lost device of a device class with redundancy, by the UUID of its physical volume
  kubectl lvms remove --node worker-1 --class vg1 --device wJBM8n-pLyu-fxzD-iQVk-tJvr-OI5T-WoXVtA`),
		e.replaceCommand(), e.uncordonCommand(), e.adoptCommand(),
	}
}

// deviceFlags are the flags of a command for one device.
type deviceFlags struct {
	targetFlags
	writing
	device string
}

func (e *environment) addDeviceFlags(command *cobra.Command, f *deviceFlags) {
	e.addTargetFlags(command, &f.targetFlags)
	f.writing.addFlags(command)
	command.Flags().StringVar(&f.device, "device", "", "the device: a path, a link in /dev/disk/by-id or "+
		"/dev/disk/by-path, an ID, or the UUID of a physical volume")
	e.completeDevices(command)
}

// deviceRun reads where a device is.
func (e *environment) deviceRun(command *cobra.Command, f *deviceFlags) (*deviceRun, error) {
	if err := f.writing.validate(); err != nil {
		return nil, err
	}
	if f.device == "" {
		return nil, fmt.Errorf("--device is missing: give the device; kubectl lvms devices lists the devices")
	}
	return e.newDeviceRun(command, f)
}

func (e *environment) newDeviceRun(command *cobra.Command, f *deviceFlags) (*deviceRun, error) {
	s, err := e.source(e.namespace())
	if err != nil {
		return nil, err
	}
	t := e.terminal(command)
	nodes, err := s.nodeStatuses(command.Context())
	if err != nil {
		return nil, err
	}
	if f.class == "" && f.device != "" {
		f.class = classOfDevice(nodes, f.node, f.device)
	}
	at, err := newTarget(nodes, f.targetFlags)
	if err != nil {
		return nil, err
	}
	t.noteTarget(s, at, e.now())
	return &deviceRun{env: e, source: s, terminal: t, writing: &f.writing, at: at}, nil
}

// classOfDevice returns the only device class of a node that has a device, or "".
func classOfDevice(nodes []v1alpha1.LVMVolumeGroupNodeStatus, node, device string) string {
	found, err := onNode(slices.Clone(nodes), node)
	if err != nil {
		return ""
	}
	if at, _ := locate(found, device); len(at.places) == 1 {
		return at.places[0].class
	}
	return ""
}

func (e *environment) requestCommand(use string, action v1alpha1.DeviceAction,
	short, long, example string) *cobra.Command {
	f := &deviceFlags{}
	command := &cobra.Command{Use: use, Short: short, Long: long + howRequestsWork, Example: example,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			r, err := e.deviceRun(command, f)
			if err != nil {
				return err
			}
			m, err := findMember(r.at, f.device)
			if err != nil {
				return err
			}
			if m.pv.State == v1alpha1.PhysicalVolumeMissing && action != v1alpha1.DeviceActionRemove {
				return fmt.Errorf("device %s of the %s is missing, so no data can be moved from it: attach it again, "+
					"or see kubectl lvms remove and kubectl lvms forget", m.name(), r.at)
			}
			r.compute = func(clusters []v1alpha1.LVMCluster) (change, error) {
				class, err := findClass(clusters, r.at.class)
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
	e.addDeviceFlags(command, f)
	return command
}

func (e *environment) replaceCommand() *cobra.Command {
	f, with := &deviceFlags{}, ""
	command := &cobra.Command{Use: "replace", Short: "Add a new device to a volume group, and remove another one",
		Long: `Add the path of a new, blank device of the node to the device class, and request that the old device is drained and
removed, in one change. The volume group gets the new device first.

The device class must select devices by path, with one deviceSelector that does not wipe devices. Other device classes
find new devices themselves: wait for that, and use remove.` + howRequestsWork,
		Example: `  # Replace a disk that fails with a new one
  kubectl lvms replace --node worker-1 --device /dev/sdb --with /dev/sdc`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			r, err := e.deviceRun(command, f)
			if err != nil {
				return err
			}
			m, err := findMember(r.at, f.device)
			if err != nil {
				return err
			}
			spare, err := findSpare(r.at, with)
			if err != nil {
				return err
			}
			nodes, err := r.source.nodeStatuses(command.Context())
			if err != nil {
				return err
			}
			r.compute = func(clusters []v1alpha1.LVMCluster) (change, error) {
				return replacement(clusters, m, spare, nodes)
			}
			if goOn, err := r.apply(command.Context()); err != nil || !goOn {
				return err
			}
			return r.follow(command.Context(), m, v1alpha1.DeviceActionRemove, true)
		}}
	e.addDeviceFlags(command, f)
	command.Flags().StringVar(&with, "with", "", "the new device: a path, a link in /dev/disk/by-id or "+
		"/dev/disk/by-path, or an ID")
	e.completeSpares(command)
	return command
}

// findSpare returns the device of a node that takes the place of another one: it must be blank.
func findSpare(at target, name string) (*v1alpha1.DeviceStatus, error) {
	if name == "" {
		return nil, fmt.Errorf("--with is missing: give the new device; kubectl lvms devices --node %s --state "+
			"Available lists the blank devices", at.node)
	}
	for i := range at.status.Status.Devices {
		device := &at.status.Status.Devices[i]
		if !isNamed(device, name) {
			continue
		}
		isOurs := slices.Contains(classesOf(at.status, device), at.class)
		if device.State != v1alpha1.DeviceAvailable && !isOurs {
			return nil, fmt.Errorf("device %s on node %s is not blank (%s): %s", name, at.node, device.State,
				messagesOf(device.Reasons))
		}
		return device, nil
	}
	return nil, fmt.Errorf("node %s does not list the device %s: see kubectl lvms devices --node "+
		"%s", at.node, name, at.node)
}

// replacement returns the change that adds a device to a device class and removes another one.
func replacement(clusters []v1alpha1.LVMCluster, m member, spare *v1alpha1.DeviceStatus,
	nodes []v1alpha1.LVMVolumeGroupNodeStatus) (change, error) {
	class, err := findClass(clusters, m.at.class)
	if err != nil {
		return change{}, err
	}
	if spare.PVUUID != "" && spare.PVUUID == m.pv.UUID {
		return change{}, fmt.Errorf("--with %s is the device that is replaced", spare.Name)
	}
	var added []operation
	if !slices.Contains(classesOf(m.at.status, spare), m.at.class) {
		if added, err = replaceOperations(class, spare, len(nodes)); err != nil {
			return change{}, err
		}
	}
	effects := []string{fmt.Sprintf("%s is added to the volume group first.", spare.Name)}
	if others := othersWith(nodes, m.at.node, stablePath(spare)); len(added) > 0 && len(others) > 0 {
		return change{}, fmt.Errorf("the path %s also matches devices of other nodes, which the device class would "+
			"use too: %s. Add the new device to the selector of the LVMCluster by another path, and run kubectl lvms "+
			"remove for the old one", stablePath(spare), strings.Join(others, ", "))
	}
	grown := m.withDevice(spare)
	return change{class: class, operations: append(added, requestOperations(class, m, v1alpha1.DeviceActionRemove)...),
		effects: append(effects, grown.effects(class.class(), v1alpha1.DeviceActionRemove)...)}, nil
}

// othersWith returns the other nodes that have a device with a path.
func othersWith(nodes []v1alpha1.LVMVolumeGroupNodeStatus, node, path string) []string {
	var names []string
	for i := range nodes {
		has := slices.ContainsFunc(nodes[i].Status.Devices, func(d v1alpha1.DeviceStatus) bool {
			return isNamed(&d, path)
		})
		if nodes[i].Name != node && has {
			names = append(names, nodes[i].Name)
		}
	}
	return names
}

// withDevice returns the member as it would be with another device in its volume group.
func (m member) withDevice(device *v1alpha1.DeviceStatus) member {
	status := m.at.status.DeepCopy()
	m.at.status = status
	group := m.at.group()
	if slices.ContainsFunc(group.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
		return pv.UUID == device.PVUUID
	}) {
		return m
	}
	group.PhysicalVolumes = append(group.PhysicalVolumes, v1alpha1.PhysicalVolumeStatus{Name: device.Name,
		State: v1alpha1.PhysicalVolumeReady, Size: device.Size, Free: device.Size})
	return m
}

func (e *environment) uncordonCommand() *cobra.Command {
	f := &deviceFlags{}
	command := &cobra.Command{Use: "uncordon", Short: "Withdraw the request for a device",
		Long: `Withdraw the request to cordon, drain or remove a device. What is not complete is canceled: the data stays where it
was, and the volume group places new data on the device again.

If the device has left the volume group, give the device as the request names it. If the device class still selects it,
it is used again.`,
		Example: `  # Use a device again that was cordoned
  kubectl lvms uncordon --node worker-1 --device /dev/sdb`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			r, err := e.deviceRun(command, f)
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
	e.addDeviceFlags(command, f)
	return command
}

// withdrawal returns the change that removes the requests for a device, which may have left the volume group.
func withdrawal(clusters []v1alpha1.LVMCluster, at target, m member, device string, notMember error) (change, error) {
	class, err := findClass(clusters, at.class)
	if err != nil {
		return change{}, err
	}
	if notMember == nil {
		return change{class: class, operations: requestOperations(class, m, ""),
			effects: m.effects(class.class(), "")}, nil
	}
	operations := withdrawOperations(class, at.node, device)
	if len(operations) == 0 {
		return change{}, fmt.Errorf("%w. %s has no request for it either", notMember, class.name())
	}
	return change{class: class, operations: operations, effects: []string{"The device is not in the volume group. If " +
		"it is still attached to the node and the device class selects it, it is used again."}}, nil
}

func (e *environment) adoptCommand() *cobra.Command {
	f, uuid := &deviceFlags{}, ""
	command := &cobra.Command{Use: "adopt", Short: "Use a volume group whose disks came from another node or cluster",
		Long: `Allow a device class to use a volume group on a node whose disks came from another node or from another cluster. It is
renamed to the name of the device class. Do this only if no other node and no other cluster uses its disks any longer.

The status of the device class says VGMoved or OtherClusterVG, with the UUID of the volume group. Afterwards, import
moves or creates the objects of its volumes.`,
		Example: `  # Use the volume group of disks that were moved to worker-2
  kubectl lvms adopt --node worker-2 --class vg1 --volume-group wJBM8n-pLyu-fxzD-iQVk-tJvr-OI5T-WoXVtA`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := f.writing.validate(); err != nil {
				return err
			}
			r, err := e.newDeviceRun(command, f)
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
			fmt.Fprintf(r.terminal.out, "The node agent uses the volume group within a minute: see kubectl lvms "+
				"classes --node %s -o wide. Then import its volumes: kubectl lvms import --node %s --class "+
				"%s\n", r.at.node, r.at.node,
				r.at.class)
			return nil
		}}
	e.addTargetFlags(command, &f.targetFlags)
	f.writing.addWriteFlags(command)
	command.Flags().StringVar(&uuid, "volume-group", "", "the UUID of the volume group")
	e.completeVolumeGroups(command)
	return command
}

// checkVolumeGroup returns an error if no device of the node has the volume group.
func checkVolumeGroup(at target, uuid string) error {
	var known []string
	for _, device := range at.status.Status.Devices {
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
			"%s", at.node,
			strings.Join(known, ", "))
	}
	return fmt.Errorf("no device of node %s has the volume group %s: it has "+
		"%s", at.node, uuid, strings.Join(known, ", "))
}

// adoption returns the change that adopts a volume group on a node.
func adoption(clusters []v1alpha1.LVMCluster, at target, uuid string) (change, error) {
	class, err := findClass(clusters, at.class)
	if err != nil {
		return change{}, err
	}
	return change{class: class, operations: adoptOperations(class, at.node, uuid), effects: []string{
		"The node agent uses the volume group with its volumes. If it has another name, it is renamed.",
		"No other node and no other cluster may use its disks: two writers destroy the data.",
		"The objects of its volumes are not changed: kubectl lvms import does that."}}, nil
}

// completeSpares completes the blank devices of the node of --node.
func (e *environment) completeSpares(command *cobra.Command) {
	e.completeOfNode(command, "with", func(device *v1alpha1.DeviceStatus) string {
		if device.State != v1alpha1.DeviceAvailable {
			return ""
		}
		return device.Name
	})
}

// completeVolumeGroups completes the UUIDs of the volume groups on the node of --node.
func (e *environment) completeVolumeGroups(command *cobra.Command) {
	e.completeOfNode(command, "volume-group", func(device *v1alpha1.DeviceStatus) string {
		return device.VolumeGroupUUID
	})
}

func (e *environment) completeOfNode(command *cobra.Command, flag string, of func(*v1alpha1.DeviceStatus) string) {
	e.complete(command, flag, func(ctx context.Context, reader client.Reader, c *cobra.Command) ([]string, error) {
		node, _ := c.Flags().GetString("node")
		return namesOfNodes(ctx, reader, func(n *v1alpha1.LVMVolumeGroupNodeStatus) []string {
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
