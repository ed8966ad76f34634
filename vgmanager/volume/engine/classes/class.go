package classes

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/topolvm/topolvm/pkg/lvmd/types"

	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// OptionClass is a named set of lvcreate options that a StorageClass can select.
type OptionClass = types.LvcreateOptionClass

// classNamePattern and maxClassName are the limits of an annotation key on the Node.
var classNamePattern = regexp.MustCompile(`^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`)

const maxClassName = 63

// validate checks a set of classes by TopoLVM's rules, but accepts an empty set.
func validate(classes []deviceclass.Class) error {
	seen := map[string]bool{}
	targets := map[string]string{}
	byDefault := ""
	for i := range classes {
		c := &classes[i]
		wrong := func(key, format string, args ...any) error {
			return &configError{key: fmt.Sprintf("device-classes[%d].%s", i, key),
				problem: fmt.Sprintf("device class %q: ", c.Name) + fmt.Sprintf(format, args...)}
		}
		if key, problem := validateClass(c); problem != "" {
			return wrong(key, "%s", problem)
		}
		if seen[c.Name] {
			return wrong("name", "is listed twice")
		}
		if other, taken := targets[target(c)]; taken {
			return wrong("volume-group", "has the same volume group or thin pool (%s) as %s", target(c), other)
		}
		if c.Default && byDefault != "" {
			return wrong("default", "%s is already the default", byDefault)
		}
		seen[c.Name] = true
		targets[target(c)] = c.Name
		if c.Default {
			byDefault = c.Name
		}
	}
	return nil
}

// validateClass returns the invalid key and the problem.
func validateClass(c *deviceclass.Class) (key, problem string) {
	for _, validate := range []func(*deviceclass.Class) (key, problem string){
		validateGroup, validateErasure, validateAllocation, validateThinPool,
	} {
		if key, problem := validate(c); problem != "" {
			return key, problem
		}
	}
	return validateLimits(c.NamespaceLimits)
}

// validateGroup is about the keys that every class has.
func validateGroup(c *deviceclass.Class) (key, problem string) {
	switch {
	case len(c.Name) > maxClassName || !classNamePattern.MatchString(c.Name):
		return "name", fmt.Sprintf("is not a valid name: up to %d letters, digits, dots, dashes and underscores, "+
			"with a letter or digit at both ends", maxClassName)
	case c.VolumeGroup == "":
		return "volume-group", "has no volume group"
	case !slices.Contains([]types.DeviceType{"", types.TypeThick, types.TypeThin}, c.Type):
		return "type", fmt.Sprintf("has the unknown type %q, want thick or thin", c.Type)
	case !stripeSizePattern.MatchString(c.StripeSize):
		return "stripe-size",
			fmt.Sprintf("has the stripe size %q, want a number and a unit, for example 64k", c.StripeSize)
	}
	return "", ""
}

func validateErasure(c *deviceclass.Class) (key, problem string) {
	switch {
	case !slices.Contains([]string{"", deviceclass.EraseNone, deviceclass.EraseDiscard, deviceclass.EraseZero},
		c.EraseOnDelete):
		return "erase-on-delete", fmt.Sprintf("is %q, want None, Discard or Zero", c.EraseOnDelete)
	case c.IsThin() && c.EraseOnDelete == deviceclass.EraseZero:
		return "erase-on-delete", "is Zero, which is not possible for thin volumes: use Discard or None"
	}
	return "", ""
}

func validateAllocation(c *deviceclass.Class) (key, problem string) {
	switch {
	case !slices.Contains([]string{"", deviceclass.AllocationAny, deviceclass.AllocationSingleDevice}, c.Allocation):
		return "allocation", fmt.Sprintf("is %q, want Any or SingleDevice", c.Allocation)
	case c.IsSingleDevice() && c.IsThin():
		return "allocation", "is SingleDevice, which is not possible for thin volumes: remove it"
	case c.IsSingleDevice() && c.Stripe != nil && *c.Stripe > 1:
		return "allocation", "is SingleDevice, but stripe has several devices: remove one of them"
	}
	return "", ""
}

func validateThinPool(c *deviceclass.Class) (key, problem string) {
	if !c.IsThin() {
		return "", ""
	}
	switch pool := c.ThinPoolConfig; {
	case pool == nil || pool.Name == "":
		return "thin-pool", "is thin but names no thin pool"
	case !(pool.OverprovisionRatio >= 1):
		return "thin-pool.overprovision-ratio",
			fmt.Sprintf("has an overprovision ratio of %g, below 1", pool.OverprovisionRatio)
	case pool.HighWaterMarkPercent < 0 || pool.HighWaterMarkPercent > 100:
		return "thin-pool.high-water-mark-percent",
			fmt.Sprintf("has a high-water mark of %d%%, want one from 1 to 100", pool.HighWaterMarkPercent)
	}
	return "", ""
}

// target returns the volume group or thin pool of a class. Two classes must not have the same target.
func target(c *deviceclass.Class) string {
	if c.IsThin() {
		return c.VolumeGroup + "/" + c.ThinPoolConfig.Name
	}
	return c.VolumeGroup
}

// maxNamespaceLimits is the maximum number of limits of a class.
const maxNamespaceLimits = 32

// validateLimits returns the invalid key of a class and the problem, or "".
func validateLimits(limits []deviceclass.NamespaceLimit) (key, problem string) {
	if len(limits) > maxNamespaceLimits {
		return "namespace-limits", fmt.Sprintf("has %d limits of namespaces, at most %d are possible", len(limits),
			maxNamespaceLimits)
	}
	seen := map[string]bool{}
	for i, limit := range limits {
		if seen[limit.Namespace] {
			return fmt.Sprintf("namespace-limits[%d].namespace", i), fmt.Sprintf("has two limits for namespace %q",
				limit.Namespace)
		}
		seen[limit.Namespace] = true
	}
	return "", ""
}
