package fstrim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

const (
	// interval is the time between two checks whether a volume is due. A check starts no process.
	interval = time.Minute
	// gap is the minimum time between two trims.
	gap = time.Second
	// interruptedDelay is the delay before a trim that was interrupted by an unmount is repeated.
	interruptedDelay = 10 * time.Minute
	// requestTimeout limits each request to the API server.
	requestTimeout = 10 * time.Second
	// failuresToReport is the number of consecutive failures from which on there is an event.
	failuresToReport = 3
	// maxMessage is the maximum length of the error in a record, in bytes.
	maxMessage = 512
)

// Volumes returns the logical volumes of this node. engine.Engine implements it.
type Volumes interface {
	// Volumes returns the volumes of all classes, and every class with an error if it is not available.
	Volumes(ctx context.Context) (volumes []engine.VolumeState, classes map[string]error, err error)
}

// FileSystems are the mounted file systems of this node. mountedfs.FileSystems implements it. Devices are
// "MAJOR:MINOR".
type FileSystems interface {
	// Staged returns where the kubelet has the file systems on devices staged, without those that are read-only.
	Staged(plugins string, devices []string) (map[string]string, error)
	// TrimStaged trims a file system, and returns how many bytes it discarded. If it must be unmounted, the error wraps
	// context.Canceled.
	TrimStaged(ctx context.Context, device, path string) (int64, error)
}

// Options configure a Trimmer.
type Options struct {
	// Client reads LVMVolumeGroups and LogicalVolumes from a cache, and patches them. Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Node is the name of this node. Namespace is that of the LVMVolumeGroups.
	Node, Namespace string
	Volumes         Volumes
	FileSystems     FileSystems
	// Plugins is the directory in which the kubelet has volumes staged.
	Plugins string
	// NotSupported reports whether an error of FileSystems means that discards are not supported.
	NotSupported func(error) bool
	Recorder     event.Recorder
}

// Trimmer trims the file systems of the mounted volumes of a node. It implements manager.Runnable and
// prometheus.Collector.
type Trimmer struct {
	Options
	now    func() time.Time
	events *event.Emitter

	// Only pass uses these. states are those of the device classes with trim. started: a pass has read the device
	// classes.
	states  map[string]classState
	started bool
	// By the name of the volume: recent are the last attempts of this process, because the cache can lack them; unsaved
	// are those that could not be written to the LogicalVolume; notBefore is when a volume may be tried again whose
	// trim did not start or was interrupted.
	recent    map[string]Record
	unsaved   map[string]bool
	notBefore map[string]time.Time

	mu     sync.Mutex
	totals map[string]*totals
}

var (
	// trimFailed is a Warning event on the LogicalVolume: at least three attempts in a row to trim its file system
	// failed.
	// What to do: see the error in the note and the kernel's log on the node; the agent tries again, at least once a
	// day.
	trimFailed = event.Warning("TrimFailed", "Trim",
		"node %s cannot trim the file system (%d attempts in a row failed): %s")
	// trimNotSupported is a Normal event on the LogicalVolume: its file system or the devices below do not support
	// discards, so it is not trimmed.
	trimNotSupported = event.Normal("TrimNotSupported", "Trim", "the file system on node %s is not trimmed: %s")
)

// New returns a Trimmer.
func New(o Options) *Trimmer {
	return &Trimmer{Options: o, now: time.Now, events: event.NewEmitter(o.Recorder),
		recent: map[string]Record{}, unsaved: map[string]bool{}, notBefore: map[string]time.Time{},
		totals: map[string]*totals{}}
}

// NeedLeaderElection returns false, because every node trims its own volumes.
func (t *Trimmer) NeedLeaderElection() bool { return false }

// Start trims volumes when they are due, until ctx ends.
func (t *Trimmer) Start(ctx context.Context) error {
	for {
		trimmed, err := t.pass(ctx)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "cannot trim file systems", "node", t.Node)
		}
		delay := interval
		if trimmed && err == nil {
			delay = gap
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(delay):
		}
	}
}

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmvolumegroups,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// pass trims the next volume that is due, and reports whether it tried one. While no device class has trim, it reads
// nothing but the cache.
func (t *Trimmer) pass(ctx context.Context) (tried bool, err error) {
	ctx, end := liveness.Begin(ctx, "trim of file systems")
	defer end()
	groups := &v1alpha1.LVMVolumeGroupList{}
	if err := t.Client.List(ctx, groups, client.InNamespace(t.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list LVMVolumeGroups: %w", err)
	}
	configs := map[string]v1alpha1.TrimConfig{}
	for i := range groups.Items {
		if g := &groups.Items[i]; g.Spec.Trim != nil && g.DeletionTimestamp.IsZero() {
			configs[g.Name] = *g.Spec.Trim
		}
	}
	var states []engine.VolumeState
	if len(configs) > 0 {
		if states, _, err = t.Volumes.Volumes(ctx); err != nil {
			return false, fmt.Errorf("read the logical volumes of node %s: %w", t.Node, err)
		}
	}
	now := t.now()
	classes := t.classes(configs, states, now)
	volumes, err := t.volumes(ctx, classes, states)
	if err != nil {
		return false, err
	}
	t.keepTotals(classes, volumes)
	t.forget(volumes)
	err = t.save(ctx, volumes)
	due := dueVolumes(t.Node, classes, volumes, now)
	if len(due) == 0 {
		return false, err
	}
	return true, errors.Join(err, t.trim(ctx, due[0]))
}

// classes returns the device classes with trim. It remembers since when each one has a schedule, and since when its
// thin pool is above the threshold.
func (t *Trimmer) classes(configs map[string]v1alpha1.TrimConfig, states []engine.VolumeState,
	now time.Time) map[string]class {
	percents := map[string]float64{}
	for _, s := range states {
		if s.PoolPercent != nil {
			percents[s.Class] = *s.PoolPercent
		}
	}
	classes := map[string]class{}
	next := map[string]classState{}
	for name, config := range configs {
		c := class{period: periodOf(config.Schedule), percent: percents[name]}
		threshold := float64(config.PoolUsageThresholdPercent)
		c.isAbove = threshold > 0 && c.percent >= threshold
		c.classState = t.states[name].next(c.period > 0, c.isAbove, t.started, now)
		classes[name], next[name] = c, c.classState
	}
	t.states, t.started = next, true
	return classes
}

// next returns the state after one more look at a device class. started: the agent has seen the device classes before.
func (s classState) next(scheduled, above, started bool, now time.Time) classState {
	var next classState
	if scheduled {
		next.since, next.catchUp = s.since, s.catchUp
		if s.since.IsZero() {
			next.since, next.catchUp = now, !started
		}
	}
	if above {
		next.aboveSince = s.aboveSince
		if s.aboveSince.IsZero() {
			next.aboveSince = now
		}
	}
	return next
}

// volumes returns the volumes that can be trimmed.
func (t *Trimmer) volumes(ctx context.Context, classes map[string]class,
	states []engine.VolumeState) ([]volume, error) {
	var devices []string
	for i := range states {
		if _, wanted := classes[states[i].Class]; wanted && canTrim(&states[i]) {
			devices = append(devices, states[i].Device)
		}
	}
	if len(devices) == 0 {
		return nil, nil
	}
	staged, err := t.FileSystems.Staged(t.Plugins, devices)
	if err != nil {
		return nil, err
	}
	list := &topolvmv1.LogicalVolumeList{}
	if err := t.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list LogicalVolumes: %w", err)
	}
	objects := map[string]*topolvmv1.LogicalVolume{}
	for i := range list.Items {
		if lv := &list.Items[i]; t.mayTrim(lv) {
			objects[lv.Status.VolumeID] = lv
		}
	}
	var volumes []volume
	for i := range states {
		s := &states[i]
		object, path := objects[s.Name], staged[s.Device]
		if _, wanted := classes[s.Class]; !wanted || object == nil || path == "" || !canTrim(s) {
			continue
		}
		volumes = append(volumes, t.volume(ctx, s, object, path))
	}
	return volumes, nil
}

// canTrim reports whether a logical volume can be trimmed: it is active, writable, healthy and not being erased, and
// none of its devices is suspended.
func canTrim(s *engine.VolumeState) bool {
	return s.Device != "" && !s.ReadOnly && !s.Damaged && len(s.SuspendedDevices) == 0 &&
		!slices.ContainsFunc(s.Tags, func(tag string) bool { return strings.HasPrefix(tag, wellknown.ErasedTagPrefix) })
}

// mayTrim reports whether an object of this node allows its volume to be trimmed: it is not suspended and not being
// deleted.
func (t *Trimmer) mayTrim(lv *topolvmv1.LogicalVolume) bool {
	_, suspended := view.Suspended(lv)
	pending := view.IsPendingDeletion(lv)
	return lv.Spec.NodeName == t.Node && lv.Status.VolumeID != "" && lv.DeletionTimestamp.IsZero() && !suspended &&
		!pending
}

func (t *Trimmer) volume(ctx context.Context, s *engine.VolumeState, object *topolvmv1.LogicalVolume,
	path string) volume {
	v := volume{class: s.Class, name: s.Name, device: s.Device, path: path, object: object.Name,
		created: object.CreationTimestamp.Time, notBefore: t.notBefore[s.Name]}
	if s.DataPercent != nil {
		v.allocated = int64(float64(s.Size) * *s.DataPercent / 100)
	}
	if recorded := object.Annotations[wellknown.TrimAnnotation]; recorded != "" {
		record, err := ParseRecord(recorded)
		if err == nil {
			v.last = &record
		} else {
			// Without a record, the volume is trimmed at its next time by schedule, which writes a new one.
			log.FromContext(ctx).V(1).Info("an annotation is not valid", "logicalVolume", object.Name, "cause",
				err.Error())
		}
	}
	if recent, present := t.recent[s.Name]; present && (v.last == nil || recent.Time.After(v.last.Time)) {
		v.last = &recent
	}
	return v
}

// forget removes what is kept in memory about volumes that cannot be trimmed now.
func (t *Trimmer) forget(volumes []volume) {
	present := map[string]bool{}
	for _, v := range volumes {
		present[v.name] = true
	}
	maps.DeleteFunc(t.recent, func(name string, _ Record) bool { return !present[name] })
	maps.DeleteFunc(t.unsaved, func(name string, _ bool) bool { return !present[name] })
	maps.DeleteFunc(t.notBefore, func(name string, _ time.Time) bool { return !present[name] })
}

// save writes the records that could not be written before.
func (t *Trimmer) save(ctx context.Context, volumes []volume) error {
	for _, v := range volumes {
		if !t.unsaved[v.name] {
			continue
		}
		lv, err := t.read(ctx, v)
		if err == nil {
			err = t.write(ctx, lv, v, t.recent[v.name])
		}
		if err != nil {
			return err // probably the others cannot be written either
		}
	}
	return nil
}

// trim trims a volume, after it has read from the API server that it may, and writes the result to the LogicalVolume.
func (t *Trimmer) trim(ctx context.Context, v volume) error {
	lv, err := t.read(ctx, v)
	if err != nil {
		t.notBefore[v.name] = t.now().Add(interval)
		return err
	}
	if !t.mayTrim(lv) || lv.Status.VolumeID != v.name {
		t.notBefore[v.name] = t.now().Add(interval) // The cache does not have the change yet.
		return nil
	}
	begun := t.now()
	bytes, err := t.FileSystems.TrimStaged(ctx, v.device, v.path)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, context.Canceled) {
		t.notBefore[v.name] = t.now().Add(interruptedDelay)
		return nil
	}
	record := t.recordOf(v, bytes, err)
	t.report(ctx, lv, v, record, t.now().Sub(begun))
	t.count(v.class, record)
	return t.write(ctx, lv, v, record)
}

// recordOf returns the record of an attempt.
func (t *Trimmer) recordOf(v volume, bytes int64, err error) Record {
	record := Record{Time: t.now().UTC().Truncate(time.Second), Result: Trimmed,
		TrimmedBytes: bytes}
	if err == nil {
		return record
	}
	record.Message, record.TrimmedBytes = text.Truncate(err.Error(), maxMessage), 0
	if t.NotSupported(err) {
		record.Result = NotSupported
		return record
	}
	record.Result, record.Failures = Failed, 1
	if v.last != nil {
		record.Failures += v.last.Failures
	}
	return record
}

// report logs an attempt, and sends an event about repeated failures, and when discards turn out not to be supported.
func (t *Trimmer) report(ctx context.Context, lv *topolvmv1.LogicalVolume, v volume, record Record,
	took time.Duration) {
	logger := log.FromContext(ctx).WithValues("volume", v.name, "deviceClass", v.class, "took", took)
	switch record.Result {
	case Trimmed:
		logger.Info("trimmed a file system", "size", record.TrimmedBytes)
		t.events.Forget(lv)
	case NotSupported:
		if v.last == nil || v.last.Result != record.Result {
			logger.Info("a file system cannot be trimmed", "cause", record.Message)
			t.events.Emit(lv, trimNotSupported, t.Node, record.Message)
		}
	default:
		logger.Info("cannot trim a file system", "cause", record.Message)
		if record.Failures >= failuresToReport {
			t.events.Emit(lv, trimFailed, t.Node, record.Failures, record.Message)
		}
	}
}

// read reads the LogicalVolume of a volume from the API server.
func (t *Trimmer) read(ctx context.Context, v volume) (*topolvmv1.LogicalVolume, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	lv := &topolvmv1.LogicalVolume{}
	if err := t.Live.Get(ctx, client.ObjectKey{Name: v.object}, lv); err != nil {
		return nil, fmt.Errorf("volume %s is not trimmed, because LogicalVolume %s, which says whether it is "+
			"suspended, cannot be read: %w", v.name, v.object, err)
	}
	return lv, nil
}

// write writes the record of a volume to its LogicalVolume. If this fails, the next pass writes it.
func (t *Trimmer) write(ctx context.Context, lv *topolvmv1.LogicalVolume, v volume, record Record) error {
	t.recent[v.name], t.unsaved[v.name] = record, true
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	before := lv.DeepCopy()
	metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.TrimAnnotation, record.String())
	if err := t.Client.Patch(ctx, lv, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write annotation %s of LogicalVolume %s: %w", wellknown.TrimAnnotation, v.object, err)
	}
	delete(t.unsaved, v.name)
	return nil
}
