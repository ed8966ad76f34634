package wellknown

// Ports and names of the product's services.
const (
	// AgentPort is the port of node agents for the operator.
	AgentPort = 8444
	// SnapshotMetadataPort is the port of the operator for backup software.
	SnapshotMetadataPort = 8445
	// PeerPort is the port of node agents for other node agents.
	PeerPort = 8446
	// SnapshotMetadataService is the name of the Service in the operator's namespace.
	SnapshotMetadataService = "lvms-snapshot-metadata"
	// SnapshotMetadataAudience is the audience that the tokens of backup software must have.
	SnapshotMetadataAudience = "snapshot-metadata." + DriverName
	// ClusterIDNamespace is the namespace whose UID is the identity of a cluster that is not OpenShift.
	ClusterIDNamespace = "kube-system"
)
