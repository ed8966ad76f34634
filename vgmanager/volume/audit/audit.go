// Package audit compares LogicalVolume objects with the logical volumes of this node: it reports orphans and problems,
// and has the metrics of volumes.
package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

const (
	// auditInterval is the interval of audits without a change. An audit starts no process.
	auditInterval = time.Minute
	// auditGap is the minimum time between two audits.
	auditGap = 2 * time.Second
)

// States returns the state of the logical volumes of this node. engine.Engine implements it.
type States interface {
	// Volumes returns the volumes of all classes. It also returns every class, with an error if the class is not
	// available.
	Volumes(ctx context.Context) (volumes []engine.VolumeState, classes map[string]error, err error)
	Subscribe(changed func())
	TagLV(ctx context.Context, class, name string, add, remove []string) error
}

// Auditor compares LogicalVolume objects with logical volumes. It reports orphans, writes the problems of a logical
// volume to its object, and tags the logical volumes that an older version created. It removes nothing. It implements
// prometheus.Collector.
type Auditor struct {
	Options
	notices chan struct{}
	// changed are called when the orphans of a class have changed.
	changed []func()

	// since is when an orphan was first found. told has the orphans with an event. Only audit uses them.
	since map[string]time.Time
	told  map[string]bool
	// others are the lookups of logical volumes that objects of other nodes have.
	others map[string]lookup

	mu          sync.Mutex
	orphans     map[string][]v1alpha1.OrphanStatus // by device class
	count       map[string]int                     // logical volumes by device class
	volumes     []volumeMetrics                    // at most MaxVolumes
	limits      []limitMetrics                     // volumes with I/O limits, at most MaxVolumes
	broken      []volumeMetrics                    // volumes with a broken file system, at most maxBroken
	failedReads int                                // consecutive audits that could not read the volumes
	ioFailure   string                             // why the last scrape could not read the I/O of volumes, or ""
}

// Options configures an Auditor.
type Options struct {
	// Client reads LogicalVolumes and the Node from a cache. Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Node is the name of this node. Cluster is the identity of the Kubernetes cluster. Namespace is that of the node
	// status.
	Node, Cluster, Namespace string
	States                   States
	// FileSystems can be nil. Then file systems are not checked.
	FileSystems FileSystems
	// Detained returns the devices whose Pods cannot end, by "MAJOR:MINOR", with the reason (stack.Search.Detained). If
	// it is nil, there are none.
	Detained func(context.Context) (map[string]string, error)
	Recorder event.Recorder
	// IO can be nil. Then the I/O of volumes has no metrics.
	IO IOCounters
	// MaxVolumes is the maximum number of volumes with their own metrics. 0 disables them.
	MaxVolumes int
	// Now is time.Now if it is nil.
	Now func() time.Time
}

// New returns an Auditor.
func New(o Options) *Auditor {
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &Auditor{
		Options: o, notices: make(chan struct{}, 1),
		since: map[string]time.Time{}, told: map[string]bool{}, others: map[string]lookup{},
		orphans: map[string][]v1alpha1.OrphanStatus{},
	}
	o.States.Subscribe(a.Wake)
	return a
}

// Wake requests an audit. It never blocks.
func (a *Auditor) Wake() {
	select {
	case a.notices <- struct{}{}:
	default:
	}
}

// Subscribe calls changed after each change of the orphans of a class. It must not block. Call Subscribe before Start.
func (a *Auditor) Subscribe(changed func()) { a.changed = append(a.changed, changed) }

// ObjectHandler returns a handler for events of LogicalVolumes. It requests an audit when an object of this node begins
// or ceases to exist, or its I/O limits change. Without a change on the node, an object begins or ceases to exist for
// example when etcd is restored from a backup.
func (a *Auditor) ObjectHandler() toolscache.ResourceEventHandler {
	wake := func(object any) {
		if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		if lv, ok := object.(*topolvmv1.LogicalVolume); ok && lv.Spec.NodeName == a.Node {
			a.Wake()
		}
	}
	update := func(before, after any) {
		old, isOld := before.(*topolvmv1.LogicalVolume)
		lv, isNew := after.(*topolvmv1.LogicalVolume)
		if isOld && isNew && limitsChanged(old, lv) {
			wake(lv)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: wake, UpdateFunc: update, DeleteFunc: wake}
}

// Orphans returns the sorted orphans of a device class.
func (a *Auditor) Orphans(class string) []v1alpha1.OrphanStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.orphans[class])
}

// NeedLeaderElection returns false, because every node has an Auditor.
func (a *Auditor) NeedLeaderElection() bool { return false }

// Start audits until ctx ends. It implements manager.Runnable.
func (a *Auditor) Start(ctx context.Context) error {
	for {
		if err := a.Audit(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "cannot compare logical volumes with their objects", "node", a.Node)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(auditGap):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(auditInterval):
		case <-a.notices:
		}
	}
}

// Audit runs one audit. A volume in a class that is not available does not count as missing.
func (a *Auditor) Audit(ctx context.Context) error {
	ctx, end := liveness.Begin(ctx, "audit of the volumes")
	defer end()
	// The objects are read last, because an object is created before its logical volume and deleted after it.
	volumes, classes, err := a.States.Volumes(ctx)
	a.noteRead(err)
	if err != nil {
		return err
	}
	if err := errors.Join(a.lookAtFileSystems(ctx, volumes), a.lookAtPods(ctx, volumes)); err != nil {
		return err
	}
	list := &topolvmv1.LogicalVolumeList{}
	if err := a.Client.List(ctx, list); err != nil {
		return fmt.Errorf("list LogicalVolumes: %w", err)
	}
	objects := slices.DeleteFunc(list.Items,
		func(lv topolvmv1.LogicalVolume) bool { return lv.Spec.NodeName != a.Node })
	found := a.lookUpOthers(ctx, compare(volumes, classes, objects))
	a.settle(found, classes)
	measureErr := a.measure(ctx, volumes, objects)
	a.reportOrphans(ctx, found, objects)
	return errors.Join(measureErr, a.mark(ctx, objects, conditions(volumes, classes, objects),
		suspensions(volumes, classes, objects)), a.adopt(ctx, volumes, objects))
}

func (a *Auditor) noteRead(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failedReads++; err == nil {
		a.failedReads = 0
	}
}
