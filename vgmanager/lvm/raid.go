package lvm

// LVRepair replaces the images of a RAID volume that are on missing physical volumes. The new images are on
// allocatable physical volumes without an image of the volume. The kernel synchronizes them (LV.SyncPercent) while
// the volume stays in use. If no image is missing, it is not an error. LVM refuses it while the volume is not in sync
// (raid_manip.c, _lv_raid_replace). LVRepair returns ErrNoSpace and changes nothing if there is no such free space,
// ErrInvalid if the volume is not a RAID volume, and ErrMissingPV if the volume has lost more images than its level
// tolerates, or if a physical volume is missing whose loss is not accepted (AcceptLoss): LVM would also replace the
// images on that one, and mark it as missing for good (lvconvert.c, handles_missing_pvs).
//
// It passes --yes: LVM asks whether to replace the failed images with a full resync, and without a terminal takes
// "no" as the answer. It does not pass --force.
type LVRepair struct {
	VG, Name string
}

func (c LVRepair) String() string { return "repair logical volume " + FullName(c.VG, c.Name) }

func (c LVRepair) Command() Command {
	return Command{VG: c.VG, Whole: true, Args: []string{"lvconvert", "--repair", "--yes", FullName(c.VG, c.Name)}}
}

// LVRefresh reloads the device-mapper tables of an active volume. If the device of a RAID image was missing and
// returned, the kernel adds the image again and synchronizes it.
type LVRefresh struct {
	VG, Name string
}

func (c LVRefresh) String() string { return "refresh logical volume " + FullName(c.VG, c.Name) }

func (c LVRefresh) Command() Command {
	return Command{VG: c.VG, Args: []string{"lvchange", "--refresh", FullName(c.VG, c.Name)}}
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

func (c LVRebuild) String() string { return "rebuild logical volume " + FullName(c.VG, c.Name) }

func (c LVRebuild) Command() Command {
	args := []string{"lvchange", "--yes"}
	for _, device := range c.Devices {
		args = append(args, "--rebuild", device)
	}
	return Command{VG: c.VG, Whole: true, Args: append(args, FullName(c.VG, c.Name))}
}
