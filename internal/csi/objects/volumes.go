// Package objects creates, finds and deletes LogicalVolumes, and waits until their nodes have fulfilled them.
package objects

import (
	"context"
	"fmt"
	"slices"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
)

// Options configure Volumes.
type Options struct {
	// Client reads Nodes and claims from a cache. Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Active is the cache itself. It has only the LogicalVolumes that are not settled.
	Active client.Reader
	// NameOf returns the name of the LogicalVolume with a volume ID, or "" if it is unknown. The name may be wrong.
	NameOf func(volumeID string) string
}

// Volumes are the LogicalVolumes of the cluster.
type Volumes struct {
	Options
	waiters waiters
}

// New returns the LogicalVolumes of a cluster.
func New(o Options) *Volumes { return &Volumes{Options: o} }

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;create;patch;delete

// Watch adds the event handler that wakes waiting calls. Call it before the cache starts.
func (v *Volumes) Watch(ctx context.Context, c cache.Cache) error {
	informer, err := c.GetInformer(ctx, &topolvmv1.LogicalVolume{})
	if err != nil {
		return fmt.Errorf("watch LogicalVolumes: %w", err)
	}
	_, err = informer.AddEventHandler(v.Handler())
	return err
}

// Handler returns the event handler that wakes waiting calls.
func (v *Volumes) Handler() toolscache.ResourceEventHandler { return v.waiters.handler() }

// Join starts to wait for objects. A caller that joins before it writes an object misses no answer.
func (v *Volumes) Join(names ...string) *Waiter { return v.waiters.join(names...) }

// answerMargin is the time before the deadline of a call at which its wait ends, so that the caller receives the
// reason.
const answerMargin = 5 * time.Second

// LongestWait is the wait of a call without a deadline.
const LongestWait = time.Minute

// WithResponseMargin returns a context for waiting, which ends before the deadline of the call.
func WithResponseMargin(ctx context.Context) (context.Context, context.CancelFunc) {
	end, limited := ctx.Deadline()
	if !limited {
		return context.WithTimeout(ctx, LongestWait)
	}
	margin := min(answerMargin, time.Until(end)/4)
	return context.WithDeadline(ctx, end.Add(-margin))
}

// Find returns a volume or snapshot by its ID, or nil if there is none.
func (v *Volumes) Find(ctx context.Context, id string) (*topolvmv1.LogicalVolume, error) {
	if id == "" {
		return nil, nil
	}
	if name := v.NameOf(id); name != "" {
		lv, err := v.Read(ctx, name)
		if err != nil || lv != nil && lv.Status.VolumeID == id {
			return lv, err
		}
	}
	return v.findLive(ctx, id)
}

// findLive lists all LogicalVolumes from the API server, because the watch may be stale: the driver must not report
// NotFound for a volume that exists.
func (v *Volumes) findLive(ctx context.Context, id string) (found *topolvmv1.LogicalVolume, err error) {
	err = paging.Until(ctx, v.Live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) bool {
		if at := slices.IndexFunc(list.Items,
			func(lv topolvmv1.LogicalVolume) bool { return lv.Status.VolumeID == id }); at >= 0 {
			found = list.Items[at].DeepCopy()
		}
		return found != nil
	})
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return found, nil
}
