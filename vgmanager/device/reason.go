package device

import (
	"fmt"
	"slices"
	"strings"
)

// Code is why a device cannot be used, in one word. The list is closed.
type Code string

// The reasons why a device cannot be used.
const (
	// UnsupportedType: a drive for discs, memory, or a device of the network that something else attached.
	UnsupportedType Code = "UnsupportedType"
	// LVMInternal: the device is a logical volume, or a part of one.
	LVMInternal Code = "LVMInternal"
	// KubernetesLoop: a loop device that kubelet made for a volume.
	KubernetesLoop Code = "KubernetesLoop"
	// ReadOnly: the device cannot be written.
	ReadOnly Code = "ReadOnly"
	// Removable: the medium can be taken out.
	Removable Code = "Removable"
	// Suspended: input and output are held back.
	Suspended Code = "Suspended"
	// TooSmall: smaller than MinimumSize.
	TooSmall Code = "TooSmall"
	// Mounted: the device has a mounted file system.
	Mounted Code = "Mounted"
	// SwapInUse: the device is swap space in use.
	SwapInUse Code = "SwapInUse"
	// HasPartitions: the device has partitions, or an empty partition table.
	HasPartitions Code = "HasPartitions"
	// HasHolders: another device is made of it.
	HasHolders Code = "HasHolders"
	// PartitionReserved: a partition that the firmware or the boot loader needs.
	PartitionReserved Code = "PartitionReserved"
	// HasSignature: the device carries a file system or the like.
	HasSignature Code = "HasSignature"
	// MultipathMember: one of several paths to a disk; the multipath device is the one to use.
	MultipathMember Code = "MultipathMember"
	// RAIDMember: part of an array.
	RAIDMember Code = "RAIDMember"
	// InVolumeGroup: a physical volume of another volume group.
	InVolumeGroup Code = "InVolumeGroup"
	// UnassignedPV: a physical volume of no volume group.
	UnassignedPV Code = "UnassignedPV"
	// UnknownPV: labeled as a physical volume, but LVM on the node does not list it.
	UnknownPV Code = "UnknownPV"
	// DuplicatePV: a copy of a physical volume that LVM uses on another device.
	DuplicatePV Code = "DuplicatePV"
	// Busy: the device is open exclusively, by a mount in a container or another user that nothing else shows.
	Busy Code = "Busy"
	// Unreadable: the device could not be read or examined, so nobody knows what it carries.
	Unreadable Code = "Unreadable"
	// ProbeError: something about the device could not be found out.
	ProbeError Code = "ProbeError"
	// Failing: the device gives errors, or does not answer.
	Failing Code = "Failing"
	// IsOSDisk: the machine runs from the device.
	IsOSDisk Code = "IsOSDisk"
	// LUKSLocked: an encrypted device that is not open.
	LUKSLocked Code = "LUKSLocked"
	// CephBlueStore: storage of a Ceph OSD.
	CephBlueStore Code = "CephBlueStore"
	// NoStablePath: nothing about the device stays the same when it has another name.
	NoStablePath Code = "NoStablePath"

	// NotSelected: the device class asks for other properties.
	NotSelected Code = "NotSelected"
	// UsedByOtherDeviceClass: another device class names the device, or would take it as well.
	UsedByOtherDeviceClass Code = "UsedByOtherDeviceClass"
	// NotAtCreation: the device came after the volume group was made, and the policy is Static.
	NotAtCreation Code = "NotAtCreation"
	// TooYoung: the device came less than a minute ago, and the policy is Dynamic.
	TooYoung Code = "TooYoung"
	// RemovalRequested: somebody asked to remove the device from the device class.
	RemovalRequested Code = "RemovalRequested"
	// NotWiped: the device may be wiped by its selector, and is not; the message says why.
	NotWiped Code = "NotWiped"
)

// Codes returns the list.
func Codes() []Code {
	return []Code{
		UnsupportedType, LVMInternal, KubernetesLoop, ReadOnly, Removable, Suspended, TooSmall, Mounted,
		SwapInUse, HasPartitions,
		HasHolders, PartitionReserved, HasSignature, MultipathMember, RAIDMember, InVolumeGroup, UnassignedPV,
		UnknownPV, DuplicatePV,
		Busy, Unreadable, ProbeError, Failing, IsOSDisk, LUKSLocked, CephBlueStore, NoStablePath, NotSelected,
		UsedByOtherDeviceClass,
		NotAtCreation, TooYoung, RemovalRequested, NotWiped,
	}
}

// MinimumSize of a device, in bytes. LVM takes less, but then holds hardly more than its own metadata.
const MinimumSize int64 = 16 << 20

// Reason is one cause why a device cannot be used, with what is to do about it.
type Reason struct {
	Code    Code
	Message string
	// Signature is what the reason is about, if it is about one.
	Signature *Signature
	// Transient: the device was not read, so the reason is not to be kept for the next time.
	Transient bool
}

// String returns code and message.
func (r Reason) String() string { return string(r.Code) + ": " + r.Message }

// PV is what LVM knows about a device.
type PV struct {
	UUID string
	// Group is the volume group; empty for none.
	Group string
	// InUse: the label says that it belongs to a volume group, even if LVM cannot see which.
	InUse bool
}

// Explain returns all reasons why the device cannot be given to LVM, as far as they show without reading it; an empty
// list means that Probe has the last word. pvs are the physical volumes that LVM lists.
func Explain(d Device, pvs map[Number]PV) []Reason {
	var reasons []Reason
	for _, rule := range rules {
		reasons = append(reasons, rule(d)...)
	}
	return append(reasons, explainSignature(d, pvs)...)
}

// rules look at the device alone.
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
	return one(IsOSDisk, "is what this machine runs from, or has a part of that on it")
}

// Remarks are what should be known about a device and does not speak against its use.
func Remarks(d Device) []Reason {
	if len(d.ByID) > 0 || d.Identity() != "" || d.Type == "lvm" {
		return nil
	}
	return one(NoStablePath, "has neither a WWN, a serial number nor a link under /dev/disk/by-id, so its name can "+
		"be another one after a reboot")
}

// transient devices are memory, or are attached for somebody else: zram, RBD, NBD.
var transient = []string{"/dev/zram", "/dev/rbd", "/dev/nbd", "/dev/ram", "/dev/fd"}

func explainType(d Device) []Reason {
	switch {
	case d.Type == "lvm":
		return one(LVMInternal, "is a logical volume")
	case d.Type == "rom":
		return one(UnsupportedType, "is a drive for read-only discs")
	case d.Type == "loop" && strings.Contains(d.BackingFile, "plugins/kubernetes.io"):
		return one(KubernetesLoop, "is a loop device of kubelet on %s", d.BackingFile)
	case slices.ContainsFunc(transient, func(p string) bool { return strings.HasPrefix(d.KernelName, p) }):
		return one(UnsupportedType, "is memory or a network device, not a local disk")
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
	return one(Removable, "is a removable medium; name it in deviceSelector to use it all the same")
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
	return one(TooSmall, "has %d bytes; %d are the least", d.Size, MinimumSize)
}

func explainMounts(d Device) []Reason {
	var reasons []Reason
	for _, m := range d.Mountpoints {
		if m == "[SWAP]" {
			reasons = append(reasons, one(SwapInUse, "is swap space in use; end that with: swapoff %s", d.Name)...)
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
	case d.PartitionTable != "":
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

// explainPath is for what udev has not marked as a path: without a signature of its own, or before udev came to it.
func explainPath(d Device) []Reason {
	if d.Signature == "mpath_member" || !isPath(d) {
		return nil
	}
	return one(MultipathMember, "is one path of a multipath device; use the device under /dev/mapper")
}

// reservedTypes are GPT's types of partitions without a signature of their own that a machine does not boot without.
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
			return one(PartitionReserved, "has the partition label %q, which marks a partition the machine needs",
				d.PartitionLabel)
		}
	}
	return nil
}

// explainSignature believes LVM before udev: what LVM lists by device number is a physical volume, whatever udev noted.
func explainSignature(d Device, pvs map[Number]PV) []Reason {
	if pv, ok := pvs[d.Number]; ok {
		return explainPV(d, pv)
	}
	if d.Signature == "" {
		return nil
	}
	if d.Signature == "LVM2_member" {
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

// explainContent is for what a device carries, by the names that libblkid gives.
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
		// Nobody is told how to wipe what is plainly needed.
		return one(HasSignature, "carries %s", what)
	}
	return one(HasSignature, "carries %s; if nothing needs it, remove it with: wipefs --all %s", what, d.Name)
}
