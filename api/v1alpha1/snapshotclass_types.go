package v1alpha1

// SnapshotDeletionPolicy controls what happens to a snapshot when its VolumeSnapshot is deleted.
// +kubebuilder:validation:Enum=Delete;Retain
type SnapshotDeletionPolicy string

// The deletion policies of a VolumeSnapshotClass.
const (
	SnapshotDeletionDelete SnapshotDeletionPolicy = "Delete"
	SnapshotDeletionRetain SnapshotDeletionPolicy = "Retain"
)

// VolumeSnapshotClassOptions configure the VolumeSnapshotClass of a device class.
type VolumeSnapshotClassOptions struct {
	// deletionPolicy controls what happens to a snapshot when its VolumeSnapshot is deleted: Delete or Retain. Defaults
	// to Delete. To apply a change, delete the VolumeSnapshotClass; the operator recreates it. Existing snapshots keep
	// their policy.
	DeletionPolicy SnapshotDeletionPolicy `json:"deletionPolicy,omitempty"`
}
