package wellknown

// Prefixes of the names of LogicalVolumes, and of fences.
const (
	// ClaimVolumePrefix precedes the UID of a claim in the name of the LogicalVolume of its volume
	// (external-provisioner, --volume-name-prefix).
	ClaimVolumePrefix = "pvc-"
	// SnapshotPrefix precedes the UID of a VolumeSnapshot in the name of its LogicalVolume (external-snapshotter,
	// --snapshot-name-prefix).
	SnapshotPrefix = "snapshot-"
	// MoveTargetPrefix precedes the UID of a VolumeMove in the names of its target and of its snapshots, which end with
	// "-ROUND".
	MoveTargetPrefix = "move-"
	// CloneFencePrefix precedes the UID of a LogicalVolume in the fence of a thick volume that is copied to it. The
	// fence of a VolumeMove is only its UID.
	CloneFencePrefix = "clone-"
)
