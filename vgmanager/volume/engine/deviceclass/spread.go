package deviceclass

import (
	"strings"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// Spread keeps a volume apart from the other volumes of its group. The zero value does not.
type Spread struct {
	// Group is NAMESPACE/NAME.
	Group string
	// Devices: it is kept apart on the physical volumes of its node. Otherwise, volumes of the group are on different
	// nodes, which the agent of a node does not check.
	Devices bool
	// Required: without physical volumes that no other volume of the group uses, it is not created or extended.
	Required bool
}

// SpreadOf returns the Spread of a volume from its LVM tags. It is the zero value if no tag has a valid one.
func SpreadOf(tags []string) Spread {
	for _, tag := range tags {
		text, is := strings.CutPrefix(tag, wellknown.SpreadTagPrefix)
		if !is {
			continue
		}
		if parts := strings.SplitN(text, ":", 3); len(parts) == 3 && parts[2] != "" {
			return Spread{Group: parts[2], Devices: parts[0] == "device", Required: parts[1] == "required"}
		}
	}
	return Spread{}
}
