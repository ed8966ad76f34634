package lvm

import "fmt"

// GroupDeactivate deactivates all logical volumes of a volume group. It returns ErrInUse if one of them is open; LVM
// may then have deactivated others. It selects the group by its UUID.
//
// It does not pass --force or --yes. LVM never deactivates an open volume. If a killed deactivation has left the mapped
// device of a thin pool, and nothing has it open, GroupDeactivate removes it.
type GroupDeactivate struct {
	Group OtherGroup
}

func (c GroupDeactivate) String() string {
	return fmt.Sprintf("deactivate volume group %s (%s)", c.Group.Name, c.Group.UUID)
}

func (c GroupDeactivate) Command() Command {
	return Command{VG: c.Group.Name, Steps: true,
		Args: []string{"vgchange", "--activate", "n", "--select", "vg_uuid=" + c.Group.UUID}}
}

// GroupBackup writes the metadata of a volume group to a file, in the format of vgcfgbackup(8).
type GroupBackup struct {
	Group OtherGroup
	// File is a file on the node.
	File string
}

func (c GroupBackup) String() string {
	return fmt.Sprintf("back up the metadata of volume group %s (%s)", c.Group.Name, c.Group.UUID)
}

func (c GroupBackup) Command() Command {
	return Command{VG: c.Group.Name, Steps: true,
		Args: []string{"vgcfgbackup", "--foreign", "--file", c.File, c.Group.Name}}
}
