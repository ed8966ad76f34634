package clusterid

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
)

// ChangedError ends a process when the identity changed after its start: the process restarts with the new identity.
type ChangedError struct{ Before, Now string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("the cluster ID changed from %q to %q: restarting to use it", e.Before, e.Now)
}

// interval is the interval at which the identity is read.
const interval = time.Minute

type watch struct {
	reader   client.Reader
	declared string
	known    Identity
	interval time.Duration
}

// RestartWhenChanged returns a runnable that reads the identity once a minute, as Read does, and returns a
// *ChangedError when it is not the known one. After an image-based upgrade of OpenShift, the system starts with the
// cluster ID of the seed, and gets that of the cluster later; during an installation, ClusterVersion is created after
// other objects.
func RestartWhenChanged(reader client.Reader, declared string, known Identity) manager.Runnable {
	return &watch{reader: reader, declared: declared, known: known, interval: interval}
}

// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusterversions,resourceNames=version,verbs=get

// NeedLeaderElection returns false: a process that waits to become the leader has the identity since its start, too.
func (w *watch) NeedLeaderElection() bool { return false }

// Start runs until the identity is another one or the context ends. An identity that cannot be read has not changed:
// the error is logged, and the identity is read again.
func (w *watch) Start(ctx context.Context) error {
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now, err := w.read(ctx)
		if err != nil {
			log.FromContext(ctx).WithName("clusterid").Error(err, "cannot check whether the cluster ID changed")
			continue
		}
		if now != w.known {
			return &ChangedError{Before: w.known.ID, Now: now.ID}
		}
	}
}

func (w *watch) read(ctx context.Context) (Identity, error) {
	ctx, end := liveness.Begin(ctx, "check of the cluster ID")
	defer end()
	ctx, cancel := context.WithTimeout(ctx, w.interval)
	defer cancel()
	return Read(ctx, w.reader, w.declared)
}
