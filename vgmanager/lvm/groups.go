package lvm

import "context"

// VGCreateOptions describe a new volume group.
type VGCreateOptions struct {
	Name    string
	Devices []string
	Tags    []string
}

// VGCreate makes a volume group of blank devices. It refuses with ErrSignature a device that carries anything, and then
// touches none of the devices.
//
// Not -y and not --force: LVM asks before it wipes a signature, and without a terminal its answer is no. That is the last
// line of defence for data that appeared after the caller looked.
func (l *LVM) VGCreate(ctx context.Context, o VGCreateOptions) error {
	args := []string{"vgcreate"}
	for _, tag := range o.Tags {
		args = append(args, "--addtag", tag)
	}
	args = append(append(args, o.Name), o.Devices...)
	return l.change(ctx, "create volume group "+o.Name, args...)
}

// VGExtendOptions describe an extension of a volume group.
type VGExtendOptions struct {
	Name    string
	Devices []string
}

// VGExtend adds blank devices to a volume group, with the same refusals as VGCreate.
// The caller makes sure that the group exists: vgextend labels the devices first and looks for the group then.
//
// Not -y and not --force: see VGCreate.
func (l *LVM) VGExtend(ctx context.Context, o VGExtendOptions) error {
	return l.change(ctx, "extend volume group "+o.Name, append([]string{"vgextend", o.Name}, o.Devices...)...)
}

// VGRemove removes a volume group that has no logical volume; with one it fails with ErrNotEmpty, with a missing physical
// volume with ErrMissingPV. The labels of the physical volumes stay.
//
// Not -y and not --force: LVM's question is whether to remove the logical volumes too.
func (l *LVM) VGRemove(ctx context.Context, name string) error {
	return l.change(ctx, "remove volume group "+name, "vgremove", name)
}

// VGActivate activates the logical volumes of a volume group, for example after the node booted without LVM's own
// autoactivation. It leaves out those that have the activation-skip flag, and those that lack a physical volume.
//
// Not --partial and not --activationmode: a volume with a hole is for an administrator to look at.
// Not -K: the flag was set by somebody who wants the volume inactive.
func (l *LVM) VGActivate(ctx context.Context, name string) error {
	return l.change(ctx, "activate volume group "+name, "vgchange", "--activate", "y", name)
}

// PVRemove removes LVM's label from a device whose physical volume belongs to no volume group. One that belongs to a
// volume group fails with ErrNotEmpty, a device without label with ErrNotFound.
//
// Not --force: it would remove the label of a physical volume in use.
func (l *LVM) PVRemove(ctx context.Context, device string) error {
	return l.change(ctx, "remove physical volume "+device, "pvremove", device)
}

// DevicesFileRemove takes a device out of LVM's devices file (RHEL 9 and later put every physical volume there). On a node
// that does not use the file, or has no such entry, it does nothing.
func (l *LVM) DevicesFileRemove(ctx context.Context, device string) error {
	err := l.change(ctx, "remove "+device+" from LVM's devices file", "lvmdevices", "--deldev", device)
	return ignore(err, ErrNotEnabled, ErrNotFound)
}
