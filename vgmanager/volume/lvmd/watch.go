package lvmd

import (
	"context"
	"time"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// Watch sends the capacity of all classes: the current state at once, and again after every change of the engine or of
// its classes, and once a minute while engine.Start runs. It returns when the client disconnects or the server stops.
func (s *Server) Watch(_ *proto.Empty, out grpc.ServerStreamingServer[proto.WatchResponse]) error {
	w := newWatcher(out.Context(), s.engine)
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

// retryWatch is the delay before the state is read again after an error.
const retryWatch = 10 * time.Second

// watcher is one client of Watch.
type watcher struct {
	ctx     context.Context
	engine  *engine.Engine
	notices <-chan struct{}
	// retry is the time to read the state again after an error, or nil.
	retry <-chan time.Time
}

// newWatcher returns a watcher until ctx ends.
func newWatcher(ctx context.Context, e *engine.Engine) *watcher {
	return &watcher{ctx: ctx, engine: e, notices: e.Notices(ctx)}
}

// next waits for a notification and returns the state at that time. If the state cannot be read, next logs the error
// and retries, because an error would end the stream and thereby the process of TopoLVM's exporter.
func (w *watcher) next() (*proto.WatchResponse, error) {
	for {
		select {
		case <-w.ctx.Done():
			return nil, status.FromContextError(w.ctx.Err()).Err()
		case <-w.notices:
		case <-w.retry:
		}
		w.retry = nil
		states, err := w.engine.States(w.ctx)
		if err == nil {
			return watchResponse(states), nil
		}
		log.FromContext(w.ctx).Error(err, "cannot read capacity")
		w.retry = time.After(retryWatch)
	}
}

// watchResponse returns the capacity of all classes. It omits a class whose volume group is not available: the client
// keeps the last known values, and requests for the class return the reason.
func watchResponse(states []engine.ClassState) *proto.WatchResponse {
	response := &proto.WatchResponse{}
	for i := range states {
		state := &states[i]
		if state.Err != nil {
			continue
		}
		response.Items = append(response.Items, watchItem(state))
		if state.Default {
			response.FreeBytes = state.Capacity
		}
	}
	return response
}

// watchItem returns the capacity of one class. As TopoLVM's metric defines it, SizeBytes of a thick class is the size
// of its volume group before redundancy. FreeBytes is the capacity for volumes.
func watchItem(s *engine.ClassState) *proto.WatchItem {
	item := &proto.WatchItem{DeviceClass: s.Name, FreeBytes: s.Capacity, SizeBytes: s.Size}
	if !s.Thin {
		return item
	}
	// For a thin class, TopoLVM's metrics expect the free space of the volume group in FreeBytes.
	item.FreeBytes = s.Free
	item.ThinPool = &proto.ThinPoolItem{
		DataPercent:        percent(s.DataPercent),
		MetadataPercent:    percent(s.MetadataPercent),
		OverprovisionBytes: s.Capacity,
		SizeBytes:          s.PoolSize,
	}
	return item
}

func percent(p *float64) float64 {
	if p == nil {
		return 0
	}
	return *p
}
