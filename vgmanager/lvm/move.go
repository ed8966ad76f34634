package lvm

import "context"

// pollInterval is how often LVM manages a move, in seconds: a move that is done is noticed that late.
const pollInterval = "5"

// PVMoveOptions describe a physical volume to empty.
type PVMoveOptions struct {
	// VG is its volume group, for the messages.
	VG string
	// Source is the device of the physical volume.
	Source string
}

// PVMoveStart begins to move all extents of a physical volume to other allocatable ones of its volume group, and
// returns while they are being copied by the kernel (VG.Moves). Thin pools and RAID volumes move too, in use or not;
// each image of a RAID volume goes to a physical volume that has no other image of it, and where there is none, LVM
// gives ErrNoSpace. If the move of this source runs already, LVM begins to poll it once more, which is no error.
//
// Not enough room gives ErrNoSpace and changes nothing. ErrNotFound: there is no such physical volume, or nothing on it
// that LVM moves; the caller looks at PV.Used first.
//
// --atomic: all volumes move as one, so an abort, a power cut or a device that fails on the way leaves every extent
// where it was. --background: LVM begins the move and leaves a process of its own session behind (or tells lvmpolld,
// where that runs) that polls the kernel and, when all is copied, commits the new places. That process survives a
// SIGKILL of the command that began it and of its process group, but not the end of the container whose cgroup it was
// born into. If it is killed nothing is lost and nothing finishes: the kernel copies to the end, both copies are
// written to, and PVMoveResume or a second PVMoveStart finishes it. So it is after a reboot, except that the kernel
// begins to copy again when the volumes are activated. Not --alloc anywhere: it gives up the separation of images. Not
// the target as an argument: cordoned physical volumes are left out by LVM.
func (l *LVM) PVMoveStart(ctx context.Context, o PVMoveOptions) error {
	return l.change(ctx, "move the extents of "+o.Source+" in volume group "+o.VG, o.VG,
		"pvmove", "--background", "--atomic", "--interval", pollInterval, o.Source)
}

// PVMoveResume makes LVM manage all moves that were begun, on all volume groups of the node: after a reboot, or
// when the process that polled them was killed. Nothing to resume is no error. A move that is polled already is then
// polled twice, which does no harm but costs a process; the caller decides by the progress that it sees.
func (l *LVM) PVMoveResume(ctx context.Context) error {
	return l.change(ctx, "resume the moves of extents", wholeNode, "pvmove", "--background", "--interval", pollInterval)
}

// PVMoveAbort ends the move of a physical volume. With the --atomic of PVMoveStart all extents are on the source again,
// with what was written meanwhile. A move that is not there, because it is done or was aborted, is no error.
func (l *LVM) PVMoveAbort(ctx context.Context, source string) error {
	return l.change(ctx, "abort the move of "+source, wholeNode, "pvmove", "--abort", source)
}
