package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LVMVolumeGroupNodeStatus is what one node agent has seen. It has the name of its node.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lvmvgns
// +kubebuilder:printcolumn:name="Volume groups",type=string,JSONPath=`.status.nodeStatus[*].name`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.nodeStatus[*].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LVMVolumeGroupNodeStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Status LVMVolumeGroupNodeStatusStatus `json:"status,omitempty"`
}

// LVMVolumeGroupNodeStatusList is a list of LVMVolumeGroupNodeStatuses.
//
// +kubebuilder:object:root=true
type LVMVolumeGroupNodeStatusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LVMVolumeGroupNodeStatus `json:"items"`
}

// LVMVolumeGroupNodeStatusStatus has the volume groups of a node.
type LVMVolumeGroupNodeStatusStatus struct {
	// nodeStatus has the volume group of each device class on this node, sorted by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	NodeStatus []VGStatus `json:"nodeStatus,omitempty"`
}

// VGState is the state of a volume group in one word.
type VGState string

// The states of a volume group on a node. Failed: it does not exist as wanted and cannot be set up. Degraded: it
// exists and serves volumes, but something about it is wrong. Both come with a reason.
const (
	VGStatusProgressing VGState = "Progressing"
	VGStatusReady       VGState = "Ready"
	VGStatusFailed      VGState = "Failed"
	VGStatusDegraded    VGState = "Degraded"
)

// VGStatus is a volume group on a node.
type VGStatus struct {
	// name of the device class and its volume group.
	Name string `json:"name"`

	// status in one word: Progressing, Ready, Failed or Degraded.
	// +optional
	Status VGState `json:"status,omitempty"`

	// reason says what is wrong and what to do, for every status but Ready.
	// +optional
	Reason string `json:"reason,omitempty"`

	// observedGeneration is the generation of the LVMVolumeGroup that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// devices are the physical volumes of the group, sorted.
	// +optional
	// +listType=atomic
	Devices []string `json:"devices,omitempty"`

	// excluded are the devices of the node that the group does not use, sorted, each with all its reasons.
	// +optional
	// +listType=atomic
	Excluded []ExcludedDevice `json:"excluded,omitempty"`

	// size of the volume group.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`

	// free is the space of the volume group that no logical volume has. A thin pool is a logical volume.
	// +optional
	Free *resource.Quantity `json:"free,omitempty"`

	// thinPool is the pool of a thin device class.
	// +optional
	ThinPool *ThinPoolStatus `json:"thinPool,omitempty"`
}

// ThinPoolStatus is a thin pool on a node.
type ThinPoolStatus struct {
	// name of the pool.
	Name string `json:"name"`

	// size of the pool's data.
	Size resource.Quantity `json:"size"`

	// metadataSize is the size of the pool's metadata.
	MetadataSize resource.Quantity `json:"metadataSize"`

	// dataPercent is how full the data is, in whole percent, rounded up.
	DataPercent int32 `json:"dataPercent"`

	// metadataPercent is how full the metadata is, in whole percent, rounded up.
	MetadataPercent int32 `json:"metadataPercent"`
}

// ExcludedDevice is a device that a volume group does not use.
type ExcludedDevice struct {
	// name of the device, as the kernel has it or as the deviceSelector writes it.
	Name string `json:"name"`

	// reasons, all that apply.
	// +listType=atomic
	Reasons []string `json:"reasons"`
}
