// Package capacity tells the cluster what the device classes of this node have to offer: on the Node, where the scheduler's objects are
// made from it, and as metrics. Names and units are TopoLVM's.
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

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
)

const (
	// gap is the least time between two looks: changes that come together are one.
	gap = time.Second
	// interval is how often pools are asked how full they are. That starts no process.
	interval = 3 * time.Second
	// blindAfter is how long the last that was known counts while the node's LVM cannot be read. After that nothing is offered.
	blindAfter = 2 * time.Minute
	// defaultKey is the annotation, and the word in TopoLVM's API, for the default class.
	defaultKey = "00default"
)

// Classes are the device classes of this node: lvmd.Engine.
type Classes interface {
	States(ctx context.Context) ([]lvmd.ClassState, error)
	Subscribe(changed func())
}

// Publisher keeps the annotations of the Node true. It is a prometheus.Collector too.
type Publisher struct {
	client  client.Client
	node    string
	classes Classes
	now     func() time.Time
	notices chan struct{}

	mu     sync.Mutex
	states []lvmd.ClassState
	seenAt time.Time
}

// New returns a Publisher for a Node, which the client reads from a cache.
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
	p.seenAt = p.now()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := p.publish(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "capacity could not be published", "node", p.node)
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

// NeedLeaderElection tells the manager that every node publishes.
func (p *Publisher) NeedLeaderElection() bool { return false }

// publish looks once, and writes what changed.
func (p *Publisher) publish(ctx context.Context) error {
	states, err := p.look(ctx)
	if states == nil && err != nil {
		return err
	}
	node := &corev1.Node{}
	if getErr := p.client.Get(ctx, client.ObjectKey{Name: p.node}, node); getErr != nil {
		return fmt.Errorf("node %s: %w", p.node, getErr)
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
		return fmt.Errorf("annotations of node %s: %w", p.node, patchErr)
	}
	return err
}

// look returns the state of the classes: nil, with the error, while what was last published still counts.
func (p *Publisher) look(ctx context.Context) ([]lvmd.ClassState, error) {
	states, err := p.classes.States(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.states, p.seenAt = states, p.now()
		if states == nil {
			states = []lvmd.ClassState{}
		}
		return states, nil
	}
	if p.now().Sub(p.seenAt) < blindAfter {
		return nil, err
	}
	blind := []lvmd.ClassState{}
	for _, s := range p.states {
		blind = append(blind, lvmd.ClassState{Name: s.Name, Default: s.Default, Err: err})
	}
	p.states = blind
	return blind, err
}

// annotations are what the Node shall have.
func annotations(states []lvmd.ClassState) map[string]string {
	list := map[string]string{}
	for _, s := range states {
		list[v1alpha1.CapacityAnnotationPrefix+s.Name] = strconv.FormatUint(s.Capacity, 10)
		if s.Default {
			list[v1alpha1.CapacityAnnotationPrefix+defaultKey] = strconv.FormatUint(s.Capacity, 10)
		}
	}
	return list
}

// difference is what a merge patch has to say: null for the keys of classes that are gone.
func difference(have, want map[string]string) map[string]any {
	patch := map[string]any{}
	for key, value := range want {
		if old, ok := have[key]; !ok || old != value {
			patch[key] = value
		}
	}
	for key := range have {
		if _, ok := want[key]; !ok && strings.HasPrefix(key, v1alpha1.CapacityAnnotationPrefix) {
			patch[key] = nil
		}
	}
	return patch
}

// desc is a metric of a device class. The name of the node is a constant label, as in TopoLVM.
func (p *Publisher) desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("topolvm_"+name, help, []string{"device_class"}, prometheus.Labels{"node": p.node})
}

// Describe implements prometheus.Collector: which metrics there are depends on the classes.
func (p *Publisher) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. It asks nobody: what it tells is what was last seen. A class that cannot be seen has no
// metrics.
func (p *Publisher) Collect(metrics chan<- prometheus.Metric) {
	p.mu.Lock()
	states := p.states
	p.mu.Unlock()
	for _, s := range states {
		if s.Err != nil {
			continue
		}
		gauge := func(name, help string, value float64) {
			metrics <- prometheus.MustNewConstMetric(p.desc(name, help), prometheus.GaugeValue, value, s.Name)
		}
		available := s.Capacity
		if s.Thin {
			available = s.Free
		}
		gauge("volumegroup_available_bytes", "LVM VG available bytes under lvmd management", float64(available))
		gauge("volumegroup_size_bytes", "LVM VG size bytes under lvmd management", float64(s.Size))
		if !s.Thin {
			continue
		}
		gauge("thinpool_size_bytes", "LVM VG Thin Pool raw size bytes", float64(s.PoolSize))
		gauge("thinpool_overprovisioned_available", "LVM VG Thin Pool bytes available with overprovisioning", float64(s.Capacity))
		if s.DataPercent != nil {
			gauge("thinpool_data_percent", "LVM VG Thin Pool data usage percent", *s.DataPercent)
		}
		if s.MetadataPercent != nil {
			gauge("thinpool_metadata_percent", "LVM VG Thin Pool metadata usage percent", *s.MetadataPercent)
		}
	}
}
