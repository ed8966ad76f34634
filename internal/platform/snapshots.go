package platform

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// ErrSnapshotsAppeared ends a process that was started without snapshots, so that it starts again with them.
var ErrSnapshotsAppeared = errors.New("the VolumeSnapshot API has been installed: restarting to use it")

// snapshotPollInterval is how long a newly installed snapshot API waits to be noticed.
const snapshotPollInterval = time.Minute

type snapshotWatch struct {
	apis     discovery.DiscoveryInterface
	interval time.Duration
}

// RestartWhenSnapshotsAppear returns a runnable for a process that found no snapshot API. It looks for it once a
// minute and returns ErrSnapshotsAppeared when it is there: informers and watches of the kind are made at start only.
func RestartWhenSnapshotsAppear(apis discovery.DiscoveryInterface) manager.Runnable {
	return &snapshotWatch{apis: apis, interval: snapshotPollInterval}
}

// NeedLeaderElection is false: a process that waits to be the leader must know the API too.
func (w *snapshotWatch) NeedLeaderElection() bool { return false }

// Start looks until the API is there or the context ends. A failed look says nothing: it is logged and repeated.
func (w *snapshotWatch) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("snapshots")
	logger.Info("The cluster has no VolumeSnapshot API: snapshots are off until its CRDs are installed",
		"groupVersion", snapshots.groupVersion)
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		served, err := has(w.apis, snapshots)
		if err != nil {
			logger.Error(err, "Cannot tell whether the VolumeSnapshot API is there")
		}
		if served {
			return ErrSnapshotsAppeared
		}
	}
}
