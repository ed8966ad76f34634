package lvm

import "context"

// ThinMetadataReserve reserves the metadata snapshot of a thin pool (Linux,
// Documentation/admin-guide/device-mapper/thin-provisioning.rst). The kernel then keeps the present metadata beside the
// changes, until ThinMetadataRelease. A pool can have one. The kernel commits the metadata before, and keeps the
// snapshot over a reboot. device is the UUID of the mapped device of the pool: another pool that has the name by now is
// not affected.
//
// It runs in turn with LVM's commands for the volume group, so the pool is not repaired or removed meanwhile. An error
// does not say whether the metadata snapshot is reserved: the status of the pool does.
func (l *LVM) ThinMetadataReserve(ctx context.Context, vg, pool, device string) error {
	return l.message(ctx, "reserve the metadata snapshot of thin pool "+fullName(vg, pool), vg, device,
		"reserve_metadata_snap")
}

// ThinMetadataRelease releases the metadata snapshot of a thin pool. It fails if there is none. What reads the metadata
// snapshot must have ended. device is that of ThinMetadataReserve.
func (l *LVM) ThinMetadataRelease(ctx context.Context, vg, pool, device string) error {
	return l.message(ctx, "release the metadata snapshot of thin pool "+fullName(vg, pool), vg, device,
		"release_metadata_snap")
}

// message sends a message to a mapped device. Its sector is not used by thin pools.
func (l *LVM) message(ctx context.Context, object, vg, device, text string) error {
	return l.apply(ctx, object, command{vg: vg, message: true, effect: func(*VG) bool { return true },
		args: []string{"message", "--uuid", device, "0", text}})
}
