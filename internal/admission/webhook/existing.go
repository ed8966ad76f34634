package webhook

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// This file has the rules for device classes on volume groups that an administrator created.

// existingGroupsPossible refuses an existingVolumeGroup that is the volume group of a device class without one, that is
// to be destroyed, or whose space or thin pool another device class uses, on the same nodes.
func existingGroupsPossible(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for i, class := range classes {
		if class.ExistingVolumeGroup == "" {
			continue
		}
		at := classesPath.Index(i).Child("existingVolumeGroup")
		if config := class.ExistingVolumeGroupConfig; config != nil {
			violations = append(violations, stripeSizePossible(
				classesPath.Index(i).Child("existingVolumeGroupConfig", "stripeSize"), config.StripeSize)...)
		}
		for j, other := range classes {
			if i == j || !meet(class.NodeSelector, other.NodeSelector) {
				continue
			}
			if problem := groupTaken(class, other, j < i); problem != "" {
				violations = append(violations, field.Invalid(at, class.ExistingVolumeGroup, problem))
			}
		}
	}
	return append(violations, existingKept(classes)...)
}

// groupTaken returns why a device class cannot have its existingVolumeGroup because of another device class, or "". If
// both use the same part of a volume group, only the later one in the list is refused.
func groupTaken(class, other lvmv1alpha1.DeviceClass, later bool) string {
	switch {
	case other.ExistingVolumeGroup == "" && other.Name == class.ExistingVolumeGroup:
		return fmt.Sprintf("is the volume group of device class %q, which creates and extends it: name another volume "+
			"group, or rename one of the device classes", other.Name)
	case !later || other.ExistingVolumeGroup != class.ExistingVolumeGroup || poolOf(other) != poolOf(class):
		return ""
	case poolOf(class) == "":
		return fmt.Sprintf("already has device class %q for thick volumes: a volume group can have one device class "+
			"for thick volumes, and one for each thin pool", other.Name)
	}
	return fmt.Sprintf("its thin pool %q already has device class %q: name another thin pool, or remove one of the "+
		"device classes", poolOf(class), other.Name)
}

func poolOf(class lvmv1alpha1.DeviceClass) string {
	if class.ThinPoolConfig == nil {
		return ""
	}
	return class.ThinPoolConfig.Name
}

// existingKept refuses to destroy a volume group that a device class uses.
func existingKept(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for _, s := range selections(classes) {
		for i, group := range s.selector.WipeVolumeGroups {
			for _, class := range classes {
				if class.ExistingVolumeGroup != string(group) || !meet(class.NodeSelector, s.class.NodeSelector) ||
					!meet(class.NodeSelector, s.node) {
					continue
				}
				violations = append(violations, field.Invalid(s.at.Child("wipeVolumeGroups").Index(i), string(group),
					fmt.Sprintf("device class %q uses this volume group (existingVolumeGroup): remove it from here",
						class.Name)))
			}
		}
	}
	return violations
}
