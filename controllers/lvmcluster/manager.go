// Package lvmcluster reconciles the LVMCluster: its operands, the summary of its volume groups, and its deletion,
// which waits for the last volume.
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
	// EnsureCreated applies what is wanted, deletes what no longer is, and returns a WaitError while it takes time.
	EnsureCreated(Reconciler, context.Context, *lvmv1alpha1.LVMCluster) error
	// EnsureDeleted deletes the operands and returns nil when they are gone.
	EnsureDeleted(Reconciler, context.Context, *lvmv1alpha1.LVMCluster) error
}

// Reconciler is what a manager works with during one reconcile.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Live reads from the API server: for deletion, where an object that the cache does not have yet must count.
	Live client.Reader
	// Applier writes.
	Applier *apply.Applier
	// Options of the controller.
	Options Options
	// Seen is what the reconcile has found; it is empty while the LVMCluster is being deleted.
	Seen Observation
}

// Options of the controller.
type Options struct {
	// Namespace of the operator, of the LVMCluster and of its namespaced operands.
	Namespace string
	// Image of the operator, which is also that of the node agent.
	Image string
	// Platform is what the cluster is and has.
	Platform platform.Platform
	// UpgradeGate is told whether an upgrade may come; nil where nobody asks.
	UpgradeGate *olm.Gate
	// VolumeMetrics is how many volumes of a node have metrics of their own; 0 for none.
	VolumeMetrics int
	// SmartInterval is how often agents ask disks for their own verdict on their health (S.M.A.R.T.); 0 for never.
	SmartInterval time.Duration
	// Rights knows which rights the operator lacks; nil where nobody asks.
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
	managers = append(managers, admissionPolicies{}, lvmVG{}, lvmVGNodeStatus{}, vgManager{}, csiNode{})
	if options.Platform.Kind == platform.OpenShift {
		managers = append(managers, consoleDashboard{})
	}
	return managers
}

// WaitError tells what an operand waits for. It is no failure.
type WaitError struct {
	For []string
}

func (e *WaitError) Error() string {
	return "waiting: " + strings.Join(e.For, "; ")
}

// waitFor returns a WaitError for things to wait for, or nil if there are none.
func waitFor(things []string) error {
	if len(things) == 0 {
		return nil
	}
	return &WaitError{For: things}
}
