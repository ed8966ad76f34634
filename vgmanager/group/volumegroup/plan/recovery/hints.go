package recovery

import (
	"fmt"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// LostDevicesHint says how to remove lost devices with the volumes that were on them.
func LostDevicesHint(d state.Desired) string {
	return fmt.Sprintf("create an LVMRecovery {nodeName: %s, deviceClassName: %s, action: %s}, which lists what is "+
		"lost and changes nothing until it is approved", d.Node, d.Name, v1alpha1.RecoveryRemoveLostDevices)
}

// RepairHint says how to repair a thin pool.
func RepairHint(d state.Desired) string {
	return fmt.Sprintf("create an LVMRecovery {nodeName: %s, deviceClassName: %s, action: %s}, which checks the "+
		"metadata and lists what can be saved, and changes nothing until it is approved", d.Node, d.Name,
		v1alpha1.RecoveryRepairThinPool)
}

// RollbackHint says how to restore the metadata of a volume group.
func RollbackHint(d state.Desired) string {
	return fmt.Sprintf("create an LVMRecovery {nodeName: %s, deviceClassName: %s, action: %s}, which searches the "+
		"earlier metadata of the volume group, lists what changes, and changes nothing until it is approved", d.Node,
		d.Name, v1alpha1.RecoveryRestoreMetadata)
}

// AcceptHint says how to use the present metadata of a volume group although it may be from an earlier time.
func AcceptHint(d state.Desired) string {
	return fmt.Sprintf("create an LVMRecovery {nodeName: %s, deviceClassName: %s, action: %s}", d.Node, d.Name,
		v1alpha1.RecoveryAcceptMetadata)
}
