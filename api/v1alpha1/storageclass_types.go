package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// StorageClassOptions are what can be chosen about the StorageClass of a device class.
type StorageClassOptions struct {
	// reclaimPolicy is what becomes of a volume whose claim is deleted: Delete, or Retain; Delete when not set.
	// +kubebuilder:validation:Enum=Delete;Retain
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="reclaimPolicy cannot be changed: a StorageClass keeps what it was made with; use a new device class"
	// +optional
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy `json:"reclaimPolicy,omitempty"`

	// volumeBindingMode is when a volume is made: WaitForFirstConsumer, on the node of the first Pod that uses the
	// claim, or Immediate, on the node with the most room; WaitForFirstConsumer when not set.
	// +kubebuilder:validation:Enum=WaitForFirstConsumer;Immediate
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="volumeBindingMode cannot be changed: a StorageClass keeps what it was made with; use a new device class"
	// +optional
	VolumeBindingMode storagev1.VolumeBindingMode `json:"volumeBindingMode,omitempty"`

	// additionalParameters of the StorageClass. The device class and the file system are parameters already, and not to
	// be given here.
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="additionalParameters cannot be changed: a StorageClass keeps what it was made with; use a new device class"
	// +optional
	AdditionalParameters map[string]string `json:"additionalParameters,omitempty"`

	// additionalLabels of the StorageClass. They can be changed.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	AdditionalLabels map[string]string `json:"additionalLabels,omitempty"`
}

// Reclaim is the reclaim policy of the StorageClass.
func (o *StorageClassOptions) Reclaim() corev1.PersistentVolumeReclaimPolicy {
	if o == nil || o.ReclaimPolicy == "" {
		return corev1.PersistentVolumeReclaimDelete
	}
	return o.ReclaimPolicy
}

// Binding is the binding mode of the StorageClass.
func (o *StorageClassOptions) Binding() storagev1.VolumeBindingMode {
	if o == nil || o.VolumeBindingMode == "" {
		return storagev1.VolumeBindingWaitForFirstConsumer
	}
	return o.VolumeBindingMode
}

// Parameters are those that were added, or nil.
func (o *StorageClassOptions) Parameters() map[string]string {
	if o == nil {
		return nil
	}
	return o.AdditionalParameters
}

// Labels are those that were added, or nil.
func (o *StorageClassOptions) Labels() map[string]string {
	if o == nil {
		return nil
	}
	return o.AdditionalLabels
}
