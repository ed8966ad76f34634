package wellknown

// Labels and annotations of the LogicalVolumes of group snapshots.
const (
	// GroupLabel on a LogicalVolume has the ID of the group snapshot that its snapshot belongs to.
	GroupLabel = "lvm.topolvm.io/group-snapshot"
	// GroupSourceAnnotation on such a LogicalVolume has the ID of the volume of which it is a snapshot.
	GroupSourceAnnotation = "lvm.topolvm.io/group-source"
	// GroupPendingAnnotation on a LogicalVolume has the ID of its group snapshot, as long as this is not complete. The
	// node agent creates the snapshot only on a request of GroupRequestAnnotation. Such an object also has
	// PendingDeletionAnnotation, so that an agent without group snapshots leaves it alone.
	GroupPendingAnnotation = "lvm.topolvm.io/group-pending"
	// GroupRequestAnnotation on one LogicalVolume of each node of a group snapshot has what the CSI controller requests
	// of the node, as JSON. Agents cannot change it.
	GroupRequestAnnotation = "lvm.topolvm.io/group-request"
	// GroupStateAnnotation on the same LogicalVolume has what the node agent has done, as JSON.
	GroupStateAnnotation = "lvm.topolvm.io/group-state"
)
