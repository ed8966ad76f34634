package volumemove

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
)

const (
	// maxPodWatches is the maximum number of watches at once. Other moves notice the end of their Pods by polling.
	maxPodWatches = 100
	// podWatchLimit is how long one watch lasts. The next poll of the move begins another one.
	podWatchLimit = 10 * time.Minute
)

// podWatches reports at once that a Pod for which a move waits has ended: from then on, the workload is without its
// volume. Each watch is for one Pod, and lasts only while a move waits for it, because the operator does not need the
// other Pods of the cluster. An event that is missed is found by the next poll. It is a Runnable, and safe for
// concurrent use.
type podWatches struct {
	client client.WithWatch
	// onEnd is called before a move is reported, with the namespace of the Pod.
	onEnd func(move client.ObjectKey, namespace string)
	// ended has the moves whose Pods have ended.
	ended chan event.GenericEvent

	mu sync.Mutex
	// ctx ends the watches. It is nil before the start and after the end.
	ctx     context.Context //nolint:containedctx // a watch lasts longer than a call
	watched map[client.ObjectKey]bool
	running sync.WaitGroup
}

func newPodWatches(c client.WithWatch, onEnd func(move client.ObjectKey, namespace string)) *podWatches {
	return &podWatches{client: c, onEnd: onEnd, ended: make(chan event.GenericEvent, maxPodWatches),
		watched: map[client.ObjectKey]bool{}}
}

// Start permits watches until ctx ends, and waits until they have ended.
func (p *podWatches) Start(ctx context.Context) error {
	p.permit(ctx)
	<-ctx.Done()
	p.forbid()
	p.running.Wait()
	return nil
}

func (p *podWatches) permit(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx = ctx
}

func (p *podWatches) forbid() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx = nil
}

// follow watches a Pod for a move, from the resource version of a list that has it. It does nothing if a Pod is watched
// for the move already, or too many are. It reports whether a Pod is watched for the move.
func (p *podWatches) follow(move, pod client.ObjectKey, version string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil || p.watched[move] || len(p.watched) >= maxPodWatches {
		return p.watched[move]
	}
	p.watched[move] = true
	ctx := p.ctx
	p.running.Go(func() {
		ended := p.untilEnded(ctx, pod, version)
		p.forget(move)
		if ended {
			p.onEnd(move, pod.Namespace)
			p.report(move)
		}
	})
	return true
}

func (p *podWatches) forget(move client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watched, move)
}

// report has a move reconciled. If too many are reported at once, the move is polled instead.
func (p *podWatches) report(move client.ObjectKey) {
	object := &v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{Namespace: move.Namespace, Name: move.Name}}
	select {
	case p.ended <- event.GenericEvent{Object: object}:
	default:
	}
}

// untilEnded waits until a Pod no longer exists or has ended. It returns false if that is not known: the watch has
// failed or has reached its limit.
func (p *podWatches) untilEnded(ctx context.Context, pod client.ObjectKey, version string) bool {
	ctx, cancel := context.WithTimeout(ctx, podWatchLimit)
	defer cancel()
	w, err := p.client.Watch(ctx, &corev1.PodList{}, &client.ListOptions{Namespace: pod.Namespace,
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name),
		Raw: &metav1.ListOptions{ResourceVersion: version,
			TimeoutSeconds: ptr.To(int64(podWatchLimit / time.Second))}})
	if err != nil {
		log.FromContext(ctx).V(1).Info("cannot watch a Pod: it is polled", "object", pod.String(), "cause", err.Error())
		return false
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		now, isPod := e.Object.(*corev1.Pod)
		switch {
		case !isPod:
			return false // It is an error: the resource version is too old.
		case e.Type == watch.Deleted || !relocate.Runs(now):
			return true
		}
	}
	return false
}
