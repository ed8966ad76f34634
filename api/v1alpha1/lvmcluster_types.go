package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LVMCluster turns the local disks of the cluster's nodes into volume groups and StorageClasses. A cluster can have one
// LVMCluster, in the namespace of the operator.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lvmc
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Volume groups",type=string,JSONPath=`.status.volumeGroups`
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.status.size`
// +kubebuilder:printcolumn:name="Free",type=string,JSONPath=`.status.free`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type LVMCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   LVMClusterSpec   `json:"spec,omitempty"`
	Status LVMClusterStatus `json:"status,omitempty"`
}

// LVMClusterList is a list of LVMClusters.
//
// +kubebuilder:object:root=true
type LVMClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LVMCluster `json:"items"`
}

// LVMClusterSpec is the desired state of an LVMCluster.
type LVMClusterSpec struct {
	// tolerations are the tolerations for new volume groups. A node with a taint that is not tolerated here gets no new
	// volume group. The node agent runs on tainted nodes too, so that it can mount and unmount the volumes that a node
	// already has.
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// storage contains the device classes.
	Storage Storage `json:"storage,omitempty"`

	// volumeCopy controls how volumes are copied to other nodes and device classes.
	VolumeCopy *VolumeCopyConfig `json:"volumeCopy,omitempty"`
}

// Storage contains the device classes of an LVMCluster.
type Storage struct {
	// deviceClasses is the list of device classes. The operator creates a volume group on every node that a device
	// class selects, and a StorageClass named lvms-NAME.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=24
	// +kubebuilder:validation:XValidation:rule="self.filter(c, has(c.default) && c.default).size() <= 1",message="only one device class can be the default: set default to true in one device class only"
	DeviceClasses []DeviceClass `json:"deviceClasses,omitempty"`
}

// LVMState is the state of an LVMCluster in one word.
type LVMState string

// The states of an LVMCluster. The first state that applies is used, in the order Failed, Degraded, Progressing, Ready.
const (
	// LVMStatusReady sets Ready to True: every operand runs, and every volume group is ready.
	LVMStatusReady LVMState = "Ready"
	// LVMStatusProgressing sets Ready to False: something is being set up, or the operator waits for something.
	// What to do: wait; if it lasts for more than a few minutes, check the objects that the message names.
	LVMStatusProgressing LVMState = "Progressing"
	// LVMStatusDegraded sets Ready to False: a volume group exists and serves its volumes, but something is wrong with
	// it.
	// What to do: see VolumeGroupsReady.
	LVMStatusDegraded LVMState = "Degraded"
	// LVMStatusFailed sets Ready to False: an operand could not be applied, or a volume group could not be set up.
	// What to do: see ResourcesAvailable and VolumeGroupsReady.
	LVMStatusFailed LVMState = "Failed"
	// LVMStatusUnknown sets Ready to False: the state could not be determined.
	// What to do: see the message and the log of the operator.
	LVMStatusUnknown LVMState = "Unknown"
)

// LVMClusterStatus is the observed state of an LVMCluster.
type LVMClusterStatus struct {
	// ready is true if state is Ready.
	Ready bool `json:"ready,omitempty"`

	// state is the overall state: Progressing, Ready, Failed, Degraded or Unknown.
	State LVMState `json:"state,omitempty"`

	// observedGeneration is the generation of the spec that this status reflects.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// volumeGroups is the number of volume groups that are Ready and the total number, for example "5/6".
	VolumeGroups string `json:"volumeGroups,omitempty"`

	// size is the total size of all volume groups, rounded down to whole Mi or Gi.
	Size *resource.Quantity `json:"size,omitempty"`

	// free is the free space of all volume groups and thin pools. New volumes can use less than that if a device class
	// has redundancy or a high-water mark.
	Free *resource.Quantity `json:"free,omitempty"`

	// conditions are the conditions Ready, ResourcesAvailable and VolumeGroupsReady.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// deviceClassStatuses is the state of each device class on each of its nodes. Only the LVMVolumeGroupNodeStatus of
	// a node contains physicalVolumes, wipedDevices and conditions that are True. If the list would exceed 800 KiB,
	// details are omitted in this order until it fits: excluded devices; everything but state and a short reason;
	// volume groups that are Ready; all but the 1000 worst volume groups. The conditions count all volume groups.
	// +listType=map
	// +listMapKey=name
	DeviceClassStatuses []DeviceClassStatus `json:"deviceClassStatuses,omitempty"`
}

// DeviceClassStatus is the state of a device class.
type DeviceClassStatus struct {
	// name is the name of the device class.
	Name string `json:"name"`

	// nodeStatus is the state of the volume group on each node, sorted by node.
	// +listType=map
	// +listMapKey=node
	NodeStatus []NodeStatus `json:"nodeStatus,omitempty"`
}

// NodeStatus is the state of the volume group of a device class on one node.
type NodeStatus struct {
	// node is the name of the node.
	Node string `json:"node"`

	VGStatus `json:",inline"`
}
