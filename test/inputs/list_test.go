package inputs

// input is what users write and a node agent reads.
type input struct {
	// names are Go names of constants of the API, fields of topolvm's LogicalVolumeSpec after "spec.", methods of CSI
	// requests, or paths in a CRD.
	names []string
	// text is what the page calls it. If it is empty, the values of the constants are shown.
	text string
	// reaches is the program or the text that it becomes a part of, or what else is done with it.
	reaches string
	// check is what allows or refuses it, and where.
	check string
	// test is a test of the check: FILE TestName.
	test string
}

// The tests of several inputs.
const (
	nameTest  = "vgmanager/volume/engine/volumes_test.go TestNamesThatAreNoNames"
	tagTest   = "vgmanager/lvm/lvmexec/tags_test.go TestATagThatIsNoTagReachesNoProgram"
	ownTags   = "vgmanager/volume/logicalvolume/reconciler_test.go TestTagsSayWhoseAVolumeIs"
	spreadTag = "vgmanager/volume/logicalvolume/spread_test.go TestTheTagOfASpread"
)

// parameters are those of StorageClasses and VolumeAttributesClasses, and what a PersistentVolume passes to a node.
var parameters = []input{
	{names: []string{"DeviceClassParameter", "EarlierDeviceClassParameter", "spec.DeviceClass"},
		text: "parameter `topolvm.io/device-class` (earlier `topolvm.cybozu.com/device-class`), " +
			"`spec.deviceClass`",
		reaches: "nothing: the agent looks up the device class; the name of the volume group is that in the " +
			"LVMCluster",
		check: "node: a device class of this node has the name",
		test:  "vgmanager/volume/logicalvolume/class_test.go TestAVolumeThatNoClassHasIsNotCalledDeleted"},
	{names: []string{"OptionClassParameter", "spec.LvcreateOptionClass"},
		text: "parameter `topolvm.io/lvcreate-option-class`, `spec.lvcreateOptionClass`",
		reaches: "nothing: the agent looks up the options in `/etc/topolvm/lvmd.yaml`, which root of the node " +
			"writes",
		check: "node: an option class has the name",
		test:  "vgmanager/volume/engine/classes/config_test.go TestValidate"},
	{names: []string{"SourcePlacementParameter"},
		reaches: "nothing: the operator reads it",
		check:   "CreateVolume: one of three words",
		test:    "internal/csi/driver/controller_test.go TestCreateVolumeRefuses"},
	{names: []string{"MkfsOptionsParameter"},
		reaches: "mkfs",
		check: "admission of the LVMCluster, CreateVolume and node: options of the layout only, each with a " +
			"pattern, none with `/`; `-d`, `-z`, `-p`, `logdev` and others are refused",
		test: "internal/volume/service/mkfs_test.go TestMkfsOptionsThatReachBeyondTheVolume"},
	{names: []string{"GetMountFlags"},
		text:    "`mountOptions` of a StorageClass or PersistentVolume",
		reaches: "mount",
		check: "CreateVolume and node: a pattern without `/` and quotes, apart from the SELinux context; " +
			"options that name a device or a file, mount something else or stop the node are refused",
		test: "internal/volume/service/mkfs_test.go TestMountOptions"},
	{names: []string{"FilesystemTypeParameter", "GetFsType"},
		text:    "parameter `csi.storage.k8s.io/fstype`, `fsType` of a PersistentVolume",
		reaches: "mkfs, e2fsck, mount",
		check:   "node: `ext4` or `xfs` for a new file system; otherwise it must be what blkid finds on the volume",
		test:    "vgmanager/csinode/node_test.go TestDecide"},
	{names: []string{"EncryptionParameter", "EncryptionDiscardsParameter", "EncryptionAnnotation"},
		text: "parameters `lvm.topolvm.io/encryption`, `encryption-discards`, annotation " +
			"`lvm.topolvm.io/encryption`",
		reaches: "an LVM tag, and whether cryptsetup is used and `--allow-discards`",
		check: "admission of the LVMCluster, CreateVolume and node: `luks2`, `true` or `false`; of the " +
			"annotation letters, digits and `._-/`, and only `luks2` is staged",
		test: "vgmanager/csinode/volume/volume_test.go TestEncryptionOfAVolume"},
	{names: []string{"NodeStageSecretNameParameter", "NodeStageSecretNamespaceParameter"},
		reaches: "nothing: the provisioner and the kubelet read the Secret",
		check:   "the provisioner: names of Kubernetes; admission of the LVMCluster: required with encryption",
		test:    "internal/admission/webhook/classes_test.go TestOptionsOfAStorageClass"},
	{names: []string{"GetSecrets", "EncryptionKey", "EncryptionPreviousKey"},
		text:    "`key` and `previousKey` of the Secret",
		reaches: "cryptsetup, by a pipe",
		check:   "node: 32 to 4,096 bytes; it is no argument",
		test:    "vgmanager/csinode/encrypt_test.go TestWithoutItsKeyNothingIsFormatted"},
	{names: []string{"GetVolumeContext", "GetPublishContext"},
		text:    "`volumeAttributes` of a PersistentVolume",
		reaches: "as the parameters `mkfs-options`, `encryption` and `encryption-discards`; others are not read",
		check:   "node: as above",
		test:    "vgmanager/csinode/node_test.go TestMkfsOptions"},
	{names: []string{"GetVolumeId"},
		text:    "`volumeHandle` of a PersistentVolume",
		reaches: "LVM, blkid, mkfs, mount, cryptsetup, as a name or path of a volume",
		check: "node: a LogicalVolume of this node has it; `[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,126}`, so it has no " +
			"`/` and is no option",
		test: nameTest},
	{names: []string{"GetStagingTargetPath", "GetTargetPath", "GetVolumePath"},
		text:    "paths of a CSI call",
		reaches: "mount, umount",
		check: "the kubelet sets them; only root of the node can open the socket; the device of a mount point " +
			"is compared",
		test: "vgmanager/csinode/node_test.go TestAPathThatLeadsElsewhereIsRefused"},
	{names: []string{"GetVolumeCapability", "GetAccessMode", "GetMode", "GetMount", "GetBlock", "GetReadonly",
		"GetCapacityRange", "GetRequiredBytes", "GetLimitBytes"},
		text:    "access mode, volume mode, read-only, sizes",
		reaches: "options `ro` of mount; sizes in bytes",
		check:   "CreateVolume and node: enumerations and numbers",
		test:    "internal/csi/volumespec/size_test.go TestSizes"},
	{names: []string{"ReadIOPSParameter", "WriteIOPSParameter", "ReadBytesPerSecondParameter",
		"WriteBytesPerSecondParameter", "IOLimitsAnnotation", "IOLimitsInForceAnnotation"},
		text: "parameters of a VolumeAttributesClass, annotations `lvm.topolvm.io/io-limits`, " +
			"`io-limits-in-force`",
		reaches: "the file `io.max` of cgroups",
		check:   "CreateVolume and node: four names, positive numbers",
		test:    "internal/volume/iolimits/iolimits_test.go TestTextsThatAreNoLimits"},
}

// objects are the fields and annotations of LogicalVolumes, which the operator writes. Users with permission to patch
// LogicalVolumes can change them.
var objects = []input{
	{names: []string{"spec.Name", "spec.NodeName", "TopologyNodeKey"},
		text:    "`spec.name`, `spec.nodeName`",
		reaches: "nothing: the node is compared; the logical volume has the UID of the object as its name",
		check:   "no check is needed",
		test:    ownTags},
	{names: []string{"spec.Size"},
		text:    "`spec.size`",
		reaches: "lvcreate, lvextend, as a number of bytes",
		check:   "the CRD: a quantity; node: above 0",
		test:    nameTest},
	{names: []string{"spec.Source", "spec.AccessType", "CopyBaseAnnotation"},
		text: "`spec.source`, `spec.accessType`, annotation `lvm.topolvm.io/copy-base`",
		reaches: "an LVM tag (`lvms.copy-of=`, `lvms.base=`); the volume is that of the LogicalVolume with this " +
			"name",
		check: "node: an existing LogicalVolume; each tag must be one that LVM accepts",
		test:  tagTest},
	{names: []string{"ImportAnnotation", "MoveVolumeAnnotation", "CloneVolumeAnnotation", "RetireAnnotation",
		"ExistingVolumeAnnotation"},
		reaches: "LVM, as the name of a logical volume",
		check:   "node: the pattern of a volume name; the tags of the volume must not name another object",
		test:    nameTest},
	{names: []string{"FileSystemAnnotation", "CopyOfAnnotation"},
		reaches: "nothing: compared with the tags of the source of a copy, and named in the message",
		check:   "no check is needed",
		test:    "vgmanager/volume/logicalvolume/copy_test.go TestACopyWithAnotherFileSystem"},
	{names: []string{"AdoptAnnotation", "MoveAnnotation", "FenceTimeAnnotation", "FencedAnnotation", "UnfenceAnnotation",
		"MoveBackAnnotation"},
		reaches: "nothing: they are compared with tags, objects, and the names of nodes and logical volumes",
		check:   "no check is needed",
		test:    "vgmanager/volume/logicalvolume/moved_test.go TestWhatIsNotAdopted"},
	{names: []string{"FenceAnnotation"},
		reaches: "an LVM tag (`lvms.fenced=`)",
		check:   "node: `[A-Za-z0-9._-]{1,128}`",
		test:    "vgmanager/csinode/fence_test.go TestAVolumeInUseIsNotFenced"},
	{names: []string{"ClaimAnnotation"},
		reaches: "an LVM tag (`lvms.pvc=`)",
		check:   "node: letters, digits and `._-/`, at most 512 bytes; otherwise there is no tag",
		test:    ownTags},
	{names: []string{"SpreadAnnotation", "SpreadGroupHashLabel"},
		reaches: "an LVM tag (`lvms.spread=`)",
		check:   "CreateVolume: scope and policy are words; node: also the group, as for the claim",
		test:    spreadTag},
	{names: []string{"GroupRequestAnnotation", "GroupPendingAnnotation", "GroupStateAnnotation"},
		reaches: "nothing: JSON with a phase, times and UIDs, which are compared",
		check:   "node: decoded, or refused",
		test:    "vgmanager/volume/logicalvolume/group_test.go TestARequestThatCannotBeRead"},
	{names: []string{"CopiedAnnotation", "TrimAnnotation", "ConditionAnnotation", "HealthAnnotation",
		"FenceErrorAnnotation",
		"IOLimitsErrorAnnotation", "SuspendedAnnotation", "SuspendedDevicesAnnotation", "UnclaimedAnnotation",
		"PendingDeletionAnnotation", "EarlierDriverAnnotation", "EarlierStagedAnnotation", "MovedVolumeAnnotation",
		"CreatedByLabel"},
		reaches: "nothing: a report for people, whether it is set, or a path whose existence is checked",
		check:   "no check is needed",
		test:    "vgmanager/csinode/suspend_test.go TestNewPodsDoNotGetASuspendedVolume"},
}

// freeFields are the fields of the CRDs that the schema does not restrict to a pattern, an enumeration or a format.
var freeFields = []input{
	{names: []string{"deviceClasses[].adopt[].node", "deviceClasses[].deviceRequests[].node"},
		check: "compared with the name of the node"},
	{names: []string{"deviceClasses[].adopt[].volumeGroupUUID"},
		check: "compared with the UUIDs that LVM reports"},
	{names: []string{"deviceClasses[].deviceRequests[].device"},
		check: "compared with the devices that the node has: LVM gets the name that LVM reported"},
	{names: []string{"deviceClasses[].deviceRequests[].suspendReason"},
		check: "shown in a message"},
	{names: []string{"deviceClasses[].deviceSelector.labels{}", "deviceClasses[].deviceSelector.models[]",
		"deviceClasses[].deviceSelector.serials[]", "deviceClasses[].deviceSelector.transports[]",
		"deviceClasses[].deviceSelector.vendors[]"}, check: "compared with what the kernel reports of the device"},
	{names: []string{"deviceClasses[].nodeSelector.nodeSelectorTerms[].matchExpressions[].key",
		"deviceClasses[].nodeSelector.nodeSelectorTerms[].matchExpressions[].operator",
		"deviceClasses[].nodeSelector.nodeSelectorTerms[].matchExpressions[].values[]",
		"deviceClasses[].nodeSelector.nodeSelectorTerms[].matchFields[].key",
		"deviceClasses[].nodeSelector.nodeSelectorTerms[].matchFields[].operator",
		"deviceClasses[].nodeSelector.nodeSelectorTerms[].matchFields[].values[]", "tolerations[].effect",
		"tolerations[].key", "tolerations[].operator", "tolerations[].value"},
		check: "Kubernetes checks them in the DaemonSet"},
	{names: []string{"deviceClasses[].deviceSelector.nodeSelector.nodeSelectorTerms[].matchExpressions[].key",
		"deviceClasses[].deviceSelector.nodeSelector.nodeSelectorTerms[].matchExpressions[].operator",
		"deviceClasses[].deviceSelector.nodeSelector.nodeSelectorTerms[].matchExpressions[].values[]",
		"deviceClasses[].deviceSelector.nodeSelector.nodeSelectorTerms[].matchFields[].key",
		"deviceClasses[].deviceSelector.nodeSelector.nodeSelectorTerms[].matchFields[].operator",
		"deviceClasses[].deviceSelector.nodeSelector.nodeSelectorTerms[].matchFields[].values[]"},
		check: "compared with the labels of the Node"},
	{names: []string{"deviceClasses[].storageClassOptions.additionalLabels{}"},
		check: "admission: a label of Kubernetes; no agent reads it"},
	{names: []string{"deviceClasses[].storageClassOptions.additionalParameters{}"},
		check: "admission: as the parameters above; `device-class` and `fstype` are refused"},
	{names: []string{"LVMRecovery approvedPlan"},
		check: "compared with the ID of the plan; of an import, admission compares the ID with the content of " +
			"the plan"},
	{names: []string{"LVMRecovery claims[].volume", "LVMRecovery volumes[]"},
		check: "compared with the logical volumes that LVM reports"},
	{names: []string{"LVMRecovery deviceClassName", "LVMRecovery nodeName", "LVMDeviceApproval deviceClassName",
		"LVMDeviceApproval nodeName", "VolumeMove nodeName"},
		check: "compared with the names of device classes and nodes"},
	{names: []string{"LVMDeviceApproval approvedBy"},
		check: "admission: the user who creates it; shown in messages"},
	{names: []string{"LVMDeviceApproval device"},
		check: "compared with the devices that the node has"},
	{names: []string{"LVMVolumeGroupNodeStatus deviceLabels[].id"},
		check: "compared with the IDs of devices"},
}
