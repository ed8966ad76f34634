package driver

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
)

// waiters are calls that wait for a LogicalVolume to change. The watch wakes them.
type waiters struct {
	mu   sync.Mutex
	open map[string]map[chan struct{}]bool
}

// join returns a channel that has something in it after each change of an object.
func (w *waiters) join(name string) (changed chan struct{}, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[string]map[chan struct{}]bool{}
	}
	if w.open[name] == nil {
		w.open[name] = map[chan struct{}]bool{}
	}
	changed = make(chan struct{}, 1)
	w.open[name][changed] = true
	return changed, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.open[name], changed)
		if len(w.open[name]) == 0 {
			delete(w.open, name)
		}
	}
}

func (w *waiters) wake(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	lv, ok := object.(*topolvmv1.LogicalVolume)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for changed := range w.open[lv.Name] {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

// handler wakes the waiters from an informer of LogicalVolumes.
func (w *waiters) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    w.wake,
		UpdateFunc: func(_, after any) { w.wake(after) },
		DeleteFunc: w.wake,
	}
}

// await waits until done says so about an object, which is nil while the cache does not have it. The last that was seen comes with an
// error too.
func (s *ControllerServer) await(ctx context.Context, name string, done func(lv *topolvmv1.LogicalVolume) (bool, error)) (*topolvmv1.LogicalVolume, error) {
	changed, leave := s.waiters.join(name)
	defer leave()
	for {
		lv := &topolvmv1.LogicalVolume{}
		err := s.Client.Get(ctx, client.ObjectKey{Name: name}, lv)
		switch {
		case apierrors.IsNotFound(err):
			lv = nil
		case err != nil:
			return nil, status.Errorf(codes.Unavailable, "LogicalVolume %s: %v", name, err)
		}
		if over, err := done(lv); over || err != nil {
			return lv, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return lv, ctx.Err()
		}
	}
}

// slow is the error of a call whose time is over, with what is known about the reason.
func slow(lv *topolvmv1.LogicalVolume, name, what string, cause error) error {
	code := status.FromContextError(cause).Code()
	if lv == nil {
		return status.Errorf(code, "volume %s is not %s yet", name, what)
	}
	return status.Errorf(code, "volume %s is not %s yet: %s", name, what, reasonOf(lv))
}

// reasonOf tells what holds a volume up.
func reasonOf(lv *topolvmv1.LogicalVolume) string {
	if lv.Status.Code != codes.OK {
		return fmt.Sprintf("node %s: %s", lv.Spec.NodeName, lv.Status.Message)
	}
	return fmt.Sprintf("node %s has not answered: is its vg-manager running?", lv.Spec.NodeName)
}
