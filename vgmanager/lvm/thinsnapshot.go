package lvm

// ThinMetadataReserve reserves the metadata snapshot of a thin pool (Linux,
// Documentation/admin-guide/device-mapper/thin-provisioning.rst). The kernel then keeps the present metadata beside the
// changes, until ThinMetadataRelease. A pool can have one. The kernel commits the metadata before, and keeps the
// snapshot over a reboot. Device is the UUID of the mapped device of the pool: another pool that has the name by now is
// not affected.
//
// It runs in turn with LVM's commands for the volume group, so the pool is not repaired or removed meanwhile. An error
// does not say whether the metadata snapshot is reserved: the status of the pool does.
type ThinMetadataReserve struct {
	VG, Pool, Device string
}

func (c ThinMetadataReserve) String() string {
	return "reserve the metadata snapshot of thin pool " + FullName(c.VG, c.Pool)
}

func (c ThinMetadataReserve) Command() Command {
	return message(c.VG, c.Device, "reserve_metadata_snap")
}

// ThinMetadataRelease releases the metadata snapshot of a thin pool. It fails if there is none. What reads the metadata
// snapshot must have ended. Device is that of ThinMetadataReserve.
type ThinMetadataRelease struct {
	VG, Pool, Device string
}

func (c ThinMetadataRelease) String() string {
	return "release the metadata snapshot of thin pool " + FullName(c.VG, c.Pool)
}

func (c ThinMetadataRelease) Command() Command {
	return message(c.VG, c.Device, "release_metadata_snap")
}

// message returns the command that sends a message to a mapped device. Its sector is not used by thin pools.
func message(vg, device, text string) Command {
	return Command{VG: vg, Message: true,
		Args: []string{"message", "--uuid", device, "0", text}}
}
