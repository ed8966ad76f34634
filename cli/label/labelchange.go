package label

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

// labelRequest is how the labels of a device are to be changed.
type labelRequest struct {
	set       v1alpha1.DeviceLabelSet
	remove    []string
	overwrite bool
}

// parse reads arguments like KEY=VALUE, which set a label, and KEY-, which remove one.
func (l *labelRequest) parse(args []string) error {
	if len(args) == 0 {
		return errors.New("the labels are missing: give KEY=VALUE to set a label, or KEY- to remove it")
	}
	l.set = v1alpha1.DeviceLabelSet{}
	l.remove = nil
	for _, argument := range args {
		key, value, sets := strings.Cut(argument, "=")
		if !sets {
			var removes bool
			if key, removes = strings.CutSuffix(argument, "-"); !removes {
				return fmt.Errorf("%q is not a label: give KEY=VALUE to set a label, or KEY- to remove it", argument)
			}
		}
		problems := validation.IsQualifiedName(key)
		if sets {
			problems = append(problems, validation.IsValidLabelValue(value)...)
		}
		if len(problems) > 0 {
			return fmt.Errorf("%q is not a valid label: use one like tier=fast or example.com/tier=fast: %s", argument,
				strings.Join(problems, "; "))
		}
		if _, isSet := l.set[key]; isSet || slices.Contains(l.remove, key) {
			return fmt.Errorf("the label %s is given twice: give it once", key)
		}
		if sets {
			l.set[key] = v1alpha1.DeviceLabelValue(value)
		} else {
			l.remove = append(l.remove, key)
		}
	}
	return nil
}

// labeledDevice is a device whose labels are changed.
type labeledDevice struct {
	node, name, id string
	// classes are the device classes whose volume group has the device.
	classes []string
}

func (d labeledDevice) String() string {
	if d.name == d.id {
		return "device " + d.id + " of node " + d.node
	}
	return "device " + d.name + " (" + d.id + ") of node " + d.node
}

// labelChange is a change of the labels of a device.
type labelChange struct {
	device labeledDevice
	// before and after are the node status, with the labels as they are and as they are to be.
	before, after *v1alpha1.LVMVolumeGroupNodeStatus
	// lines are the labels that are set and removed, as a person reads them.
	lines []string
	// absent are the labels to remove that the device does not have.
	absent []string
}

// newLabelChange returns how the labels of a device are changed.
func newLabelChange(nodes []v1alpha1.LVMVolumeGroupNodeStatus, node, name string,
	request labelRequest) (labelChange, error) {
	found, err := objects.OnNode(slices.Clone(nodes), node)
	if err != nil {
		return labelChange{}, err
	}
	if len(found) > 1 {
		return labelChange{}, fmt.Errorf("node %s has an LVMVolumeGroupNodeStatus in several namespaces: give the "+
			"namespace of the operator with -n", node)
	}
	c := labelChange{before: &found[0], after: found[0].DeepCopy()}
	if c.device, err = findLabeled(c.before, name); err != nil {
		return labelChange{}, err
	}
	return c, c.compute(request)
}

// compute changes the labels in the node status.
func (c *labelChange) compute(request labelRequest) error {
	list := c.after.Spec.DeviceLabels
	at := slices.IndexFunc(list, func(l v1alpha1.DeviceLabels) bool { return l.ID == c.device.id })
	labels := v1alpha1.DeviceLabelSet{}
	if at >= 0 {
		labels = list[at].Labels
	}
	for _, key := range slices.Sorted(maps.Keys(request.set)) {
		value, has := labels[key]
		switch {
		case has && value == request.set[key]:
			continue
		case has && !request.overwrite:
			return fmt.Errorf("the %s has the label %s=%s already: add --overwrite to change it", c.device, key, value)
		case has:
			c.lines = append(c.lines, fmt.Sprintf("- %s=%s", key, value))
		}
		labels[key] = request.set[key]
		c.lines = append(c.lines, fmt.Sprintf("+ %s=%s", key, labels[key]))
	}
	for _, key := range request.remove {
		if value, has := labels[key]; has {
			c.lines = append(c.lines, fmt.Sprintf("- %s=%s", key, value))
			delete(labels, key)
		} else {
			c.absent = append(c.absent, key)
		}
	}
	switch {
	case at >= 0 && len(labels) == 0:
		c.after.Spec.DeviceLabels = slices.Delete(list, at, at+1)
	case at < 0 && len(labels) > 0:
		c.after.Spec.DeviceLabels = append(list, v1alpha1.DeviceLabels{ID: c.device.id, Labels: labels})
	}
	return nil
}

// findLabeled returns the device of a node with a name. The labels of a device that is no longer listed are found by
// its ID.
func findLabeled(status *v1alpha1.LVMVolumeGroupNodeStatus, name string) (labeledDevice, error) {
	var found []*v1alpha1.DeviceStatus
	for i := range status.Status.Devices {
		if objects.IsNamed(&status.Status.Devices[i], name) {
			found = append(found, &status.Status.Devices[i])
		}
	}
	if len(found) > 1 {
		// The name of a missing device can be that of another one now.
		found = slices.DeleteFunc(found, func(d *v1alpha1.DeviceStatus) bool {
			return d.State == v1alpha1.DeviceMissing
		})
	}
	isLabeled := func(l v1alpha1.DeviceLabels) bool { return l.ID == name }
	switch {
	case len(found) == 0 && slices.ContainsFunc(status.Spec.DeviceLabels, isLabeled):
		return labeledDevice{node: status.Name, name: name, id: name}, nil
	case len(found) == 0:
		return labeledDevice{}, fmt.Errorf("node %s has no device %s: kubectl lvms devices --node %s lists its devices",
			status.Name, name, status.Name)
	case len(found) > 1:
		return labeledDevice{}, fmt.Errorf("node %s has several devices that are named %s: give the ID of the device; "+
			"kubectl lvms devices --node %s -o wide lists the IDs", status.Name, name, status.Name)
	case found[0].ID == "":
		return labeledDevice{}, fmt.Errorf("device %s of node %s cannot have labels, because it has no unique ID: it "+
			"has no serial number and no WWN, or another device has the same one. Select it by its path in the "+
			"deviceSelector", name, status.Name)
	case isContent(found[0].ID):
		return labeledDevice{}, fmt.Errorf("device %s of node %s cannot have labels, because only its content "+
			"identifies it (%s), which changes when the device is used. Select it by its path in the deviceSelector",
			name, status.Name, found[0].ID)
	}
	return labeledDevice{node: status.Name, name: found[0].Name, id: found[0].ID,
		classes: verdict.ClassesOf(status, found[0])}, nil
}

// isContent returns true if the ID of a device is that of its content.
func isContent(id string) bool { return strings.HasPrefix(id, "pv:") || strings.HasPrefix(id, "fs:") }

func (c labelChange) object() string {
	return "LVMVolumeGroupNodeStatus " + c.before.Namespace + "/" + c.before.Name
}

// patch returns a merge patch, which fails with a conflict if the node status was changed since it was read.
func (c labelChange) patch() client.Patch {
	return client.MergeFromWithOptions(c.before, client.MergeFromWithOptimisticLock{})
}

func (c labelChange) preview() string {
	var text strings.Builder
	for _, key := range c.absent {
		fmt.Fprintf(&text, "The %s does not have the label %s.\n", c.device, key)
	}
	if len(c.lines) == 0 {
		fmt.Fprintf(&text, "The %s already has these labels. Nothing is changed.\n", c.device)
		return text.String()
	}
	fmt.Fprintf(&text, "The labels of the %s are changed:\n", c.device)
	for _, line := range c.lines {
		fmt.Fprintln(&text, "  "+line)
	}
	if len(c.device.classes) > 0 {
		fmt.Fprintf(&text, "- The device is in the volume group of the device class %s, and stays there.\n",
			strings.Join(c.device.classes, ", "))
		return text.String()
	}
	fmt.Fprintln(&text, "- A device class whose deviceSelector requires the labels of the device uses it, if it meets "+
		"the other conditions too. If the selector has forceWipeDevicesAndDestroyAllData and the path of the device, "+
		"its content is DESTROYED.")
	return text.String()
}
