package wellknown

// Parameters of StorageClasses, and their values.
const (
	// DeviceClassParameter is the StorageClass parameter that names the device class.
	DeviceClassParameter = "topolvm.io/device-class"
	// OptionClassParameter is the StorageClass parameter that names a class of lvcreate options.
	OptionClassParameter = "topolvm.io/lvcreate-option-class"
	// SourcePlacementParameter is the StorageClass parameter that says on which nodes a copy of a snapshot or volume
	// can be: SourceNodeOnly, PreferSourceNode (the default), or SourceAnyNode.
	SourcePlacementParameter = "lvm.topolvm.io/source-placement"
	// SourceNodeOnly: on the node of the source. PreferSourceNode: there if it has enough capacity, unless the
	// scheduler has selected another node. SourceAnyNode: on the node with the most capacity, unless the scheduler has
	// selected one.
	SourceNodeOnly   = "source-node-only"
	PreferSourceNode = "prefer-source-node"
	SourceAnyNode    = "any"
	// MkfsOptionsParameter is the StorageClass parameter, and the key in the context of a volume, with options for
	// mkfs, separated by spaces.
	MkfsOptionsParameter = "lvm.topolvm.io/mkfs-options"
	// EncryptionParameter is the StorageClass parameter, and the key in the context of a volume, that names how volumes
	// are encrypted: EncryptionLUKS2. Volumes without it are not encrypted.
	EncryptionParameter = "lvm.topolvm.io/encryption"
	// EncryptionLUKS2 is encryption with LUKS2 and dm-crypt.
	EncryptionLUKS2 = "luks2"
	// EncryptionDiscardsParameter is the StorageClass parameter, and the key in the context of a volume, that passes
	// discards of encrypted volumes on to the disks if it is "true".
	EncryptionDiscardsParameter = "lvm.topolvm.io/encryption-discards"
	// NodeStageSecretNameParameter and NodeStageSecretNamespaceParameter are the StorageClass parameters that name the
	// Secret for NodeStageVolume (external-provisioner).
	NodeStageSecretNameParameter      = "csi.storage.k8s.io/node-stage-secret-name"
	NodeStageSecretNamespaceParameter = "csi.storage.k8s.io/node-stage-secret-namespace"
	// EncryptionKey and EncryptionPreviousKey are the keys in the Secret of encrypted volumes: that of the present key,
	// and that of the key before it, which is replaced when a volume is staged.
	EncryptionKey         = "key"
	EncryptionPreviousKey = "previousKey"
	// FilesystemTypeParameter is the StorageClass parameter that names the file system.
	FilesystemTypeParameter = "csi.storage.k8s.io/fstype"
	// StorageClassPrefix precedes the device class in the names of StorageClass and VolumeSnapshotClass.
	StorageClassPrefix = "lvms-"
)

// Parameters of a VolumeAttributesClass. Each limits the I/O of a Pod to a volume. The value is a quantity, such as 500
// or 50Mi.
const (
	ReadIOPSParameter            = "readIOPS"
	WriteIOPSParameter           = "writeIOPS"
	ReadBytesPerSecondParameter  = "readBytesPerSecond"
	WriteBytesPerSecondParameter = "writeBytesPerSecond"
)

// StorageClassName returns the name of the StorageClass, and of the VolumeSnapshotClass, of a device class.
func StorageClassName(deviceClass string) string {
	return StorageClassPrefix + deviceClass
}
