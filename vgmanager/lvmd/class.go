package lvmd

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/topolvm/topolvm/pkg/lvmd/types"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// DeviceClass is a device class in TopoLVM's words: a volume group for thick volumes, or a thin pool for thin ones. Its
// keys are those of TopoLVM's lvmd.yaml (pkg/lvmd/types), and three of ours, which a stock lvmd overlooks.
type DeviceClass struct {
	Name        string `json:"name"`
	VolumeGroup string `json:"volume-group"`
	Default     bool   `json:"default"`
	// SpareGB is what the capacity leaves out, in GiB.
	SpareGB *uint64 `json:"spare-gb"`
	// Stripe is a number of devices, StripeSize a number and a unit, for example 64k.
	Stripe          *uint    `json:"stripe"`
	StripeSize      string   `json:"stripe-size"`
	LVCreateOptions []string `json:"lvcreate-options"`
	// Type is thick when empty.
	Type           types.DeviceType `json:"type"`
	ThinPoolConfig *ThinPoolConfig  `json:"thin-pool"`
	// VolumeGroupUUID is that of the volume group; empty for the one of the name, whichever it is. Another volume group
	// of the name is not taken for it. Not a key of TopoLVM.
	VolumeGroupUUID string `json:"volume-group-uuid,omitempty"`
	// Closed says why the class takes no new volume, no snapshot and no growth; empty if it does. Not a key of TopoLVM.
	Closed string `json:"closed,omitempty"`
}

// ThinPoolConfig is the thin pool of a device class, and how far it is used.
type ThinPoolConfig struct {
	Name string `json:"name"`
	// OverprovisionRatio times the size of the pool is what its volumes may have together; at least 1.
	OverprovisionRatio float64 `json:"overprovision-ratio"`
	// HighWaterMarkPercent of data or metadata in use is where the pool takes nothing new; 0 stands for
	// DefaultHighWaterMark, 100 is when it is full.
	HighWaterMarkPercent int `json:"high-water-mark-percent,omitempty"`
}

// OptionClass is a named set of options of lvcreate that a StorageClass can ask for.
type OptionClass = types.LvcreateOptionClass

// classSet is one consistent set of classes. It never changes: a new one takes its place.
type classSet struct {
	classes []DeviceClass
	options map[string][]string
}

// find returns a class by name; the empty name is the default class.
func (s *classSet) find(name string) (*DeviceClass, bool) {
	for i := range s.classes {
		c := &s.classes[i]
		if c.Name == name || name == "" && c.Default {
			return c, true
		}
	}
	return nil, false
}

// with returns the set with other classes.
func (s *classSet) with(classes []DeviceClass) *classSet {
	return &classSet{classes: classes, options: s.options}
}

// isThin tells which kind a class is; TopoLVM takes an empty type for thick.
func isThin(c *DeviceClass) bool { return c.Type == types.TypeThin }

// spare returns the bytes that a class keeps back from the capacity it reports. Without a value it is nothing, other
// than in TopoLVM, where it is 10 GiB: a small disk would have no capacity at all.
func spare(c *DeviceClass) lvm.Bytes {
	if c.SpareGB == nil {
		return 0
	}
	return lvm.Bytes(min(*c.SpareGB, maxSpareGB)) << 30
}

// maxSpareGB is more than any volume group has, and a number of bytes that can be calculated with.
const maxSpareGB = 1 << 32

// createOptions returns what a class adds to lvcreate, unless an option class takes its place.
func createOptions(c *DeviceClass) []string {
	var options []string
	if c.Stripe != nil && *c.Stripe > 0 {
		options = append(options, "--stripes", fmt.Sprint(*c.Stripe))
		if c.StripeSize != "" {
			options = append(options, "--stripesize", c.StripeSize)
		}
	}
	return append(options, c.LVCreateOptions...)
}

// classNamePattern and its length are the limits of an annotation key on the Node.
var classNamePattern = regexp.MustCompile(`^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`)

const maxClassName = 63

// validate holds TopoLVM's rules for a set of classes, except that there may be none.
func validate(classes []DeviceClass) error {
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
			return wrong("default", "%s is the default already", byDefault)
		}
		seen[c.Name] = true
		targets[target(c)] = c.Name
		if c.Default {
			byDefault = c.Name
		}
	}
	return nil
}

// validateClass returns the key that is wrong, and what is wrong with it.
func validateClass(c *DeviceClass) (key, problem string) {
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
	case isThin(c) && (c.ThinPoolConfig == nil || c.ThinPoolConfig.Name == ""):
		return "thin-pool", "is thin and names no thin pool"
	case isThin(c) && !(c.ThinPoolConfig.OverprovisionRatio >= 1):
		return "thin-pool.overprovision-ratio",
			fmt.Sprintf("has an overprovision ratio of %g, below 1", c.ThinPoolConfig.OverprovisionRatio)
	case isThin(c) && (c.ThinPoolConfig.HighWaterMarkPercent < 0 || c.ThinPoolConfig.HighWaterMarkPercent > 100):
		return "thin-pool.high-water-mark-percent",
			fmt.Sprintf("has a high-water mark of %d %%, want one from 1 to 100", c.ThinPoolConfig.HighWaterMarkPercent)
	}
	return "", ""
}

// target is what two classes must not share.
func target(c *DeviceClass) string {
	if isThin(c) {
		return c.VolumeGroup + "/" + c.ThinPoolConfig.Name
	}
	return c.VolumeGroup
}
