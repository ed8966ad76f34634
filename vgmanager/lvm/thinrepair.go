package lvm

import (
	"fmt"
	"slices"
	"strings"
)

// ClearCheck makes LVM's thin_check clear the needs_check flag of valid metadata (thin_check(8)). The lvm.conf of some
// distributions does not.
const ClearCheck = `global/thin_check_options=["-q","--clear-needs-check-flag"]`

// metadataSuffix is the suffix of the volume with the metadata of a thin pool (lvmthin(7)).
const metadataSuffix = "_tmeta"

// PoolMetadata returns the hidden volume with the metadata of a thin pool, or nil.
func (v *VG) PoolMetadata(pool string) *LV {
	at := slices.IndexFunc(v.Hidden, func(h LV) bool { return h.Name == pool+metadataSuffix && h.Parent == pool })
	if at < 0 {
		return nil
	}
	return &v.Hidden[at]
}

// PoolData returns the hidden volume with the data of a thin pool, or nil.
func (v *VG) PoolData(pool string) *LV {
	at := slices.IndexFunc(v.Hidden, func(h LV) bool { return h.Name == pool+"_tdata" && h.Parent == pool })
	if at < 0 {
		return nil
	}
	return &v.Hidden[at]
}

// IsPoolActive returns true if a thin pool or one of its volumes is active.
func (v *VG) IsPoolActive(pool string) bool {
	return slices.ContainsFunc(v.LVs, func(lv LV) bool {
		return (lv.PoolName == pool || lv.Name == pool && lv.Attr.IsThinPool()) && lv.Attr.Active()
	})
}

// checkInactive returns an error if the thin pool does not exist, or it or one of its volumes is active.
func checkInactive(pool string) func(*VG) error {
	return func(v *VG) error {
		switch {
		case v.ThinPool(pool) == nil:
			return fmt.Errorf("thin pool %s: %w", FullName(v.Name, pool), ErrNotFound)
		case v.IsPoolActive(pool):
			return fmt.Errorf("thin pool %s or one of its volumes is active: %w", FullName(v.Name, pool), ErrInUse)
		}
		return nil
	}
}

// checkReadable is checkInactive, and also returns an error if the pool needs a physical volume that is missing.
func checkReadable(pool string) func(*VG) error {
	return func(v *VG) error {
		if err := checkInactive(pool)(v); err != nil {
			return err
		}
		if v.Unreadable(v.LV(pool)) {
			return fmt.Errorf("thin pool %s cannot be read: %w", FullName(v.Name, pool), ErrMissingPV)
		}
		return nil
	}
}

// ThinMetadataActivate activates the metadata volume of an inactive thin pool, read-only. LVM does not activate the
// pool until the metadata volume is inactive again (ThinMetadataDeactivate). If it is already active, it is not an
// error. ThinMetadataActivate returns ErrInUse if the pool or one of its volumes is active, and ErrMissingPV if the
// pool cannot be read without a physical volume that is missing.
//
// It passes --yes, because LVM asks whether to activate a component of another volume.
type ThinMetadataActivate struct {
	VG, Pool string
}

func (c ThinMetadataActivate) String() string {
	return "activate the metadata of thin pool " + FullName(c.VG, c.Pool)
}

// Device returns the path of the device of the metadata volume.
func (c ThinMetadataActivate) Device() string { return DevicePath(c.VG, c.Pool+metadataSuffix) }

func (c ThinMetadataActivate) Command() Command {
	return Command{VG: c.VG, Whole: true, Incomplete: true, Check: checkReadable(c.Pool),
		Args: []string{"lvchange", "--yes", "--activate", "y", FullName(c.VG, c.Pool+metadataSuffix)}}
}

// ThinMetadataDeactivate deactivates the metadata volume of an inactive thin pool. If it is not active, it is not an
// error. A deactivation of the pool that was killed can leave the mapped device of the pool itself. LVM then lists the
// pool as inactive, and does not remove this device: ThinMetadataDeactivate does, unless it is open.
type ThinMetadataDeactivate struct {
	VG, Pool string
}

func (c ThinMetadataDeactivate) String() string {
	return "deactivate the metadata of thin pool " + FullName(c.VG, c.Pool)
}

func (c ThinMetadataDeactivate) Command() Command {
	return Command{VG: c.VG, Steps: true,
		Args: []string{"lvchange", "--activate", "n", FullName(c.VG, c.Pool+metadataSuffix)}}
}

// ThinPoolRepair writes the metadata of an inactive thin pool again, from what thin_repair can read. LVM uses the spare
// for the metadata of pools, creates a new spare, and keeps the previous metadata in a volume POOL_metaN. Options are
// options of thin_repair. ThinPoolRepair returns ErrInUse if the pool or one of its volumes is active, and ErrNoSpace
// if there is no space for the spare. It returns ErrRunning if thin_repair takes long; the command continues.
//
// What thin_repair cannot read is lost, without an error: the caller must know it before (package thinmeta).
type ThinPoolRepair struct {
	VG, Pool string
	Options  []string
}

func (c ThinPoolRepair) String() string {
	return "repair the metadata of thin pool " + FullName(c.VG, c.Pool)
}

func (c ThinPoolRepair) Command() Command {
	args := []string{"lvconvert", "--repair"}
	if len(c.Options) > 0 {
		args = append(args, "--config", `global/thin_repair_options=["`+strings.Join(c.Options, `","`)+`"]`)
	}
	return Command{VG: c.VG, Whole: true, Long: true, Check: checkInactive(c.Pool),
		Args: append(args, FullName(c.VG, c.Pool))}
}

// restoreScript is run by LVM in place of thin_repair, with the arguments -i INPUT -o OUTPUT. It writes the metadata
// from a file.
const restoreScript = `[ \"$0 $2\" = \"-i -o\" ] && exec /usr/sbin/thin_restore -i %s -o \"$3\"`

// ThinPoolRestore is ThinPoolRepair with the metadata of a file, which is an absolute path on the node. The file has
// the XML that thin_restore reads. If ThinPoolRestore returns ErrRunning, the command may still read the file.
//
// LVM runs global/thin_repair_executable (lvm.conf(5)) with the present metadata as -i, and the new as -o
// (_lvconvert_thin_pool_repair in tools/lvconvert.c). So the pool gets the new metadata in one change, as in a repair.
type ThinPoolRestore struct {
	VG, Pool, File string
}

func (c ThinPoolRestore) String() string {
	return "restore the metadata of thin pool " + FullName(c.VG, c.Pool)
}

func (c ThinPoolRestore) Command() Command {
	var invalid error
	if strings.Trim(c.File, plainPath) != "" || !strings.HasPrefix(c.File, "/") {
		invalid = fmt.Errorf("the path %q must be absolute, and can have only letters, digits, and /.,_-", c.File)
	}
	config := `global { thin_repair_executable="/bin/sh" thin_repair_options=["-c","` +
		fmt.Sprintf(restoreScript, c.File) + `"] }`
	return Command{VG: c.VG, Whole: true, Long: true, Check: checkInactive(c.Pool), Invalid: invalid,
		Args: []string{"lvconvert", "--repair", "--config", config, FullName(c.VG, c.Pool)}}
}

// plainPath are the characters of a path that need no quotes, neither for LVM nor for a shell.
const plainPath = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/.,_-"

// ThinPoolActivate activates a thin pool and all volumes of its group after a check of the metadata, and clears the
// flag that requires the check if the metadata is valid. LVM skips volumes that are not in the metadata, and returns
// ErrNoData. ThinPoolActivate returns ErrPoolCheck if the metadata is damaged, and ErrRunning if the check takes long;
// the command continues.
type ThinPoolActivate struct {
	VG string
}

func (c ThinPoolActivate) String() string { return "activate volume group " + c.VG }

func (c ThinPoolActivate) Command() Command {
	return Command{VG: c.VG, Long: true,
		Args: []string{"vgchange", "--config", ClearCheck, "--activate", "y", c.VG}}
}

// LVRemoveLost removes volumes of an active thin pool that are not in the metadata of the pool. It tries to activate
// each volume first, also volumes with the activation-skip flag: only the kernel knows what the metadata of an active
// pool has. If one of them can be activated, it stays active, and LVRemoveLost removes nothing and returns ErrInUse. It
// also returns ErrInUse if a volume is active or the pool is not, and ErrNotFound if a volume does not exist in the
// pool with this UUID.
type LVRemoveLost struct {
	VG, Pool string
	UUIDs    []string
}

func (c LVRemoveLost) String() string {
	return "remove lost logical volume " + FullNames(c.VG, c.UUIDs)
}

func (c LVRemoveLost) Command() Command { return Command{VG: c.VG, Steps: true} }

// Activate returns the command that tries to activate a volume, which is also refused if one of the volumes is no
// longer lost.
func (c LVRemoveLost) Activate(name string) Command {
	return Command{VG: c.VG, Whole: true, Check: c.check, Long: true,
		Args: []string{"lvchange", "--ignoreactivationskip", "--activate", "y", FullName(c.VG, name)}}
}

// Remove returns the command that removes volumes which Activate cannot activate.
func (c LVRemoveLost) Remove(names []string) Command {
	return Command{VG: c.VG, Whole: true, Check: c.check, Args: append([]string{"lvremove"}, allNames(c.VG, names)...)}
}

func (c LVRemoveLost) check(v *VG) error {
	if p := v.ThinPool(c.Pool); p == nil || !p.Attr.Active() {
		return fmt.Errorf("thin pool %s is not active: %w", FullName(v.Name, c.Pool), ErrInUse)
	}
	for _, uuid := range c.UUIDs {
		at := slices.IndexFunc(v.LVs, func(lv LV) bool { return lv.UUID == uuid && lv.PoolName == c.Pool })
		switch {
		case at < 0:
			return fmt.Errorf("volume %s of thin pool %s: %w", uuid, FullName(v.Name, c.Pool), ErrNotFound)
		case v.LVs[at].Attr.Active():
			return fmt.Errorf("logical volume %s is active, so it is not lost: %w",
				FullName(v.Name, v.LVs[at].Name), ErrInUse)
		}
	}
	return nil
}

// NamesOf returns the names of the logical volumes with these UUIDs.
func (v *VG) NamesOf(uuids []string) []string {
	var names []string
	for i := range v.LVs {
		if slices.Contains(uuids, v.LVs[i].UUID) {
			names = append(names, v.LVs[i].Name)
		}
	}
	return names
}
