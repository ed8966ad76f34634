package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LVMDeviceApproval approves one device of one node for a device class with approval: Required. It is valid as long as
// the device has the fingerprint with which it was reviewed. An approval does not allow a device to be wiped. The
// operator deletes it when the device class is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=lvmda
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Device class",type=string,JSONPath=`.spec.deviceClassName`
// +kubebuilder:printcolumn:name="Device",type=string,JSONPath=`.spec.device`
// +kubebuilder:printcolumn:name="Approved by",type=string,JSONPath=`.spec.approvedBy`
// +kubebuilder:printcolumn:name="Fingerprint",type=string,JSONPath=`.spec.fingerprint`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LVMDeviceApproval struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an approval cannot be changed: delete the LVMDeviceApproval and create another one"
	Spec LVMDeviceApprovalSpec `json:"spec"`
}

// LVMDeviceApprovalList is a list of LVMDeviceApprovals.
//
// +kubebuilder:object:root=true
type LVMDeviceApprovalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LVMDeviceApproval `json:"items"`
}

// LVMDeviceApprovalSpec says what was approved, and by whom. metadata.creationTimestamp is when. It is immutable.
type LVMDeviceApprovalSpec struct {
	// nodeName is the node that has the device.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`

	// deviceClassName is the device class that may use the device.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	DeviceClassName string `json:"deviceClassName"`

	// device is the device that was reviewed: its ID, a link under /dev/disk/by-id or /dev/disk/by-path, or its name.
	// If the device with this name has another fingerprint, its reason is ChangedSinceReview.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Device string `json:"device"`

	// fingerprint is the fingerprint of the device, as in status.devices of the LVMVolumeGroupNodeStatus, when it was
	// reviewed.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^v[0-9]+-[0-9a-f]{32}$`
	Fingerprint string `json:"fingerprint"`

	// approvedBy is the name of the user who creates the LVMDeviceApproval. Another name is refused.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ApprovedBy string `json:"approvedBy"`
}
