package trim

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
)

// NewInformer makes the informers of a cache (controller-runtime, cache.Options.NewInformer). Those of claims and PersistentVolumes hold
// only what moves: what rests is for nobody here to act on, and there are tens of thousands of it. For whoever watches, an object that
// comes to rest is deleted, and one that begins to move is new.
func NewInformer(source toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	switch object.(type) {
	case *corev1.PersistentVolumeClaim, *corev1.PersistentVolume:
		source = moving{source}
	}
	return toolscache.NewSharedIndexInformer(source, object, resync, indexers)
}

// Rests tells whether a claim or a PersistentVolume is as it is to be. Other objects never rest.
func Rests(object runtime.Object) bool {
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim:
		return claimRests(o)
	case *corev1.PersistentVolume:
		return volumeRests(o)
	}
	return false
}

// claimRests: it is bound, has the size that it asks for, and nothing is going on with it.
func claimRests(claim *corev1.PersistentVolumeClaim) bool {
	asked, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	status := &claim.Status
	return status.Phase == corev1.ClaimBound && unheld(claim) && asked.Cmp(has) <= 0 &&
		len(status.Conditions)+len(status.AllocatedResourceStatuses) == 0 && status.ModifyVolumeStatus == nil
}

func volumeRests(volume *corev1.PersistentVolume) bool {
	return volume.Status.Phase == corev1.VolumeBound && unheld(volume)
}

// protection are the finalizers of a claim or a PersistentVolume that rests.
var protection = []string{"kubernetes.io/pvc-protection", "kubernetes.io/pv-protection", "external-provisioner.volume.kubernetes.io/finalizer"}

func unheld(object metav1.Object) bool {
	return object.GetDeletionTimestamp() == nil && !slices.ContainsFunc(object.GetFinalizers(), func(f string) bool { return !slices.Contains(protection, f) })
}

// moving leaves out what rests.
type moving struct{ toolscache.ListerWatcher }

var _ toolscache.ListerWatcherWithContext = moving{}

// List lists what moves.
func (m moving) List(options metav1.ListOptions) (runtime.Object, error) {
	return m.ListWithContext(context.Background(), options)
}

// ListWithContext lists what moves.
func (m moving) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := toolscache.ToListerWatcherWithContext(m.ListerWatcher).ListWithContext(ctx, options)
	switch l := list.(type) {
	case *corev1.PersistentVolumeClaimList:
		l.Items = slices.Clip(slices.DeleteFunc(l.Items, func(c corev1.PersistentVolumeClaim) bool { return claimRests(&c) }))
	case *corev1.PersistentVolumeList:
		l.Items = slices.Clip(slices.DeleteFunc(l.Items, func(v corev1.PersistentVolume) bool { return volumeRests(&v) }))
	}
	return list, err
}

// Watch watches what moves.
func (m moving) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return m.WatchWithContext(context.Background(), options)
}

// WatchWithContext watches what moves.
func (m moving) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	source, err := toolscache.ToListerWatcherWithContext(m.ListerWatcher).WatchWithContext(ctx, options)
	if err != nil {
		return nil, err
	}
	w := &movingWatch{source: source, events: make(chan watch.Event), stopped: make(chan struct{})}
	go w.run()
	return w, nil
}

// IsWatchListSemanticsUnSupported tells whether the source can begin a watch with what there is (k8s.io/client-go/util/watchlist).
func (m moving) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(m.ListerWatcher)
}

// movingWatch passes the events of what moves.
type movingWatch struct {
	source  watch.Interface
	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

// ResultChan has the events.
func (w *movingWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the watch.
func (w *movingWatch) Stop() {
	w.once.Do(func() { close(w.stopped) })
	w.source.Stop()
}

func (w *movingWatch) run() {
	defer close(w.events)
	for event := range w.source.ResultChan() {
		if (event.Type == watch.Added || event.Type == watch.Modified) && Rests(event.Object) {
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
