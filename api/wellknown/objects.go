package wellknown

// Finalizers and labels of objects.
const (
	// NodeFinalizer stands on a Node that asks for its claims to go with it, and on Nodes of clusters that were taken
	// over.
	NodeFinalizer = "topolvm.io/node"
	// ReleaseClaimsAnnotation on a Node says "true" where the claims of its volumes are to be deleted with it.
	ReleaseClaimsAnnotation = "lvm.topolvm.io/release-claims"
	// LogicalVolumeFinalizer keeps a LogicalVolume until its logical volume is removed.
	LogicalVolumeFinalizer = "topolvm.io/logicalvolume"
	// CreatedByLabel on a LogicalVolume tells who made it.
	CreatedByLabel      = "app.kubernetes.io/created-by"
	CreatedByController = "topolvm-controller"
	// LVMClusterFinalizer keeps an LVMCluster until its operands are gone.
	LVMClusterFinalizer = "lvmcluster.topolvm.io"
	// VolumeMoveFinalizer keeps a VolumeMove until what was created for it is deleted, or the move has ended.
	VolumeMoveFinalizer = "lvm.topolvm.io/volumemove"
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

// NodeCleanupFinalizer returns the finalizer by which a node of upstream LVMS keeps an LVMVolumeGroup.
func NodeCleanupFinalizer(node string) string {
	return NodeCleanupPrefix + node
}
