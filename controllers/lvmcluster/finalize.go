package lvmcluster

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/platform"
)

// deleter is a step of the deletion. Every Manager is one.
type deleter interface {
	GetName() string
	EnsureDeleted(Reconciler, context.Context, *lvmv1alpha1.LVMCluster) error
}

// deletionOrder returns the steps of the deletion in order. Each step begins when the step before is complete: first
// the objects with which volumes are created, then the volume groups while their agents still run, then the agents, and
// last the objects that the agents need. unusedGate checks that nothing uses the storage at the beginning, and again
// when no volume can be created.
func deletionOrder(options Options) []deleter {
	order := []deleter{unusedGate{}, topolvmStorageClass{}}
	if options.Platform.Snapshots {
		order = append(order, topolvmVolumeSnapshotClass{})
	}
	order = append(order, unusedGate{}, deletionPolicies{}, lvmVG{}, lvmVGNodeStatus{}, vgManager{},
		csiNode{}, nodeTraces{},
		admissionPolicies{}, csiDriver{})
	if options.Platform.Kind == platform.OpenShift {
		order = append(order, consoleDashboard{})
	}
	if options.Platform.SCC {
		order = append(order, openshiftSccs{})
	}
	return order
}

// finalize deletes the operands step by step if nothing uses the storage, and then removes the finalizer.
func (c *Controller) finalize(ctx context.Context, r Reconciler, cluster *lvmv1alpha1.LVMCluster) report {
	done := report{conditions: newConditions(cluster), state: lvmv1alpha1.LVMStatusProgressing}
	if !controllerutil.ContainsFinalizer(cluster, lvmv1alpha1.LVMClusterFinalizer) {
		done.gone = true
		return done
	}
	for _, step := range deletionOrder(c.options) {
		if err := step.EnsureDeleted(r, ctx, cluster); err != nil {
			done.outcome.add(step.GetName(), err)
			c.reportDeletion(ctx, r, cluster, &done)
			return done
		}
	}
	if err := c.release(ctx, cluster); err != nil {
		done.outcome.add("finalizer", err)
		c.reportDeletion(ctx, r, cluster, &done)
		return done
	}
	log.FromContext(ctx).Info("deleted the LVMCluster and everything that belonged to it")
	done.gone = true
	return done
}

// reportDeletion reports what the deletion waits for and the remaining volume groups.
func (c *Controller) reportDeletion(ctx context.Context, r Reconciler, cluster *lvmv1alpha1.LVMCluster, done *report) {
	done.outcome.add("rights", c.options.Rights.Err())
	pending := firstOf(slices.Concat(done.outcome.failures, done.outcome.waits))
	done.conditions.False(lvmv1alpha1.ConditionResourcesAvailable, lvmv1alpha1.ReasonDeletionPending, pending)
	seen, err := r.observe(ctx, cluster)
	if err != nil {
		done.outcome.add("observation", err)
		done.classes = cluster.Status.DeviceClassStatuses
		return
	}
	c.volumeGroups(cluster, seen, done)
	if len(done.outcome.failures) > 0 {
		done.state = lvmv1alpha1.LVMStatusFailed
	}
}

// release removes the finalizer.
func (c *Controller) release(ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	before := cluster.DeepCopy()
	controllerutil.RemoveFinalizer(cluster, lvmv1alpha1.LVMClusterFinalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := c.client.Patch(ctx, cluster, patch, client.FieldOwner(fieldOwner))
	if client.IgnoreNotFound(err) != nil {
		controllerutil.AddFinalizer(cluster, lvmv1alpha1.LVMClusterFinalizer)
		return fmt.Errorf("LVMCluster %s: remove finalizer: %w", cluster.Name, err)
	}
	return nil
}

// unusedGate is the step of the deletion that waits until no claim, PersistentVolume or LogicalVolume exists.
type unusedGate struct{}

// GetName names the step.
func (unusedGate) GetName() string { return "volumes" }

// EnsureDeleted returns a WaitError as long as something uses the storage. It deletes nothing: volumes belong to users.
func (unusedGate) EnsureDeleted(r Reconciler, ctx context.Context, _ *lvmv1alpha1.LVMCluster) error {
	users, err := r.usersOf(ctx, scope{})
	if err != nil {
		return fmt.Errorf("check whether the storage is in use: %w", err)
	}
	if users.None() {
		return nil
	}
	return waitFor([]string{fmt.Sprintf("the storage is still in use by %s; the deletion continues when they are "+
		"removed",
		users)})
}
