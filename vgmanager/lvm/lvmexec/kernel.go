package lvmexec

import (
	"context"
	"errors"
	"fmt"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
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
			lvm.ErrNoTarget, err)
	}
	if err != nil {
		return fmt.Errorf("check for the kernel modules %v: %w", modules, err)
	}
	return nil
}
