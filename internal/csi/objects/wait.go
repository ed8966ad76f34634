package objects

import (
	"context"
	"fmt"
	"sync"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// waiters are calls that wait for a change of a LogicalVolume. The event handler of the informer wakes them.
type waiters struct {
	mu   sync.Mutex
	open map[string]map[*Waiter]bool
}

// Waiter receives the latest event of its
type Waiter struct {
	// C receives the latest event.
	C chan Event
	// Leave ends the wait.
	Leave func()
}

// Event is an event of an object. If stale is true, the object was deleted or has settled: the cache holds
// neither.
type Event struct {
	lv             *topolvmv1.LogicalVolume
	deleted, stale bool
}

// join starts to wait for  A caller that joins before it writes an object misses no answer.
func (w *waiters) join(names ...string) *Waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[string]map[*Waiter]bool{}
	}
	joined := &Waiter{C: make(chan Event, 1)}
	for _, name := range names {
		if w.open[name] == nil {
			w.open[name] = map[*Waiter]bool{}
		}
		w.open[name][joined] = true
	}
	joined.Leave = func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, name := range names {
			delete(w.open[name], joined)
			if len(w.open[name]) == 0 {
				delete(w.open, name)
			}
		}
	}
	return joined
}

func (w *waiters) wake(object any) {
	if lv, ok := object.(*topolvmv1.LogicalVolume); ok {
		w.notify(Event{lv: lv})
	}
}

// remove handles objects that have left the cache. An object without a deletion timestamp has only settled.
func (w *waiters) remove(object any) {
	last, missed := object.(cache.DeletedFinalStateUnknown)
	if missed {
		object = last.Obj
	}
	if lv, ok := object.(*topolvmv1.LogicalVolume); ok {
		gone := !missed && lv.DeletionTimestamp != nil
		w.notify(Event{lv: lv, deleted: gone, stale: missed || !gone && len(lv.Finalizers) == 0})
	}
}

func (w *waiters) notify(n Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for joined := range w.open[n.lv.Name] {
		select {
		case <-joined.C:
		default:
		}
		joined.C <- n // This does not block: there is only one sender.
	}
}

// handler returns the event handler for an informer of LogicalVolumes.
func (w *waiters) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    w.wake,
		UpdateFunc: func(_, after any) { w.wake(after) },
		DeleteFunc: w.remove,
	}
}

// Await waits until done returns true for an object. first is its known state. done receives nil when the object no
// longer exists. If Await returns an error, it also returns the last known state, which is never nil.
func (v *Volumes) Await(ctx context.Context, joined *Waiter, first *topolvmv1.LogicalVolume,
	done func(lv *topolvmv1.LogicalVolume) (bool, error)) (*topolvmv1.LogicalVolume, error) {
	defer liveness.Busy(ctx)()
	lv := first
	last := first
	for {
		over, err := done(lv)
		if err != nil {
			return last, err
		}
		if over {
			return lv, nil
		}
		select {
		case n := <-joined.C:
			now, err := v.read(ctx, first, n)
			if err != nil {
				return last, err
			}
			if lv = now; now != nil {
				last = now
			}
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}

// read returns the object of an event. If the event is stale, or is for another object with the same name, read gets
// the object from the API server.
func (v *Volumes) read(ctx context.Context, known *topolvmv1.LogicalVolume,
	n Event) (*topolvmv1.LogicalVolume, error) {
	switch {
	case n.stale || n.lv.UID != known.UID:
		return v.ReadByUID(ctx, known)
	case n.deleted:
		return nil, nil
	}
	return n.lv, nil
}

// Read returns a LogicalVolume from the API server, or nil if there is none.
func (v *Volumes) Read(ctx context.Context, name string) (*topolvmv1.LogicalVolume, error) {
	lv := &topolvmv1.LogicalVolume{}
	err := v.Live.Get(ctx, client.ObjectKey{Name: name}, lv)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, status.Errorf(codes.Unavailable, "read LogicalVolume %s: %v", name, err)
	}
	return lv, nil
}

// ReadByUID returns an object from the API server, or nil if it no longer exists. An object with the same name and
// another UID does not count.
func (v *Volumes) ReadByUID(ctx context.Context,
	known *topolvmv1.LogicalVolume) (*topolvmv1.LogicalVolume, error) {
	lv, err := v.Read(ctx, known.Name)
	if err != nil || lv == nil || lv.UID != known.UID {
		return nil, err
	}
	return lv, nil
}

// TimeoutError returns the error of a call whose deadline is over, with the known reason.
func TimeoutError(lv *topolvmv1.LogicalVolume, what string, cause error) error {
	return status.Errorf(status.FromContextError(cause).Code(), "volume %s is not %s yet: %s", lv.Name,
		what, reasonOf(lv))
}

// reasonOf returns why a volume is delayed.
func reasonOf(lv *topolvmv1.LogicalVolume) string {
	if view.CloneVolume(lv) != "" && fence.Name(lv) == "" && lv.Status.Code == codes.Aborted {
		return lv.Status.Message // The operator wrote it: the node has nothing to do yet.
	}
	if lv.Status.Code != codes.OK {
		return fmt.Sprintf("node %s: %s", lv.Spec.NodeName, lv.Status.Message)
	}
	return fmt.Sprintf("node %s has not answered: check that its vg-manager Pod is running", lv.Spec.NodeName)
}
