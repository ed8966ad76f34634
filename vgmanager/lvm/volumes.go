package lvm

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

func bytesArgument(b Bytes) string { return strconv.FormatInt(int64(b), 10) + "b" }

func fullName(vg, lv string) string { return vg + "/" + lv }

func tagArguments(tags []string) []string {
	var args []string
	for _, tag := range tags {
		args = append(args, "--addtag", tag)
	}
	return args
}

// ThickOptions describe a new thick logical volume.
type ThickOptions struct {
	VG, Name string
	// Size is rounded up to whole extents. It must be a multiple of 512.
	Size Bytes
	Tags []string
	// Options are appended to the command as they are, for example "--type", "raid1", "-m", "1".
	Options []string
	// Devices are the only physical volumes on which LVM may put it; none for all that are allocatable.
	Devices []string
}

// LVCreateThick makes a logical volume of its own extents.
//
// -W y with -y: the extents may hold signatures of a volume that was removed, and here LVM's question is about those.
// The device is new and nobody else has it.
func (l *LVM) LVCreateThick(ctx context.Context, o ThickOptions) error {
	args := []string{"lvcreate", "--name", o.Name, "--size", bytesArgument(o.Size), "--wipesignatures", "y", "--yes"}
	args = append(append(args, tagArguments(o.Tags)...), o.Options...)
	args = append(append(args, o.VG), o.Devices...)
	return l.changeVolume(ctx, "create logical volume "+fullName(o.VG, o.Name), o.VG, newThick(o), args...)
}

// ThinOptions describe a new volume in a thin pool.
type ThinOptions struct {
	VG, Pool, Name string
	// VirtualSize is rounded up to whole extents. It must be a multiple of 512.
	VirtualSize Bytes
	// PoolZeroes says that the pool zeroes new blocks (LV.Zeroes).
	PoolZeroes bool
	Tags       []string
	Options    []string
}

// LVCreateThin makes a volume in a thin pool.
//
// In a pool that zeroes, a new volume reads as zeroes and there is nothing to wipe: -W n saves opening and scanning the
// new device. In one that does not, -W y with -y, as for a thick volume.
func (l *LVM) LVCreateThin(ctx context.Context, o ThinOptions) error {
	args := []string{"lvcreate", "--name", o.Name, "--virtualsize", bytesArgument(o.VirtualSize)}
	if o.PoolZeroes {
		args = append(args, "--wipesignatures", "n")
	} else {
		args = append(args, "--wipesignatures", "y", "--yes")
	}
	args = append(append(args, tagArguments(o.Tags)...), o.Options...)
	args = append(args, "--thinpool", fullName(o.VG, o.Pool))
	return l.changeVolume(ctx, "create thin volume "+fullName(o.VG, o.Name), o.VG, newThin(o), args...)
}

// SnapshotOptions describe a snapshot of a thin volume.
type SnapshotOptions struct {
	VG, Source, Name string
	ReadOnly         bool
	Tags             []string
}

// LVCreateSnapshot makes a thin snapshot, active and of the size of its source.
//
// --setactivationskip n: LVM sets that flag on thin snapshots by default, and they would stay inactive after a reboot.
func (l *LVM) LVCreateSnapshot(ctx context.Context, o SnapshotOptions) error {
	args := []string{"lvcreate", "--snapshot", "--name", o.Name, "--setactivationskip", "n"}
	if o.ReadOnly {
		args = append(args, "--permission", "r")
	}
	args = append(append(args, tagArguments(o.Tags)...), fullName(o.VG, o.Source))
	return l.changeVolume(ctx, "create snapshot "+fullName(o.VG, o.Name), o.VG, newSnapshot(o), args...)
}

// ThinPoolOptions describe a new thin pool.
type ThinPoolOptions struct {
	VG, Name string
	// PercentFree of the volume group's free space is given to the data of the pool.
	PercentFree int
	// ChunkSize and MetadataSize are left to LVM when 0.
	ChunkSize, MetadataSize Bytes
}

// LVCreateThinPool makes a thin pool that zeroes new blocks, so that no volume can show what an earlier one wrote.
//
// Not -y: nothing is asked on the way, and if a version of LVM does ask, the answer is for an administrator.
// Not --errorwhenfull: what a full pool does stays LVM's default (it waits for more space for 60 s).
func (l *LVM) LVCreateThinPool(ctx context.Context, o ThinPoolOptions) error {
	args := []string{"lvcreate", "--type", "thin-pool", "--extents",
		fmt.Sprintf("%d%%FREE", o.PercentFree), "--zero", "y"}
	if o.ChunkSize > 0 {
		args = append(args, "--chunksize", bytesArgument(o.ChunkSize))
	}
	if o.MetadataSize > 0 {
		args = append(args, "--poolmetadatasize", bytesArgument(o.MetadataSize))
	}
	args = append(args, "--thinpool", fullName(o.VG, o.Name))
	return l.change(ctx, "create thin pool "+fullName(o.VG, o.Name), o.VG, args...)
}

// LVExtendOptions describe the growth of a logical volume.
type LVExtendOptions struct {
	VG, Name string
	// Size is the new size, rounded up to whole extents.
	Size Bytes
	// Devices are the only physical volumes that LVM may take new extents from; none for all that are allocatable.
	Devices []string
}

// LVExtend grows a logical volume. A volume that has the size already gives ErrNotLarger; nothing is ever made smaller.
//
// Not --resizefs: the file system is grown by the node service of the CSI driver, where it is mounted.
func (l *LVM) LVExtend(ctx context.Context, o LVExtendOptions) error {
	args := append([]string{"lvextend", "--size", bytesArgument(o.Size), fullName(o.VG, o.Name)}, o.Devices...)
	return l.changeVolume(ctx, "extend logical volume "+fullName(o.VG, o.Name), o.VG, grown(o), args...)
}

// ThinPoolMetadataExtend makes the metadata of a thin pool larger by add bytes, rounded up to whole extents, and the
// spare that LVM keeps for its repair with it. The group needs twice the room. Called twice, it grows twice. LVM stops
// at 15.88 GiB.
func (l *LVM) ThinPoolMetadataExtend(ctx context.Context, vg, pool string, add Bytes) error {
	return l.change(ctx, "extend the metadata of thin pool "+fullName(vg, pool), vg,
		"lvextend", "--poolmetadatasize", "+"+bytesArgument(add), fullName(vg, pool))
}

// LVRemove removes logical volumes of one volume group in one command, active or not. One that is open gives ErrInUse;
// LVM goes on with the others, so after an error any of them may be gone. The caller makes sure that none is a thin
// pool: --yes would remove all its volumes. A group that misses a physical volume gives ErrMissingPV, unless its loss
// is accepted (AcceptLoss).
//
// --yes: LVM asks for each active volume. Not --force: it adds nothing but skipping checks.
func (l *LVM) LVRemove(ctx context.Context, vg string, names ...string) error {
	args := []string{"lvremove", "--yes"}
	for _, name := range names {
		args = append(args, fullName(vg, name))
	}
	return l.apply(ctx, "remove logical volume "+fullNames(vg, names), command{
		vg: vg, effect: removed(names), args: args, whole: true, named: true,
	})
}

// fullNames is for messages: of many volumes the first are named.
func fullNames(vg string, names []string) string {
	const shown = 3
	if len(names) <= shown {
		return fullName(vg, strings.Join(names, ", "+vg+"/"))
	}
	return fmt.Sprintf("%s and %d more", fullName(vg, strings.Join(names[:shown], ", "+vg+"/")), len(names)-shown)
}

// ThinPoolRemove removes an inactive thin pool that has no volumes; with one it fails with ErrNotEmpty.
//
// Not --yes: LVM's question is whether to remove the volumes of the pool too. An active pool would be asked about as
// well, therefore it has to be inactive (LVDeactivate).
func (l *LVM) ThinPoolRemove(ctx context.Context, vg, name string) error {
	return l.changeWhole(ctx, "remove thin pool "+fullName(vg, name), vg, nil, "lvremove", fullName(vg, name))
}

// LVDeactivate deactivates a logical volume. One that is open gives ErrInUse.
func (l *LVM) LVDeactivate(ctx context.Context, vg, name string) error {
	return l.change(ctx, "deactivate logical volume "+fullName(vg, name), vg, "lvchange", "--activate", "n",
		fullName(vg, name))
}

// LVActivate activates a logical volume. One that is active already is no error. A check of its pool that takes long
// gives ErrRunning, and goes on.
//
// Not -K: the activation-skip flag was set by somebody who wants the volume inactive.
func (l *LVM) LVActivate(ctx context.Context, vg, name string) error {
	return l.activate(ctx, "activate logical volume "+fullName(vg, name), vg, "lvchange", "--activate", "y",
		fullName(vg, name))
}

// LVTagOptions describe a change of the tags of a logical volume.
type LVTagOptions struct {
	VG, Name string
	// Add and Remove are tags: letters, digits and _ + . - / = ! : & # (lvm(8)), at most 1024 characters.
	Add, Remove []string
}

// LVChangeTags adds and removes tags in one command, which is one commit of LVM's metadata. A tag that is there
// already, or gone already, is no error. Nothing to add or remove is nothing done. A group that misses a physical
// volume gives ErrMissingPV, unless its loss is accepted (AcceptLoss).
func (l *LVM) LVChangeTags(ctx context.Context, o LVTagOptions) error {
	if len(o.Add)+len(o.Remove) == 0 {
		return nil
	}
	args := append([]string{"lvchange"}, tagArguments(o.Add)...)
	for _, tag := range o.Remove {
		args = append(args, "--deltag", tag)
	}
	return l.apply(ctx, "change the tags of logical volume "+fullName(o.VG, o.Name), command{
		vg: o.VG, effect: tagged(o), args: append(args, fullName(o.VG, o.Name)), whole: true, named: true,
	})
}
