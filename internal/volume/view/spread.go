package view

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// Spread keeps a volume apart from the other volumes of its group. The zero value does not.
type Spread struct {
	// Group is NAMESPACE/NAME.
	Group string
	// Scope is SpreadDevice or SpreadNode. Policy is SpreadRequired or SpreadPreferred.
	Scope, Policy string
}

// NewSpread returns the Spread of a claim in a namespace, from its labels. Without SpreadGroupLabel it is the zero
// value.
func NewSpread(namespace string, labels map[string]string) (Spread, error) {
	group := labels[wellknown.SpreadGroupLabel]
	if group == "" {
		return Spread{}, nil
	}
	s := Spread{Group: namespace + "/" + group, Scope: wellknown.SpreadDevice, Policy: wellknown.SpreadPreferred}
	if scope := labels[wellknown.SpreadLabel]; scope != "" {
		s.Scope = scope
	}
	if policy := labels[wellknown.SpreadPolicyLabel]; policy != "" {
		s.Policy = policy
	}
	return s, s.check()
}

func (s Spread) check() error {
	if s.Scope != wellknown.SpreadDevice && s.Scope != wellknown.SpreadNode {
		return fmt.Errorf("label %s is %q: use %s or %s", wellknown.SpreadLabel, s.Scope, wellknown.SpreadDevice,
			wellknown.SpreadNode)
	}
	if s.Policy != wellknown.SpreadRequired && s.Policy != wellknown.SpreadPreferred {
		return fmt.Errorf("label %s is %q: use %s or %s", wellknown.SpreadPolicyLabel, s.Policy,
			wellknown.SpreadRequired, wellknown.SpreadPreferred)
	}
	return nil
}

// Required returns true if the volume is not created if it cannot be kept apart.
func (s Spread) Required() bool { return s.Policy == wellknown.SpreadRequired }

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

// GroupHash returns the first 32 hexadecimal digits of the SHA-256 hash of the group, because the name of a group is
// longer than the value of a label can be; "" for the zero value.
func (s Spread) GroupHash() string {
	if s.Group == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(s.Group))
	return hex.EncodeToString(sum[:16])
}

// SpreadOf returns the Spread of a LogicalVolume. It is the zero value if it has none, or one that is not valid.
func SpreadOf(lv *topolvmv1.LogicalVolume) Spread {
	s, ok := ParseSpread(lv.Annotations[wellknown.SpreadAnnotation])
	if !ok {
		return Spread{}
	}
	return s
}

// SetSpread records the Spread of a LogicalVolume.
func SetSpread(lv *topolvmv1.LogicalVolume, s Spread) {
	metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.SpreadAnnotation, s.String())
	metav1.SetMetaDataLabel(&lv.ObjectMeta, wellknown.SpreadGroupHashLabel, s.GroupHash())
}
