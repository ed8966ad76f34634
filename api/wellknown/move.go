package wellknown

// Annotations and labels of copies, clones and moves of volumes.
const (
	// CopyOfAnnotation on a LogicalVolume names the LogicalVolume of which it is a copy, if its source is a snapshot
	// that was created for the copy. CopyForAnnotation on that snapshot names the copy. The operator deletes the
	// snapshot when the copy is complete or does not exist.
	CopyOfAnnotation  = "lvm.topolvm.io/copy-of"
	CopyForAnnotation = "lvm.topolvm.io/copy-for"
	// MoveAnnotation on a LogicalVolume that was created for a VolumeMove has the UID of the VolumeMove. Agents can
	// change none of this group of annotations, except where stated.
	MoveAnnotation = "lvm.topolvm.io/move"
	// FenceAnnotation on the LogicalVolume that is moved has the UID of the VolumeMove that requests that nobody can
	// use the volume on its present node. On a thick volume that is being cloned, it has CloneFencePrefix and the UID
	// of the clone. FencedAnnotation has this value when that is so, and FenceErrorAnnotation says why it is not so.
	// The node agent writes these two. After another program has removed the fence, FencedAnnotation has
	// LostFencePrefix and the value of FenceTimeAnnotation, until the operator removes FenceAnnotation or requests a
	// fence with another time.
	//
	// UnfenceAnnotation has the value of a FenceAnnotation that was withdrawn. The node agent removes FencedTagPrefix
	// with this value, and then the annotation. A tag with another value, which nothing requests, stays: the objects
	// can be of an earlier time than a VolumeMove, which has switched the volume to another node.
	FenceAnnotation      = "lvm.topolvm.io/fence"
	FencedAnnotation     = "lvm.topolvm.io/fenced"
	FenceErrorAnnotation = "lvm.topolvm.io/fence-error"
	UnfenceAnnotation    = "lvm.topolvm.io/unfence"
	LostFencePrefix      = "lost:"
	// FenceForAnnotation on a thick volume that is fenced for a clone names the LogicalVolume of the clone.
	FenceForAnnotation = "lvm.topolvm.io/fence-for"
	// CloneVolumeAnnotation on a LogicalVolume that is a copy of a thick volume has the volume ID of that volume. There
	// are no snapshots of it, so its data is copied from the volume itself, while that is fenced for the copy. The node
	// agent creates nothing before the LogicalVolume has FenceTimeAnnotation.
	CloneVolumeAnnotation = "lvm.topolvm.io/clone-volume"
	// CopyProgressAnnotation on such a clone has the time at which the operator has last noticed progress of the copy,
	// and the number of bytes that were copied and compared then, separated by "/". Only the operator writes it.
	CopyProgressAnnotation = "lvm.topolvm.io/copy-progress"
	// MoveVolumeAnnotation on the target of a VolumeMove has the volume ID of the volume that is moved, which is the
	// name of the target's logical volume too. The target has no volume ID.
	MoveVolumeAnnotation = "lvm.topolvm.io/move-volume"
	// CopyBaseAnnotation on the target names the LogicalVolume of the snapshot that it has, so that only the
	// differences to its source are copied. It is absent or empty in the first round.
	CopyBaseAnnotation = "lvm.topolvm.io/copy-base"
	// CopiedAnnotation on the target has the CopyRecord of the present round, as JSON. The node agent writes it, also
	// while it copies the data of any other LogicalVolume.
	CopiedAnnotation = "lvm.topolvm.io/copied"
	// AdoptAnnotation on the LogicalVolume that is moved has the UID of the LogicalVolume of the target, whose logical
	// volume the node agent of the new node makes that of the volume. The node agent removes the annotation then.
	AdoptAnnotation = "lvm.topolvm.io/adopt"
	// RecreatedVolumeAnnotation on a claim whose volume was moved has the UID of the PersistentVolume that was
	// recreated. Without a change of the claim, kube-controller-manager would bind it only with its next resync.
	RecreatedVolumeAnnotation = "lvm.topolvm.io/recreated-volume"
	// RetireAnnotation on a LogicalVolume has the volume ID of a volume that was moved and the UID of the VolumeMove,
	// separated by "/". The node agent renames the logical volume that the volume had on this node, and gives it to
	// this object. RetiredSource is spec.source of such an object, so that an agent without moves creates no volume for
	// it.
	RetireAnnotation = "lvm.topolvm.io/retire"
	RetiredSource    = "moved"
	// MoveBackAnnotation on a VolumeMove names the node to which the volume was moved, and which is lost: the operator
	// makes the old logical volume that of the volume again. The operator sets it too, with the same value: on the
	// LogicalVolume of the old logical volume, which is not removed then, and on the one of the logical volume on the
	// lost node, which has no fence.
	MoveBackAnnotation = "lvm.topolvm.io/move-back"
	// AllowSourceRemovalAnnotation on a VolumeMove with the value "true" lets the operator remove the old logical
	// volume although the volume on the new node is not known to be good.
	AllowSourceRemovalAnnotation = "lvm.topolvm.io/allow-source-removal"
	// MovedVolumeAnnotation on a LogicalVolume has the PersistentVolume (JSON) that is being recreated on another node
	// or for this driver.
	MovedVolumeAnnotation = "lvm.topolvm.io/moved-persistentvolume"
	// MoveLabel has the value of MoveAnnotation, so that the operator can select the LogicalVolumes of a VolumeMove.
	MoveLabel = "lvm.topolvm.io/move"
	// FenceTimeAnnotation on the LogicalVolume that is moved or cloned has the time at which FenceAnnotation was set,
	// and the resource version of the object before that, separated by "/". The snapshot of the last round, and the
	// target of a thick volume, have a copy of the value under which they were created, and a clone of a thick volume
	// has that under which it is copied: if they differ, the volume was usable in between.
	FenceTimeAnnotation = "lvm.topolvm.io/fence-time"
)
