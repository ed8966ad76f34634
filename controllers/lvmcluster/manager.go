// Package lvmcluster reconciles the LVMCluster: its operands, the summary of its volume groups, and its deletion, which
// waits until no volume exists.
package lvmcluster

import (
	"context"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/apply"
	"github.com/lvm-storage/lvm-operator/internal/olm"
	"github.com/lvm-storage/lvm-operator/internal/platform"
	"github.com/lvm-storage/lvm-operator/internal/rights"
)

// Manager keeps one kind of operand.
type Manager interface {
	// GetName names the manager in conditions and logs.
	GetName() string
	// EnsureCreated applies the desired operands and deletes those that are no longer desired. It returns a WaitError
	// until all of them are ready.
	EnsureCreated(Reconciler, context.Context, *lvmv1alpha1.LVMCluster) error
	// EnsureDeleted deletes the operands. It returns nil when they no longer exist.
	EnsureDeleted(Reconciler, context.Context, *lvmv1alpha1.LVMCluster) error
}

// Reconciler has what managers need during one reconcile.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Live reads from the API server. Deletion uses it, because it must not miss objects that are not in the cache yet.
	Live client.Reader
	// Applier writes with server-side apply.
	Applier *apply.Applier
	// Options of the controller.
	Options Options
	// Seen is the observation of this reconcile. It is empty if the LVMCluster is being deleted.
	Seen Observation
}

// Options of the controller.
type Options struct {
	// Namespace is the namespace of the operator, of the LVMCluster and of its namespaced operands.
	Namespace string
	// Image is the image of the operator and of the node agent.
	Image string
	// Platform describes the cluster and its APIs.
	Platform platform.Platform
	// UpgradeGate sets whether OLM may upgrade the operator; nil without OLM.
	UpgradeGate *olm.Gate
	// VolumeMetrics is the maximum number of volumes with their own metrics on each node; 0 for none.
	VolumeMetrics int
	// SmartInterval is the interval at which agents read the S.M.A.R.T. health of disks; 0 for never.
	SmartInterval time.Duration
	// Rights reports the permissions that the operator lacks; nil disables the check.
	Rights *rights.Watch
}

// newManagers returns the managers in the order of creation.
func newManagers(options Options) []Manager {
	managers := []Manager{}
	if options.Platform.SCC {
		managers = append(managers, openshiftSccs{})
	}
	managers = append(managers, csiDriver{}, topolvmStorageClass{})
	if options.Platform.Snapshots {
		managers = append(managers, topolvmVolumeSnapshotClass{})
	}
	managers = append(managers, admissionPolicies{}, lvmVG{}, newNodeStatusManager(), vgManager{}, csiNode{})
	if options.Platform.Kind == platform.OpenShift {
		managers = append(managers, consoleDashboard{})
	}
	return managers
}

// WaitError lists what an operand waits for. It is not a failure.
type WaitError struct {
	For []string
}

func (e *WaitError) Error() string {
	return "waiting: " + strings.Join(e.For, "; ")
}

// waitFor returns a WaitError for the given items, or nil if there are none.
func waitFor(things []string) error {
	if len(things) == 0 {
		return nil
	}
	return &WaitError{For: things}
}
