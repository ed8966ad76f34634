package lvm

import (
	"context"
	"errors"
	"fmt"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// modprobe is the path of modprobe. It is valid on every distribution that links /sbin to /usr/sbin.
const modprobe = "/usr/sbin/modprobe"

// raidModules are the kernel modules of the RAID levels that LVM supports. dm-raid loads the level modules when a
// volume is activated, so they can be absent although dm-raid is present.
var raidModules = []string{"dm-raid", "raid1", "raid10", "raid456"}

// CheckRAID returns nil if the node's kernel supports RAID, ErrNoTarget if it does not have one of the modules, and
// another error if the check failed.
func (l *LVM) CheckRAID(ctx context.Context) error { return l.KernelTarget(ctx, raidModules...) }

// KernelTarget returns nil if all modules are built into the node's kernel or can be loaded. It returns ErrNoTarget
// if one is not available, and another error if the check failed. It uses the node's modprobe, which knows built-in
// modules too. It does not load a module.
func (l *LVM) KernelTarget(ctx context.Context, modules ...string) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, err := l.runner.Run(ctx, modprobe, append([]string{"--dry-run", "--quiet", "--all"}, modules...)...)
	var failure *host.Error
	if errors.As(err, &failure) && failure.ExitCode == 1 && ctx.Err() == nil {
		return fmt.Errorf("kernel modules %v: %w: install the package with the additional kernel modules: %w", modules,
			ErrNoTarget, err)
	}
	if err != nil {
		return fmt.Errorf("check for the kernel modules %v: %w", modules, err)
	}
	return nil
}

// LVRepair replaces the images of a RAID volume that are on missing physical volumes. The new images are on
// allocatable physical volumes without an image of the volume. The kernel synchronizes them (LV.SyncPercent) while
// the volume stays in use. If no image is missing, it is not an error. LVRepair returns ErrNoSpace and changes
// nothing if there is no such free space, ErrInvalid if the volume is not a RAID volume, and ErrMissingPV if the
// volume has lost more images than its level tolerates, or if a physical volume is missing whose loss is not accepted
// (AcceptLoss): LVM would also replace the images on that one, and mark it as missing for good (lvconvert.c,
// handles_missing_pvs).
//
// It passes --yes: LVM asks whether to replace the failed images with a full resync, and without a terminal takes
// "no" as the answer. It does not pass --force.
type LVRepair struct {
	VG, Name string
}

func (c LVRepair) String() string { return "repair logical volume " + fullName(c.VG, c.Name) }

func (c LVRepair) command() command {
	return command{vg: c.VG, whole: true, args: []string{"lvconvert", "--repair", "--yes", fullName(c.VG, c.Name)}}
}

// LVRefresh reloads the device-mapper tables of an active volume. If the device of a RAID image was missing and
// returned, the kernel adds the image again and synchronizes it.
type LVRefresh struct {
	VG, Name string
}

func (c LVRefresh) String() string { return "refresh logical volume " + fullName(c.VG, c.Name) }

func (c LVRefresh) command() command {
	return command{vg: c.VG, args: []string{"lvchange", "--refresh", fullName(c.VG, c.Name)}}
}

// LVRebuild rebuilds the images of an active RAID volume that are on these devices from its other images. The content
// of the rebuilt images is overwritten while the volume stays in use. It returns an error and changes nothing if the
// volume has no image there, if its level does not tolerate the loss of as many images, or if the group misses a
// physical volume (ErrMissingPV).
//
// It passes --yes, because LVM asks for confirmation and without a terminal takes "no" as the answer.
type LVRebuild struct {
	VG, Name string
	Devices  []string
}

func (c LVRebuild) String() string { return "rebuild logical volume " + fullName(c.VG, c.Name) }

func (c LVRebuild) command() command {
	args := []string{"lvchange", "--yes"}
	for _, device := range c.Devices {
		args = append(args, "--rebuild", device)
	}
	return command{vg: c.VG, whole: true, args: append(args, fullName(c.VG, c.Name))}
}
