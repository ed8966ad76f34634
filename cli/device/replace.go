package device

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

func replaceCommand(e *session.Environment) *cobra.Command {
	f := &deviceFlags{}
	with := ""
	command := &cobra.Command{Use: "replace", Short: "Add a new device to a volume group, and remove another one",
		Long: `Add a new, blank device of the node to the device class, and request that the old device is drained and
removed, in one change. The volume group gets the new device first.

A device class that selects devices by property must select the new device: then only the request is written. Otherwise,
the device class must select the old device by path, with a selector that does not wipe devices.` + howRequestsWork,
		Example: `  # Replace a disk that fails with a new one
  kubectl lvms replace --node worker-1 --device /dev/sdb --with /dev/sdc`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			r, m, err := memberRun(e, command, f)
			if err != nil {
				return err
			}
			spare, err := findSpare(r.at, with)
			if err != nil {
				return err
			}
			nodes, err := r.source.NodeStatuses(command.Context())
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
	addDeviceFlags(e, command, f)
	command.Flags().StringVar(&with, "with", "", "the new device: a path, a link in /dev/disk/by-id or "+
		"/dev/disk/by-path, or an ID")
	completeSpares(e, command)
	return command
}

// findSpare returns the device of a node that takes the place of another one: it must be blank.
func findSpare(at session.Target, name string) (*v1alpha1.DeviceStatus, error) {
	if name == "" {
		return nil, fmt.Errorf("--with is missing: give the new device; kubectl lvms devices --node %s --state "+
			"Available lists the blank devices", at.Node)
	}
	for i := range at.Status.Status.Devices {
		device := &at.Status.Status.Devices[i]
		if !objects.IsNamed(device, name) {
			continue
		}
		isOurs := slices.Contains(verdict.ClassesOf(at.Status, device), at.Class)
		if device.State != v1alpha1.DeviceAvailable && !isOurs {
			return nil, fmt.Errorf("device %s on node %s is not blank (%s): %s", name, at.Node, device.State,
				verdict.MessagesOf(device.Reasons))
		}
		return device, nil
	}
	return nil, fmt.Errorf("node %s does not list the device %s: see kubectl lvms devices --node "+
		"%s", at.Node, name, at.Node)
}

// replacement returns the change that adds a device to a device class and removes another one.
func replacement(clusters []v1alpha1.LVMCluster, m member, spare *v1alpha1.DeviceStatus,
	nodes []v1alpha1.LVMVolumeGroupNodeStatus) (change, error) {
	class, err := findClass(clusters, m.at.Class)
	if err != nil {
		return change{}, err
	}
	if spare.PVUUID != "" && spare.PVUUID == m.pv.UUID {
		return change{}, fmt.Errorf("--with %s is the device that is replaced", spare.Name)
	}
	var added []session.Operation
	if !slices.Contains(verdict.ClassesOf(m.at.Status, spare), m.at.Class) {
		if added, err = selectSpare(class, m, spare, len(nodes)); err != nil {
			return change{}, err
		}
	}
	effects := []string{fmt.Sprintf("%s is added to the volume group first.", spare.Name)}
	if others := othersWith(nodes, m.at.Node, objects.StablePath(spare)); len(added) > 0 && len(others) > 0 {
		return change{}, fmt.Errorf("the path %s also matches devices of other nodes, which the device class would "+
			"use too: %s. Add the new device to the selector of the LVMCluster by another path, and run kubectl lvms "+
			"remove for the old one", objects.StablePath(spare), strings.Join(others, ", "))
	}
	grown := m.withDevice(spare)
	return change{class: class, operations: append(added, requestOperations(class, m, v1alpha1.DeviceActionRemove)...),
		effects: append(effects, grown.effects(class.class(), v1alpha1.DeviceActionRemove)...)}, nil
}

// selectSpare returns how the device class selects a new device. It returns nothing if it does already.
func selectSpare(c classAt, m member, spare *v1alpha1.DeviceStatus, nodes int) ([]session.Operation, error) {
	at := m.at
	var others []string
	isSelected := false
	for _, e := range spare.Eligibility {
		switch {
		case e.Eligible && e.DeviceClass == at.Class:
			isSelected = true
		case e.Eligible:
			others = append(others, e.DeviceClass)
		}
	}
	if len(others) > 0 {
		return nil, fmt.Errorf("device %s on node %s can also be used by the device class %s, and it is not known "+
			"which one gets it: change the selectors of the LVMCluster so that only %s selects it", spare.Name, at.Node,
			strings.Join(others, ", "), at.Class)
	}
	if isSelected {
		return nil, nil
	}
	if !selectsByPath(c.class()) {
		return nil, notSelected(at, spare)
	}
	return replaceOperations(c, m, spare, nodes)
}

// selectsByPath returns true if a selector of a device class names devices.
func selectsByPath(class *v1alpha1.DeviceClass) bool {
	named := func(s *v1alpha1.DeviceSelector) bool { return len(s.Paths)+len(s.OptionalPaths) > 0 }
	return class.DeviceSelector != nil && named(class.DeviceSelector) ||
		slices.ContainsFunc(class.DeviceSelectors,
			func(s v1alpha1.NodeDeviceSelector) bool { return named(&s.DeviceSelector) })
}

// notSelected returns why a device class that selects devices by property cannot use a device, and what to do.
func notSelected(at session.Target, spare *v1alpha1.DeviceStatus) error {
	index := slices.IndexFunc(spare.Eligibility,
		func(e v1alpha1.DeviceEligibility) bool { return e.DeviceClass == at.Class })
	if index < 0 {
		return fmt.Errorf("node %s has not reported whether the device class %s, which selects devices by property, "+
			"can use the device %s: run the command again in a minute", at.Node, at.Class, spare.Name)
	}
	reasons := spare.Eligibility[index].Reasons
	if objects.WaitReason(reasons) != "" {
		return fmt.Errorf("device %s on node %s waits for an approval for the device class %s: approve it first: "+
			"kubectl lvms approve --node %s --device %s", spare.Name, at.Node, at.Class, at.Node,
			objects.StablePath(spare))
	}
	return fmt.Errorf("the device class %s selects devices by property, and cannot use the device %s on node %s (%s): "+
		"change the selector in the LVMCluster so that it selects the device, and run the command again; "+
		"docs/reference/conditions.md has the reasons", at.Class, spare.Name, at.Node,
		cmp.Or(strings.Join(reasons, ", "), "no reason reported"))
}

// othersWith returns the other nodes that have a device with a path.
func othersWith(nodes []v1alpha1.LVMVolumeGroupNodeStatus, node, path string) []string {
	var names []string
	for i := range nodes {
		has := slices.ContainsFunc(nodes[i].Status.Devices, func(d v1alpha1.DeviceStatus) bool {
			return objects.IsNamed(&d, path)
		})
		if nodes[i].Name != node && has {
			names = append(names, nodes[i].Name)
		}
	}
	return names
}

// withDevice returns the member as it would be with another device in its volume group.
func (m member) withDevice(device *v1alpha1.DeviceStatus) member {
	status := m.at.Status.DeepCopy()
	m.at.Status = status
	group := m.at.Group()
	if slices.ContainsFunc(group.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
		return pv.UUID == device.PVUUID
	}) {
		return m
	}
	group.PhysicalVolumes = append(group.PhysicalVolumes, v1alpha1.PhysicalVolumeStatus{Name: device.Name,
		State: v1alpha1.PhysicalVolumeReady, Size: device.Size, Free: device.Size})
	return m
}

// completeSpares completes the blank devices of the node of --node.
func completeSpares(e *session.Environment, command *cobra.Command) {
	completeOfNode(e, command, "with", func(device *v1alpha1.DeviceStatus) string {
		if device.State != v1alpha1.DeviceAvailable {
			return ""
		}
		return device.Name
	})
}
