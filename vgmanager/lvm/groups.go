package lvm

import "slices"

// VGCreate creates a volume group on blank devices. If a device has a signature, VGCreate returns ErrSignature and
// changes none of the devices. It returns ErrPathExists if /dev has a file or directory with the name of the group, for
// example with links to logical volumes of an earlier group that udev does not manage.
//
// It does not pass -y or --force: LVM asks before it wipes a signature, and takes "no" as the answer without a
// terminal. This protects data that was written after the caller checked the device.
//
// The group has no autoactivation (lvmautoactivation(7)), so that another host that sees its devices does not activate
// its volumes at boot. LVM before 2.03.12 does not know this property and rejects the option before it reads a device.
type VGCreate struct {
	Name    string
	Devices []string
	Tags    []string
	// MetadataSize is the size of the metadata area of devices that are not physical volumes yet. LVM rounds it up to
	// the start of the data. 0: LVM chooses, 1020 KiB by default.
	MetadataSize Bytes
}

func (c VGCreate) String() string { return "create volume group " + c.Name }

func (c VGCreate) Command() Command {
	args := slices.Concat([]string{"vgcreate"}, metadataArguments(c.MetadataSize), tagArguments(c.Tags))
	return Command{VG: c.Name, Steps: true, Args: append(append(args, c.Name), c.Devices...)}
}

// metadataArguments returns the option for the size of a metadata area.
func metadataArguments(size Bytes) []string {
	if size == 0 {
		return nil
	}
	return []string{"--metadatasize", bytesArgument(size)}
}

// VGExtend adds blank devices to a volume group. It rejects devices as VGCreate does. It returns ErrMissingPV if the
// group misses a physical volume whose loss is not accepted (AcceptLoss). If the group does not exist, it returns
// ErrNotFound before vgextend labels a device.
//
// It does not pass -y or --force, see VGCreate.
type VGExtend struct {
	Name    string
	Devices []string
	// MetadataSize is as in VGCreate.
	MetadataSize Bytes
}

func (c VGExtend) String() string { return "extend volume group " + c.Name }

func (c VGExtend) Command() Command {
	return Command{VG: c.Name, Whole: true,
		Args: slices.Concat([]string{"vgextend"}, metadataArguments(c.MetadataSize), []string{c.Name}, c.Devices)}
}

// PVResize makes a physical volume as large as its device (pvresize(8)). LVM reads the size of the device in the same
// command. It refuses a device that is too small for the extents in use, and a group that misses a physical volume.
type PVResize struct {
	VG, Device string
}

func (c PVResize) String() string {
	return "resize physical volume " + c.Device + " of volume group " + c.VG
}

func (c PVResize) Command() Command { return Command{VG: c.VG, Args: []string{"pvresize", c.Device}} }

// VGRemove removes a volume group without logical volumes. It returns ErrNotEmpty if there are logical volumes, and
// ErrMissingPV if a physical volume is missing. The labels of the physical volumes stay.
//
// It does not pass -y or --force: LVM asks whether to remove the logical volumes too.
type VGRemove struct {
	VG string
}

func (c VGRemove) String() string { return "remove volume group " + c.VG }

func (c VGRemove) Command() Command { return Command{VG: c.VG, Args: []string{"vgremove", c.VG}} }

// VGActivate activates the logical volumes of a volume group, for example after the node booted without LVM's
// autoactivation. It skips volumes with the activation-skip flag and volumes that miss a physical volume.
//
// LVM checks the metadata of thin pools first (thin_check(8)). If that takes longer than the caller waits, VGActivate
// returns ErrRunning and the command continues.
//
// It does not pass --partial or --activationmode: an administrator must inspect an incomplete volume first. It does
// not pass -K: the flag means that the volume must stay inactive.
type VGActivate struct {
	VG string
}

func (c VGActivate) String() string { return "activate volume group " + c.VG }

func (c VGActivate) Command() Command {
	return Command{VG: c.VG, Long: true, Args: []string{"vgchange", "--activate", "y", c.VG}}
}

// VGChangeTags adds and removes tags in one command, which is one commit of LVM's metadata. Adding an existing tag or
// removing an absent one is not an error. If both lists are empty, it does nothing. It returns ErrMissingPV if the
// group misses a physical volume whose loss is not accepted (AcceptLoss).
type VGChangeTags struct {
	VG string
	// Add and Remove are tags of at most 1024 characters: letters, digits and _ + . - / = ! : & # (lvm(8)).
	Add, Remove []string
}

func (c VGChangeTags) String() string { return "change the tags of volume group " + c.VG }

func (c VGChangeTags) Command() Command {
	if len(c.Add)+len(c.Remove) == 0 {
		return Command{}
	}
	args := append([]string{"vgchange"}, tagArguments(c.Add)...)
	for _, tag := range c.Remove {
		args = append(args, "--deltag", tag)
	}
	return Command{VG: c.VG, Whole: true, Args: append(args, c.VG)}
}

// VGRename renames the volume group with a UUID. It works while another volume group has the current name, and while
// volumes are in use. It returns ErrExists if a volume group has the new name, ErrPathExists as VGCreate does,
// ErrNotFound if the group does not exist, and ErrMissingPV if a physical volume is missing.
//
// It does not pass --force or -y: LVM asks no question that is not about a damaged group.
type VGRename struct {
	UUID, Name string
}

func (c VGRename) String() string { return "rename volume group " + c.UUID + " to " + c.Name }

func (c VGRename) Command() Command {
	return Command{VG: WholeNode, Steps: true, Args: []string{"vgrename", c.UUID, c.Name}}
}

// VGReduce removes an empty physical volume from a volume group. It returns ErrNotEmpty if the physical volume has
// extents of a logical volume or is the last one of the group, and ErrNotFound if it is not in the group. The label
// stays (PVRemove).
//
// It does not pass --all, which removes every empty physical volume. LVM does not ask a question that --yes could
// answer.
type VGReduce struct {
	VG, Device string
}

func (c VGReduce) String() string { return "remove " + c.Device + " from volume group " + c.VG }

func (c VGReduce) Command() Command {
	return Command{VG: c.VG, Whole: true, Args: []string{"vgreduce", c.VG, c.Device}}
}

// VGReduceMissing removes the missing physical volumes from a volume group. It returns ErrNotEmpty if a logical
// volume requires one of them; LVM may then have removed those that no volume requires. It returns ErrMissingPV if the
// loss of one is not accepted (AcceptLoss). If none is missing, it is not an error.
//
// It does not pass --force, which removes the affected volumes or their missing parts. It does not pass
// --mirrorsonly: LVRepair does that.
type VGReduceMissing struct {
	VG string
}

func (c VGReduceMissing) String() string {
	return "remove the missing physical volumes from volume group " + c.VG
}

func (c VGReduceMissing) Command() Command {
	return Command{VG: c.VG, Whole: true, Args: []string{"vgreduce", "--removemissing", c.VG}}
}

// PVSetAllocatable sets whether LVM may allocate new extents on a physical volume. Existing extents stay. Setting the
// current value is not an error.
type PVSetAllocatable struct {
	Device      string
	Allocatable bool
	// AddTag and RemoveTag are tags of the physical volume to change in the same command, or empty.
	AddTag, RemoveTag string
}

func (c PVSetAllocatable) String() string {
	return "change whether physical volume " + c.Device + " is allocatable"
}

func (c PVSetAllocatable) Command() Command {
	answer := "n"
	if c.Allocatable {
		answer = "y"
	}
	args := []string{"pvchange", "--allocatable", answer}
	if c.AddTag != "" {
		args = append(args, "--addtag", c.AddTag)
	}
	if c.RemoveTag != "" {
		args = append(args, "--deltag", c.RemoveTag)
	}
	return Command{VG: WholeNode, Args: append(args, c.Device)}
}

// PVRemove removes LVM's label from a device whose physical volume belongs to no volume group. It returns ErrNotEmpty
// if the physical volume belongs to a volume group, ErrNotFound if the device has no label, and ErrUnusable if the
// device is not in the devices file of the host, with or without a label.
//
// Only for an unfinished physical volume does it pass --force, which removes the label of a physical volume in use.
type PVRemove struct {
	Device string
	// Unfinished: the command that added the physical volume to a volume group was killed. Its label says that a volume
	// group uses it, and none of its metadata areas has metadata. PVRemove reads them right before, and returns
	// ErrNotEmpty if that is not so.
	Unfinished bool
}

func (c PVRemove) String() string { return "remove physical volume " + c.Device }

func (c PVRemove) Command() Command {
	if c.Unfinished {
		return Command{VG: WholeNode, Steps: true, Args: []string{"pvremove", "--force", "--force", "--yes", c.Device}}
	}
	return Command{VG: WholeNode, Args: []string{"pvremove", c.Device}}
}

// DevicesFileRemove removes a device from LVM's devices file. RHEL 9 and later add every physical volume to this
// file. If the node does not have the file, or the file has no such entry, it does nothing: lvmdevices would create
// an empty file, and LVM would then list no device.
type DevicesFileRemove struct {
	Device string
}

func (c DevicesFileRemove) String() string { return "remove " + c.Device + " from LVM's devices file" }

func (c DevicesFileRemove) Command() Command {
	return Command{VG: WholeNode, Steps: true, Args: []string{"lvmdevices", "--deldev", c.Device}}
}

// DevicesFileAdd adds a device to LVM's devices file, so that LVM lists the device. If the device is already in the
// file, it is not an error. DevicesFileAdd returns ErrNotEnabled if the node does not have the file.
type DevicesFileAdd struct {
	Device string
}

func (c DevicesFileAdd) String() string { return "add " + c.Device + " to LVM's devices file" }

func (c DevicesFileAdd) Command() Command {
	return Command{VG: WholeNode, Steps: true, Args: []string{"lvmdevices", "--adddev", c.Device}}
}
