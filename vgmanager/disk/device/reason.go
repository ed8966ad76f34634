package device

import (
	"fmt"
	"slices"
	"strings"
)

// Code is why a device cannot be used, in one word. The list is closed.
type Code string

// The reasons why a device cannot be used. Their comments are the text of docs/reference/conditions.md: `make
// references` writes it. "By name" is whether a device is used in spite of the reason if `paths` or `optionalPaths`
// names it.
const (
	// UnsupportedType means: the device is an optical drive, a RAM disk, a network device that something else attached,
	// or a whole DASD.
	// What to do: use another device; of a DASD, a partition.
	// By name: no.
	UnsupportedType Code = "UnsupportedType"
	// LVMInternal means: the device is a logical volume or a part of one, or is built on one that a device class
	// provides.
	// What to do: use another device.
	// By name: no.
	LVMInternal Code = "LVMInternal"
	// KubernetesLoop means: the device is a loop device that the kubelet created for a volume.
	// What to do: nothing.
	// By name: no.
	KubernetesLoop Code = "KubernetesLoop"
	// ReadOnly means: the device cannot be written.
	// What to do: check for a write-protect switch on the device, and run `blockdev --getro`.
	// By name: no.
	ReadOnly Code = "ReadOnly"
	// Removable means: the medium can be removed.
	// What to do: name the device, or set `removable: true`.
	// By name: yes.
	Removable Code = "Removable"
	// Suspended means: I/O to the device is suspended.
	// What to do: run `dmsetup resume`.
	// By name: no.
	Suspended Code = "Suspended"
	// TooSmall means: the device is smaller than 16 MiB.
	// What to do: use another device.
	// By name: no.
	TooSmall Code = "TooSmall"
	// Mounted means: the device has a mounted file system.
	// What to do: unmount it, if nothing needs it.
	// By name: no.
	Mounted Code = "Mounted"
	// SwapInUse means: the device is swap space in use.
	// What to do: run `swapoff`, if the node does not need it.
	// By name: no.
	SwapInUse Code = "SwapInUse"
	// HasPartitions means: the device has partitions, or an empty partition table.
	// What to do: name a partition, or remove the partition table.
	// By name: wiped.
	HasPartitions Code = "HasPartitions"
	// HasHolders means: another device is built on this one; that can be a loop device.
	// What to do: use the other device.
	// By name: no.
	HasHolders Code = "HasHolders"
	// PartitionReserved means: the device is a partition that the firmware or the boot loader needs.
	// What to do: use another device.
	// By name: no.
	PartitionReserved Code = "PartitionReserved"
	// HasSignature means: the device contains a file system or another known signature.
	// What to do: remove it, if nothing needs it.
	// By name: wiped.
	HasSignature Code = "HasSignature"
	// MultipathMember means: the device is one of several paths to a disk.
	// What to do: use the device under `/dev/mapper`.
	// By name: no.
	MultipathMember Code = "MultipathMember"
	// RAIDMember means: the device is a member of a RAID array.
	// What to do: use the array.
	// By name: wiped, if the array does not run.
	RAIDMember Code = "RAIDMember"
	// InVolumeGroup means: the device is a physical volume of another volume group.
	// What to do: use another device.
	// By name: no.
	InVolumeGroup Code = "InVolumeGroup"
	// UnassignedPV means: the device is a physical volume without a volume group.
	// What to do: name it, or run `pvremove`.
	// By name: yes.
	UnassignedPV Code = "UnassignedPV"
	// UnknownPV means: the device is labeled as a physical volume, but LVM on the node does not list it.
	// What to do: check the output of `lvmdevices`, and the filter in lvm.conf.
	// By name: wiped, if the device itself shows that it belongs to no volume group of this product.
	UnknownPV Code = "UnknownPV"
	// DuplicatePV means: the device is a copy of a physical volume that LVM uses on another device.
	// What to do: detach one of the two.
	// By name: no.
	DuplicatePV Code = "DuplicatePV"
	// Busy means: the device is open exclusively, for example by a mount in a container; nothing else shows the user.
	// What to do: find the process that uses it, with `lsof` or `fuser`.
	// By name: no.
	Busy Code = "Busy"
	// Unreadable means: the device could not be read, or has not answered since the time in the message, so its content
	// is unknown.
	// What to do: see the kernel's log; repair or detach the device.
	// By name: no.
	Unreadable Code = "Unreadable"
	// ProbeError means: something about the device could not be determined; the message says what.
	// What to do: as the message says.
	// By name: no.
	ProbeError Code = "ProbeError"
	// Failing means: the device returns errors, or does not answer.
	// What to do: see the kernel's log; replace the device.
	// By name: no.
	Failing Code = "Failing"
	// IsOSDisk means: the device contains the operating system of the node, or a part of it.
	// What to do: use another device.
	// By name: no.
	IsOSDisk Code = "IsOSDisk"
	// LUKSLocked means: the device is encrypted and not open.
	// What to do: open it and use the device under `/dev/mapper`.
	// By name: wiped.
	LUKSLocked Code = "LUKSLocked"
	// CephBlueStore means: the device is storage of a Ceph OSD.
	// What to do: remove the OSD, and then its data on the device.
	// By name: wiped.
	CephBlueStore Code = "CephBlueStore"
	// NoStablePath means: the device has no WWN, serial number or link under `/dev/disk/by-id`, so it
	// has no identity that stays the same when its name changes. It is used nevertheless.
	// What to do: prefer a device that has one.
	// By name: yes.
	NoStablePath Code = "NoStablePath"

	// NotSelected means: the device does not match the properties in the selector of the device class.
	// What to do: nothing, or change the selector.
	// By name: no.
	NotSelected Code = "NotSelected"
	// UsedByOtherDeviceClass means: another device class names the device, or would also use it.
	// What to do: change the selectors so that only one device class matches the device.
	// By name: no.
	UsedByOtherDeviceClass Code = "UsedByOtherDeviceClass"
	// NotAtCreation means: the device appeared or was labeled after the volume group was created, and the policy is
	// `Static`.
	// What to do: name the device, or use `Dynamic`.
	// By name: yes.
	NotAtCreation Code = "NotAtCreation"
	// TooYoung means: the device appeared less than a minute ago, and the policy is `Dynamic`.
	// What to do: wait.
	// By name: yes.
	TooYoung Code = "TooYoung"
	// RemovalRequested means: the removal of the device was requested (`deviceRequests`).
	// What to do: to use the device again, remove the request; otherwise, remove its path from the selector.
	// By name: no.
	RemovalRequested Code = "RemovalRequested"
	// PathMoved means: the path in the selector led to another device, which is still in the volume group.
	// What to do: replace the path in the selector by links in `/dev/disk/by-id` that do not change.
	// By name: no.
	PathMoved Code = "PathMoved"
	// OtherSectorSize means: the logical sectors of the device have another size than those of the other devices of the
	// device class. LVM does not use both in one volume group.
	// What to do: use the device in another device class.
	// By name: no.
	OtherSectorSize Code = "OtherSectorSize"
	// SharedWithNode means: another node lists a disk with the same WWN, so both would use one disk. Neither takes it.
	// What to do: present the disk to one node only; if the other node no longer exists, delete its Node object.
	// By name: no.
	SharedWithNode Code = "SharedWithNode"
	// AwaitingApproval means: the device class has `approval: Required`, and nobody has approved the device yet.
	// What to do: review the device, and approve it with `kubectl lvms approve`.
	// By name: no.
	AwaitingApproval Code = "AwaitingApproval"
	// ChangedSinceReview means: the device was approved, but its content, size, use or identity is not the one that was
	// reviewed. It is left alone.
	// What to do: find out what changed it; then approve it again, or delete the LVMDeviceApproval.
	// By name: no.
	ChangedSinceReview Code = "ChangedSinceReview"
	// NotWiped means: the selector allows the device to be wiped, but it was not wiped; the message says why.
	// What to do: as the message says.
	// By name: no.
	NotWiped Code = "NotWiped"
)

// Codes returns all codes.
func Codes() []Code {
	return []Code{
		UnsupportedType, LVMInternal, KubernetesLoop, ReadOnly, Removable, Suspended, TooSmall, Mounted,
		SwapInUse, HasPartitions,
		HasHolders, PartitionReserved, HasSignature, MultipathMember, RAIDMember, InVolumeGroup, UnassignedPV,
		UnknownPV, DuplicatePV,
		Busy, Unreadable, ProbeError, Failing, IsOSDisk, LUKSLocked, CephBlueStore, NoStablePath, NotSelected,
		UsedByOtherDeviceClass,
		NotAtCreation, TooYoung, RemovalRequested, PathMoved, OtherSectorSize, SharedWithNode, AwaitingApproval,
		ChangedSinceReview,
		NotWiped,
	}
}

// MinimumSize is the minimum size of a device in bytes. LVM accepts smaller ones, but they hold little besides
// metadata.
const MinimumSize int64 = 16 << 20

// Reason is a cause why a device cannot be used, and what to do about it.
type Reason struct {
	Code    Code
	Message string
	// Signature is the signature that the reason is about, or nil.
	Signature *Signature
	// Transient: the device was not read, so the reason must not be cached.
	Transient bool
}

// String returns the code and the message. Wipe records contain it: after an interrupted wipe, only a device with the
// same texts is wiped again. So the texts about the content of a device should not change.
func (r Reason) String() string { return string(r.Code) + ": " + r.Message }

// Messages returns the messages of reasons as one text.
func Messages(reasons []Reason) string {
	var list []string
	for _, r := range reasons {
		list = append(list, r.Message)
	}
	return strings.Join(list, "; ")
}

// PV is LVM's information about a device.
type PV struct {
	UUID string
	// Group is the volume group, and GroupUUID its UUID. They are empty if there is none.
	Group, GroupUUID string
	// InUse: according to the label it belongs to a volume group, even if LVM cannot find the group.
	InUse bool
}

// Explain returns all reasons why the device cannot be given to LVM that are known without reading the device. If it
// returns none, Probe decides. pvs are the physical volumes that LVM lists.
func Explain(d Device, pvs map[Number]PV) []Reason {
	var reasons []Reason
	for _, rule := range rules {
		reasons = append(reasons, rule(d)...)
	}
	return append(reasons, explainSignature(d, pvs)...)
}

// rules depend only on the device.
var rules = []func(Device) []Reason{
	explainProblems, explainType, explainReadOnly, explainRemovable, explainSuspended, explainSize,
	explainMounts, explainOS,
	explainPartitions, explainHolders, explainPath, explainReserved,
}

func one(code Code, format string, args ...any) []Reason {
	return []Reason{{Code: code, Message: fmt.Sprintf(format, args...)}}
}

func explainProblems(d Device) []Reason {
	if len(d.Problems) == 0 {
		return nil
	}
	return one(ProbeError, "could not be examined: %s", strings.Join(d.Problems, "; "))
}

func explainOS(d Device) []Reason {
	if !d.OSDisk {
		return nil
	}
	return one(IsOSDisk, "contains the operating system of the node, or a part of it")
}

// Remarks returns notes about a device that do not prevent its use.
func Remarks(d Device) []Reason {
	if len(d.ByID) > 0 || d.Identity() != "" || d.Type == "lvm" {
		return nil
	}
	return one(NoStablePath, "has no WWN, no serial number and no link under /dev/disk/by-id, so its name can "+
		"change when the node reboots")
}

// transient devices are in memory or are attached for another user: zram, RBD, NBD.
var transient = []string{"/dev/zram", "/dev/rbd", "/dev/nbd", "/dev/ram", "/dev/fd"}

// dasd is libblkid's name of the table of a DASD in the compatible disk layout of IBM Z. It is part of the low-level
// format.
const dasd = "dasd"

func explainType(d Device) []Reason {
	switch {
	case d.Type == "lvm":
		return one(LVMInternal, "is a logical volume")
	case d.Type == "rom":
		return one(UnsupportedType, "is an optical drive")
	case d.PartitionTable == dasd:
		return one(UnsupportedType, "is a DASD, whose format a physical volume would overwrite: use a partition of "+
			"it, which `fdasd --auto %s` creates", d.Name)
	case d.Type == "loop" && strings.Contains(d.BackingFile, "plugins/kubernetes.io"):
		return one(KubernetesLoop, "is a loop device that the kubelet created on %s", d.BackingFile)
	case d.Guest:
		return one(LVMInternal, "is built on a volume, so its content belongs to whoever uses the volume")
	case slices.ContainsFunc(transient, func(p string) bool { return strings.HasPrefix(d.KernelName, p) }):
		return one(UnsupportedType, "is a RAM disk or a network device, not a local disk")
	}
	return nil
}

func explainReadOnly(d Device) []Reason {
	if !d.ReadOnly {
		return nil
	}
	return one(ReadOnly, "is read-only")
}

func explainRemovable(d Device) []Reason {
	if !d.Removable {
		return nil
	}
	return one(Removable, "is a removable medium; to use it, name it in deviceSelector or set removable")
}

func explainSuspended(d Device) []Reason {
	if d.State != "suspended" {
		return nil
	}
	return one(Suspended, "is suspended; resume it with: dmsetup resume %s", d.Name)
}

func explainSize(d Device) []Reason {
	if d.Size >= MinimumSize {
		return nil
	}
	return one(TooSmall, "has %d bytes, less than the minimum of %d MiB", d.Size, MinimumSize>>20)
}

func explainMounts(d Device) []Reason {
	var reasons []Reason
	for _, m := range d.Mountpoints {
		if m == "[SWAP]" {
			reasons = append(reasons, one(SwapInUse, "is swap space in use; disable it with: swapoff %s", d.Name)...)
			continue
		}
		reasons = append(reasons, one(Mounted, "is mounted on %s", m)...)
	}
	return reasons
}

func explainPartitions(d Device) []Reason {
	var names []string
	for _, c := range d.Children {
		if c.Type == "part" {
			names = append(names, c.Name)
		}
	}
	switch {
	case len(names) > 0:
		return one(HasPartitions, "has the partitions %s", strings.Join(names, ", "))
	case d.PartitionTable != "" && d.PartitionTable != dasd:
		return one(HasPartitions,
			"has a partition table (%s) without partitions; if nothing needs it, remove it with: wipefs --all %s",
			d.PartitionTable, d.Name)
	}
	return nil
}

func explainHolders(d Device) []Reason {
	var names []string
	for _, c := range d.Children {
		if c.Type != "part" {
			names = append(names, fmt.Sprintf("%s (%s)", c.Name, c.Type))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return one(HasHolders, "is used by %s", strings.Join(names, ", "))
}

// explainPath is for a path of a multipath device that udev has not marked, because it has no signature or because
// udev has not processed it yet.
func explainPath(d Device) []Reason {
	if d.Signature == "mpath_member" || !isPath(d) {
		return nil
	}
	return one(MultipathMember, "is one path of a multipath device; use the device under /dev/mapper")
}

// reservedTypes are the GPT partition types that have no signature and that a node requires to boot.
var reservedTypes = map[string]string{
	"21686148-6449-6e6f-744e-656564454649": "BIOS boot partition",
	"c12a7328-f81f-11d2-ba4b-00a0c93ec93b": "EFI system partition",
	"e3c9e316-0b5c-4db8-817d-f92df00215ae": "Microsoft reserved partition",
	"9e1a2d38-c612-4316-aa26-8b49521e5a8b": "PowerPC PReP boot partition",
}

func explainReserved(d Device) []Reason {
	if name, ok := reservedTypes[strings.ToLower(d.PartitionType)]; ok {
		return one(PartitionReserved, "is a %s", name)
	}
	label := strings.ToLower(d.PartitionLabel)
	for _, word := range []string{"bios", "boot", "reserved"} {
		if strings.Contains(label, word) {
			return one(PartitionReserved,
				"has the partition label %q, which marks a partition that the node needs to boot", d.PartitionLabel)
		}
	}
	return nil
}

// explainSignature trusts LVM more than udev: a device that LVM lists by its number is a physical volume.
func explainSignature(d Device, pvs map[Number]PV) []Reason {
	if pv, ok := pvs[d.Number]; ok {
		return explainPV(d, pv)
	}
	if d.Signature == "" {
		return nil
	}
	if d.Signature == SignatureLVM {
		return explainUnlisted(d, pvs)
	}
	return explainContent(d, Signature{Type: d.Signature, UUID: d.UUID, Label: d.Label})
}

func explainPV(d Device, pv PV) []Reason {
	switch {
	case pv.Group != "":
		return one(InVolumeGroup, "is a physical volume of the volume group %s", pv.Group)
	case pv.InUse:
		return one(UnknownPV, "is a physical volume (%s) of a volume group whose metadata LVM cannot find", pv.UUID)
	}
	return one(UnassignedPV,
		"is a physical volume (%s) of no volume group; if nothing needs it, remove it with: pvremove %s",
		pv.UUID, d.Name)
}

func explainUnlisted(d Device, pvs map[Number]PV) []Reason {
	for _, pv := range pvs {
		if pv.UUID == d.UUID && d.UUID != "" {
			return one(DuplicatePV,
				"is a copy of the physical volume %s, which LVM uses on another device; detach one of them", d.UUID)
		}
	}
	return one(UnknownPV, "is labeled as a physical volume (%s), but LVM on this node does not list it: see its "+
		"devices file (lvmdevices) and the filter in lvm.conf", d.UUID)
}

// explainContent returns the reasons for a signature on a device, by libblkid's type names.
func explainContent(d Device, s Signature) []Reason {
	reasons := wordContent(d, s)
	reasons[0].Signature = &s
	return reasons
}

func wordContent(d Device, s Signature) []Reason {
	what := s.Type
	if s.UUID != "" {
		what += ", uuid " + s.UUID
	}
	if s.Label != "" {
		what += fmt.Sprintf(", label %q", s.Label)
	}
	switch {
	case s.Type == "mpath_member":
		return one(MultipathMember, "is one path of a multipath device; use the device under /dev/mapper")
	case s.Type == "ceph_bluestore":
		return one(CephBlueStore, "is storage of a Ceph OSD; if that is retired, remove it with: wipefs --all %s",
			d.Name)
	case s.Type == "crypto_LUKS" && len(d.Children) == 0:
		return one(LUKSLocked, "is encrypted (%s) and not open; use the open device under /dev/mapper, or, if "+
			"nothing needs it, remove it with: wipefs --all %s", what, d.Name)
	case strings.HasSuffix(s.Type, "_raid_member"):
		return one(RAIDMember,
			"is a member of an array (%s); use the array, or stop it and remove the member's superblock", what)
	case len(d.Mountpoints) > 0 || len(d.Children) > 0:
		// The message has no advice on wiping, because the content is clearly required.
		return one(HasSignature, "carries %s", what)
	}
	return one(HasSignature, "carries %s; if nothing needs it, remove it with: wipefs --all %s", what, d.Name)
}
