package engine

import (
	"context"
	"sync"
	"time"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// watchers are the clients of Watch. A watcher buffers one notification. Further notifications are merged with it, so
// sending a notification never blocks.
type watchers struct {
	mu          sync.Mutex
	open        map[*watcher]struct{}
	subscribers []func()
}

func (w *watchers) add(s *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[*watcher]struct{}{}
	}
	w.open[s] = struct{}{}
}

func (w *watchers) remove(s *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, s)
}

func (w *watchers) notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.open {
		s.notify()
	}
	for _, changed := range w.subscribers {
		changed()
	}
}

// Subscribe adds a function that is called after each change of capacity by this engine, and once a minute while
// Start runs. The function must not block.
func (e *Engine) Subscribe(changed func()) {
	e.watchers.mu.Lock()
	defer e.watchers.mu.Unlock()
	e.watchers.subscribers = append(e.watchers.subscribers, changed)
}

// Changed notifies the watchers that something else changed the capacity. It never blocks.
func (e *Engine) Changed() { e.watchers.notify() }

// Watch sends the capacity of all classes: the current state at once, and again after every change of this engine or of
// its classes, and once a minute while Start runs. It returns when the client disconnects or the server stops.
func (e *Engine) Watch(_ *proto.Empty, out grpc.ServerStreamingServer[proto.WatchResponse]) error {
	w := e.watch(out.Context())
	for {
		response, err := w.next()
		if status.Code(err) == codes.Canceled {
			return nil
		}
		if err != nil {
			return err
		}
		if err := out.Send(response); err != nil {
			return err
		}
	}
}

// watch returns a watcher until ctx ends.
func (e *Engine) watch(ctx context.Context) *watcher {
	w := &watcher{ctx: ctx, engine: e, notices: make(chan struct{}, 1)}
	w.notify()
	e.watchers.add(w)
	context.AfterFunc(ctx, func() { e.watchers.remove(w) })
	return w
}

// retryWatch is the delay before the state is read again after an error.
const retryWatch = 10 * time.Second

// watcher is one client of Watch.
type watcher struct {
	ctx     context.Context
	engine  *Engine
	notices chan struct{}
}

func (w *watcher) notify() {
	select {
	case w.notices <- struct{}{}:
	default:
	}
}

// next waits for a notification and returns the state at that time. If the state cannot be read, next logs the error
// and retries, because an error would end the stream and thereby the process of TopoLVM's exporter.
func (w *watcher) next() (*proto.WatchResponse, error) {
	for {
		select {
		case <-w.ctx.Done():
			return nil, status.FromContextError(w.ctx.Err()).Err()
		case <-w.notices:
		}
		set := w.engine.classes.Load()
		report, err := w.engine.view(w.ctx)
		if err == nil {
			return watchResponse(w.ctx, w.engine.kernel, set, report), nil
		}
		log.FromContext(w.ctx).Error(err, "cannot read capacity")
		time.AfterFunc(retryWatch, w.notify)
	}
}
