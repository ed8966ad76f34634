package lvmcluster

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/status"
)

// finalize deletes the operands step by step if nothing uses the storage, and then removes the finalizer.
func (c *Controller) finalize(ctx context.Context, r operand.Reconciler, cluster *lvmv1alpha1.LVMCluster,
	report *status.Report) result {
	if !controllerutil.ContainsFinalizer(cluster, wellknown.LVMClusterFinalizer) {
		return result{deleted: true}
	}
	for _, step := range operand.DeletionSteps(c.options.Options) {
		if err := step.EnsureDeleted(r, ctx, cluster); err != nil {
			report.Add(step.GetName(), err)
			c.reportDeletion(ctx, r, cluster, report)
			return result{}
		}
	}
	if err := c.removeFinalizer(ctx, cluster); err != nil {
		report.Add("finalizer", err)
		c.reportDeletion(ctx, r, cluster, report)
		return result{}
	}
	log.FromContext(ctx).Info("deleted the LVMCluster and everything that belonged to it")
	return result{deleted: true}
}

// reportDeletion reports what the deletion waits for and the remaining volume groups.
func (c *Controller) reportDeletion(ctx context.Context, r operand.Reconciler, cluster *lvmv1alpha1.LVMCluster,
	report *status.Report) {
	report.Add("permissions", c.options.Permissions.Err())
	report.SetDeletionPending()
	current, err := c.use.Read(ctx, c.client, c.live, cluster, r.Now)
	if err != nil {
		report.Add("observation", err)
		return
	}
	report.SetVolumeGroupsReady(current)
	if len(report.Failures) > 0 {
		report.State = lvmv1alpha1.LVMStatusFailed
	}
}

// removeFinalizer removes the finalizer.
func (c *Controller) removeFinalizer(ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	before := cluster.DeepCopy()
	controllerutil.RemoveFinalizer(cluster, wellknown.LVMClusterFinalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := c.client.Patch(ctx, cluster, patch, client.FieldOwner(operand.FieldOwner))
	if client.IgnoreNotFound(err) != nil {
		controllerutil.AddFinalizer(cluster, wellknown.LVMClusterFinalizer)
		return fmt.Errorf("LVMCluster %s: remove finalizer: %w", cluster.Name, err)
	}
	return nil
}
