package v1alpha1

// SnapshotDeletionPolicy says what happens to a snapshot on the disks when its VolumeSnapshot is deleted.
// +kubebuilder:validation:Enum=Delete;Retain
type SnapshotDeletionPolicy string

// The deletion policies of a VolumeSnapshotClass.
const (
	SnapshotDeletionDelete SnapshotDeletionPolicy = "Delete"
	SnapshotDeletionRetain SnapshotDeletionPolicy = "Retain"
)

// VolumeSnapshotClassOptions configure the VolumeSnapshotClass of a device class.
type VolumeSnapshotClassOptions struct {
	// deletionPolicy says what happens to a snapshot when its VolumeSnapshot is deleted: Delete, or Retain; Delete when
	// not set. The operator does not change an existing VolumeSnapshotClass: delete it after a change of this field,
	// and the operator recreates it. Existing snapshots keep the policy that they were taken with.
	// +optional
	DeletionPolicy SnapshotDeletionPolicy `json:"deletionPolicy,omitempty"`
}

// Deletion returns the deletionPolicy of the VolumeSnapshotClass.
func (o *VolumeSnapshotClassOptions) Deletion() SnapshotDeletionPolicy {
	if o == nil || o.DeletionPolicy == "" {
		return SnapshotDeletionDelete
	}
	return o.DeletionPolicy
}
