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
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// ControllerExpandVolume expands a volume. If the node refuses, the size in the spec is reset to the current size: the
// node does not retry, and a smaller request can succeed with the existing size.
func (s *ControllerServer) ControllerExpandVolume(ctx context.Context,
	request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	id := request.GetVolumeId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is required")
	}
	required, limit, err := bounds(request.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	if required == 0 && limit == 0 {
		return nil, status.Error(codes.InvalidArgument, "capacity_range is required")
	}
	if err := s.locks.Enter(id); err != nil {
		return nil, err
	}
	defer s.locks.Leave(id)
	lv, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if lv == nil {
		return nil, status.Errorf(codes.NotFound, "volume %s does not exist", id)
	}
	size := max(1, (required+sector-1)/sector) * sector
	grown, err := s.grow(ctx, lv, size)
	if err != nil {
		return nil, err
	}
	if required > recordedOf(grown) && isEnough(grown, size) {
		if err := s.recordExpansion(ctx, grown, required); err != nil {
			return nil, err
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: sizeOfVolume(grown),
		NodeExpansionRequired: needsNode(grown, request.GetVolumeCapability())}, nil
}

// needsNode reports whether the node has to expand something above the logical volume: a file system, or the mapped
// device of an encrypted volume. Without a capability, it is not known that there is no file system.
func needsNode(lv *topolvmv1.LogicalVolume, capability *csi.VolumeCapability) bool {
	return capability.GetBlock() == nil || lv.Annotations[v1alpha1.EncryptionAnnotation] != ""
}

// grow requests a size from the node and waits for it. It returns the LogicalVolume with the new size.
func (s *ControllerServer) grow(ctx context.Context, lv *topolvmv1.LogicalVolume,
	size int64) (*topolvmv1.LogicalVolume, error) {
	joined := s.waiters.join(lv.Name)
	defer joined.leave()
	asked, err := s.ask(ctx, lv, size)
	if err != nil {
		return nil, err
	}
	if has(asked, size) {
		return asked, nil
	}
	waiting, cancel := withResponseMargin(ctx)
	defer cancel()
	last, err := s.await(waiting, joined, asked,
		func(now *topolvmv1.LogicalVolume) (bool, error) { return s.grown(waiting, asked, now, size) })
	switch {
	case err == nil && has(last, size):
		return last, nil
	case err == nil:
		refusal := status.Errorf(expandCode(last.Status.Code), "node %s: %s", last.Spec.NodeName, last.Status.Message)
		if _, err := s.ask(ctx, lv, 0); err != nil {
			return nil, status.Errorf(codes.Unavailable, "%s; the expansion request could not be reverted: %v",
				refusal, err)
		}
		return nil, refusal
	case waiting.Err() != nil:
		return nil, timeoutError(last, "expanded", waiting.Err())
	}
	return nil, err
}

// recordExpansion records the request of an expansion that was made, in bytes. It is not recorded before, so that the
// record of a volume that could not be expanded stays.
func (s *ControllerServer) recordExpansion(ctx context.Context, lv *topolvmv1.LogicalVolume, required int64) error {
	now := lv.DeepCopy()
	setRequested(now, required)
	if err := s.Client.Patch(ctx, now, client.MergeFrom(lv)); err != nil {
		return status.Errorf(codes.Unavailable, "volume %s was expanded, but its request cannot be recorded: update "+
			"LogicalVolume %s: %v", lv.Status.VolumeID, lv.Name, err)
	}
	return nil
}

// grown reports whether the node has answered a request for a size, by success or refusal.
func (s *ControllerServer) grown(ctx context.Context, asked, now *topolvmv1.LogicalVolume, size int64) (bool, error) {
	switch {
	case now == nil:
		return false, status.Errorf(codes.NotFound, "volume %s was deleted", asked.Name)
	case now.Spec.Size.Value() != size:
		return false, nil // The watch is stale.
	case has(now, size):
		return true, nil
	case !service.IsRefusal(now.Status.Code):
		return false, nil
	}
	// This may be the earlier answer that ask removed, because the watch may be stale.
	live, err := s.liveByUID(ctx, asked)
	if err != nil {
		return false, err
	}
	return live != nil && live.ResourceVersion == now.ResourceVersion, nil
}

// expandCode returns the code of a refused expansion. A volume cannot move to another node, so ResourceExhausted
// becomes OutOfRange: the size is infeasible, and the resizer then accepts a smaller request (external-resizer,
// isInfeasibleError; KEP-1790).
func expandCode(code codes.Code) codes.Code {
	if code == codes.ResourceExhausted {
		return codes.OutOfRange
	}
	return code
}

// has reports whether a volume is at least as large as a size.
func has(lv *topolvmv1.LogicalVolume, size int64) bool {
	return lv.Status.CurrentSize != nil && lv.Status.CurrentSize.Value() >= size
}

// ask sets the requested size in the spec, at least the current size; 0 resets the request. Then it removes the answer
// to an earlier request from the status. In this order the node does not retry the earlier request, and it cannot write
// an answer, because the object has changed since the node read it.
func (s *ControllerServer) ask(ctx context.Context, lv *topolvmv1.LogicalVolume,
	size int64) (*topolvmv1.LogicalVolume, error) {
	var now *topolvmv1.LogicalVolume
	err := clientretry.RetryOnConflict(clientretry.DefaultBackoff, func() error {
		now = &topolvmv1.LogicalVolume{}
		if err := s.Live.Get(ctx, client.ObjectKeyFromObject(lv), now); err != nil {
			return err
		}
		if now.UID != lv.UID {
			return apierrors.NewNotFound(topolvmv1.GroupVersion.WithResource("logicalvolumes").GroupResource(), lv.Name)
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
		return nil, status.Errorf(codes.Unavailable, "update LogicalVolume %s: %v", lv.Name, err)
	}
	return now, nil
}

// clear removes an answer from the status.
func (s *ControllerServer) clear(ctx context.Context, now *topolvmv1.LogicalVolume) error {
	if now.Status.Code == codes.OK {
		return nil
	}
	before := now.DeepCopy()
	now.Status.Code = codes.OK
	now.Status.Message = ""
	return s.Client.Status().Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// resize sets the size in the spec; 0 keeps the present one.
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
