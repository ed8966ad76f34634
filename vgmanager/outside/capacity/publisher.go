// Package capacity publishes the capacity of the device classes of this node: as annotations of the Node, from which
// the scheduler's objects are created, and as metrics. Names and units are TopoLVM's.
package capacity

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/metrics/metric"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

const (
	// gap is the minimum time between two updates. Changes within it are combined.
	gap = time.Second
	// interval is how often the pool usage is read. Reading it starts no process.
	interval = 3 * time.Second
	// maxAge is how long the last known capacity stays published while LVM cannot be read. After that, the
	// capacity is 0.
	maxAge = 2 * time.Minute
	// defaultKey stands for the default class in the annotation and in TopoLVM's API.
	defaultKey = "00default"
)

// Classes returns the device classes of this node. engine.Engine implements it.
type Classes interface {
	States(ctx context.Context) ([]engine.ClassState, error)
	Subscribe(changed func())
}

// Publisher updates the capacity annotations of the Node. It implements prometheus.Collector.
type Publisher struct {
	client  client.Client
	node    string
	classes Classes
	now     func() time.Time
	notices chan struct{}

	mu     sync.Mutex
	states []engine.ClassState
	// observedAt is when the classes were last read, or when the Publisher was created.
	observedAt time.Time
}

// New returns a Publisher for a Node. The client reads the Node from a cache.
func New(c client.Client, node string, classes Classes) *Publisher {
	p := &Publisher{client: c, node: node, classes: classes, now: time.Now, notices: make(chan struct{}, 1)}
	classes.Subscribe(p.notify)
	return p
}

func (p *Publisher) notify() {
	select {
	case p.notices <- struct{}{}:
	default:
	}
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch;patch

// Start publishes until ctx ends. It implements manager.Runnable.
func (p *Publisher) Start(ctx context.Context) error {
	p.mu.Lock()
	p.observedAt = p.now()
	p.mu.Unlock()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := p.publish(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "cannot publish capacity", "node", p.node)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(gap):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-p.notices:
		}
	}
}

// NeedLeaderElection returns false, because every node publishes its own capacity.
func (p *Publisher) NeedLeaderElection() bool { return false }

// publish reads the classes once and patches the annotations that changed.
func (p *Publisher) publish(ctx context.Context) error {
	ctx, end := liveness.Begin(ctx, "publication of the capacity")
	defer end()
	states, err := p.observe(ctx)
	if states == nil && err != nil {
		return err
	}
	node := &corev1.Node{}
	if getErr := p.client.Get(ctx, client.ObjectKey{Name: p.node}, node); getErr != nil {
		return fmt.Errorf("read node %s: %w", p.node, getErr)
	}
	patch := difference(node.Annotations, annotations(states))
	if len(patch) == 0 {
		return err
	}
	data, marshalErr := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": patch}})
	if marshalErr != nil {
		return marshalErr
	}
	if patchErr := p.client.Patch(ctx, node, client.RawPatch(types.MergePatchType, data)); patchErr != nil {
		return fmt.Errorf("patch the annotations of node %s: %w", p.node, patchErr)
	}
	return err
}

// observe returns the state of the classes. If they cannot be read, it returns nil and the error until maxAge has
// passed, so that the published capacity stays.
func (p *Publisher) observe(ctx context.Context) ([]engine.ClassState, error) {
	states, err := p.classes.States(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.states, p.observedAt = states, p.now()
		if states == nil {
			states = []engine.ClassState{}
		}
		return states, nil
	}
	if p.now().Sub(p.observedAt) < maxAge {
		return nil, err
	}
	unknown := []engine.ClassState{}
	for _, s := range p.states {
		unknown = append(unknown, engine.ClassState{Name: s.Name, Default: s.Default, Err: err})
	}
	p.states = unknown
	return unknown, err
}

// annotations returns the desired annotations of the Node.
func annotations(states []engine.ClassState) map[string]string {
	list := map[string]string{}
	for _, s := range states {
		list[wellknown.CapacityAnnotationPrefix+s.Name] = strconv.FormatUint(s.Capacity, 10)
		if s.Default {
			list[wellknown.CapacityAnnotationPrefix+defaultKey] = strconv.FormatUint(s.Capacity, 10)
		}
	}
	return list
}

// difference returns the annotations for a merge patch, with null for the keys of removed classes.
func difference(have, want map[string]string) map[string]any {
	patch := map[string]any{}
	for key, value := range want {
		if old, ok := have[key]; !ok || old != value {
			patch[key] = value
		}
	}
	for key := range have {
		if _, ok := want[key]; !ok && strings.HasPrefix(key, wellknown.CapacityAnnotationPrefix) {
			patch[key] = nil
		}
	}
	return patch
}

// Metrics of a device class. Most names are TopoLVM's.
var (
	availableFamily = metric.NewGauge("topolvm_volumegroup_available_bytes",
		"Thin: free space of the volume group, in bytes. Thick: capacity for new volumes, in bytes.", "node",
		"device_class")
	sizeFamily = metric.NewGauge("topolvm_volumegroup_size_bytes", "Size of the volume group, in bytes.",
		"node", "device_class")
	poolFamily = metric.NewGauge("topolvm_thinpool_size_bytes", "Size of the thin pool's data, in bytes.",
		"node", "device_class")
	dataFamily = metric.NewGauge("topolvm_thinpool_data_percent",
		"Used part of the thin pool's data, in percent. No series while the pool is not active.", "node",
		"device_class")
	metadataFamily = metric.NewGauge("topolvm_thinpool_metadata_percent",
		"Used part of the thin pool's metadata, in percent. No series while the pool is not active.", "node",
		"device_class")
	overprovisionedFamily = metric.NewGauge("topolvm_thinpool_overprovisioned_available",
		"Total capacity for new volumes of the thin pool, in bytes.", "node", "device_class")
	reportedFamily = metric.NewGauge("lvms_capacity_bytes",
		"Capacity that the node agent reports to the scheduler for new volumes, in bytes. It is 0 if the volume group "+
			"or the thin pool of the device class is not available.", "node", "device_class")
	observedFamily = metric.NewGauge("lvms_capacity_observed_timestamp_seconds",
		"Time of the last successful read of the node's device classes, in seconds since 1970. The reported capacity "+
			"is of that time.", "node")
)

// Families are all metrics of the Publisher.
var Families = []metric.Family{sizeFamily, availableFamily, poolFamily, dataFamily, metadataFamily,
	overprovisionedFamily, reportedFamily, observedFamily}

// Describe implements prometheus.Collector.
func (p *Publisher) Describe(to chan<- *prometheus.Desc) { metric.Describe(to, Families) }

// Collect implements prometheus.Collector. It reports the last known state without reading LVM. For a class that is
// not available, it reports only a capacity of 0.
func (p *Publisher) Collect(to chan<- prometheus.Metric) {
	p.mu.Lock()
	states := p.states
	observedAt := p.observedAt
	p.mu.Unlock()
	if !observedAt.IsZero() {
		observedFamily.Send(to, float64(observedAt.UnixMilli())/1000, p.node)
	}
	for i := range states {
		p.collect(to, &states[i])
	}
}

func (p *Publisher) collect(to chan<- prometheus.Metric, s *engine.ClassState) {
	reportedFamily.Send(to, float64(s.Capacity), p.node, s.Name)
	if s.Err != nil {
		return
	}
	available := s.Capacity
	if s.Thin {
		available = s.Free
	}
	availableFamily.Send(to, float64(available), p.node, s.Name)
	sizeFamily.Send(to, float64(s.Size), p.node, s.Name)
	if !s.Thin {
		return
	}
	poolFamily.Send(to, float64(s.PoolSize), p.node, s.Name)
	overprovisionedFamily.Send(to, float64(s.Capacity), p.node, s.Name)
	if s.DataPercent != nil {
		dataFamily.Send(to, *s.DataPercent, p.node, s.Name)
	}
	if s.MetadataPercent != nil {
		metadataFamily.Send(to, *s.MetadataPercent, p.node, s.Name)
	}
}
