package lvm

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func bytesArgument(b Bytes) string { return strconv.FormatInt(int64(b), 10) + "b" }

// FullName returns the name of a logical volume with that of its volume group, as LVM accepts and prints it.
func FullName(vg, lv string) string { return vg + "/" + lv }

// DevicePath returns the path of the device of an active logical volume.
func DevicePath(vg, lv string) string { return "/dev/" + vg + "/" + lv }

func tagArguments(tags []string) []string {
	var args []string
	for _, tag := range tags {
		args = append(args, "--addtag", tag)
	}
	return args
}

// LVCreateThick creates a thick logical volume.
//
// It passes -W y with -y: the extents can have signatures of a removed volume, and LVM asks whether to wipe them. The
// device is new and not used by anything else.
type LVCreateThick struct {
	VG, Name string
	// Size must be a multiple of 512. It is rounded up to whole extents.
	Size Bytes
	Tags []string
	// Options are appended to the command, for example "--type", "raid1", "-m", "1".
	Options []string
	// Devices are the only physical volumes that LVM may use. If empty, LVM may use all allocatable ones.
	Devices []string
}

func (c LVCreateThick) String() string { return "create logical volume " + FullName(c.VG, c.Name) }

func (c LVCreateThick) Command() Command {
	args := []string{"lvcreate", "--name", c.Name, "--size", bytesArgument(c.Size), "--wipesignatures", "y", "--yes"}
	args = append(append(args, tagArguments(c.Tags)...), c.Options...)
	args = append(append(args, c.VG), c.Devices...)
	return Command{VG: c.VG, Args: args}
}

// LVCreateThin creates a volume in a thin pool.
//
// If the pool zeroes new blocks, a new volume reads as zeroes and has nothing to wipe. -W n then avoids opening and
// scanning the new device. Otherwise it passes -W y with -y, as for a thick volume.
type LVCreateThin struct {
	VG, Pool, Name string
	// VirtualSize must be a multiple of 512. It is rounded up to whole extents.
	VirtualSize Bytes
	// PoolZeroes: the pool zeroes new blocks (LV.Zeroes).
	PoolZeroes bool
	Tags       []string
	Options    []string
}

func (c LVCreateThin) String() string { return "create thin volume " + FullName(c.VG, c.Name) }

func (c LVCreateThin) Command() Command {
	args := []string{"lvcreate", "--name", c.Name, "--virtualsize", bytesArgument(c.VirtualSize)}
	if c.PoolZeroes {
		args = append(args, "--wipesignatures", "n")
	} else {
		args = append(args, "--wipesignatures", "y", "--yes")
	}
	args = append(append(args, tagArguments(c.Tags)...), c.Options...)
	args = append(args, "--thinpool", FullName(c.VG, c.Pool))
	return Command{VG: c.VG, Args: args}
}

// LVCreateSnapshot creates a thin snapshot. It is active, unless Inactive is set, and has the size of its source.
//
// Unless Inactive is set, it passes --setactivationskip n: by default LVM sets this flag on thin snapshots, which
// then stay inactive after a reboot.
type LVCreateSnapshot struct {
	VG, Source, Name string
	ReadOnly         bool
	// Inactive: the snapshot is not activated, neither now nor with its volume group, so it has no mapped device until
	// LVAllowActivation.
	Inactive bool
	Tags     []string
}

func (c LVCreateSnapshot) String() string { return "create snapshot " + FullName(c.VG, c.Name) }

func (c LVCreateSnapshot) Command() Command {
	args := []string{"lvcreate", "--snapshot", "--name", c.Name, "--setactivationskip", "n"}
	if c.Inactive {
		args = []string{"lvcreate", "--snapshot", "--name", c.Name, "--setactivationskip", "y", "--activate", "n"}
	}
	if c.ReadOnly {
		args = append(args, "--permission", "r")
	}
	args = append(append(args, tagArguments(c.Tags)...), FullName(c.VG, c.Source))
	return Command{VG: c.VG, Args: args}
}

// The values of LV.Discards. A pool that ignores discards does not take blocks back that its volumes discard.
const (
	DiscardsPassDown   = "passdown"
	DiscardsNoPassDown = "nopassdown"
	DiscardsIgnore     = "ignore"
)

// LVCreateThinPool creates a thin pool that zeroes new blocks, so that no volume shows data of a removed one.
//
// It does not pass -y: LVM asks no question here. If a version of LVM does, an administrator must answer it. It does
// not pass --errorwhenfull: a full pool keeps LVM's default and queues I/O for 60 s.
type LVCreateThinPool struct {
	VG, Name string
	// PercentFree is the percentage of the volume group's free space for the data of the pool. It is not used if Size,
	// the size of the data, is set.
	PercentFree int
	Size        Bytes
	// Stripes is the number of physical volumes that the data is striped over, if it is above 1. StripeSize is the
	// amount of data on one of them before the next.
	Stripes    int
	StripeSize Bytes
	// ChunkSize and MetadataSize are chosen by LVM if they are 0.
	ChunkSize, MetadataSize Bytes
	// Discards is DiscardsPassDown or DiscardsNoPassDown; LVM chooses if it is empty.
	Discards string
}

func (c LVCreateThinPool) String() string { return "create thin pool " + FullName(c.VG, c.Name) }

func (c LVCreateThinPool) Command() Command {
	args := []string{"lvcreate", "--type", "thin-pool"}
	if c.Size > 0 {
		args = append(args, "--size", bytesArgument(c.Size))
	} else {
		args = append(args, "--extents", fmt.Sprintf("%d%%FREE", c.PercentFree))
	}
	args = append(append(args, "--zero", "y"), stripeArguments(c.Stripes, c.StripeSize)...)
	if c.ChunkSize > 0 {
		args = append(args, "--chunksize", bytesArgument(c.ChunkSize))
	}
	if c.MetadataSize > 0 {
		args = append(args, "--poolmetadatasize", bytesArgument(c.MetadataSize))
	}
	if c.Discards != "" {
		args = append(args, "--discards", c.Discards)
	}
	return Command{VG: c.VG, Args: append(args, "--thinpool", FullName(c.VG, c.Name))}
}

// stripeArguments returns the options of lvcreate and lvextend for striped data, or none for up to one stripe.
func stripeArguments(stripes int, size Bytes) []string {
	if stripes <= 1 {
		return nil
	}
	return []string{"--stripes", strconv.Itoa(stripes), "--stripesize", bytesArgument(size)}
}

// LVExtend extends a logical volume. It returns ErrNotLarger if the volume already has the size. It never shrinks a
// volume.
//
// It does not pass --resizefs: the node service of the CSI driver expands the file system where it is mounted.
type LVExtend struct {
	VG, Name string
	// Size is the new size, rounded up to whole extents.
	Size Bytes
	// Devices are the only physical volumes that LVM may use for new extents. If empty, LVM may use all allocatable
	// ones.
	Devices []string
	// Stripes is the number of physical volumes that new extents are striped over, if it is above 1. StripeSize is the
	// amount of data on one of them before the next. By default, LVM uses those of the last segment.
	Stripes    int
	StripeSize Bytes
}

func (c LVExtend) String() string { return "extend logical volume " + FullName(c.VG, c.Name) }

func (c LVExtend) Command() Command {
	args := append([]string{"lvextend", "--size", bytesArgument(c.Size)}, stripeArguments(c.Stripes, c.StripeSize)...)
	args = append(append(args, FullName(c.VG, c.Name)), c.Devices...)
	return Command{VG: c.VG, Args: args}
}

// ThinPoolMetadataExtend extends the metadata of a thin pool by Add bytes, rounded up to whole extents. LVM extends
// the spare metadata volume (pmspare) by the same size, so the group needs twice the free space. The operation is not
// idempotent: each call extends the metadata. LVM's limit is 15.88 GiB.
type ThinPoolMetadataExtend struct {
	VG, Pool string
	Add      Bytes
}

func (c ThinPoolMetadataExtend) String() string {
	return "extend the metadata of thin pool " + FullName(c.VG, c.Pool)
}

func (c ThinPoolMetadataExtend) Command() Command {
	return Command{VG: c.VG,
		Args: []string{"lvextend", "--poolmetadatasize", "+" + bytesArgument(c.Add), FullName(c.VG, c.Pool)}}
}

// ThinPoolSetDiscards sets whether a thin pool passes discards to its physical volumes: DiscardsPassDown or
// DiscardsNoPassDown. The pool can be active. It returns an error if the pool already has this mode, and for an active
// pool that ignores discards.
//
// It does not pass --yes: LVM asks no question here.
type ThinPoolSetDiscards struct {
	VG, Pool, Mode string
}

func (c ThinPoolSetDiscards) String() string {
	return "change the discards of thin pool " + FullName(c.VG, c.Pool)
}

func (c ThinPoolSetDiscards) Command() Command {
	return Command{VG: c.VG, Whole: true, Args: []string{"lvchange", "--discards", c.Mode, FullName(c.VG, c.Pool)}}
}

// LVRemove removes active or inactive logical volumes of one volume group in one command. It returns ErrInUse if a
// volume is open. LVM continues with the others, so after an error any of them may be removed. The caller ensures
// that none is a thin pool, because --yes would remove all its volumes. LVRemove returns ErrMissingPV if the group
// misses a physical volume whose loss is not accepted (AcceptLoss).
//
// It passes --yes, because LVM asks about each active volume. It does not pass --force, which only skips checks.
type LVRemove struct {
	VG    string
	Names []string
}

func (c LVRemove) String() string { return "remove logical volume " + FullNames(c.VG, c.Names) }

func (c LVRemove) Command() Command {
	return Command{VG: c.VG, Whole: true, Named: true, Removes: c.Names,
		Args: append([]string{"lvremove", "--yes"}, allNames(c.VG, c.Names)...)}
}

// allNames returns the names as arguments of a command.
func allNames(vg string, names []string) []string {
	var list []string
	for _, name := range names {
		list = append(list, FullName(vg, name))
	}
	return list
}

// FullNames returns the names for messages. If there are many volumes, it returns only the first ones.
func FullNames(vg string, names []string) string {
	const shown = 3
	if len(names) <= shown {
		return FullName(vg, strings.Join(names, ", "+vg+"/"))
	}
	return fmt.Sprintf("%s and %d more", FullName(vg, strings.Join(names[:shown], ", "+vg+"/")), len(names)-shown)
}

// LVRemoveUnfinished removes plain logical volumes (LV.IsPlain) of a volume group with a tag, which says that they are
// steps of a creation that was killed. It reads the volume group again, and removes nothing and returns ErrInvalid if
// the group does not have the tag or one of the volumes is not plain, and ErrNotFound if one does not exist.
//
// It passes --yes, because LVM asks about active volumes.
type LVRemoveUnfinished struct {
	VG, Tag string
	Names   []string
}

func (c LVRemoveUnfinished) String() string {
	return "remove logical volume " + FullNames(c.VG, c.Names)
}

func (c LVRemoveUnfinished) Command() Command {
	return Command{VG: c.VG, Whole: true, Removes: c.Names, Check: c.check,
		Args: append([]string{"lvremove", "--yes"}, allNames(c.VG, c.Names)...)}
}

func (c LVRemoveUnfinished) check(v *VG) error {
	if !v.HasTag(c.Tag) {
		return fmt.Errorf("volume group %s does not have the tag %s: %w", v.Name, c.Tag, ErrInvalid)
	}
	for _, name := range c.Names {
		switch lv := v.LV(name); {
		case lv == nil:
			return fmt.Errorf("logical volume %s: %w", FullName(v.Name, name), ErrNotFound)
		case !lv.IsPlain():
			return fmt.Errorf("logical volume %s is used or has tags: %w", FullName(v.Name, name), ErrInvalid)
		}
	}
	return nil
}

// generatedName matches the names that LVM gives a volume that is created without one (generate_lv_name in
// lib/metadata/lv_manip.c).
var generatedName = regexp.MustCompile(`^lvol[0-9]+$`)

// IsGenerated returns true for the name that LVM gives a volume that is created without one.
func IsGenerated(name string) bool { return generatedName.MatchString(name) }

// IsPlain returns true for a linear volume that is not open, has no tags, and is no part, snapshot or source of another
// volume.
func (lv *LV) IsPlain() bool {
	return lv.Attr.at(0) == '-' && !lv.Attr.Open() && len(lv.Tags) == 0 && lv.PoolName == "" && lv.Origin == ""
}

// LVRemoveUnreadable removes logical volumes that cannot be read because physical volumes are missing whose loss is
// accepted (AcceptLoss). A thin pool is removed with all its volumes. It must be inactive (LVDeactivate), because LVM
// cannot change an active pool without all its devices. LVRemoveUnreadable also removes the spare for the metadata of
// pools. It reads the volume group again, and removes nothing and returns ErrInvalid if one of the volumes can be read,
// ErrInUse if one of them, or a volume of the pool, is active, and ErrNotFound if one does not exist.
//
// It passes --yes, because LVM asks about active volumes and about the volumes of a pool.
type LVRemoveUnreadable struct {
	VG    string
	Names []string
}

func (c LVRemoveUnreadable) String() string {
	return "remove unreadable logical volume " + FullNames(c.VG, c.Names)
}

func (c LVRemoveUnreadable) Command() Command {
	return Command{VG: c.VG, Whole: true, Check: func(v *VG) error { return v.checkUnreadable(c.Names) },
		Args: append([]string{"lvremove", "--yes"}, allNames(c.VG, c.Names)...)}
}

// LVRemoveByUUID removes active or inactive logical volumes of one volume group in one command. It reads the volume
// group again, and removes nothing and returns ErrNotFound if one of them does not exist, ErrInUse if one is open, and
// ErrInvalid if one is a thin pool or has a thick snapshot, which --yes would remove too. After another error, any of
// them may be removed.
type LVRemoveByUUID struct {
	VG    string
	UUIDs []string
}

func (c LVRemoveByUUID) String() string { return "remove logical volume " + FullNames(c.VG, c.UUIDs) }

func (c LVRemoveByUUID) Command() Command { return Command{VG: c.VG, Steps: true} }

// Remove returns the command that removes the volumes, with their present names.
func (c LVRemoveByUUID) Remove(names []string) Command {
	return Command{VG: c.VG, Whole: true, Check: func(v *VG) error { return v.checkRemovable(c.UUIDs) },
		Removes: names, Args: append([]string{"lvremove", "--yes"}, allNames(c.VG, names)...)}
}

// checkRemovable returns an error if the removal of one of the logical volumes is not possible, or removes others too.
func (v *VG) checkRemovable(uuids []string) error {
	for _, uuid := range uuids {
		at := slices.IndexFunc(v.LVs, func(lv LV) bool { return lv.UUID == uuid })
		if at < 0 {
			return fmt.Errorf("logical volume with the UUID %s in volume group %s: %w", uuid, v.Name, ErrNotFound)
		}
		lv := &v.LVs[at]
		dependents := v.Dependents(lv)
		switch {
		case lv.Attr.IsThinPool():
			return fmt.Errorf("logical volume %s is a thin pool: %w", FullName(v.Name, lv.Name), ErrInvalid)
		case lv.Attr.Open():
			return fmt.Errorf("logical volume %s: %w", FullName(v.Name, lv.Name), ErrInUse)
		case len(dependents) > 0:
			return fmt.Errorf("logical volume %s is needed by %s: %w", FullName(v.Name, lv.Name),
				strings.Join(dependents, ", "), ErrInvalid)
		}
	}
	return nil
}

// Dependents returns the names of the logical volumes that lvremove removes with a logical volume: its thick snapshots,
// the thin volumes that read unchanged data from it (external origin), and the volumes of a thin or VDO pool
// (lv_remove_with_dependencies in lib/metadata/lv_manip.c). A thin snapshot does not need the thin volume of its pool
// from which it was created.
func (v *VG) Dependents(lv *LV) []string {
	var names []string
	for i := range v.LVs {
		other := &v.LVs[i]
		isIndependent := lv.Attr.IsThinVolume() && other.Attr.IsThinVolume() && other.PoolName == lv.PoolName
		if other.Origin == lv.Name && !isIndependent || other.PoolName == lv.Name {
			names = append(names, other.Name)
		}
	}
	return names
}

// LVRemoveInactive removes inactive logical volumes. It returns ErrNotEmpty and removes nothing if one of them is
// active, or is a thin pool with volumes.
//
// It does not pass --yes: LVM asks about such volumes, and without a terminal takes "no" as the answer.
type LVRemoveInactive struct {
	VG    string
	Names []string
}

func (c LVRemoveInactive) String() string { return "remove logical volume " + FullNames(c.VG, c.Names) }

func (c LVRemoveInactive) Command() Command {
	return Command{VG: c.VG, Whole: true, Removes: c.Names,
		Args: append([]string{"lvremove"}, allNames(c.VG, c.Names)...)}
}

// checkUnreadable returns an error if one of the logical volumes, which may be hidden, can be read or is in use.
func (v *VG) checkUnreadable(names []string) error {
	for _, name := range names {
		lv := v.LV(name)
		if at := slices.IndexFunc(v.Hidden, func(h LV) bool { return h.Name == name }); lv == nil && at >= 0 {
			lv = &v.Hidden[at]
		}
		switch {
		case lv == nil:
			return fmt.Errorf("logical volume %s: %w", FullName(v.Name, name), ErrNotFound)
		case !v.Unreadable(lv):
			return fmt.Errorf("logical volume %s can be read, so it is not removed: %w", FullName(v.Name, name),
				ErrInvalid)
		case lv.Attr.Open(), lv.Attr.IsThinPool() && v.IsPoolActive(lv.Name):
			return fmt.Errorf("logical volume %s: %w", FullName(v.Name, name), ErrInUse)
		}
	}
	return nil
}

// ThinPoolRemove removes an inactive thin pool without volumes. It returns ErrNotEmpty if the pool has volumes.
//
// It does not pass --yes: LVM asks whether to remove the volumes of the pool too. LVM also asks about an active pool,
// so the pool must be inactive (LVDeactivate).
type ThinPoolRemove struct {
	VG, Name string
}

func (c ThinPoolRemove) String() string { return "remove thin pool " + FullName(c.VG, c.Name) }

func (c ThinPoolRemove) Command() Command {
	return Command{VG: c.VG, Whole: true, Args: []string{"lvremove", FullName(c.VG, c.Name)}}
}

// LVDeactivate deactivates logical volumes of one volume group in one command. It returns ErrInUse if a volume is open;
// LVM continues with the others. A pool stays active while a volume of it is active.
type LVDeactivate struct {
	VG    string
	Names []string
}

func (c LVDeactivate) String() string { return "deactivate logical volume " + FullNames(c.VG, c.Names) }

func (c LVDeactivate) Command() Command {
	return Command{VG: c.VG, Args: append([]string{"lvchange", "--activate", "n"}, allNames(c.VG, c.Names)...)}
}

// LVActivate activates a logical volume. If the volume is already active, it is not an error. LVActivate returns
// ErrRunning if the check of its pool takes long; the command continues.
//
// It does not pass -K: the activation-skip flag means that the volume must stay inactive.
type LVActivate struct {
	VG, Name string
}

func (c LVActivate) String() string { return "activate logical volume " + FullName(c.VG, c.Name) }

func (c LVActivate) Command() Command {
	return Command{VG: c.VG, Long: true, Args: []string{"lvchange", "--activate", "y", FullName(c.VG, c.Name)}}
}

// LVAllowActivation makes LVM activate a volume with its volume group, and on request. It does not activate it. If LVM
// already does, it is not an error. It returns ErrMissingPV if the group misses a physical volume whose loss is not
// accepted (AcceptLoss).
type LVAllowActivation struct {
	VG, Name string
}

func (c LVAllowActivation) String() string {
	return "allow the activation of logical volume " + FullName(c.VG, c.Name)
}

func (c LVAllowActivation) Command() Command {
	return Command{VG: c.VG, Whole: true, Named: true,
		Args: []string{"lvchange", "--setactivationskip", "n", FullName(c.VG, c.Name)}}
}

// LVChangeTags adds and removes tags in one command, which is one commit of LVM's metadata. Adding an existing tag or
// removing an absent one is not an error. If both lists are empty, it does nothing. It returns ErrMissingPV if the
// group misses a physical volume whose loss is not accepted (AcceptLoss).
type LVChangeTags struct {
	VG, Name string
	// Add and Remove are tags of at most 1024 characters: letters, digits and _ + . - / = ! : & # (lvm(8)).
	Add, Remove []string
}

func (c LVChangeTags) String() string {
	return "change the tags of logical volume " + FullName(c.VG, c.Name)
}

func (c LVChangeTags) Command() Command {
	if len(c.Add)+len(c.Remove) == 0 {
		return Command{}
	}
	args := append([]string{"lvchange"}, tagArguments(c.Add)...)
	for _, tag := range c.Remove {
		args = append(args, "--deltag", tag)
	}
	return Command{VG: c.VG, Whole: true, Named: true,
		Args: append(args, FullName(c.VG, c.Name))}
}

// LVRename renames an active or inactive logical volume in one commit of LVM's metadata. Its snapshots stay. It returns
// ErrExists if the group has a logical volume with the new name, and ErrMissingPV if the group misses a physical volume
// whose loss is not accepted (AcceptLoss).
type LVRename struct {
	VG, Name, To string
}

func (c LVRename) String() string {
	return "rename logical volume " + FullName(c.VG, c.Name) + " to " + c.To
}

func (c LVRename) Command() Command {
	return Command{VG: c.VG, Whole: true, Args: []string{"lvrename", c.VG, c.Name, c.To}}
}
