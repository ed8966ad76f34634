package lvmd

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	gproto "google.golang.org/protobuf/proto"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// watchers are the open streams. A stream buffers one notification. Further notifications are merged with it, so
// sending a notification never blocks.
type watchers struct {
	mu          sync.Mutex
	open        map[*stream]struct{}
	subscribers []func()
}

func (w *watchers) add(s *stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[*stream]struct{}{}
	}
	w.open[s] = struct{}{}
}

func (w *watchers) remove(s *stream) {
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

// Watch returns a stream of the capacity of all classes. It sends the current state at once, and again after every
// change of this engine or of its classes, and once a minute while Start runs. The stream ends with Canceled when ctx
// ends.
func (e *Engine) Watch(ctx context.Context, _ *proto.Empty,
	_ ...grpc.CallOption) (grpc.ServerStreamingClient[proto.WatchResponse], error) {
	s := &stream{ctx: ctx, engine: e, notices: make(chan struct{}, 1)}
	s.notify()
	e.watchers.add(s)
	context.AfterFunc(ctx, func() { e.watchers.remove(s) })
	return s, nil
}

// retryWatch is the delay before the state is read again after an error.
const retryWatch = 10 * time.Second

// stream is one watcher. It implements grpc.ServerStreamingClient without a connection.
type stream struct {
	ctx     context.Context
	engine  *Engine
	notices chan struct{}
}

func (s *stream) notify() {
	select {
	case s.notices <- struct{}{}:
	default:
	}
}

// Recv waits for a notification and returns the state at that time. If the state cannot be read, Recv logs the error
// and retries, because an error would end the stream and thereby the process of TopoLVM's exporter.
func (s *stream) Recv() (*proto.WatchResponse, error) {
	for {
		select {
		case <-s.ctx.Done():
			return nil, status.FromContextError(s.ctx.Err()).Err()
		case <-s.notices:
		}
		set := s.engine.classes.Load()
		report, err := s.engine.view(s.ctx)
		if err == nil {
			return watchResponse(s.ctx, s.engine.kernel, set, report), nil
		}
		log.FromContext(s.ctx).Error(err, "cannot read capacity")
		time.AfterFunc(retryWatch, s.notify)
	}
}

// Header implements grpc.ClientStream. There is no header.
func (s *stream) Header() (metadata.MD, error) { return nil, nil }

// Trailer implements grpc.ClientStream. There is no trailer.
func (s *stream) Trailer() metadata.MD { return nil }

// CloseSend implements grpc.ClientStream. Nothing is sent after the request.
func (s *stream) CloseSend() error { return nil }

// Context implements grpc.ClientStream.
func (s *stream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ClientStream. Watch already sent the request.
func (s *stream) SendMsg(any) error { return io.EOF }

// RecvMsg implements grpc.ClientStream.
func (s *stream) RecvMsg(m any) error {
	into, ok := m.(gproto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "a message of type %T cannot be received", m)
	}
	response, err := s.Recv()
	if err != nil {
		return err
	}
	gproto.Reset(into)
	gproto.Merge(into, response)
	return nil
}
