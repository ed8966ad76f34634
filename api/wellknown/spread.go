package wellknown

// Labels of claims by which their volumes are kept apart, their values, and what a LogicalVolume has of them.
const (
	// SpreadGroupLabel names the group of claims in the namespace that are spread.
	SpreadGroupLabel = "lvm.topolvm.io/spread-group"
	// SpreadLabel is what the volumes of a group do not share: SpreadDevice (the default) or SpreadNode.
	SpreadLabel = "lvm.topolvm.io/spread"
	// SpreadPolicyLabel is SpreadRequired, or SpreadPreferred (the default).
	SpreadPolicyLabel = "lvm.topolvm.io/spread-policy"
	SpreadDevice      = "device"
	SpreadNode        = "node"
	SpreadRequired    = "required"
	SpreadPreferred   = "preferred"
	// SpreadAnnotation on a LogicalVolume has the Spread of its volume, as Spread.String writes it. The CSI controller
	// sets it. Agents cannot change it.
	SpreadAnnotation = "lvm.topolvm.io/spread"
	// SpreadGroupHashLabel on a LogicalVolume has the GroupHash of its Spread, so that the API server can list the
	// volumes of a group. The CSI controller sets it. Agents cannot change it.
	SpreadGroupHashLabel = "lvm.topolvm.io/spread-group-hash"
)
