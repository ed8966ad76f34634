package wellknown

// Annotations of LogicalVolumes.
const (
	// ClaimAnnotation on a LogicalVolume names what it was made for, as NAMESPACE/NAME.
	ClaimAnnotation = "lvm.topolvm.io/claim"
	// ConditionAnnotation on a LogicalVolume says what is wrong with its logical volume. A healthy one has none.
	ConditionAnnotation = "lvm.topolvm.io/condition"
	// HealthAnnotation on a LogicalVolume has the same as JSON: the conditions that are written to the status of its
	// claim, with status, reason and message.
	HealthAnnotation = "lvm.topolvm.io/health"
	// EncryptionAnnotation on a LogicalVolume names how its volume is encrypted: EncryptionLUKS2.
	EncryptionAnnotation = "lvm.topolvm.io/encryption"
	// FileSystemAnnotation on a LogicalVolume has the type of the file system that is created on its volume, or that
	// its source has. It is absent for a block volume. The CSI controller sets it. Agents cannot change it.
	FileSystemAnnotation = "lvm.topolvm.io/fstype"
	// RequestedSizeAnnotation on a LogicalVolume has the number of bytes that were requested for its volume, or for the
	// volume of its snapshot: at most what the volume has, because sizes are rounded up. The CSI controller sets it.
	// Agents cannot change it.
	RequestedSizeAnnotation = "lvm.topolvm.io/requested-size"
	// SuspendedAnnotation on a LogicalVolume suspends its volume: new Pods do not get it. The value says who suspended
	// it, when and why; any value suspends it. Agents cannot change the annotation.
	SuspendedAnnotation = "lvm.topolvm.io/suspended"
	// SuspendedDevicesAnnotation on a LogicalVolume names the suspended devices that hold data of its volume. The node
	// agent writes it for people: it decides from the tags of the devices.
	SuspendedDevicesAnnotation = "lvm.topolvm.io/suspended-devices"
	// IOLimitsAnnotation on a LogicalVolume has the requested limits for the I/O of Pods to its volume, as
	// "readIOPS=500 writeBytesPerSecond=52428800", or "none". The CSI controller sets it. Agents cannot change it.
	IOLimitsAnnotation = "lvm.topolvm.io/io-limits"
	// IOLimitsInForceAnnotation on a LogicalVolume has the limits that the node agent applies to all Pods that use the
	// volume.
	IOLimitsInForceAnnotation = "lvm.topolvm.io/io-limits-in-force"
	// IOLimitsErrorAnnotation on a LogicalVolume has the limits that the node agent could not apply, and why.
	IOLimitsErrorAnnotation = "lvm.topolvm.io/io-limits-error"
	// TrimAnnotation on a LogicalVolume has the TrimRecord of its file system, as JSON. The node agent writes it.
	TrimAnnotation = "lvm.topolvm.io/trim"
	// UnclaimedAnnotation on a LogicalVolume says "true" where no PersistentVolume, no snapshot and no claim knows its
	// volume.
	UnclaimedAnnotation = "lvm.topolvm.io/unclaimed"
	// AllowDeletionAnnotation on a LogicalVolume with the value "true" lets anybody with permission delete it, and its
	// data, although something may refer to it.
	AllowDeletionAnnotation = "lvm.topolvm.io/allow-deletion"
	// ImportAnnotation on a LogicalVolume names the existing logical volume that the object is for. The node agent does
	// not create a logical volume for such an object. Agents cannot change the annotation.
	ImportAnnotation = "lvm.topolvm.io/import"
	// ExistingVolumeAnnotation on the LogicalVolume of a VolumeSnapshot names the logical volume that the node agent
	// found for it by its tags. The operator sets ImportAnnotation to it if no other object has this logical volume.
	ExistingVolumeAnnotation = "lvm.topolvm.io/existing-volume"
	// PendingDeletionAnnotation on a LogicalVolume keeps the node agent away from it.
	PendingDeletionAnnotation = "topolvm.io/pendingdeletion"
	// ResizeRequestedAnnotation on a LogicalVolume has the time of the last request to grow it.
	ResizeRequestedAnnotation = "topolvm.io/resize-requested-at"
)
