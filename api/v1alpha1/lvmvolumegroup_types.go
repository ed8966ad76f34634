package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LVMVolumeGroup is a device class as the node agents read it. The operator creates one for each device class.
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

// LVMVolumeGroupSpec is the desired state of the volume group on each node.
type LVMVolumeGroupSpec struct {
	// default is true if volumes without a device class use this device class.
	Default bool `json:"default,omitempty"`

	// nodeSelector selects the nodes. Defaults to all nodes that run the node agent.
	NodeSelector *corev1.NodeSelector `json:"nodeSelector,omitempty"`

	// tolerations are the tolerations of the LVMCluster. A node with a taint that is not tolerated here gets no new
	// volume group.
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// existingVolumeGroup is the name of a volume group that an administrator created. Without it, the node agents
	// create a volume group with the name of the device class.
	// +kubebuilder:validation:MaxLength=127
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9_.+][a-zA-Z0-9_.+-]*$`
	ExistingVolumeGroup string `json:"existingVolumeGroup,omitempty"`

	// existingVolumeGroupConfig has the settings of a device class with existingVolumeGroup.
	ExistingVolumeGroupConfig *ExistingVolumeGroupConfig `json:"existingVolumeGroupConfig,omitempty"`

	// deviceSelector selects the devices. Without deviceSelector and deviceSelectors, every unused device is used.
	DeviceSelector *DeviceSelector `json:"deviceSelector,omitempty"`

	// deviceSelectors select devices for groups of nodes.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	DeviceSelectors []NodeDeviceSelector `json:"deviceSelectors,omitempty"`

	// deviceDiscoveryPolicy controls what happens to devices that appear later, if there is no deviceSelector. The
	// operator always sets it.
	// +kubebuilder:validation:Enum=Static;Dynamic
	DeviceDiscoveryPolicy DeviceDiscoveryPolicy `json:"deviceDiscoveryPolicy,omitempty"`

	// approval is Required if each new device must be approved with an LVMDeviceApproval.
	Approval DeviceApprovalPolicy `json:"approval,omitempty"`

	// thinPoolConfig is the configuration of the thin pool. Without it, volumes are thick.
	ThinPoolConfig *ThinPoolConfig `json:"thinPoolConfig,omitempty"`

	// raidConfig is the redundancy of the volumes. Without it, volumes have no redundancy.
	RAIDConfig *RAIDConfig `json:"raidConfig,omitempty"`

	// thickConfig controls on which devices thick volumes are. Without it, a volume can be on several.
	ThickConfig *ThickConfig `json:"thickConfig,omitempty"`

	// deviceRequests are requests to cordon, drain or remove individual devices.
	// +listType=map
	// +listMapKey=node
	// +listMapKey=device
	// +kubebuilder:validation:MaxItems=64
	DeviceRequests []DeviceRequest `json:"deviceRequests,omitempty"`

	// adopt allows volume groups whose disks were moved from another node, or come from another cluster, to be used on
	// the node that has them now.
	// +listType=map
	// +listMapKey=node
	// +kubebuilder:validation:MaxItems=64
	Adopt []VolumeGroupAdoption `json:"adopt,omitempty"`

	// adoptClusters are the identities of other clusters whose volume groups the device class uses.
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	AdoptClusters []ClusterIdentity `json:"adoptClusters,omitempty"`

	// deletedVolumeRetention is how long after its deletion a logical volume is kept whose claim or VolumeSnapshot was
	// deleted while its Node object did not exist. Not set: until an administrator removes it.
	DeletedVolumeRetention RetentionPeriod `json:"deletedVolumeRetention,omitempty"`

	// eraseOnDelete is what the node agent does with the blocks of a logical volume before it removes it. If not set:
	// Zero without thinPoolConfig, and None with thinPoolConfig.
	EraseOnDelete EraseMethod `json:"eraseOnDelete,omitempty"`

	// deviceResizePolicy is what the node agent does when a device of the volume group becomes larger.
	DeviceResizePolicy DeviceResizePolicy `json:"deviceResizePolicy,omitempty"`

	// namespaceLimits limit the total size of the volumes that the claims of a namespace have on each node.
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=32
	NamespaceLimits []NamespaceLimit `json:"namespaceLimits,omitempty"`

	// trim controls when the file systems of mounted volumes are trimmed. Not set: never.
	Trim *TrimConfig `json:"trim,omitempty"`

	// volumeCopy is that of the LVMCluster. It applies to the node, not only to this device class.
	VolumeCopy *VolumeCopyConfig `json:"volumeCopy,omitempty"`
}
