package driver

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	clientretry "k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// ControllerExpandVolume grows a volume. After a request that failed, the object asks for the size that the volume has:
// the node does not go on trying, and a smaller request is answered from what is there.
func (s *ControllerServer) ControllerExpandVolume(ctx context.Context,
	request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	id := request.GetVolumeId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume_id is given")
	}
	required, limit, err := bounds(request.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	if required == 0 && limit == 0 {
		return nil, status.Error(codes.InvalidArgument, "no capacity_range is given")
	}
	if err := s.busy.enter(id); err != nil {
		return nil, err
	}
	defer s.busy.leave(id)
	lv, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if lv == nil {
		return nil, status.Errorf(codes.NotFound, "volume %s does not exist", id)
	}
	size, err := s.grow(ctx, lv, max(1, (required+sector-1)/sector)*sector)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: size,
		NodeExpansionRequired: request.GetVolumeCapability().GetBlock() == nil}, nil
}

// grow asks the node for a size and waits for it.
func (s *ControllerServer) grow(ctx context.Context, lv *topolvmv1.LogicalVolume, size int64) (int64, error) {
	joined := s.waiters.join(lv.Name)
	defer joined.leave()
	asked, err := s.ask(ctx, lv, size)
	if err != nil {
		return 0, err
	}
	if has(asked, size) {
		return asked.Status.CurrentSize.Value(), nil
	}
	waiting, cancel := inTime(ctx)
	defer cancel()
	last, err := s.await(waiting, joined, asked,
		func(now *topolvmv1.LogicalVolume) (bool, error) { return s.grown(waiting, asked, now, size) })
	switch {
	case err == nil && has(last, size):
		return last.Status.CurrentSize.Value(), nil
	case err == nil:
		refusal := status.Errorf(expandCode(last.Status.Code), "node %s: %s", last.Spec.NodeName, last.Status.Message)
		if _, err := s.ask(ctx, lv, 0); err != nil {
			return 0, status.Errorf(codes.Unavailable, "%s; and the request could not be taken back: %v", refusal, err)
		}
		return 0, refusal
	case waiting.Err() != nil:
		return 0, slow(last, "grown", waiting.Err())
	}
	return 0, err
}

// grown tells whether a node has answered that it shall give a volume a size, and by what.
func (s *ControllerServer) grown(ctx context.Context, asked, now *topolvmv1.LogicalVolume, size int64) (bool, error) {
	switch {
	case now == nil:
		return false, status.Errorf(codes.NotFound, "volume %s was deleted", asked.Name)
	case now.Spec.Size.Value() != size:
		return false, nil // The watch is behind.
	case has(now, size):
		return true, nil
	case !isRefusal(now.Status.Code):
		return false, nil
	}
	// It may be the answer that was taken away: the watch may be behind.
	live, err := s.same(ctx, asked)
	if err != nil {
		return false, err
	}
	return live != nil && live.ResourceVersion == now.ResourceVersion, nil
}

// expandCode is the code of a refused growth. No other node can help, so that there is no room is a size that cannot be
// had: the resizer then takes a smaller request (external-resizer, isInfeasibleError; KEP-1790).
func expandCode(code codes.Code) codes.Code {
	if code == codes.ResourceExhausted {
		return codes.OutOfRange
	}
	return code
}

// has tells whether a volume has a size.
func has(lv *topolvmv1.LogicalVolume, size int64) bool {
	return lv.Status.CurrentSize != nil && lv.Status.CurrentSize.Value() >= size
}

// ask writes down the size that a volume shall have: at least the one that it has; 0 takes back what was asked for.
// Then it takes away the answer to an earlier request. In this order the node does not try the earlier one once more;
// and it writes no answer to an object that has changed since it was read.
func (s *ControllerServer) ask(ctx context.Context, lv *topolvmv1.LogicalVolume,
	size int64) (*topolvmv1.LogicalVolume, error) {
	var now *topolvmv1.LogicalVolume
	err := clientretry.RetryOnConflict(clientretry.DefaultBackoff, func() error {
		now = &topolvmv1.LogicalVolume{}
		if err := s.Live.Get(ctx, client.ObjectKeyFromObject(lv), now); err != nil {
			return err
		}
		want := size
		if has(now, size) {
			want = now.Status.CurrentSize.Value()
		}
		if err := s.resize(ctx, now, want); err != nil {
			return err
		}
		return s.clear(ctx, now)
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil, status.Errorf(codes.NotFound, "volume %s does not exist", lv.Name)
	case err != nil:
		return nil, status.Errorf(codes.Unavailable, "write LogicalVolume %s: %v", lv.Name, err)
	}
	return now, nil
}

// clear takes an answer away.
func (s *ControllerServer) clear(ctx context.Context, now *topolvmv1.LogicalVolume) error {
	if now.Status.Code == codes.OK {
		return nil
	}
	before := now.DeepCopy()
	now.Status.Code = codes.OK
	now.Status.Message = ""
	return s.Client.Status().Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// resize writes down a size; 0 leaves the one that is there.
func (s *ControllerServer) resize(ctx context.Context, now *topolvmv1.LogicalVolume, size int64) error {
	if now.Spec.Size.Value() == size || size == 0 {
		return nil
	}
	before := now.DeepCopy()
	now.Spec.Size = *resource.NewQuantity(size, resource.BinarySI)
	if now.Annotations == nil {
		now.Annotations = map[string]string{}
	}
	now.Annotations[v1alpha1.ResizeRequestedAnnotation] = time.Now().UTC().String()
	return s.Client.Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
