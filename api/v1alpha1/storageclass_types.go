package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// StorageClassOptions configure the StorageClass of a device class.
type StorageClassOptions struct {
	// reclaimPolicy controls what happens to a volume when its claim is deleted: Delete or Retain. Defaults to Delete.
	// It is immutable.
	// +kubebuilder:validation:Enum=Delete;Retain
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="reclaimPolicy is immutable, because StorageClasses are: create a new device class"
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy `json:"reclaimPolicy,omitempty"`

	// volumeBindingMode controls when a volume is created: WaitForFirstConsumer creates it on the node of the first Pod
	// that uses the claim; Immediate creates it at once, on the node with the most capacity. Defaults to
	// WaitForFirstConsumer. It is immutable.
	// +kubebuilder:validation:Enum=WaitForFirstConsumer;Immediate
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="volumeBindingMode is immutable, because StorageClasses are: create a new device class"
	VolumeBindingMode storagev1.VolumeBindingMode `json:"volumeBindingMode,omitempty"`

	// additionalParameters are additional parameters of the StorageClass. The parameters for the device class and the
	// file system are reserved. They are immutable.
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="additionalParameters is immutable, because StorageClasses are: create a new device class"
	AdditionalParameters map[string]string `json:"additionalParameters,omitempty"`

	// additionalLabels are additional labels of the StorageClass. They can be changed.
	// +kubebuilder:validation:MaxProperties=16
	AdditionalLabels map[string]string `json:"additionalLabels,omitempty"`
}
