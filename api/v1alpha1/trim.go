package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// TrimConfig controls when the node agents trim the file systems of mounted volumes, as fstrim does: the file system
// tells its device which blocks it does not use.
type TrimConfig struct {
	// schedule is how often the file system of each mounted volume is trimmed: Daily, Weekly or None. The node agents
	// trim one volume of their node after the other, at times that are spread over the day or week. Defaults to Weekly.
	// +kubebuilder:default=Weekly
	// +optional
	Schedule TrimSchedule `json:"schedule,omitempty"`

	// poolUsageThresholdPercent is the data usage of the thin pool from which on the volumes of the thin pool are also
	// trimmed independently of schedule, those with the most data first, until the usage is below it. A volume is
	// trimmed at most once an hour, and less often if this does not help. It requires thinPoolConfig.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=99
	// +optional
	PoolUsageThresholdPercent int `json:"poolUsageThresholdPercent,omitempty"`
}

// TrimSchedule is how often file systems are trimmed.
//
// +kubebuilder:validation:Enum=None;Daily;Weekly
type TrimSchedule string

// The schedules for trims.
const (
	TrimNone   TrimSchedule = "None"
	TrimDaily  TrimSchedule = "Daily"
	TrimWeekly TrimSchedule = "Weekly"
)

// Period returns the time between two trims, or 0 without a schedule.
func (s TrimSchedule) Period() time.Duration {
	switch s {
	case TrimDaily:
		return 24 * time.Hour
	case TrimWeekly:
		return 7 * 24 * time.Hour
	}
	return 0
}

// TrimResult is the result of an attempt to trim the file system of a volume.
type TrimResult string

// The results of a trim.
const (
	// TrimSucceeded: the unused blocks of the file system were discarded.
	TrimSucceeded TrimResult = "Trimmed"
	// TrimNotSupported: the file system or its device does not support discards.
	TrimNotSupported TrimResult = "NotSupported"
	// TrimFailed: the file system or its device returned an error, or did not respond.
	TrimFailed TrimResult = "Failed"
)

// TrimRecord is the last attempt to trim the file system of a volume, as JSON in TrimAnnotation.
//
// +kubebuilder:object:generate=false
type TrimRecord struct {
	// Time is when the attempt ended, in full seconds.
	Time   time.Time  `json:"time"`
	Result TrimResult `json:"result"`
	// TrimmedBytes is what the file system reported as discarded, if Result is Trimmed.
	TrimmedBytes int64 `json:"trimmedBytes,omitempty"`
	// Failures is the number of consecutive attempts with the Result Failed.
	Failures int `json:"failures,omitempty"`
	// Message is the error, if Result is not Trimmed.
	Message string `json:"message,omitempty"`
}

// ParseTrimRecord returns the record in TrimAnnotation. It returns an error if the text is not a record, for example
// because somebody edited it.
func ParseTrimRecord(text string) (TrimRecord, error) {
	record := TrimRecord{}
	err := json.Unmarshal([]byte(text), &record)
	if err == nil && record.Time.IsZero() {
		err = errors.New("it has no time")
	}
	if err != nil {
		return TrimRecord{}, fmt.Errorf("%q is not the record of a trim: %w", text, err)
	}
	return record, nil
}

// String returns the text for TrimAnnotation.
func (r TrimRecord) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // Only a year above 9999 cannot be encoded.
	}
	return string(text)
}
