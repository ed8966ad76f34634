// Package nodeprobe proves that each node provides volumes: on a schedule, it creates a small volume of each device
// class on each node, has a Pod mount it and write to it, and deletes it. It is off unless an interval is set.
//
// The PersistentVolumeClaim of a probe is its record: a claim without a Pod has just been created, and a claim that is
// being deleted belongs to a probe that has ended. So another operator continues where one was killed.
package nodeprobe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
)

const (
	// MinInterval is the shortest interval between two probes of a device class on a node.
	MinInterval = time.Minute
	// limit is that for each of the two parts of a probe: until the data is written, and until the volume is deleted.
	limit = 5 * time.Minute
	// parallel is the maximum number of probes at the same time.
	parallel = 5
	// tick is the time between two looks at the probes.
	tick = 5 * time.Second
)

// failed is a Warning event on the LVMVolumeGroupNodeStatus: a volume of a device class could not be created, mounted,
// written or deleted on the node within five minutes. The note says which step failed.
// What to do: see [LVMSNodeProbeFailed](../../monitoring/runbooks/LVMSNodeProbeFailed.md).
var failed = event.Warning("NodeProbeFailed", "Probe", "device class %s: %s")

// Options are those of a Prober.
type Options struct {
	Namespace string
	// Image has the program lvms.
	Image string
	// Interval is the time from the end of a probe to the next one; 0 for none.
	Interval time.Duration
	// SCC reports whether SecurityContextConstraints set the user and group of a Pod.
	SCC bool
}

// Prober probes the nodes. It is the only one that writes the objects of probes.
type Prober struct {
	Options
	live   client.Reader
	active client.Reader
	client client.Client
	events event.Recorder
	now    func() time.Time

	// ended has the probes whose volume is being deleted, by name. idle is true if the last pass left no probe.
	ended map[string]ended
	idle  bool

	mu      sync.Mutex
	results map[string]result
}

// target is a device class on a node. Do not change its objects: they are those of the cache.
type target struct {
	node   string
	class  *v1alpha1.DeviceClass
	status *v1alpha1.LVMVolumeGroupNodeStatus
}

// probe has the objects of a probe.
type probe struct {
	claim *corev1.PersistentVolumeClaim
	pod   *corev1.Pod
}

// ended is a probe whose volume is being deleted.
type ended struct {
	since time.Time
	// volume is the name of the PersistentVolume; "" if there was none.
	volume string
	// problem is why the data was not written, and took how long it was until it was.
	problem string
	took    time.Duration
	// reported is set when the result is recorded although the volume exists.
	reported bool
	// known is false if its result does not count: another operator began it, or somebody deleted its claim.
	known bool
}

// result is that of the last probe of a device class on a node.
type result struct {
	node, class string
	at          time.Time
	problem     string
	took        time.Duration
}

// New returns a Prober. c may read from a cache with the LVMClusters, LVMVolumeGroupNodeStatuses and Nodes; live must
// not. active is a cache with at least the PersistentVolumes that are released.
func New(c client.Client, live, active client.Reader, recorder event.Recorder, options Options) *Prober {
	return &Prober{Options: options, live: live, active: active, client: c, events: recorder,
		now: time.Now, ended: map[string]ended{}, results: map[string]result{}}
}

// NeedLeaderElection returns true: one operator probes.
func (p *Prober) NeedLeaderElection() bool { return true }

// Start probes until ctx ends. If probes are off, it only deletes what earlier ones have left.
func (p *Prober) Start(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		if _, err := p.pass(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "cannot probe the nodes; trying again in seconds")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// pass continues the probes, starts those that are due, and returns how many there are.
func (p *Prober) pass(ctx context.Context) (remaining int, err error) {
	ctx, end := liveness.Begin(ctx, "probes of nodes")
	defer end()
	if err := p.reclaimReleased(ctx); err != nil {
		return 0, err
	}
	targets, err := p.targets(ctx)
	if err != nil {
		return 0, err
	}
	p.forget(targets)
	if p.idle && len(p.due(targets)) == 0 {
		return 0, nil
	}
	probes, err := p.probes(ctx)
	if err != nil {
		return 0, err
	}
	var errs []error
	for name, found := range probes {
		errs = append(errs, p.advance(ctx, name, found, targets[name]))
	}
	for name, e := range maps.Clone(p.ended) {
		errs = append(errs, p.finish(ctx, name, e, probes[name], targets[name]))
	}
	active := len(probes)
	for _, name := range p.due(targets) {
		if _, exists := probes[name]; exists || active >= parallel {
			continue
		}
		if _, exists := p.ended[name]; exists {
			continue
		}
		active++
		errs = append(errs, p.create(ctx, p.newClaim(name, targets[name])))
	}
	remaining = active + len(p.ended)
	err = errors.Join(errs...)
	p.idle = remaining == 0 && err == nil
	return remaining, err
}

// due returns the names of the targets without a result in the last interval, those that have waited longest first.
func (p *Prober) due(targets map[string]*target) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var due []string
	for name := range targets {
		if last, ok := p.results[name]; !ok || p.now().Sub(last.at) >= p.Interval {
			due = append(due, name)
		}
	}
	slices.SortFunc(due, func(a, b string) int {
		return cmp.Or(p.results[a].at.Compare(p.results[b].at), cmp.Compare(a, b))
	})
	return due
}

// advance does the next step of a probe whose claim exists. t is nil if the target no longer exists.
func (p *Prober) advance(ctx context.Context, name string, found probe, t *target) error {
	if _, isEnded := p.ended[name]; isEnded {
		return p.remove(ctx, found)
	}
	if t == nil || found.claim.DeletionTimestamp != nil {
		p.ended[name] = ended{since: p.now(), volume: found.claim.Spec.VolumeName}
		return p.remove(ctx, found)
	}
	problem, over := p.outcome(found)
	if !over {
		if found.pod == nil {
			return p.create(ctx, p.newPod(found.claim, t))
		}
		return nil
	}
	p.ended[name] = ended{since: p.now(), volume: found.claim.Spec.VolumeName, problem: problem, known: true,
		took: finishedAt(found.pod, p.now()).Sub(found.claim.CreationTimestamp.Time)}
	return p.remove(ctx, found)
}

// finish records the result of a probe when its volume is deleted, or has not been for too long.
func (p *Prober) finish(ctx context.Context, name string, e ended, found probe, t *target) error {
	gone, err := p.isGone(ctx, e, found)
	if err != nil {
		return err
	}
	switch {
	case gone:
		delete(p.ended, name)
	case e.reported || p.now().Sub(e.since) < limit:
		return nil
	default:
		e.reported = true
		p.ended[name] = e
		e.problem = cmp.Or(e.problem, fmt.Sprintf("the volume %s was not deleted within %s",
			cmp.Or(e.volume, "of claim "+name), limit))
	}
	if t != nil && (e.known || e.problem != "") {
		p.record(t, result{node: t.node, class: t.class.Name, at: p.now(), problem: e.problem, took: e.took})
	}
	return nil
}

// isGone reports whether nothing of a probe that has ended exists.
func (p *Prober) isGone(ctx context.Context, e ended, found probe) (bool, error) {
	if found.claim != nil || found.pod != nil {
		return false, nil
	}
	if e.volume == "" {
		return true, nil
	}
	err := p.live.Get(ctx, client.ObjectKey{Name: e.volume}, &corev1.PersistentVolume{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read PersistentVolume %s of a probe: %w", e.volume, err)
	}
	return false, nil
}

// record stores a result, and sends an event if it is a failure.
func (p *Prober) record(t *target, r result) {
	p.mu.Lock()
	p.results[nameOf(r.node, r.class)] = r
	p.mu.Unlock()
	if r.problem != "" {
		// The recorder joins events about the same two objects to a series with the first note.
		group := &v1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: r.class}}
		p.events.Eventf(t.status, group, failed.Type, failed.Reason, failed.Action, failed.Text, r.class, r.problem)
	}
}

// forget drops the results of targets that no longer exist.
func (p *Prober) forget(targets map[string]*target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.results, func(name string, _ result) bool { return targets[name] == nil })
}
