package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
)

// SpreadGroupHashLabel on a LogicalVolume has the GroupHash of its Spread, so that the API server can list the volumes
// of a group. The CSI controller sets it. Agents cannot change it.
const SpreadGroupHashLabel = "lvm.topolvm.io/spread-group-hash"

// GroupHash returns the first 32 hexadecimal digits of the SHA-256 hash of the group, because the name of a group is
// longer than the value of a label can be; "" for the zero value.
func (s Spread) GroupHash() string {
	if s.Group == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(s.Group))
	return hex.EncodeToString(sum[:16])
}
