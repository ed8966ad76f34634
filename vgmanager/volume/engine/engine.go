// Package engine creates, changes and lists the logical volumes of a node's device classes.
//
// The agent calls it in its own process; package lvmd serves it with TopoLVM's protocol. In contrast to TopoLVM's
// embedded lvmd, it accepts new device classes at run time, notifies every watcher of every change, and needs two
// processes to create a volume: one report and one lvcreate.
package engine

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/classes"
)

// refreshAge is the maximum age of the capacity that watchers have.
const refreshAge = time.Minute

// Engine has the device classes of a node, and what lists and changes their logical volumes. It is safe for concurrent
// use.
type Engine struct {
	*node
	*classes.Registry
	*Lister
	*Provisioner
	*Snapshotter
	*Remover
	*Copies
	*Watchers
}

// New returns an engine with the device classes of the file at path. The file does not have to exist. With an empty
// path, the engine keeps its classes only in memory. If kernel is nil, the pool usage is from the last report.
func New(l LVM, kernel Kernel, path string) (*Engine, error) {
	n := &node{lvm: l, kernel: kernel}
	var err error
	if n.classes, err = classes.Open(path, n.watchers.Changed); err != nil {
		return nil, err
	}
	return &Engine{node: n, Registry: n.classes, Lister: &Lister{n}, Provisioner: &Provisioner{n},
		Snapshotter: &Snapshotter{node: n}, Remover: &Remover{node: n}, Copies: &Copies{n}, Watchers: &n.watchers}, nil
}

// Start notifies the watchers once a minute until ctx ends, because other programs change the capacity too, and reads a
// shared file again that has changed. It implements manager.Runnable.
func (e *Engine) Start(ctx context.Context) error {
	ticker := time.NewTicker(refreshAge)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			e.refresh(ctx)
		}
	}
}

func (e *Engine) refresh(ctx context.Context) {
	ctx, end := liveness.Begin(ctx, "refresh of the device classes")
	defer end()
	if err := e.Reload(); err != nil {
		log.FromContext(ctx).Error(err, "failed to read the changed device classes of the node")
	}
	e.Changed()
}

// NeedLeaderElection returns false, because the engine runs on every node.
func (e *Engine) NeedLeaderElection() bool { return false }
