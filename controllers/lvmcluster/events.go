package lvmcluster

import "github.com/lvm-storage/lvm-operator/internal/event"

// The actions of events.
const (
	actionReconcile = "Reconcile"
	actionDelete    = "Delete"
)

// The events of an LVMCluster. Their comments are the text of docs/reference/events.md: `make references` writes it.
var (
	// eventIncomplete is a Warning event on the LVMCluster: an operand could not be applied. The note has each error.
	// What to do: resolve the errors; the operator tries again.
	eventIncomplete = event.Warning("ResourceReconciliationIncomplete", actionReconcile, "%s")
	// eventSuccess is a Normal event on the LVMCluster: every operand runs and every volume group is ready, after that
	// was not so.
	eventSuccess = event.Normal("ResourceReconciliationSuccess", actionReconcile, "%s")
	// eventVolumeGroups is a Warning event on the LVMCluster: a volume group failed or is degraded. The note names
	// node, device class and cause.
	// What to do: see VolumeGroupsReady in the [conditions](conditions.md#lvmcluster).
	eventVolumeGroups = event.Warning("VolumeGroupsNotReady", actionReconcile, "%s")
	// eventClassInUse is a Warning event on the LVMCluster: a device class was removed from the spec, and is still in
	// use.
	// What to do: delete the claims, volumes and snapshots that the note names, or add the device class again.
	eventClassInUse = event.Warning("DeviceClassInUse", actionReconcile, "cannot remove device class %s while it "+
		"is used by %s")
	// eventDeletionPending is a Warning event on the LVMCluster: it is being deleted, and the deletion waits for what
	// the note names.
	// What to do: delete the claims, volumes and snapshots that the note names.
	eventDeletionPending = event.Warning("DeletionPending", actionDelete, "%s")
)
