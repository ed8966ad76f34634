package lvm

// pollInterval is how often LVM polls a move, in seconds. The end of a move is noticed with this delay.
const pollInterval = "5"

// PVMoveStart starts to move all extents of a physical volume to other allocatable physical volumes of its volume
// group. It returns while the kernel copies them (VG.Moves). Thin pools and RAID volumes are moved too, even if they
// are in use. LVM moves each image of a RAID volume to a physical volume without another image of the same volume, or
// returns ErrNoSpace if there is none. If a move of this source already runs, LVM starts another process that polls
// it, which is not an error.
//
// PVMoveStart returns ErrNoSpace and changes nothing if there is not enough free space. It returns ErrNotFound if the
// physical volume does not exist or has nothing that LVM moves; the caller checks PV.Used first.
//
// --atomic moves all volumes as one, so an abort, a power failure or a failed device leaves every extent where it
// was. --background starts the move and leaves a process in its own session (or uses lvmpolld, if that runs) that
// polls the kernel and commits the new locations when everything is copied. This process survives SIGKILL of the
// command that started it and of its process group, but not the end of the container in whose cgroup it was started.
// If it is killed, no data is lost and the move does not finish: the kernel copies everything and writes to both
// copies, and PVMoveResume or a second PVMoveStart finishes the move. The same applies after a reboot, but the kernel
// restarts the copy when the volumes are activated. --alloc is not used, because it permits images of a RAID volume
// on the same device. LVM skips cordoned physical volumes.
type PVMoveStart struct {
	// VG is the volume group of the physical volume, for messages.
	VG string
	// Source is the device of the physical volume.
	Source string
	// Target is the only physical volume to which extents are moved. If empty, LVM chooses.
	Target string
}

func (c PVMoveStart) String() string {
	return "move the extents of " + c.Source + " in volume group " + c.VG
}

func (c PVMoveStart) Command() Command {
	args := []string{"pvmove", "--background", "--atomic", "--interval", pollInterval, c.Source}
	if c.Target != "" {
		args = append(args, c.Target)
	}
	return Command{VG: c.VG, Args: args}
}

// PVMoveResume makes LVM manage all unfinished moves in all volume groups of the node, after a reboot or if the
// process that polled them was killed. If there is no move, it is not an error. A move that is already polled is then
// polled twice, which is harmless but costs a process. The caller decides from the progress of the move.
type PVMoveResume struct{}

func (PVMoveResume) String() string { return "resume the moves of extents" }

func (PVMoveResume) Command() Command {
	return Command{VG: WholeNode, Args: []string{"pvmove", "--background", "--interval", pollInterval}}
}

// PVMoveAbort aborts the move of a physical volume. Because PVMoveStart uses --atomic, all extents are on the source
// again, including data written during the move. If the move is finished, aborted or unknown, it is not an error.
type PVMoveAbort struct {
	// Source is the device of the physical volume.
	Source string
}

func (c PVMoveAbort) String() string { return "abort the move of " + c.Source }

func (c PVMoveAbort) Command() Command {
	return Command{VG: WholeNode, Args: []string{"pvmove", "--abort", c.Source}}
}
