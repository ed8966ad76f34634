package activecache

import (
	"context"
	"slices"
	"sync"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// Volumes creates the informers of a cache, and maps the IDs of all LogicalVolumes to their names, including those
// that the cache does not hold. The zero value is ready for use.
type Volumes struct {
	mu    sync.RWMutex
	names map[string]string
}

// NewInformer creates an informer (controller-runtime, cache.Options.NewInformer). The informers of claims,
// PersistentVolumes and LogicalVolumes hold only objects that are not settled: the controllers do not act on settled
// objects, and there are tens of thousands of them. Event handlers receive a deletion when an object settles, and an
// addition when it is no longer settled.
func (v *Volumes) NewInformer(source toolscache.ListerWatcher, object runtime.Object, resync time.Duration,
	indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if activeOnly(object) {
		source = activeObjects{source, v}
	}
	return toolscache.NewSharedIndexInformer(source, object, resync, indexers)
}

// Name returns the name of the LogicalVolume with a volume ID, or "" if none was observed. The LogicalVolume may
// have been deleted since.
func (v *Volumes) Name(id string) string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.names[id]
}

// Answers is a question for liveness.Ask: while a lock is held forever, the cache has no event of a volume.
func (v *Volumes) Answers(context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return nil
}

// note updates the names with an event.
func (v *Volumes) note(kind watch.EventType, object runtime.Object) {
	lv, ok := object.(*topolvmv1.LogicalVolume)
	if !ok || lv.Status.VolumeID == "" {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if kind == watch.Deleted {
		delete(v.names, lv.Status.VolumeID)
		return
	}
	if v.names == nil {
		v.names = map[string]string{}
	}
	v.names[lv.Status.VolumeID] = lv.Name
}

// IsSettled reports whether a claim, PersistentVolume or LogicalVolume is settled, which means that its status
// matches its spec. Objects of other kinds never settle.
func IsSettled(object runtime.Object) bool {
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim:
		return claimIsSettled(o)
	case *corev1.PersistentVolume:
		return volumeIsSettled(o)
	case *topolvmv1.LogicalVolume:
		return logicalVolumeIsSettled(o)
	}
	return false
}

// logicalVolumeIsSettled reports whether a LogicalVolume is created, has the requested size and limits, and is not
// being deleted or switched to another node, does not belong to a group snapshot that is not complete, and is
// healthy.
func logicalVolumeIsSettled(lv *topolvmv1.LogicalVolume) bool {
	status := &lv.Status
	return lv.DeletionTimestamp == nil && status.VolumeID != "" && status.Code == codes.OK &&
		status.CurrentSize != nil && status.CurrentSize.Cmp(lv.Spec.Size) >= 0 &&
		view.MovedVolume(lv) == "" && !isBeingSwitched(lv) && !view.IOLimitsOf(lv).IsPending() &&
		view.GroupPending(lv) == "" && lv.Annotations[wellknown.HealthAnnotation] == ""
}

// isBeingSwitched reports whether a LogicalVolume is fenced for a move, or its target node has to adopt its copy. No
// Pod can use it meanwhile, so the controller of moves must see each change.
func isBeingSwitched(lv *topolvmv1.LogicalVolume) bool {
	return fence.Holder(lv)+fence.Confirmed(lv)+view.Adopts(lv) != ""
}

// claimIsSettled reports whether a claim is bound, has the requested size and VolumeAttributesClass, has no
// operation in progress, and is healthy.
func claimIsSettled(claim *corev1.PersistentVolumeClaim) bool {
	asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	has := claim.Status.Capacity[corev1.ResourceStorage]
	status := &claim.Status
	class := ptr.Deref(claim.Spec.VolumeAttributesClassName, "")
	return status.Phase == corev1.ClaimBound && unheld(claim) && asked.Cmp(has) <= 0 &&
		(class == "" || class == ptr.Deref(status.CurrentVolumeAttributesClassName, "")) &&
		!slices.ContainsFunc(status.Conditions, isProgress) && len(status.AllocatedResourceStatuses) == 0 &&
		status.ModifyVolumeStatus == nil && status.HealthStatus == nil
}

// isProgress reports whether a condition of a claim is about an operation. Kubernetes 1.37 also has one on each
// claim that says whether a Pod uses it (KEP-5541).
func isProgress(c corev1.PersistentVolumeClaimCondition) bool {
	return c.Type != corev1.PersistentVolumeClaimUnused
}

// volumeIsSettled reports whether a PersistentVolume is bound, and is not being deleted or migrated to this driver.
func volumeIsSettled(volume *corev1.PersistentVolume) bool {
	return volume.Status.Phase == corev1.VolumeBound && unheld(volume) && !finalizerPending(volume) &&
		!view.MigrationRequested(volume)
}

// finalizerPending reports whether the provisioner must add or remove its finalizer of a PersistentVolume
// (HonorPVReclaimPolicy, KEP-2644). Without the finalizer, if a PersistentVolume is deleted before its claim, the
// logical volume remains.
func finalizerPending(volume *corev1.PersistentVolume) bool {
	if volume.Annotations[provisionedBy] != wellknown.DriverName {
		return false
	}
	has := slices.Contains(volume.Finalizers, provisionerFinalizer)
	if volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		return !has
	}
	return has
}

const (
	provisionedBy        = "pv.kubernetes.io/provisioned-by"
	provisionerFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"
)

// protection lists the finalizers that a settled claim or PersistentVolume may have.
var protection = []string{"kubernetes.io/pvc-protection", "kubernetes.io/pv-protection", provisionerFinalizer}

func unheld(object metav1.Object) bool {
	return object.GetDeletionTimestamp() == nil && !slices.ContainsFunc(object.GetFinalizers(),
		func(f string) bool { return !slices.Contains(protection, f) })
}

// activeObjects filters out settled objects.
type activeObjects struct {
	toolscache.ListerWatcher
	volumes *Volumes
}

var _ toolscache.ListerWatcherWithContext = activeObjects{}

// List returns objects that are not settled.
func (m activeObjects) List(options metav1.ListOptions) (runtime.Object, error) {
	return m.ListWithContext(context.Background(), options)
}

// ListWithContext returns objects that are not settled.
func (m activeObjects) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := toolscache.ToListerWatcherWithContext(m.ListerWatcher).ListWithContext(ctx, options)
	switch l := list.(type) {
	case *corev1.PersistentVolumeClaimList:
		l.Items = slices.Clip(slices.DeleteFunc(l.Items,
			func(c corev1.PersistentVolumeClaim) bool { return claimIsSettled(&c) }))
	case *corev1.PersistentVolumeList:
		l.Items = slices.Clip(slices.DeleteFunc(l.Items,
			func(v corev1.PersistentVolume) bool { return volumeIsSettled(&v) }))
	case *topolvmv1.LogicalVolumeList:
		for i := range l.Items {
			m.volumes.note(watch.Added, &l.Items[i])
		}
		l.Items = slices.Clip(slices.DeleteFunc(l.Items,
			func(v topolvmv1.LogicalVolume) bool { return logicalVolumeIsSettled(&v) }))
	}
	return list, err
}

// Watch returns the events of objects that are not settled.
func (m activeObjects) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return m.WatchWithContext(context.Background(), options)
}

// WatchWithContext returns the events of objects that are not settled.
func (m activeObjects) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	source, err := toolscache.ToListerWatcherWithContext(m.ListerWatcher).WatchWithContext(ctx, options)
	if err != nil {
		return nil, err
	}
	w := &activeWatch{source: source, volumes: m.volumes, events: make(chan watch.Event), stopped: make(chan struct{})}
	go w.run()
	return w, nil
}

// IsWatchListSemanticsUnSupported reports whether the source cannot stream the initial list with a watch
// (k8s.io/client-go/util/watchlist).
func (m activeObjects) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(m.ListerWatcher)
}

// activeWatch passes the events of objects that are not settled.
type activeWatch struct {
	source  watch.Interface
	volumes *Volumes
	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

// ResultChan returns the channel of events.
func (w *activeWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the watch.
func (w *activeWatch) Stop() {
	w.once.Do(func() { close(w.stopped) })
	w.source.Stop()
}

func (w *activeWatch) run() {
	defer close(w.events)
	for event := range w.source.ResultChan() {
		w.volumes.note(event.Type, event.Object)
		if (event.Type == watch.Added || event.Type == watch.Modified) && IsSettled(event.Object) {
			if event.Type == watch.Added {
				continue
			}
			event.Type = watch.Deleted
		}
		select {
		case w.events <- event:
		case <-w.stopped:
			return
		}
	}
}
