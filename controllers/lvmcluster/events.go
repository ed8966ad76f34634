package lvmcluster

import (
	"slices"
	"strings"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/status"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
)

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
	// eventSuccess is a Normal event on the LVMCluster: every operand runs and every volume group is ready, and this
	// was not the case before.
	eventSuccess = event.Normal("ResourceReconciliationSuccess", actionReconcile, "%s")
	// eventVolumeGroups is a Warning event on the LVMCluster: a volume group failed or is degraded. The note names
	// node, device class and cause.
	// What to do: see VolumeGroupsReady in the [conditions](conditions.md#lvmcluster).
	eventVolumeGroups = event.Warning("VolumeGroupsNotReady", actionReconcile, "%s")
	// eventClassInUse is a Warning event on the LVMCluster: a device class was removed from the spec, but is still in
	// use.
	// What to do: delete the claims, volumes and snapshots that the note names, or add the device class again.
	eventClassInUse = event.Warning("DeviceClassInUse", actionReconcile, "cannot remove device class %s while it "+
		"is used by %s")
	// eventNotChecked is a Warning event on the LVMCluster: the OperatorGroup selects other namespaces than that of the
	// operator, so the Operator Lifecycle Manager restricts the webhook to them. Changes of this LVMCluster are checked
	// by the schema only: for example, one device in two device classes is not refused.
	// What to do: let the OperatorGroup select the namespace of the operator, or all namespaces.
	eventNotChecked = event.Warning("AdmissionNotChecked", actionReconcile, "the OperatorGroup of namespace %s "+
		"selects the namespaces %s, so the Operator Lifecycle Manager does not call the webhook for this "+
		"LVMCluster, and not every mistake is refused: set spec.targetNamespaces of the OperatorGroup to [%s]")
	// eventDeletionPending is a Warning event on the LVMCluster: it is being deleted, and the deletion waits for the
	// objects that the note names.
	// What to do: delete the claims, volumes and snapshots that the note names.
	eventDeletionPending = event.Warning("DeletionPending", actionDelete, "%s")
	// eventManualCleanup is a Warning event on the LVMCluster: it is being deleted or a device class was removed from
	// the spec, and this waits for volumes whose claim or snapshot is already deleted, for example because of the
	// reclaim policy or the deletion policy `Retain`. Nothing deletes them automatically.
	// What to do: run the commands of the note, which delete these volumes and their data; see
	// [how to remove](../how-to/remove.md#volumes-without-a-claim).
	eventManualCleanup = event.Warning("ManualCleanupRequired", actionDelete, "%s")
)

// emit emits events for changes of the state.
func (c *Controller) emit(cluster *lvmv1alpha1.LVMCluster, report *status.Report) {
	deleting := !cluster.DeletionTimestamp.IsZero()
	switch {
	case deleting:
		c.emitter.Emit(cluster, eventDeletionPending,
			strings.Join(slices.Concat(report.Failures, report.Waits), "; "))
	case len(report.Failures) > 0:
		c.emitter.Emit(cluster, eventIncomplete, strings.Join(report.Failures, "; "))
	case report.State == lvmv1alpha1.LVMStatusFailed || report.State == lvmv1alpha1.LVMStatusDegraded:
		c.emitter.Emit(cluster, eventVolumeGroups, report.Problems())
	case report.State == lvmv1alpha1.LVMStatusReady:
		c.emitter.Clear(cluster, eventIncomplete.Reason, eventVolumeGroups.Reason)
		if cluster.Status.State != "" && !cluster.Status.Ready {
			c.emitter.Clear(cluster, eventSuccess.Reason)
			c.emitter.Emit(cluster, eventSuccess, report.Success())
		}
	}
	c.emitManualCleanup(cluster, report)
}

// emitManualCleanup emits an event if a deletion waits for volumes that only the administrator can delete. If a read
// failed, it is unknown whether they still exist.
func (c *Controller) emitManualCleanup(cluster *lvmv1alpha1.LVMCluster, report *status.Report) {
	switch {
	case len(report.ManualCleanup) > 0:
		c.emitter.Emit(cluster, eventManualCleanup, strings.Join(report.ManualCleanup, "; "))
	case len(report.Failures) == 0:
		c.emitter.Clear(cluster, eventManualCleanup.Reason)
	}
}

// emitClassesInUse emits an event for each device class that cannot be removed because it is in use.
func (c *Controller) emitClassesInUse(cluster *lvmv1alpha1.LVMCluster, current observe.State) {
	for _, removed := range current.RemovedClasses {
		if !removed.Users.None() {
			c.emitter.Emit(cluster, eventClassInUse, removed.VolumeGroup.Name, removed.Users)
		}
	}
}

// emitNotChecked emits an event if OLM does not call the webhook for the LVMCluster.
func (c *Controller) emitNotChecked(cluster *lvmv1alpha1.LVMCluster) {
	if targets := c.options.OtherTargets; targets != "" {
		c.emitter.Emit(cluster, eventNotChecked, cluster.Namespace, targets, cluster.Namespace)
	}
}
