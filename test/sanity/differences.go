// Package sanity judges the product's CSI driver on real LVM: by the conformance tests of the CSI community, and by
// TopoLVM's own services, which run on the product's engine and get the same calls.
package sanity

// Difference is a row of the table of docs/explanation/topolvm.md: what TopoLVM's services and the product's do
// differently when they get the same calls. The patterns are regular expressions for the whole text.
type Difference struct {
	// Calls are the names of the calls in the scenario. They are empty for what differs after many calls.
	Calls []string
	// Fact is a pattern for the name of what differs.
	Fact string
	// Judged and Ours are patterns for the values of TopoLVM and of the product. An empty value means that there is
	// nothing.
	Judged, Ours string
	// Text says what differs, and Reason says why.
	Text, Reason string
}

const (
	// anything also matches nothing; something does not.
	anything  = `(?s).*`
	something = `(?s).+`
)

// Differences are all that are accepted.
var Differences = []Difference{
	{Calls: []string{"GetPluginInfo"}, Fact: `answer\.vendorVersion`, Judged: "devel", Ours: something,
		Text:   "The version is that of the operator, not `devel`",
		Reason: "TopoLVM's version is set when its own programs are linked"},
	{Calls: []string{"GetPluginCapabilities"}, Fact: `answer\.capabilities\[GROUP_CONTROLLER_SERVICE\].*`, Ours: something,
		Text: "`GROUP_CONTROLLER_SERVICE`", Reason: "Snapshots of several volumes at one moment"},
	{Calls: []string{"ControllerGetCapabilities"}, Fact: `answer\.capabilities\[(LIST_VOLUMES|GET_VOLUME_HEALTH|LIST_VOLUME_HEALTH)\].*`,
		Ours: something, Text: "`LIST_VOLUMES`, `GET_VOLUME_HEALTH`, `LIST_VOLUME_HEALTH`",
		Reason: "What is wrong with a volume is reported"},
	{Calls: []string{"NodeGetCapabilities"}, Fact: `answer\.capabilities\[(2|GET_VOLUME_HEALTH|GET_STORAGE_HEALTH)\].*`,
		Judged: anything, Ours: anything, Text: "`GET_VOLUME_HEALTH`, `GET_STORAGE_HEALTH` in place of `VOLUME_CONDITION`",
		Reason: "CSI 1.13 has removed the latter"},
	{Calls: []string{"ControllerGetCapabilities"}, Fact: `answer\.capabilities\[MODIFY_VOLUME\].*`, Ours: something,
		Text: "`MODIFY_VOLUME`", Reason: "A VolumeAttributesClass limits the I/O of a volume"},
	{Calls: []string{"ControllerGetCapabilities", "NodeGetCapabilities"},
		Fact: `answer\.capabilities\[SINGLE_NODE_MULTI_WRITER\].*`, Ours: something,
		Text: "`SINGLE_NODE_MULTI_WRITER`", Reason: "The access mode ReadWriteOncePod"},
	{Calls: []string{"NodeGetCapabilities"}, Fact: `answer\.capabilities\[STAGE_UNSTAGE_VOLUME\].*`, Ours: something,
		Text: "`STAGE_UNSTAGE_VOLUME`", Reason: "A volume is mounted once for the node, and bind-mounted for each Pod"},
	{Calls: []string{"GetCapacity of a thick class", "GetCapacity of a node that does not exist",
		"GetCapacity of a class that does not exist"}, Fact: `answer\.maximumVolumeSize`, Ours: `\d+`,
		Text:   "The answer has `maximum_volume_size`",
		Reason: "The scheduler compares it with the claim; the capacity of a class can be that of several devices"},

	{Fact: `object \S+\.metadata\.annotations\.lvm\.topolvm\.io/fstype`, Ours: "ext4|xfs",
		Text:   "The LogicalVolume has the annotation `lvm.topolvm.io/fstype`",
		Reason: "A restore with another type of file system is refused at its creation, not when a Pod waits for it"},
	{Fact: `object \S+\.metadata\.annotations\.lvm\.topolvm\.io/requested-size`, Ours: `\d+`,
		Text:   "The LogicalVolume has the annotation `lvm.topolvm.io/requested-size`",
		Reason: "A claim of the same size can be restored from a snapshot, although sizes of volumes are rounded up"},
	{Fact: `volume \S+\.tag lvms\.(cluster|pv|uid|formatted|new)`, Ours: something,
		Text:   "The logical volume has tags",
		Reason: "Its identity survives the loss of the API server's data; no volume is formatted a second time"},
	{Calls: []string{"CreateVolume without a size"},
		Fact:   `(answer\.volume\.capacityBytes|object pvc-5\..*|volume pvc-5\.size)`,
		Judged: `33554432|32Mi`, Ours: `1073741824|1Gi`, Text: "The volume has 1 GiB, not 32 MiB",
		Reason: "The minimum of a file system is not what is meant without a size. A claim always has one"},

	{Calls: []string{"CreateVolume with a size above the limit", "CreateVolume with a limit below one extent"},
		Fact: "answer", Judged: "InvalidArgument",
		Ours: "OutOfRange", Text: "`OutOfRange` in place of `InvalidArgument`",
		Reason: "The CSI specification has this code for a size that is not possible"},
	{Calls: []string{"CreateVolume with a negative size"}, Fact: `(answer|object bad-4|volume bad-4)`, Judged: "OK|exists",
		Ours: "InvalidArgument|", Text: "The request is refused", Reason: "TopoLVM creates a volume of 1 GiB"},
	{Calls: []string{"CreateVolume in a class that does not exist"}, Fact: "answer", Judged: "Internal",
		Ours: "ResourceExhausted", Text: "`ResourceExhausted` in place of `Internal`",
		Reason: "The Pod goes back to the scheduler, which can find a node with the class"},
	{Calls: []string{"CreateVolume in a class that does not exist"}, Fact: `object bad-6`, Judged: "exists",
		Text:   "No LogicalVolume remains",
		Reason: "TopoLVM's node service cannot remove the finalizer of its LogicalVolume"},

	{Calls: []string{"NodePublishVolume", "NodePublishVolume with XFS",
		"NodePublishVolume of a thick volume, without a type", "NodePublishVolume of a restored volume",
		"NodePublishVolume of a larger restored volume", "NodePublishVolume of a clone"},
		Fact: `mount \S+\.(blkid BLOCK_SIZE|options)`, Judged: `1024|512|.*stripe=64`, Ours: `4096|.*stripe=16`,
		Text:   "A small ext4 has blocks of 4096 bytes, XFS has sectors of 4096 bytes",
		Reason: "The volume can be moved to a disk with logical sectors of 4096 bytes"},
	{Calls: []string{"NodeGetVolumeStats"}, Fact: `answer\.usage\[[01]\]\.(available|total|used)`, Judged: `\d+`, Ours: `\d+`,
		Text: "The size of the file system differs by 2 %", Reason: "Larger blocks in a file system of 320 MiB"},
	{Calls: []string{"NodePublishVolume to a second Pod, read-only"}, Fact: `(answer|mount targets/pvc-1-b)`,
		Judged: "Internal|", Ours: "OK|exists", Text: "A second Pod of the node gets the volume read-only",
		Reason: "The mount of TopoLVM fails: the device is mounted read-write"},
	{Calls: []string{"NodePublishVolume with another type of file system"}, Fact: "answer", Judged: "Internal",
		Ours: "AlreadyExists", Text: "`AlreadyExists` in place of `Internal`",
		Reason: "The CSI specification has this code for a volume that is staged in another way"},
	{Calls: []string{"NodePublishVolume of a restored volume", "NodePublishVolume of a larger restored volume",
		"NodePublishVolume of a clone"}, Fact: `mount \S+\.mode`, Judged: "dgrwxrwxrwx", Ours: "drwxr-x---",
		Text:   "The root directory keeps the mode that the owner gave it",
		Reason: "TopoLVM sets it to 2777 at each mount"},
	{Calls: []string{"NodePublishVolume of a block volume, again"}, Fact: `mount targets/pvc-3\.mode`,
		Judged: "Drwxr-xr-x", Ours: "Drw-rw----", Text: "The mode of the device does not change",
		Reason: "TopoLVM sets it to 0755, so that every user of the node can read the volume"},
	{Calls: []string{"NodePublishVolume of a volume that does not exist"}, Fact: "answer", Judged: "Unknown",
		Ours: "NotFound", Text: "`NotFound` in place of `Unknown`", Reason: "The code of the CSI specification"},

	{Calls: []string{"ControllerExpandVolume that does not fit"}, Fact: "answer", Judged: "Internal",
		Ours: "OutOfRange", Text: "`OutOfRange` in place of `Internal`",
		Reason: "external-resizer tries less often, and a smaller request can follow"},
	{Calls: []string{"ControllerExpandVolume that does not fit"},
		Fact: `object pvc-2\.metadata\.annotations\.topolvm\.io/resize-requested-at`, Ours: something,
		Text:   "The request is on the LogicalVolume, and is taken back",
		Reason: "The node decides, not a capacity that was published earlier"},

	{Calls: []string{"NodeUnpublishVolume of pvc-1-a", "NodeUnpublishVolume of pvc-2", "NodeUnpublishVolume of pvc-4",
		"NodeUnpublishVolume of restored-1", "NodeUnpublishVolume of restored-2", "NodeUnpublishVolume of clone-1"},
		Fact: `volume \S+\.attr`, Judged: `.{5}-.*`, Ours: `.{5}o.*`, Text: "The device is open until the volume is unstaged",
		Reason: "A volume is mounted once for the node, and bind-mounted for each Pod"},
	{Calls: []string{"NodeUnpublishVolume of a block volume"}, Fact: `(answer|mount targets/pvc-3)`, Judged: "Internal|exists",
		Ours: "OK|", Text: "A block volume that was published twice is unpublished",
		Reason: "TopoLVM mounts the device again with each call, and unmounts it once"},
}
