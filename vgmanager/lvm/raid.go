package lvm

import (
	"context"
	"errors"
	"fmt"

	"github.com/lvm-storage/lvm-operator/vgmanager/host"
)

// modprobe is where every distribution has it since /sbin became a link to /usr/sbin.
const modprobe = "/usr/sbin/modprobe"

// raidModules are those of the levels that LVM offers. dm-raid loads the others when a volume is activated, so they may
// be missing although it is there.
var raidModules = []string{"dm-raid", "raid1", "raid10", "raid456"}

// CheckRAID tells whether the node's kernel can do RAID: nil if so, ErrNoTarget if it lacks one of the modules, another
// error if that could not be found out.
func (l *LVM) CheckRAID(ctx context.Context) error { return l.KernelTarget(ctx, raidModules...) }

// KernelTarget tells whether all these modules are in the node's kernel or can be loaded into it: nil, ErrNoTarget, or
// another error if that could not be found out. It asks the node's modprobe, which knows the built-in ones too; nothing
// is loaded.
func (l *LVM) KernelTarget(ctx context.Context, modules ...string) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, err := l.runner.Run(ctx, modprobe, append([]string{"--dry-run", "--quiet", "--all"}, modules...)...)
	var failure *host.Error
	if errors.As(err, &failure) && failure.ExitCode == 1 && ctx.Err() == nil {
		return fmt.Errorf("one of %v: %w: install the package with the kernel's additional modules: %w", modules,
			ErrNoTarget, err)
	}
	if err != nil {
		return fmt.Errorf("look for the kernel's modules %v: %w", modules, err)
	}
	return nil
}

// LVRepair replaces the images of a RAID volume whose physical volume is missing by new ones on other allocatable
// physical volumes that have no image of it, and lets the kernel synchronize them (LV.SyncPercent). The volume stays in
// use. A volume that lacks none is no error. ErrNoSpace: there is no such room, and nothing is changed. ErrInvalid: it
// is no RAID volume. ErrMissingPV: more images are gone than the level bears.
//
// --yes: LVM's question is whether to replace the failed images, with a full resync. That is what the caller wants;
// without it the answer would be no. Not --force.
func (l *LVM) LVRepair(ctx context.Context, vg, name string) error {
	return l.change(ctx, "repair logical volume "+fullName(vg, name), vg, "lvconvert", "--repair", "--yes",
		fullName(vg, name))
}

// LVRefresh loads the tables of an active volume again. An image of a RAID volume whose device was away and came back
// is taken in again by that, and synchronized.
func (l *LVM) LVRefresh(ctx context.Context, vg, name string) error {
	return l.change(ctx, "refresh logical volume "+fullName(vg, name), vg, "lvchange", "--refresh", fullName(vg, name))
}
