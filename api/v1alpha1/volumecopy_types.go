package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// VolumeCopyConfig controls how volumes are copied to other nodes and device classes.
type VolumeCopyConfig struct {
	// bandwidthLimit is the maximum number of bytes per second that the node agent of each node reads and sends for all
	// copies together, at least 1Mi. Each byte of a copy is read twice: a second time, for a checksum, when the copy is
	// compared with its source. Not set: no limit. It can be changed at any time, also for copies in progress.
	BandwidthLimit *resource.Quantity `json:"bandwidthLimit,omitempty"`
}
