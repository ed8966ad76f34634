package lvm

import (
	"context"
	"fmt"
)

// VGCreateOptions describe a new volume group.
type VGCreateOptions struct {
	Name    string
	Devices []string
	Tags    []string
}

// VGCreate makes a volume group of blank devices. It refuses with ErrSignature a device that carries anything, and then
// touches none of the devices.
//
// Not -y and not --force: LVM asks before it wipes a signature, and without a terminal its answer is no. That is the
// last line of defense for data that appeared after the caller looked.
func (l *LVM) VGCreate(ctx context.Context, o VGCreateOptions) error {
	args := append([]string{"vgcreate"}, tagArguments(o.Tags)...)
	args = append(append(args, o.Name), o.Devices...)
	return l.change(ctx, "create volume group "+o.Name, o.Name, args...)
}

// VGExtendOptions describe an extension of a volume group.
type VGExtendOptions struct {
	Name    string
	Devices []string
}

// VGExtend adds blank devices to a volume group, with the same refusals as VGCreate. A group that misses a physical
// volume gives ErrMissingPV, unless its loss is accepted (AcceptLoss). One that does not exist gives ErrNotFound before
// vgextend has labeled a device.
//
// Not -y and not --force: see VGCreate.
func (l *LVM) VGExtend(ctx context.Context, o VGExtendOptions) error {
	return l.changeWhole(ctx, "extend volume group "+o.Name, o.Name, nil,
		append([]string{"vgextend", o.Name}, o.Devices...)...)
}

// VGRemove removes a volume group that has no logical volume; with one it fails with ErrNotEmpty, with a missing
// physical volume with ErrMissingPV. The labels of the physical volumes stay.
//
// Not -y and not --force: LVM's question is whether to remove the logical volumes too.
func (l *LVM) VGRemove(ctx context.Context, name string) error {
	return l.change(ctx, "remove volume group "+name, name, "vgremove", name)
}

// VGActivate activates the logical volumes of a volume group, for example after the node booted without LVM's own
// autoactivation. It leaves out those that have the activation-skip flag, and those that lack a physical volume.
//
// LVM checks the metadata of thin pools first (thin_check(8)), which may take longer than a call: then it gives
// ErrRunning and goes on.
//
// Not --partial and not --activationmode: a volume with a hole is for an administrator to look at.
// Not -K: the flag was set by somebody who wants the volume inactive.
func (l *LVM) VGActivate(ctx context.Context, name string) error {
	return l.activate(ctx, "activate volume group "+name, name, "vgchange", "--activate", "y", name)
}

// VGTagOptions describe a change of the tags of a volume group.
type VGTagOptions struct {
	VG string
	// Add and Remove are tags: letters, digits and _ + . - / = ! : & # (lvm(8)), at most 1024 characters.
	Add, Remove []string
}

// VGChangeTags adds and removes tags in one command, which is one commit of LVM's metadata. A tag that is there
// already, or gone already, is no error. Nothing to add or remove is nothing done. A group that misses a physical
// volume gives ErrMissingPV, unless its loss is accepted (AcceptLoss).
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

// VGReduceOptions describe a physical volume to take out of a volume group.
type VGReduceOptions struct {
	VG, Device string
}

// VGReduce takes an empty physical volume out of a volume group. One that has extents of a logical volume gives
// ErrNotEmpty, and so does the last one of the group; one that is not in the group gives ErrNotFound. The label stays
// (PVRemove).
//
// Not --all: it takes every physical volume that happens to be empty. There is no question that --yes could answer.
func (l *LVM) VGReduce(ctx context.Context, o VGReduceOptions) error {
	return l.change(ctx, "take "+o.Device+" out of volume group "+o.VG, o.VG, "vgreduce", o.VG, o.Device)
}

// VGReduceMissing takes the missing physical volumes out of a volume group. If a logical volume needs one of them it
// gives ErrNotEmpty, though LVM may have taken out those that no volume needs. A group that misses none is no error.
//
// Not --force: it would remove the volumes that need a missing one, or their missing parts. Not --mirrorsonly: LVRepair
// does that.
func (l *LVM) VGReduceMissing(ctx context.Context, vg string) error {
	return l.change(ctx, "take the missing physical volumes out of volume group "+vg, vg, "vgreduce",
		"--removemissing", vg)
}

// VGConfigBackup writes the metadata of a volume group, as LVM knows it now, to a file of the node ("vgcfgrestore
// --file" reads it). The directory must exist; a file of that name is replaced. LVM replaces "%s" in the name by the
// name of the group.
func (l *LVM) VGConfigBackup(ctx context.Context, vg, file string) error {
	return l.change(ctx, "back up the metadata of volume group "+vg, vg, "vgcfgbackup", "--file", file, vg)
}

// PVAllocatableOptions describe a physical volume that is closed or opened for new extents.
type PVAllocatableOptions struct {
	Device      string
	Allocatable bool
	// AddTag and RemoveTag are tags of the physical volume that change in the same command; empty for none.
	AddTag, RemoveTag string
}

// PVSetAllocatable tells LVM whether it may put new extents on a physical volume. What is on it stays. To ask for what
// is already so is no error.
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
	return l.change(ctx, "set whether physical volume "+o.Device+" is allocatable", wholeNode,
		append(args, o.Device)...)
}

// PVRemove removes LVM's label from a device whose physical volume belongs to no volume group. One that belongs to a
// volume group fails with ErrNotEmpty, a device without label with ErrNotFound; one that
// the host's devices file does not have with ErrUnusable, whether it has a label or not.
//
// Not --force: it would remove the label of a physical volume in use.
func (l *LVM) PVRemove(ctx context.Context, device string) error {
	return l.change(ctx, "remove physical volume "+device, wholeNode, "pvremove", device)
}

// DevicesFileRemove takes a device out of LVM's devices file (RHEL 9 and later put every physical volume there). On a
// node without the file, or without such an entry, it does nothing: the command would create an empty file, by which
// LVM lists nothing.
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
