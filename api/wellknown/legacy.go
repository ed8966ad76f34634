package wellknown

// Names of TopoLVM before 0.15, and of the migration of its volumes.
const (
	// EarlierDriverName is the name of the CSI driver of TopoLVM before 0.15, and the API group of its LogicalVolumes.
	// TopoLVM still has it as an option (useLegacy). Node agents serve it for volumes with EarlierDriverAnnotation.
	EarlierDriverName = "topolvm.cybozu.com"
	// EarlierTopologyNodeKey is the topology key of a volume of the earlier driver; its value is the node's name.
	EarlierTopologyNodeKey = "topology.topolvm.cybozu.com/node"
	// EarlierNodeFinalizer is the finalizer that TopoLVM sets on Nodes under its earlier name. If TopoLVM does not run,
	// it blocks the deletion of the Node.
	EarlierNodeFinalizer = "topolvm.cybozu.com/node"
	// EarlierCapacityAnnotationPrefix is CapacityAnnotationPrefix in the annotations that TopoLVM wrote to a Node under
	// the earlier name.
	EarlierCapacityAnnotationPrefix = "capacity.topolvm.cybozu.com/"
	// EarlierDeviceClassParameter is DeviceClassParameter in a StorageClass of the earlier driver.
	EarlierDeviceClassParameter = "topolvm.cybozu.com/device-class"
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
)
