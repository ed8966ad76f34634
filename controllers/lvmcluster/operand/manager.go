package operand

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
	"github.com/lvm-storage/lvm-operator/internal/cluster/platform"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
)

// Manager keeps one kind of operand.
type Manager interface {
	Step
	// EnsureCreated applies the desired operands and deletes those that are no longer desired. It returns a WaitError
	// until all of them are ready.
	EnsureCreated(Reconciler, context.Context, *lvmv1alpha1.LVMCluster) error
}

// Reconciler has what managers need during one reconcile.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Live reads from the API server. Deletion uses it, because it must not miss objects that are not in the cache yet.
	Live client.Reader
	// Applier writes with server-side apply.
	Applier *apply.Applier
	// Options of the operands.
	Options Options
	// Current is the state that this reconcile observed. It is empty if the LVMCluster is being deleted.
	Current observe.State
	// Use remembers what uses storage that is to be deleted, across reconciles.
	Use *observe.Use
	// Now is the time of the reconcile.
	Now time.Time
}

// Options of the operands.
type Options struct {
	// Image is the image of the operator and of the node agent.
	Image string
	// Platform describes the cluster and its APIs.
	Platform platform.Platform
	// VolumeMetrics is the maximum number of volumes with their own metrics on each node; 0 for none.
	VolumeMetrics int
	// SmartInterval is the interval at which agents read the S.M.A.R.T. health of disks; 0 for never.
	SmartInterval time.Duration
	// Layout is where the nodes have the directory of the kubelet and their programs.
	Layout hostpaths.Layout
	// ClusterID is the declared identity of the cluster, or "".
	ClusterID string
	// Identity is the identity of the cluster, declared or not. The node agents read it when they start.
	Identity string
	// DeletionWebhook registers the webhook for deletions of LogicalVolumes.
	DeletionWebhook DeletionWebhook
}

// Managers returns the managers in the order of creation.
func Managers(options Options) []Manager {
	managers := []Manager{}
	if options.Platform.SCC {
		managers = append(managers, openshiftSccs{})
	}
	managers = append(managers, csiDriver{}, topolvmStorageClass{})
	if options.Platform.Snapshots {
		managers = append(managers, volumeSnapshotClasses)
	}
	if options.Platform.GroupSnapshots {
		managers = append(managers, volumeGroupSnapshotClasses)
	}
	managers = append(managers, admissionPolicies{}, lvmVG{}, newNodeStatusManager(), vgManager{&fence{}}, csiNode{})
	if options.Platform.Kind == platform.OpenShift {
		managers = append(managers, consoleDashboard{})
	}
	return managers
}

// WatchedMetadata returns an empty object of each kind of operand whose metadata alone is read and watched.
func WatchedMetadata(options Options) []*metav1.PartialObjectMetadata {
	kinds := []*metav1.PartialObjectMetadata{metadataOf(policyKind), metadataOf(policyBindingKind)}
	if options.Platform.SCC {
		kinds = append(kinds, metadataOf(sccKind))
	}
	return kinds
}

// WaitError lists what an operand waits for. It is not a failure.
type WaitError struct {
	For []string
	// Cleanup is what the administrator must do, because nothing else ends the wait; "" if nothing.
	Cleanup string
}

func (e *WaitError) Error() string {
	return "waiting: " + strings.Join(e.For, "; ")
}

// Waits returns what the operand waits for.
func (e *WaitError) Waits() []string { return e.For }

// ManualCleanup returns what the administrator must do, or "".
func (e *WaitError) ManualCleanup() string { return e.Cleanup }

// waitFor returns a WaitError for the given items, or nil if there are none.
func waitFor(items []string) error {
	if len(items) == 0 {
		return nil
	}
	return &WaitError{For: items}
}
