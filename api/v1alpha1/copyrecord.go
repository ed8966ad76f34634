package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// CopyRecord is how far a copy is, or the present round of the target of a VolumeMove, as JSON in CopiedAnnotation.
//
// +kubebuilder:object:generate=false
type CopyRecord struct {
	// Source and Base are the names of the LogicalVolumes of the snapshots: the round copies the differences from Base
	// to Source. Without Base, it copies everything.
	Source string `json:"source"`
	Base   string `json:"base,omitempty"`
	// CopiedBytes and ComparedBytes say up to which byte of SizeBytes, the size of the source, the round has copied and
	// compared. Parts without data count too.
	CopiedBytes   uint64 `json:"copiedBytes"`
	ComparedBytes uint64 `json:"comparedBytes"`
	SizeBytes     uint64 `json:"sizeBytes"`
	// SentBytes is how many bytes the source has sent in this round, compressed and without checksums.
	SentBytes uint64 `json:"sentBytes"`
	// Seconds is how long the round has taken. SentBytes and Seconds begin at zero when the node agent starts again.
	Seconds float64 `json:"seconds"`
	// Finished: the target has all data of Source.
	Finished bool `json:"finished,omitempty"`
	// Error says why the last attempt failed. The node agent tries again.
	Error string `json:"error,omitempty"`
}

// DoneBytes returns how many bytes were copied and compared, together.
func (r CopyRecord) DoneBytes() int64 {
	copied, compared := min(r.CopiedBytes, math.MaxInt64/2), min(r.ComparedBytes, math.MaxInt64/2)
	return int64(copied + compared) //nolint:gosec // both are limited
}

// ParseCopyRecord returns the record in CopiedAnnotation. It returns an error if the text is not a record.
func ParseCopyRecord(text string) (CopyRecord, error) {
	record := CopyRecord{}
	err := json.Unmarshal([]byte(text), &record)
	if err == nil && record.Source == "" {
		err = errors.New("it has no source")
	}
	if err != nil {
		return CopyRecord{}, fmt.Errorf("%q is not the record of a copy: %w", text, err)
	}
	return record, nil
}
