package view

import "github.com/lvm-storage/lvm-operator/api/v1alpha1"

// orphanActions has what to do for each kind of orphan.
var orphanActions = map[v1alpha1.OrphanKind]string{
	v1alpha1.OrphanLogicalVolume: "If you need the data, run `kubectl lvms import`; otherwise, run " +
		"`kubectl lvms orphans delete`.",
	v1alpha1.OrphanObject: "If another node has the volume, which is then an orphan of the kind OtherNode there, " +
		"import it on that node. Otherwise, attach the disks with the volume again, or restore the data from a " +
		"backup to a new claim and delete the old one.",
	v1alpha1.OrphanOtherNode: "Do not delete the claim. Run `kubectl lvms import`, which moves the objects to this node " +
		"and changes no data.",
	v1alpha1.OrphanUnclaimed: "If you need the data, create an LVMRecovery with the action ImportVolumes; otherwise, " +
		"delete the LogicalVolume, and its data: kubectl delete logicalvolume NAME.",
}

// deviceActions has what to do for a device in a state that needs attention.
var deviceActions = map[v1alpha1.DeviceState]string{
	v1alpha1.DeviceFailing: "See the kernel's log of the node, and replace the device.",
	v1alpha1.DeviceUnknown: "See the kernel's log of the node; repair or detach the device.",
}
