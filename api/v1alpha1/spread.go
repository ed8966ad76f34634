package v1alpha1

import (
	"fmt"
	"strings"
)

// Labels of a claim by which its volume is kept apart from the volumes of other claims in its namespace.
const (
	// SpreadGroupLabel names the group of claims in the namespace that are spread.
	SpreadGroupLabel = "lvm.topolvm.io/spread-group"
	// SpreadLabel is what the volumes of a group do not share: SpreadDevice (the default) or SpreadNode.
	SpreadLabel = "lvm.topolvm.io/spread"
	// SpreadPolicyLabel is SpreadRequired, or SpreadPreferred (the default).
	SpreadPolicyLabel = "lvm.topolvm.io/spread-policy"
)

// The values of SpreadLabel and SpreadPolicyLabel.
const (
	SpreadDevice    = "device"
	SpreadNode      = "node"
	SpreadRequired  = "required"
	SpreadPreferred = "preferred"
)

const (
	// SpreadAnnotation on a LogicalVolume has the Spread of its volume, as Spread.String writes it. The CSI controller
	// sets it. Agents cannot change it.
	SpreadAnnotation = "lvm.topolvm.io/spread"
	// SpreadTagPrefix precedes the text of the Spread in the LVM tag of a logical volume.
	SpreadTagPrefix = "lvms.spread="
)

// Spread keeps a volume apart from the other volumes of its group. The zero value does not.
//
// +kubebuilder:object:generate=false
type Spread struct {
	// Group is NAMESPACE/NAME.
	Group string
	// Scope is SpreadDevice or SpreadNode. Policy is SpreadRequired or SpreadPreferred.
	Scope, Policy string
}

// NewSpread returns the Spread of a claim in a namespace, from its labels. Without SpreadGroupLabel it is the zero
// value.
func NewSpread(namespace string, labels map[string]string) (Spread, error) {
	group := labels[SpreadGroupLabel]
	if group == "" {
		return Spread{}, nil
	}
	s := Spread{Group: namespace + "/" + group, Scope: SpreadDevice, Policy: SpreadPreferred}
	if scope := labels[SpreadLabel]; scope != "" {
		s.Scope = scope
	}
	if policy := labels[SpreadPolicyLabel]; policy != "" {
		s.Policy = policy
	}
	return s, s.check()
}

func (s Spread) check() error {
	if s.Scope != SpreadDevice && s.Scope != SpreadNode {
		return fmt.Errorf("label %s is %q: use %s or %s", SpreadLabel, s.Scope, SpreadDevice, SpreadNode)
	}
	if s.Policy != SpreadRequired && s.Policy != SpreadPreferred {
		return fmt.Errorf("label %s is %q: use %s or %s", SpreadPolicyLabel, s.Policy, SpreadRequired,
			SpreadPreferred)
	}
	return nil
}

// Required returns true if the volume is not created if it cannot be kept apart.
func (s Spread) Required() bool { return s.Policy == SpreadRequired }

// String returns "SCOPE:POLICY:NAMESPACE/NAME", which is also valid in an LVM tag; "" for the zero value.
func (s Spread) String() string {
	if s.Group == "" {
		return ""
	}
	return s.Scope + ":" + s.Policy + ":" + s.Group
}

// ParseSpread returns the Spread of a text that String wrote. ok is false if the text is not valid.
func ParseSpread(text string) (s Spread, ok bool) {
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 || parts[2] == "" {
		return Spread{}, false
	}
	s = Spread{Scope: parts[0], Policy: parts[1], Group: parts[2]}
	return s, s.check() == nil
}
