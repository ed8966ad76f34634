package copies

import (
	"context"
	"fmt"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
)

// Bandwidth limits how fast the agent reads snapshots for all copies together. A change of the limit applies to the
// next piece of each copy. It is safe for concurrent use.
type Bandwidth struct {
	groups    client.Reader
	namespace string
	limiter   *rate.Limiter
}

// NewBandwidth returns a Bandwidth with the limit of the LVMVolumeGroups of a namespace. groups reads from a cache that
// may return shared objects.
func NewBandwidth(groups client.Reader, namespace string) *Bandwidth {
	return &Bandwidth{groups: groups, namespace: namespace, limiter: rate.NewLimiter(rate.Inf, maxData)}
}

// Wait waits until a number of bytes, at most maxData, can be read. It returns the error of ctx, or an
// error if the limit cannot be read.
func (b *Bandwidth) Wait(ctx context.Context, bytes int) error {
	limit, err := b.limit(ctx)
	if err != nil {
		return err
	}
	if b.limiter.Limit() != limit {
		b.limiter.SetLimit(limit)
	}
	if err := b.limiter.WaitN(ctx, bytes); err != nil {
		return fmt.Errorf("wait for the bandwidth limit of copies: %w", err)
	}
	return nil
}

// limit returns the lowest limit of the LVMVolumeGroups, in bytes per second. They differ only while the operator
// updates them. A limit below the minimum, which the operator refuses, counts as the minimum.
func (b *Bandwidth) limit(ctx context.Context) (rate.Limit, error) {
	list := &v1alpha1.LVMVolumeGroupList{}
	if err := b.groups.List(ctx, list, client.InNamespace(b.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list LVMVolumeGroups for the bandwidth limit of copies: %w", err)
	}
	lowest := rate.Inf
	for i := range list.Items {
		config := list.Items[i].Spec.VolumeCopy
		if config != nil && config.BandwidthLimit != nil {
			lowest = min(lowest, rate.Limit(max(config.BandwidthLimit.Value(), classspec.MinBandwidthLimit)))
		}
	}
	return lowest, nil
}
