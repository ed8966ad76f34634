package fstrim

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Result is the result of an attempt to trim the file system of a volume.
type Result string

// The results of a trim.
const (
	// Trimmed: the unused blocks of the file system were discarded.
	Trimmed Result = "Trimmed"
	// NotSupported: the file system or its device does not support discards.
	NotSupported Result = "NotSupported"
	// Failed: the file system or its device returned an error, or did not respond.
	Failed Result = "Failed"
)

// Record is the last attempt to trim the file system of a volume, as JSON in TrimAnnotation.
type Record struct {
	// Time is when the attempt ended, in full seconds.
	Time   time.Time `json:"time"`
	Result Result    `json:"result"`
	// TrimmedBytes is what the file system reported as discarded, if Result is Trimmed.
	TrimmedBytes int64 `json:"trimmedBytes,omitempty"`
	// Failures is the number of consecutive attempts with the Result Failed.
	Failures int `json:"failures,omitempty"`
	// Message is the error, if Result is not Trimmed.
	Message string `json:"message,omitempty"`
}

// ParseRecord returns the record in TrimAnnotation. It returns an error if the text is not a record, for example
// because somebody edited it.
func ParseRecord(text string) (Record, error) {
	record := Record{}
	err := json.Unmarshal([]byte(text), &record)
	if err == nil && record.Time.IsZero() {
		err = errors.New("it has no time")
	}
	if err != nil {
		return Record{}, fmt.Errorf("%q is not the record of a trim: %w", text, err)
	}
	return record, nil
}

// String returns the text for TrimAnnotation.
func (r Record) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // Only a year above 9999 cannot be encoded.
	}
	return string(text)
}
