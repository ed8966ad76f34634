package v1alpha1

// TrimConfig controls when the node agents trim the file systems of mounted volumes, as fstrim does: the file system
// tells its device which blocks it does not use.
type TrimConfig struct {
	// schedule is how often the file system of each mounted volume is trimmed: Daily, Weekly or None. The node agents
	// trim one volume of their node after the other, at times that are spread over the day or week. Defaults to Weekly.
	// +kubebuilder:default=Weekly
	Schedule TrimSchedule `json:"schedule,omitempty"`

	// poolUsageThresholdPercent is the data usage of the thin pool from which on the volumes of the thin pool are also
	// trimmed independently of schedule, those with the most data first, until the usage is below it. A volume is
	// trimmed at most once an hour, and less often if this does not help. It requires thinPoolConfig.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=99
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
