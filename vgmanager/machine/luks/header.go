package luks

import (
	"encoding/json"
	"errors"
	"fmt"
)

// parseSlots returns the number of key slots in the metadata of a LUKS2 header (LUKS2 On-Disk Format Specification,
// "keyslots").
func parseSlots(metadata []byte) (int, error) {
	var header struct {
		Keyslots map[string]json.RawMessage `json:"keyslots"`
	}
	if err := json.Unmarshal(metadata, &header); err != nil {
		return 0, fmt.Errorf("its metadata is not the expected JSON: %w", err)
	}
	if header.Keyslots == nil {
		return 0, errors.New(`its metadata has no "keyslots"`)
	}
	return len(header.Keyslots), nil
}
