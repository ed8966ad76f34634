package lvm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// VGCreateOptions describes a new volume group.
type VGCreateOptions struct {
	Name    string
	Devices []string
	Tags    []string
	// MetadataSize is the size of the metadata area of devices that are not physical volumes yet. LVM rounds it up to
	// the start of the data. 0: LVM chooses, 1020 KiB by default.
	MetadataSize Bytes
}

// VGCreate creates a volume group on blank devices. If a device has a signature, VGCreate returns ErrSignature and
// changes none of the devices. It returns ErrPathExists if /dev has a file or directory with the name of the group, for
// example with links to logical volumes of an earlier group that udev does not manage.
//
// It does not pass -y or --force: LVM asks before it wipes a signature, and takes "no" as the answer without a
// terminal. This protects data that was written after the caller checked the device.
//
// The group has no autoactivation (lvmautoactivation(7)), so that another host that sees its devices does not activate
// its volumes at boot. LVM before 2.03.12 does not know this property and rejects the option before it reads a device.
func (l *LVM) VGCreate(ctx context.Context, o VGCreateOptions) error {
	object := "create volume group " + o.Name
	args := slices.Concat([]string{"vgcreate"}, metadataArguments(o.MetadataSize), tagArguments(o.Tags))
	args = append(append(args, o.Name), o.Devices...)
	err := l.change(ctx, object, o.Name, append(slices.Clone(args), "--setautoactivation", "n")...)
	if e := (*host.Error)(nil); errors.As(err, &e) && strings.Contains(e.Stderr, "unrecognized option") {
		return l.change(ctx, object, o.Name, args...)
	}
	return err
}

// metadataArguments returns the option for the size of a metadata area.
func metadataArguments(size Bytes) []string {
	if size == 0 {
		return nil
	}
	return []string{"--metadatasize", bytesArgument(size)}
}

// VGExtendOptions describes an extension of a volume group.
type VGExtendOptions struct {
	Name    string
	Devices []string
	// MetadataSize is as in VGCreateOptions.
	MetadataSize Bytes
}

// VGExtend adds blank devices to a volume group. It rejects devices as VGCreate does. It returns ErrMissingPV if the
// group misses a physical volume whose loss is not accepted (AcceptLoss). If the group does not exist, it returns
// ErrNotFound before vgextend labels a device.
//
// It does not pass -y or --force, see VGCreate.
func (l *LVM) VGExtend(ctx context.Context, o VGExtendOptions) error {
	return l.changeWhole(ctx, "extend volume group "+o.Name, o.Name, nil,
		slices.Concat([]string{"vgextend"}, metadataArguments(o.MetadataSize), []string{o.Name}, o.Devices)...)
}

// PVResizeOptions describes a device that became larger.
type PVResizeOptions struct {
	VG, Device string
}

// PVResize makes a physical volume as large as its device (pvresize(8)). LVM reads the size of the device in the same
// command. It refuses a device that is too small for the extents in use, and a group that misses a physical volume.
func (l *LVM) PVResize(ctx context.Context, o PVResizeOptions) error {
	return l.change(ctx, "resize physical volume "+o.Device+" of volume group "+o.VG, o.VG, "pvresize", o.Device)
}

// VGRemove removes a volume group without logical volumes. It returns ErrNotEmpty if there are logical volumes, and
// ErrMissingPV if a physical volume is missing. The labels of the physical volumes stay.
//
// It does not pass -y or --force: LVM asks whether to remove the logical volumes too.
func (l *LVM) VGRemove(ctx context.Context, name string) error {
	return l.change(ctx, "remove volume group "+name, name, "vgremove", name)
}

// VGActivate activates the logical volumes of a volume group, for example after the node booted without LVM's
// autoactivation. It skips volumes with the activation-skip flag and volumes that miss a physical volume.
//
// LVM checks the metadata of thin pools first (thin_check(8)). If that takes longer than the caller waits, VGActivate
// returns ErrRunning and the command continues.
//
// It does not pass --partial or --activationmode: an administrator must inspect an incomplete volume first. It does
// not pass -K: the flag means that the volume must stay inactive.
func (l *LVM) VGActivate(ctx context.Context, name string) error {
	return l.activate(ctx, "activate volume group "+name, name, "vgchange", "--activate", "y", name)
}

// VGTagOptions describes a change of the tags of a volume group.
type VGTagOptions struct {
	VG string
	// Add and Remove are tags of at most 1024 characters: letters, digits and _ + . - / = ! : & # (lvm(8)).
	Add, Remove []string
}

// VGChangeTags adds and removes tags in one command, which is one commit of LVM's metadata. Adding an existing tag or
// removing an absent one is not an error. If both lists are empty, it does nothing. It returns ErrMissingPV if the
// group misses a physical volume whose loss is not accepted (AcceptLoss).
func (l *LVM) VGChangeTags(ctx context.Context, o VGTagOptions) error {
	if len(o.Add)+len(o.Remove) == 0 {
		return nil
	}
	args := append([]string{"vgchange"}, tagArguments(o.Add)...)
	for _, tag := range o.Remove {
		args = append(args, "--deltag", tag)
	}
	return l.changeWhole(ctx, "change the tags of volume group "+o.VG, o.VG, nil, append(args, o.VG)...)
}

// VGRename renames the volume group with a UUID. It works while another volume group has the current name, and while
// volumes are in use. It returns ErrExists if a volume group has the new name, ErrPathExists as VGCreate does,
// ErrNotFound if the group does not exist, and ErrMissingPV if a physical volume is missing.
//
// It does not pass --force or -y: LVM asks no question that is not about a damaged group.
func (l *LVM) VGRename(ctx context.Context, uuid, name string) error {
	object := "rename volume group " + uuid + " to " + name
	err := l.change(ctx, object, wholeNode, "vgrename", uuid, name)
	if errors.Is(err, ErrPathExists) {
		return l.explainPath(ctx, object, name, err)
	}
	return err
}

// explainPath returns ErrExists instead of ErrPathExists if the path in /dev is of a volume group with the new name:
// vgrename looks for the path first.
func (l *LVM) explainPath(ctx context.Context, object, name string, cause error) error {
	report, err := l.Report(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	if report.VG(name) == nil {
		return cause
	}
	return fmt.Errorf("%s: volume group %s %w", object, name, ErrExists)
}

// VGReduceOptions describes a physical volume to remove from a volume group.
type VGReduceOptions struct {
	VG, Device string
}

// VGReduce removes an empty physical volume from a volume group. It returns ErrNotEmpty if the physical volume has
// extents of a logical volume or is the last one of the group, and ErrNotFound if it is not in the group. The label
// stays (PVRemove).
//
// It does not pass --all, which removes every empty physical volume. LVM does not ask a question that --yes could
// answer.
func (l *LVM) VGReduce(ctx context.Context, o VGReduceOptions) error {
	return l.changeWhole(ctx, "remove "+o.Device+" from volume group "+o.VG, o.VG, nil, "vgreduce", o.VG, o.Device)
}

// VGReduceMissing removes the missing physical volumes from a volume group. It returns ErrNotEmpty if a logical
// volume requires one of them; LVM may then have removed those that no volume requires. It returns ErrMissingPV if the
// loss of one is not accepted (AcceptLoss). If none is missing, it is not an error.
//
// It does not pass --force, which removes the affected volumes or their missing parts. It does not pass
// --mirrorsonly: LVRepair does that.
func (l *LVM) VGReduceMissing(ctx context.Context, vg string) error {
	return l.changeWhole(ctx, "remove the missing physical volumes from volume group "+vg, vg, nil, "vgreduce",
		"--removemissing", vg)
}

// PVAllocatableOptions describes a physical volume to cordon or uncordon.
type PVAllocatableOptions struct {
	Device      string
	Allocatable bool
	// AddTag and RemoveTag are tags of the physical volume to change in the same command, or empty.
	AddTag, RemoveTag string
}

// PVSetAllocatable sets whether LVM may allocate new extents on a physical volume. Existing extents stay. Setting the
// current value is not an error.
func (l *LVM) PVSetAllocatable(ctx context.Context, o PVAllocatableOptions) error {
	answer := "n"
	if o.Allocatable {
		answer = "y"
	}
	args := []string{"pvchange", "--allocatable", answer}
	if o.AddTag != "" {
		args = append(args, "--addtag", o.AddTag)
	}
	if o.RemoveTag != "" {
		args = append(args, "--deltag", o.RemoveTag)
	}
	return l.change(ctx, "change whether physical volume "+o.Device+" is allocatable", wholeNode,
		append(args, o.Device)...)
}

// PVRemove removes LVM's label from a device whose physical volume belongs to no volume group. It returns ErrNotEmpty
// if the physical volume belongs to a volume group, ErrNotFound if the device has no label, and ErrUnusable if the
// device is not in the devices file of the host, with or without a label.
//
// It does not pass --force, which removes the label of a physical volume in use.
func (l *LVM) PVRemove(ctx context.Context, device string) error {
	return l.change(ctx, "remove physical volume "+device, wholeNode, "pvremove", device)
}

// DevicesFileRemove removes a device from LVM's devices file. RHEL 9 and later add every physical volume to this
// file. If the node does not have the file, or the file has no such entry, it does nothing: lvmdevices would create
// an empty file, and LVM would then list no device.
func (l *LVM) DevicesFileRemove(ctx context.Context, device string) error {
	object := "remove " + device + " from LVM's devices file"
	exists, err := l.devicesFileExists(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", object, err)
	}
	if !exists {
		return nil
	}
	return ignore(l.change(ctx, object, wholeNode, "lvmdevices", "--deldev", device), ErrNotFound, ErrNotEnabled)
}
