package output

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// Version is the apiVersion of the output of `-o json` and `-o yaml`. Within a version, fields are only added.
const Version = "cli.lvm.topolvm.io/v1alpha1"

// Status is the output of `status`.
type Status struct {
	metav1.TypeMeta `json:",inline"`
	// healthy is true if everything was read and there is no problem.
	Healthy bool `json:"healthy"`
	// complete is true if everything was read. If it is false, there may be more problems than listed.
	Complete bool `json:"complete"`
	// lvmClusters are the LVMClusters that were found.
	LVMClusters []Cluster `json:"lvmClusters"`
	// suspendedVolumes is the number of volumes that new Pods do not get, also because of suspended devices.
	SuspendedVolumes int `json:"suspendedVolumes,omitempty"`
	// suspendedDevices is the number of suspended devices.
	SuspendedDevices int `json:"suspendedDevices,omitempty"`
	// problems are the problems that were found. Of volumes and of orphans, it has at most 20 with the same reason, and
	// a problem with the number of the others.
	Problems []Problem `json:"problems"`
	// unreadable are the kinds of objects that could not be read.
	Unreadable []Unreadable `json:"unreadable"`
	// notes say what the output does not cover.
	Notes []string `json:"notes,omitempty"`
}

// Cluster is an LVMCluster in a few words.
type Cluster struct {
	// namespace is the namespace of the LVMCluster.
	Namespace string `json:"namespace"`
	// name is the name of the LVMCluster.
	Name string `json:"name"`
	// state is the state: Progressing, Ready, Failed, Degraded or Unknown.
	State v1alpha1.LVMState `json:"state"`
	// volumeGroups is the number of volume groups that are Ready and the total number, for example "5/6".
	VolumeGroups string `json:"volumeGroups,omitempty"`
	// size is the total size of all volume groups.
	Size *resource.Quantity `json:"size,omitempty"`
	// free is the free space of all volume groups and thin pools.
	Free *resource.Quantity `json:"free,omitempty"`
}

// Problem is something that needs attention.
type Problem struct {
	// reason is the machine-readable reason, for example DeviceMissing.
	Reason string `json:"reason"`
	// node is the node with the problem.
	Node string `json:"node,omitempty"`
	// deviceClass is the device class with the problem.
	DeviceClass string `json:"deviceClass,omitempty"`
	// device is the device with the problem; several are separated by commas.
	Device string `json:"device,omitempty"`
	// claim is the claim of the volume with the problem, as NAMESPACE/NAME.
	Claim string `json:"claim,omitempty"`
	// object is the object with the problem, as KIND NAME or KIND NAMESPACE/NAME, or the name of a logical volume.
	Object string `json:"object,omitempty"`
	// message says what is wrong.
	Message string `json:"message,omitempty"`
	// action is what to do.
	Action string `json:"action"`
}

// Unreadable is a kind of object that could not be read.
type Unreadable struct {
	// resource is the resource with its group, for example lvmrecoveries.lvm.topolvm.io.
	Resource string `json:"resource"`
	// message says why, and what to do.
	Message string `json:"message"`
}

// DeviceList is the output of `devices`.
type DeviceList struct {
	metav1.TypeMeta `json:",inline"`
	// items are the devices, by node and name.
	Items []Device `json:"items"`
	// nodes are the nodes that were read.
	Nodes []Node `json:"nodes"`
	// notes say what the output does not cover.
	Notes []string `json:"notes,omitempty"`
}

// Device is a device of a node. It also has all fields of a device in LVMVolumeGroupNodeStatus.
type Device struct {
	// node is the node with the device.
	Node string `json:"node"`
	// deviceClasses are the device classes that use the device.
	DeviceClasses []string `json:"deviceClasses,omitempty"`
	// suspended is true if new Pods do not get the volumes that have data on the device.
	Suspended bool `json:"suspended,omitempty"`
	// message says what is wrong with the device in its volume group, what is in progress, or who suspended it.
	Message string `json:"message,omitempty"`

	v1alpha1.DeviceStatus `json:",inline"`
}

// Node says whether what is known about a node is current.
type Node struct {
	// name is the name of the node.
	Name string `json:"name"`
	// current is true if the node agent observes the node. If it is false, the state is the last known one.
	Current bool `json:"current"`
	// message says why the state is not current.
	Message string `json:"message,omitempty"`
	// devicesOmitted is the number of devices that the node status does not list, because it would be too long.
	DevicesOmitted int32 `json:"devicesOmitted,omitempty"`
}

// WaitingList is the output of `approve` without devices.
type WaitingList struct {
	metav1.TypeMeta `json:",inline"`
	// items are the devices that wait for an approval, by node and name.
	Items []WaitingDevice `json:"items"`
	// nodes are the nodes that were read.
	Nodes []Node `json:"nodes"`
	// notes say what the output does not cover.
	Notes []string `json:"notes,omitempty"`
}

// WaitingDevice is a device that waits for an approval, with the fields of the API.
type WaitingDevice struct {
	// node is the node with the device.
	Node string `json:"node"`
	// deviceClass is the device class for which it waits.
	DeviceClass string `json:"deviceClass"`
	// reason is AwaitingApproval, or ChangedSinceReview if it was approved and has changed since then.
	Reason string `json:"reason"`
	// content is what is on the device: blank, unknown, or its signatures.
	Content string `json:"content"`

	v1alpha1.DeviceStatus `json:",inline"`
}

// DeviceReview is the file that `discover` writes and `init` reads.
type DeviceReview struct {
	metav1.TypeMeta `json:",inline"`
	// devices are the devices that can be used, by node and name.
	Devices []ReviewedDevice `json:"devices"`
	// unavailable are the devices that cannot be used.
	Unavailable []UnavailableDevice `json:"unavailable,omitempty"`
}

// ReviewedDevice is a device that can be used.
type ReviewedDevice struct {
	// node is the node with the device.
	Node string `json:"node"`
	// device is the name of the device.
	Device string `json:"device"`
	// path is the path by which the device class selects the device.
	Path string `json:"path"`
	// id is the identity of the device.
	ID string `json:"id,omitempty"`
	// size is the size of the device.
	Size string `json:"size,omitempty"`
	// model is the model of the device.
	Model string `json:"model,omitempty"`
	// content is what is on the device.
	Content string `json:"content"`
	// fingerprint is the fingerprint of the device. With another one, it is not used.
	Fingerprint string `json:"fingerprint"`
	// select is true to use the device.
	Select bool `json:"select"`
}

// UnavailableDevice is a device that cannot be used.
type UnavailableDevice struct {
	// node is the node with the device.
	Node string `json:"node"`
	// device is the name of the device.
	Device string `json:"device"`
	// content is what is on the device.
	Content string `json:"content,omitempty"`
	// reason says why the device cannot be used.
	Reason string `json:"reason"`
}

// ClassList is the output of `classes`.
type ClassList struct {
	metav1.TypeMeta `json:",inline"`
	// items are the device classes of each node, by device class and node.
	Items []Class `json:"items"`
	// nodes are the nodes that were read.
	Nodes []Node `json:"nodes"`
	// notes say what the output does not cover.
	Notes []string `json:"notes,omitempty"`
}

// Class is a device class of a node. It also has all fields of a device class in LVMVolumeGroupNodeStatus.
type Class struct {
	// node is the node with the device class.
	Node string `json:"node"`

	v1alpha1.VGStatus `json:",inline"`
}

// OrphanList is the output of `orphans`.
type OrphanList struct {
	metav1.TypeMeta `json:",inline"`
	// items are the orphans, by node, device class and name.
	Items []Orphan `json:"items"`
	// nodes are the nodes that were read.
	Nodes []Node `json:"nodes"`
	// notes say what the output does not cover.
	Notes []string `json:"notes,omitempty"`
}

// Orphan is a volume that nothing refers to. It also has all fields of an orphan in LVMVolumeGroupNodeStatus.
type Orphan struct {
	// node is the node with the orphan.
	Node string `json:"node"`
	// deviceClass is the device class.
	DeviceClass string `json:"deviceClass"`

	v1alpha1.OrphanStatus `json:",inline"`
}

// VolumeList is the output of `volumes`.
type VolumeList struct {
	metav1.TypeMeta `json:",inline"`
	// items are the volumes, by claim, node and name.
	Items []Volume `json:"items"`
	// notes say what the output does not cover.
	Notes []string `json:"notes,omitempty"`
}

// VolumeState is the state of a volume.
type VolumeState string

// The states of a volume. If several apply, the first in this order is the state.
const (
	VolumeDeleting  VolumeState = "Deleting"
	VolumeCopying   VolumeState = "Copying"
	VolumeFailed    VolumeState = "Failed"
	VolumeAbnormal  VolumeState = "Abnormal"
	VolumeSuspended VolumeState = "Suspended"
	VolumePending   VolumeState = "Pending"
	VolumeExpanding VolumeState = "Expanding"
	VolumeUnclaimed VolumeState = "Unclaimed"
	VolumeReady     VolumeState = "Ready"
)

// Volume is a LogicalVolume.
type Volume struct {
	// claim is the claim or VolumeSnapshot that the volume was created for, as NAMESPACE/NAME. It is empty if the
	// LogicalVolume does not name it.
	Claim string `json:"claim,omitempty"`
	// partOfMove is true if the volume is not that of the claim: a VolumeMove created it as a snapshot, as the copy, or
	// for the old logical volume.
	PartOfMove bool `json:"partOfMove,omitempty"`
	// node is the node with the volume.
	Node string `json:"node"`
	// deviceClass is the device class. It is empty if the LogicalVolume does not name it.
	DeviceClass string `json:"deviceClass,omitempty"`
	// state is Deleting, Copying (the data of its source is being copied), Failed (the last request failed), Abnormal
	// (something is wrong with the volume), Suspended (new Pods do not get it), Pending (not created yet), Expanding,
	// Unclaimed (nothing refers to the volume) or Ready.
	State VolumeState `json:"state"`
	// message says what is wrong, or how much is copied.
	Message string `json:"message,omitempty"`
	// size is the requested size.
	Size resource.Quantity `json:"size"`
	// currentSize is the size of the volume on the node.
	CurrentSize *resource.Quantity `json:"currentSize,omitempty"`
	// logicalVolume is the name of the LogicalVolume.
	LogicalVolume string `json:"logicalVolume"`
	// volumeID is the name of the logical volume in LVM.
	VolumeID string `json:"volumeID,omitempty"`
	// suspended says who suspended the volume, when and why, or which suspended devices have its data. New Pods do not
	// get it.
	Suspended string `json:"suspended,omitempty"`
	// encryption is how the volume is encrypted, for example luks2. It is empty if the volume is not encrypted.
	Encryption string `json:"encryption,omitempty"`
	// ioLimits are the limits that are in force for the I/O of each Pod to the volume.
	IOLimits string `json:"ioLimits,omitempty"`
	// ioLimitsRequested are the requested limits, if they are not in force.
	IOLimitsRequested string `json:"ioLimitsRequested,omitempty"`
	// ioLimitsError says which limits the node could not apply, and why.
	IOLimitsError string `json:"ioLimitsError,omitempty"`
	// source is the LogicalVolume from which a snapshot, or a volume with its content, was created.
	Source string `json:"source,omitempty"`
}

// TypeMeta returns the type of an output.
func TypeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: Version, Kind: kind}
}
