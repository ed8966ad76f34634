package wellknown

// Names of the CSI driver, which existing clusters hold. They never change.
const (
	// DriverName is the name of the CSI driver and the prefix of its keys.
	DriverName = "topolvm.io"
	// TopologyNodeKey is the topology key of a volume; its value is the node's name.
	TopologyNodeKey = "topology.topolvm.io/node"
	// CapacityAnnotationPrefix begins the annotations of a Node with the free bytes of each device class, and those of
	// a Pod with the bytes that it requests, for a scheduler extender.
	CapacityAnnotationPrefix = "capacity.topolvm.io/"
	// CapacityResource is the extended resource of Pods for which kube-scheduler asks a scheduler extender. No node has
	// it.
	CapacityResource = "topolvm.io/capacity"
	// MappingPrefix precedes the volume ID in the name of the mapped device of an open encrypted volume.
	MappingPrefix = "lvms-crypt-"
)
