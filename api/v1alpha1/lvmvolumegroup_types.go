package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LVMVolumeGroup is a device class as the node agents see it. The operator makes one for each device class.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=lvmvg
// +kubebuilder:printcolumn:name="Default",type=boolean,JSONPath=`.spec.default`
// +kubebuilder:printcolumn:name="Thin pool",type=string,JSONPath=`.spec.thinPoolConfig.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LVMVolumeGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec LVMVolumeGroupSpec `json:"spec,omitempty"`
}

// LVMVolumeGroupList is a list of LVMVolumeGroups.
//
// +kubebuilder:object:root=true
type LVMVolumeGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LVMVolumeGroup `json:"items"`
}

// LVMVolumeGroupSpec is what the node agents have to set up.
type LVMVolumeGroupSpec struct {
	// default: volumes that name no device class go here.
	// +optional
	Default bool `json:"default,omitempty"`

	// nodeSelector chooses the nodes. Without it, all nodes that run the node agent.
	// +optional
	NodeSelector *corev1.NodeSelector `json:"nodeSelector,omitempty"`

	// tolerations are those of the LVMCluster. A taint that is not tolerated here keeps a new volume group away from
	// its node.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// deviceSelector chooses the devices. Without it and deviceSelectors, every unused device is taken.
	// +optional
	DeviceSelector *DeviceSelector `json:"deviceSelector,omitempty"`

	// deviceSelectors choose devices on some of the nodes each.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	DeviceSelectors []NodeDeviceSelector `json:"deviceSelectors,omitempty"`

	// deviceDiscoveryPolicy says what happens to devices that appear later, without a deviceSelector. The operator sets
	// it always.
	// +kubebuilder:validation:Enum=Static;Dynamic
	// +optional
	DeviceDiscoveryPolicy DeviceDiscoveryPolicy `json:"deviceDiscoveryPolicy,omitempty"`

	// thinPoolConfig is the thin pool. Without it, volumes are thick.
	// +optional
	ThinPoolConfig *ThinPoolConfig `json:"thinPoolConfig,omitempty"`

	// raidConfig is the redundancy of the volumes. Without it they have none.
	// +optional
	RAIDConfig *RAIDConfig `json:"raidConfig,omitempty"`

	// deviceRequests ask for something to be done with single devices.
	// +optional
	// +listType=map
	// +listMapKey=node
	// +listMapKey=device
	// +kubebuilder:validation:MaxItems=64
	DeviceRequests []DeviceRequest `json:"deviceRequests,omitempty"`

	// adopt are volume groups that came from another node and are to be used.
	// +optional
	// +listType=map
	// +listMapKey=node
	// +kubebuilder:validation:MaxItems=64
	Adopt []VolumeGroupAdoption `json:"adopt,omitempty"`
}
