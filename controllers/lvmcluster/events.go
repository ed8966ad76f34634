package lvmcluster

import "github.com/lvm-storage/lvm-operator/internal/event"

// The actions that events tell of.
const (
	actionReconcile = "Reconcile"
	actionDelete    = "Delete"
)

// The events of an LVMCluster.
var (
	// eventIncomplete: operands could not be applied.
	eventIncomplete = event.Warning("ResourceReconciliationIncomplete", actionReconcile, "%s")
	// eventSuccess: all operands are applied and run, after they did not.
	eventSuccess = event.Normal("ResourceReconciliationSuccess", actionReconcile, "%s")
	// eventVolumeGroups: volume groups failed or are degraded.
	eventVolumeGroups = event.Warning("VolumeGroupsNotReady", actionReconcile, "%s")
	// eventClassInUse: a device class was removed from the spec and cannot go yet.
	eventClassInUse = event.Warning("DeviceClassInUse", actionReconcile, "device class %s: removal waits for %s")
	// eventDeletionPending: the LVMCluster is deleted and waits.
	eventDeletionPending = event.Warning("DeletionPending", actionDelete, "%s")
)
