// Package v1alpha1 is the wire contract of LVM Storage: the kinds LVMCluster, LVMVolumeGroup and
// LVMVolumeGroupNodeStatus of the API group lvm.topolvm.io, and the names that objects of the product carry. A field is
// optional if its JSON tag has omitempty: controller-gen needs no marker for that.
//
// +kubebuilder:object:generate=true
// +groupName=lvm.topolvm.io
package v1alpha1
