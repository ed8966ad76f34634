package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// VolumeMove moves the volume of a claim to another node. The data of a thin volume is copied while Pods use it. A
// thick volume has no snapshots, so it is copied when no Pod uses it. Then the volume is switched to the other node.
// Until then, deleting the VolumeMove leaves the volume on its node. A VolumeMove must be created in the namespace of
// the operator.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=volumemoves,shortName=vmove
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.claim.namespace`
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.spec.claim.name`
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.status.sourceNode`
// +kubebuilder:printcolumn:name="To",type=string,JSONPath=`.status.targetNode`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.podCount`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VolumeMove struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   VolumeMoveSpec   `json:"spec"`
	Status VolumeMoveStatus `json:"status,omitempty"`
}

// VolumeMoveList is a list of VolumeMoves.
//
// +kubebuilder:object:root=true
type VolumeMoveList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VolumeMove `json:"items"`
}

// VolumeMoveSpec is the requested move.
//
// +kubebuilder:validation:XValidation:rule="has(self.nodeName) == has(oldSelf.nodeName)",message="nodeName cannot be changed: create another VolumeMove"
type VolumeMoveSpec struct {
	// claim is the PersistentVolumeClaim whose volume is moved.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="claim cannot be changed: create another VolumeMove"
	Claim VolumeMoveClaim `json:"claim"`

	// nodeName is the node to which the volume is moved. Without it, the operator selects the node with the most free
	// capacity that the StorageClass and the spread group of the claim allow.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodeName cannot be changed: create another VolumeMove"
	NodeName string `json:"nodeName,omitempty"`

	// maxPause is the time for which Pods may have to wait for the volume during the switch, at least 1s. As long as
	// the changes since the last copy are expected to take longer, they are copied again first. The default is 30s. It
	// has no effect on a thick volume, for which Pods wait as long as the copy takes.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="maxPause must be between 1s and 24h"
	MaxPause *metav1.Duration `json:"maxPause,omitempty"`

	// keepSource is how long the logical volume on the old node is kept after the switch. The default is 24h.
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8760h')",message="keepSource must be between 0s and 8760h"
	KeepSource *metav1.Duration `json:"keepSource,omitempty"`
}

// VolumeMoveClaim names a PersistentVolumeClaim.
type VolumeMoveClaim struct {
	// namespace is the namespace of the claim.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`

	// name is the name of the claim.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// String returns NAMESPACE/NAME.
func (c VolumeMoveClaim) String() string { return c.Namespace + "/" + c.Name }

// ConditionMoved is a condition of a VolumeMove: the volume is on the target node. Its reason is the phase.
const ConditionMoved = "Moved"

// VolumeMovePhase is the progress of a move.
type VolumeMovePhase string

const (
	// MovePending sets Moved to False: the copy has not begun, because other moves and clones of these nodes are copied
	// first, or because of the cause in the message. A move whose copy was discarded, because it made no progress, a
	// node was lost while a Pod waited for the volume, the thin pool of the source filled up, or the target node has no
	// room for the data, begins again.
	// What to do: wait, or as the message says.
	MovePending VolumeMovePhase = "Pending"
	// MoveCopying sets Moved to False: the data is being copied. Pods can use a thin volume meanwhile, and not a thick
	// one.
	// What to do: wait; to have a thick volume on its node again at once, delete the VolumeMove.
	MoveCopying VolumeMovePhase = "Copying"
	// MoveWaitingForPods sets Moved to False: Pods on the source node use the volume. The target has a recent copy of a
	// thin volume; a thick volume is copied when the Pods have ended.
	// What to do: end the Pods in `status.pods`, for example with `kubectl drain`, so that they start on the target node.
	MoveWaitingForPods VolumeMovePhase = "WaitingForPods"
	// MoveSwitching sets Moved to False: nobody can use the volume while the last changes are copied and the volume is
	// switched to the target node. What to do: wait, or as the message says.
	MoveSwitching VolumeMovePhase = "Switching"
	// MoveKeepingSource sets Moved to True: the volume is on the target node. The logical volume on the old node is
	// kept until `status.sourceRemovalTime`, and longer if the volume on the target node is not known to be good.
	// What to do: nothing, or as the message says; to have it removed now, delete the VolumeMove; if the target node is
	// lost, run `kubectl lvms move --back` to use the old logical volume again.
	MoveKeepingSource VolumeMovePhase = "KeepingSource"
	// MoveCompleted sets Moved to True: the volume is on the target node, and the old logical volume is removed.
	// What to do: nothing; the VolumeMove can be deleted.
	MoveCompleted VolumeMovePhase = "Completed"
	// MoveFailed sets Moved to False: the volume cannot be moved, and stays on its node.
	// What to do: as the message says; then delete the VolumeMove and create another one.
	MoveFailed VolumeMovePhase = "Failed"
)

// VolumeMoveStatus is the state of a move. The operator writes it.
type VolumeMoveStatus struct {
	// phase is the progress: Pending, Copying, WaitingForPods, Switching, KeepingSource, Completed or Failed.
	Phase VolumeMovePhase `json:"phase,omitempty"`

	// message says what happens, what the move waits for, or what to do.
	Message string `json:"message,omitempty"`

	// sourceNode is the node from which the volume is moved.
	SourceNode string `json:"sourceNode,omitempty"`

	// targetNode is the node to which the volume is moved.
	TargetNode string `json:"targetNode,omitempty"`

	// persistentVolume is the PersistentVolume, and the LogicalVolume, of the claim.
	PersistentVolume string `json:"persistentVolume,omitempty"`

	// deviceClass is the device class of the volume on both nodes.
	DeviceClass string `json:"deviceClass,omitempty"`

	// thick is true if the volume is thick: it is copied only while no Pod uses it.
	Thick bool `json:"thick,omitempty"`

	// queuePosition is the place among the moves that wait for the same nodes. The first one is 1.
	QueuePosition int32 `json:"queuePosition,omitempty"`

	// round is the number of the present copy. The first one copies all data, others the changes since the previous
	// one.
	Round int32 `json:"round,omitempty"`

	// copiedBytes is up to which byte of the volume the present round has copied. Parts without data count too.
	CopiedBytes int64 `json:"copiedBytes,omitempty"`

	// progressBytes is the most that the present round was observed to have copied and compared, in bytes.
	ProgressBytes int64 `json:"progressBytes,omitempty"`

	// progressTime is when this progress was noticed, within a minute. If a copy makes no progress for 5 minutes, other
	// moves do not wait for it, and a thick volume is opened again if a Pod waits for it. Not set: nothing is copied.
	ProgressTime *metav1.Time `json:"progressTime,omitempty"`

	// totalBytes is the size of the volume.
	TotalBytes int64 `json:"totalBytes,omitempty"`

	// lastDeltaBytes is how much data the last complete round has sent.
	LastDeltaBytes int64 `json:"lastDeltaBytes,omitempty"`

	// lastDeltaSeconds is how long the last complete round took.
	LastDeltaSeconds int64 `json:"lastDeltaSeconds,omitempty"`

	// pods are Pods that use the volume on the source node, as namespace/name, at most 10. After the switch, they are
	// Pods that are bound to another node than that of the volume, and so cannot start.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Pods []string `json:"pods,omitempty"`

	// podCount is the number of these Pods.
	PodCount int32 `json:"podCount,omitempty"`

	// startTime is when the copy began.
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// switchTime is when the volume was switched to the target node.
	SwitchTime *metav1.Time `json:"switchTime,omitempty"`

	// sourceRemovalTime is when the logical volume on the source node is removed.
	SourceRemovalTime *metav1.Time `json:"sourceRemovalTime,omitempty"`

	// conditions has Moved: whether the volume is on the target node.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Ended reports whether the operator does nothing more for a move.
func (m *VolumeMove) Ended() bool {
	return m.Status.Phase == MoveCompleted || m.Status.Phase == MoveFailed
}
