package wellknown

// LVM tags of volume groups and logical volumes.
const (
	// OwnerTag is the LVM tag of the volume groups that the product made.
	OwnerTag = "lvms"
	// ClusterTagPrefix precedes the identity of the cluster in the LVM tag that says which cluster a volume group
	// belongs to.
	ClusterTagPrefix = "lvms.cluster="
	// ClassTagPrefix precedes the device class in the LVM tag of its volume group.
	ClassTagPrefix = "lvms.class="
	// NodeTagPrefix precedes the node in the LVM tag that says where a volume group is in use.
	NodeTagPrefix = "lvms.node="
	// NoPoolTag is the LVM tag of a volume group from before the creation of its thin pool until the pool is complete.
	// It is set while the group has no volume that could be a step of that, so what a killed lvcreate left is known.
	NoPoolTag = "lvms.no-pool"
	// The LVM tags of a logical volume: the UID of its LogicalVolume, its PersistentVolume or VolumeSnapshotContent,
	// and the namespace and name of the claim or VolumeSnapshot that it was made for. ClusterTagPrefix is on it too.
	VolumeUIDTagPrefix   = "lvms.uid="
	VolumeNameTagPrefix  = "lvms.pv="
	VolumeClaimTagPrefix = "lvms.pvc="
	// NewTag is the LVM tag of a logical volume that nobody has used yet: what is on it may be recreated.
	NewTag = "lvms.new"
	// FormattedTagPrefix precedes the type of the file system that was created on a logical volume. While it is being
	// created, the node has a file instead. Earlier versions used FormattingTagPrefix for some volumes.
	FormattingTagPrefix = "lvms.formatting="
	FormattedTagPrefix  = "lvms.formatted="
	// CopyingTag is the LVM tag of a logical volume that does not have all data of its source yet. CopiedTagPrefix
	// precedes the number of bytes from its beginning that it has.
	CopyingTag      = "lvms.copying"
	CopiedTagPrefix = "lvms.copied="
	// CopyOfTagPrefix precedes the name of the LogicalVolume that is being copied to a logical volume with CopyingTag.
	// BaseTagPrefix precedes that of the snapshot whose data the target of a VolumeMove has completely.
	CopyOfTagPrefix = "lvms.copy-of="
	BaseTagPrefix   = "lvms.base="
	// SparseTag is the LVM tag of a logical volume with CopyingTag that was created in a thin pool that sets new chunks
	// to zero: what was not written reads as zeros.
	SparseTag = "lvms.sparse"
	// FencedTagPrefix precedes the UID of the VolumeMove for which a logical volume is fenced, or CloneFencePrefix and
	// the UID of the LogicalVolume to which it is copied: it is not staged, published, expanded, checked or trimmed.
	FencedTagPrefix = "lvms.fenced="
	// EncryptionTagPrefix precedes how a logical volume is encrypted: EncryptionLUKS2.
	EncryptionTagPrefix = "lvms.encryption="
	// ErasedTagPrefix precedes the number of bytes that are erased, from the beginning of a logical volume that is
	// being removed. At least this part of its data is lost, and maybe more: it is not updated with each write.
	ErasedTagPrefix = "lvms.erased="
	// SpreadTagPrefix precedes the text of the Spread in the LVM tag of a logical volume.
	SpreadTagPrefix = "lvms.spread="
	// SuspendedTag is the LVM tag of a physical volume that is suspended: new Pods do not get the volumes that have
	// data on it.
	SuspendedTag = "lvms.suspended"
)
