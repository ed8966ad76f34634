package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TCP ports for the data of volumes and snapshots.
const (
	// AgentPort is the port of node agents for the operator.
	AgentPort = 8444
	// SnapshotMetadataPort is the port of the operator for backup software.
	SnapshotMetadataPort = 8445
	// PeerPort is the port of node agents for other node agents.
	PeerPort = 8446
)

// Names of SnapshotMetadata (KEP-3314), which is the API for backup software.
const (
	// SnapshotMetadataService is the name of the Service in the operator's namespace.
	SnapshotMetadataService = "lvms-snapshot-metadata"
	// SnapshotMetadataAudience is the audience that the tokens of backup software must have.
	SnapshotMetadataAudience = "snapshot-metadata." + DriverName
)

// Names that existing clusters hold. They never change.
const (
	// DriverName is the name of the CSI driver and the prefix of its keys.
	DriverName = "topolvm.io"
	// TopologyNodeKey is the topology key of a volume; its value is the node's name.
	TopologyNodeKey = "topology.topolvm.io/node"
	// EarlierDriverName is the name of the CSI driver of TopoLVM before 0.15, and the API group of its LogicalVolumes.
	// TopoLVM still has it as an option (useLegacy). Node agents serve it for volumes with EarlierDriverAnnotation.
	EarlierDriverName = "topolvm.cybozu.com"
	// EarlierTopologyNodeKey is the topology key of a volume of the earlier driver; its value is the node's name.
	EarlierTopologyNodeKey = "topology.topolvm.cybozu.com/node"
	// CapacityAnnotationPrefix begins the annotations of a Node with the free bytes of each device class, and those of
	// a Pod with the bytes that it requests, for a scheduler extender.
	CapacityAnnotationPrefix = "capacity.topolvm.io/"
	// CapacityResource is the extended resource of Pods for which kube-scheduler asks a scheduler extender. No node has
	// it.
	CapacityResource = "topolvm.io/capacity"
	// NodeFinalizer stands on a Node that asks for its claims to go with it, and on Nodes of clusters that were taken
	// over.
	NodeFinalizer = "topolvm.io/node"
	// EarlierNodeFinalizer is the finalizer that TopoLVM sets on Nodes under its earlier name. If TopoLVM does not run,
	// it blocks the deletion of the Node.
	EarlierNodeFinalizer = "topolvm.cybozu.com/node"
	// EarlierCapacityAnnotationPrefix is CapacityAnnotationPrefix in the annotations that TopoLVM wrote to a Node under
	// the earlier name.
	EarlierCapacityAnnotationPrefix = "capacity.topolvm.cybozu.com/"
	// EarlierDeviceClassParameter is DeviceClassParameter in a StorageClass of the earlier driver.
	EarlierDeviceClassParameter = "topolvm.cybozu.com/device-class"
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
	// MappingPrefix precedes the volume ID in the name of the mapped device of an open encrypted volume.
	MappingPrefix = "lvms-crypt-"
	// FilesystemTypeParameter is the StorageClass parameter that names the file system.
	FilesystemTypeParameter = "csi.storage.k8s.io/fstype"
	// StorageClassPrefix precedes the device class in the names of StorageClass and VolumeSnapshotClass.
	StorageClassPrefix = "lvms-"
	// OwnerTag is the LVM tag of the volume groups that the product made.
	OwnerTag = "lvms"
	// ClusterTagPrefix precedes the identity of the cluster in the LVM tag that says which cluster a volume group
	// belongs to.
	ClusterTagPrefix = "lvms.cluster="
	// ClassTagPrefix precedes the device class in the LVM tag of its volume group.
	ClassTagPrefix = "lvms.class="
	// NodeTagPrefix precedes the node in the LVM tag that says where a volume group is in use.
	NodeTagPrefix = "lvms.node="
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
	// FencedTagPrefix precedes the UID of the VolumeMove for which a logical volume is fenced, or the CloneFence of the
	// LogicalVolume to which it is copied: it is not staged, published, expanded, checked or trimmed.
	FencedTagPrefix = "lvms.fenced="
	// EncryptionTagPrefix precedes how a logical volume is encrypted: EncryptionLUKS2.
	EncryptionTagPrefix = "lvms.encryption="
	// ErasedTagPrefix precedes the number of bytes that are erased, from the beginning of a logical volume that is
	// being removed. At least this part of its data is lost, and maybe more: it is not updated with each write.
	ErasedTagPrefix = "lvms.erased="
	// ClaimAnnotation on a LogicalVolume names what it was made for, as NAMESPACE/NAME.
	ClaimAnnotation = "lvm.topolvm.io/claim"
	// CopyOfAnnotation on a LogicalVolume names the LogicalVolume of which it is a copy, if its source is a snapshot
	// that was created for the copy. CopyForAnnotation on that snapshot names the copy. The operator deletes the
	// snapshot when the copy is complete or does not exist.
	CopyOfAnnotation  = "lvm.topolvm.io/copy-of"
	CopyForAnnotation = "lvm.topolvm.io/copy-for"
	// MoveAnnotation on a LogicalVolume that was created for a VolumeMove has the UID of the VolumeMove. Agents can
	// change none of this group of annotations, except where stated.
	MoveAnnotation = "lvm.topolvm.io/move"
	// FenceAnnotation on the LogicalVolume that is moved has the UID of the VolumeMove that requests that nobody can
	// use the volume on its present node. On a thick volume that is being cloned, it has the CloneFence of the clone.
	// FencedAnnotation has this value when that is so, and FenceErrorAnnotation says why it is not so. The node agent
	// writes these two. After another program has removed the fence, FencedAnnotation has LostFencePrefix and the value
	// of FenceTimeAnnotation, until the operator removes FenceAnnotation or requests a fence with another time.
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
	// ConditionAnnotation on a LogicalVolume says what is wrong with its logical volume. A healthy one has none.
	ConditionAnnotation = "lvm.topolvm.io/condition"
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
	// AllowSourceRemovalAnnotation on a VolumeMove with the value "true" lets the operator remove the old logical
	// volume although the volume on the new node is not known to be good.
	AllowSourceRemovalAnnotation = "lvm.topolvm.io/allow-source-removal"
	// ReleaseClaimsAnnotation on a Node says "true" where the claims of its volumes are to be deleted with it.
	ReleaseClaimsAnnotation = "lvm.topolvm.io/release-claims"
	// LogicalVolumeFinalizer keeps a LogicalVolume until its logical volume is removed.
	LogicalVolumeFinalizer = "topolvm.io/logicalvolume"
	// ImportAnnotation on a LogicalVolume names the existing logical volume that the object is for. The node agent does
	// not create a logical volume for such an object. Agents cannot change the annotation.
	ImportAnnotation = "lvm.topolvm.io/import"
	// ExistingVolumeAnnotation on the LogicalVolume of a VolumeSnapshot names the logical volume that the node agent
	// found for it by its tags. The operator sets ImportAnnotation to it if no other object has this logical volume.
	ExistingVolumeAnnotation = "lvm.topolvm.io/existing-volume"
	// MovedVolumeAnnotation on a LogicalVolume has the PersistentVolume (JSON) that is being recreated on another node
	// or for this driver.
	MovedVolumeAnnotation = "lvm.topolvm.io/moved-persistentvolume"
	// MigrateAnnotation on a PersistentVolume of the earlier driver with the value "true" requests that the operator
	// recreates it for this driver.
	MigrateAnnotation = "lvm.topolvm.io/migrate"
	// MigrationAnnotation on a PersistentVolume of the earlier driver says why its migration is blocked, or what it
	// waits for.
	MigrationAnnotation = "lvm.topolvm.io/migration"
	// MigratedFromAnnotation on a PersistentVolume has the name of the driver of which it was before.
	MigratedFromAnnotation = "lvm.topolvm.io/migrated-from"
	// EarlierDriverAnnotation on a LogicalVolume names the driver of its PersistentVolume if that is the earlier
	// driver. The operator sets it. The node agent serves that driver while it has such a volume.
	EarlierDriverAnnotation = "lvm.topolvm.io/earlier-driver"
	// EarlierStagedAnnotation on a LogicalVolume has the path at which the node agent staged it for the earlier driver.
	// As long as it is set, the volume is not migrated.
	EarlierStagedAnnotation = "lvm.topolvm.io/earlier-staged"
	// EarlierRemovalAnnotation on a PersistentVolume or VolumeSnapshotContent of the earlier driver has its volume
	// handle if the operator deletes the LogicalVolume of this driver for it, and so the logical volume. When this
	// LogicalVolume no longer exists, the logical volume is removed.
	EarlierRemovalAnnotation = "lvm.topolvm.io/earlier-removal"
	// EarlierNodeIDSuffix ends the node ID with which a node agent registers the earlier driver. TopoLVM's node ID is
	// the name of the node, so the CSINode tells which of the two serves the driver.
	EarlierNodeIDSuffix = "/lvms"
	// EarlierVolumeFinalizer keeps a LogicalVolume of the earlier driver. The node service of that driver removes the
	// logical volume when the object is deleted, unless the object has EarlierPendingDeletionAnnotation.
	EarlierVolumeFinalizer = "topolvm.cybozu.com/logicalvolume"
	// EarlierPendingDeletionAnnotation on a LogicalVolume keeps the node service of the earlier driver away from it.
	EarlierPendingDeletionAnnotation = "topolvm.cybozu.com/pendingdeletion"
	// PendingDeletionAnnotation on a LogicalVolume keeps the node agent away from it.
	PendingDeletionAnnotation = "topolvm.io/pendingdeletion"
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
	// ResizeRequestedAnnotation on a LogicalVolume has the time of the last request to grow it.
	ResizeRequestedAnnotation = "topolvm.io/resize-requested-at"
	// CreatedByLabel on a LogicalVolume tells who made it.
	CreatedByLabel      = "app.kubernetes.io/created-by"
	CreatedByController = "topolvm-controller"
	// ClusterIDNamespace is the namespace whose UID is the identity of a cluster that is not OpenShift.
	ClusterIDNamespace = "kube-system"

	// LVMClusterFinalizer keeps an LVMCluster until its operands are gone.
	LVMClusterFinalizer = "lvmcluster.topolvm.io"
	// VolumeMoveFinalizer keeps a VolumeMove until what was created for it is deleted, or the move has ended.
	VolumeMoveFinalizer = "lvm.topolvm.io/volumemove"
	// MoveLabel has the value of MoveAnnotation, so that the operator can select the LogicalVolumes of a VolumeMove.
	MoveLabel = "lvm.topolvm.io/move"
	// FenceTimeAnnotation on the LogicalVolume that is moved or cloned has the time at which FenceAnnotation was set,
	// and the resource version of the object before that, separated by "/". The snapshot of the last round, and the
	// target of a thick volume, have a copy of the value under which they were created, and a clone of a thick volume
	// has that under which it is copied: if they differ, the volume was usable in between.
	FenceTimeAnnotation = "lvm.topolvm.io/fence-time"
	// NodeStatusFinalizer keeps a node status as long as it tells of a volume group.
	NodeStatusFinalizer = "delete-protection.lvm.openshift.io"
	// VolumeGroupFinalizer keeps an LVMVolumeGroup as long as a node status tells of its volume group.
	VolumeGroupFinalizer = "lvm.openshift.io/lvmvolumegroup"
	// NodeCleanupPrefix begins the finalizer by which each node of upstream LVMS keeps an LVMVolumeGroup. Nothing
	// sets it now.
	NodeCleanupPrefix = "cleanup.vgmanager.node.topolvm.io/"

	// OwnerNameLabel and its siblings mark cluster-scoped operands with the LVMCluster they belong to.
	OwnerNameLabel      = "owned-by.topolvm.io/name"
	OwnerNamespaceLabel = "owned-by.topolvm.io/namespace"
	OwnerUIDLabel       = "owned-by.topolvm.io/uid"
	OwnerGroupLabel     = "owned-by.topolvm.io/group"
	OwnerVersionLabel   = "owned-by.topolvm.io/version"
	OwnerKindLabel      = "owned-by.topolvm.io/kind"
)

// WipedDevicesConfigMap is the ConfigMap, in the namespace of the product, that knows the devices which were wiped on
// nodes that are gone.
const WipedDevicesConfigMap = "lvms-wiped-devices"

// WipedDeviceKey is the key of a device in WipedDevicesConfigMap: 32 hexadecimal digits.
func WipedDeviceKey(deviceClass, id string) string {
	sum := sha256.Sum256([]byte(deviceClass + "/" + id))
	return hex.EncodeToString(sum[:16])
}

// WipedDeviceRecord is the record of a device in WipedDevicesConfigMap, as JSON.
//
// +kubebuilder:object:generate=false
type WipedDeviceRecord struct {
	DeviceClass string    `json:"deviceClass"`
	ClassUID    string    `json:"classUID"`
	ID          string    `json:"id"`
	Names       []string  `json:"names,omitempty"`
	Node        string    `json:"node"`
	Time        time.Time `json:"time"`
}

// DeletedVolumesConfigMap is the ConfigMap, in the namespace of the product, with the volumes whose LogicalVolumes
// were deleted while their Node did not exist.
const DeletedVolumesConfigMap = "lvms-deleted-volumes"

// DeletedVolume is the record of such a volume in DeletedVolumesConfigMap, as JSON.
//
// +kubebuilder:object:generate=false
type DeletedVolume struct {
	// Volume is the name of the logical volume. UID and LogicalVolume are the UID and the name of its deleted
	// LogicalVolume.
	Volume        string    `json:"volume"`
	UID           types.UID `json:"uid"`
	LogicalVolume string    `json:"logicalVolume"`
	Node          string    `json:"node"`
	DeviceClass   string    `json:"deviceClass"`
	// Time is when the deletion was requested.
	Time time.Time `json:"time"`
}

// DeletedVolumeKey is the key of a logical volume in DeletedVolumesConfigMap: 32 hexadecimal digits.
func DeletedVolumeKey(volume string) string {
	sum := sha256.Sum256([]byte(volume))
	return hex.EncodeToString(sum[:16])
}

// StorageClassName returns the name of the StorageClass, and of the VolumeSnapshotClass, of a device class.
func StorageClassName(deviceClass string) string {
	return StorageClassPrefix + deviceClass
}

// NodeCleanupFinalizer returns the finalizer by which a node of upstream LVMS keeps an LVMVolumeGroup.
func NodeCleanupFinalizer(node string) string {
	return NodeCleanupPrefix + node
}
