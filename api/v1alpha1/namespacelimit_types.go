package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// NamespaceLimit limits the volumes that a namespace has on each node.
type NamespaceLimit struct {
	// namespace is the namespace that is limited. If it is not set, the entry applies to every namespace that no other
	// entry names, to each for itself.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	// +kubebuilder:default=""
	Namespace string `json:"namespace,omitempty"`

	// perNode is the maximum total size of the volumes and snapshots of the namespace in this device class on one node.
	// 0 allows none. Snapshots count with the full size of their volume.
	PerNode resource.Quantity `json:"perNode"`
}
