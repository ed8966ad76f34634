package operand

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/internal/cluster/platform"
)

// Step is a step of the deletion. Every Manager is one.
type Step interface {
	// GetName names the step or manager in conditions and logs.
	GetName() string
	// EnsureDeleted deletes the operands. It returns nil when they no longer exist.
	EnsureDeleted(Reconciler, context.Context, *lvmv1alpha1.LVMCluster) error
}

// DeletionSteps returns the steps of the deletion in order. Each step begins when the step before is complete: first
// the objects with which volumes are created, then the volume groups while their agents still run, then the agents, and
// last the objects that the agents need. unusedGate checks that nothing uses the storage at the beginning, and again
// when no volume can be created.
func DeletionSteps(options Options) []Step {
	steps := []Step{unusedGate{}, topolvmStorageClass{}}
	if options.Platform.Snapshots {
		steps = append(steps, volumeSnapshotClasses)
	}
	if options.Platform.GroupSnapshots {
		steps = append(steps, volumeGroupSnapshotClasses)
	}
	steps = append(steps, unusedGate{}, admissionPolicies{}, lvmVG{}, lvmVGNodeStatus{}, vgManager{},
		csiNode{}, nodeCleanup{}, csiDriver{})
	if options.Platform.Kind == platform.OpenShift {
		steps = append(steps, consoleDashboard{})
	}
	if options.Platform.SCC {
		steps = append(steps, openshiftSccs{})
	}
	return steps
}

// unusedGate is the step of the deletion that waits until no claim, PersistentVolume or LogicalVolume exists.
type unusedGate struct{}

// GetName names the step.
func (unusedGate) GetName() string { return "volumes" }

// EnsureDeleted returns a WaitError as long as something uses the storage. It deletes nothing: volumes belong to users.
// The WaitError says how to delete volumes that nothing else deletes.
func (unusedGate) EnsureDeleted(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	groups := &lvmv1alpha1.LVMVolumeGroupList{}
	if err := r.Client.List(ctx, groups, client.InNamespace(cluster.Namespace)); err != nil {
		return fmt.Errorf("list LVMVolumeGroups: %w", err)
	}
	begun := slices.ContainsFunc(groups.Items, func(group lvmv1alpha1.LVMVolumeGroup) bool {
		return observe.IsOwned(&group, cluster) && !group.DeletionTimestamp.IsZero()
	})
	users, err := r.Use.OfAll(ctx, r.Live, r.Now, begun)
	if err != nil {
		return fmt.Errorf("check whether the storage is in use: %w", err)
	}
	if users.None() {
		return nil
	}
	return r.awaitUsers(ctx, users, "", fmt.Sprintf("the storage is still in use by %s; the deletion continues when "+
		"they are removed", users))
}

// awaitUsers returns a WaitError with the message. It says how to delete the users that nothing else deletes; class is
// their device class, or "" for all.
func (r Reconciler) awaitUsers(ctx context.Context, users observe.Users, class, message string) error {
	wait := &WaitError{For: []string{message}}
	leftovers, err := users.Leftovers(ctx, r.Live, r.Options.Platform.Snapshots)
	if err != nil {
		return errors.Join(wait, fmt.Errorf("check which volumes must be deleted manually: %w", err))
	}
	if len(leftovers) > 0 {
		wait.Cleanup = leftovers.String()
		wait.For[0] += "; " + wait.Cleanup
		if class != "" {
			wait.Cleanup = "device class " + class + ": " + wait.Cleanup
		}
	}
	return wait
}
