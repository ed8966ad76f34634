package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// CopyOf returns the LogicalVolume of which a LogicalVolume is a copy, if a snapshot was created for that, or "".
func CopyOf(lv *topolvmv1.LogicalVolume) string { return lv.Annotations[wellknown.CopyOfAnnotation] }

// CopyFor returns the LogicalVolume of the copy for which a snapshot was created, or "".
func CopyFor(lv *topolvmv1.LogicalVolume) string { return lv.Annotations[wellknown.CopyForAnnotation] }

// CloneVolume returns the ID of the thick volume of which a LogicalVolume is a copy, or "".
func CloneVolume(lv *topolvmv1.LogicalVolume) string {
	return lv.Annotations[wellknown.CloneVolumeAnnotation]
}

// CopyBase returns the snapshot whose data the target of a move has before its present round, or "".
func CopyBase(lv *topolvmv1.LogicalVolume) string {
	return lv.Annotations[wellknown.CopyBaseAnnotation]
}

// CopyRecord is how far a copy is, or the present round of the target of a VolumeMove, as JSON in CopiedAnnotation.
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

// HasCopied reports whether the node agent has reported a copy to a LogicalVolume.
func HasCopied(lv *topolvmv1.LogicalVolume) bool {
	return lv.Annotations[wellknown.CopiedAnnotation] != ""
}

// Copied returns the record of the copy to a LogicalVolume. It returns an error if it has none.
func Copied(lv *topolvmv1.LogicalVolume) (CopyRecord, error) {
	text := lv.Annotations[wellknown.CopiedAnnotation]
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

// SetCopied writes the record of the copy to a LogicalVolume.
func SetCopied(lv *topolvmv1.LogicalVolume, record CopyRecord) error {
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode the record of a copy: %w", err)
	}
	set(lv, wellknown.CopiedAnnotation, string(text))
	return nil
}
