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

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/objects"
	"github.com/lvm-storage/lvm-operator/internal/csi/volumespec"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// ControllerExpandVolume expands a volume. If the node refuses, the size in the spec is reset to the current size: the
// node does not retry, and a smaller request can succeed with the existing size.
func (s *ControllerServer) ControllerExpandVolume(ctx context.Context,
	request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	id := request.GetVolumeId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is required")
	}
	required, limit, err := volumespec.Bounds(request.GetCapacityRange())
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
	lv, err := s.volumes.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	if lv == nil {
		return nil, status.Errorf(codes.NotFound, "volume %s does not exist", id)
	}
	size := max(1, (required+volumespec.Sector-1)/volumespec.Sector) * volumespec.Sector
	grown, err := expansion{s.volumes}.grow(ctx, lv, size)
	if err != nil {
		return nil, err
	}
	if required > view.RequestedSize(grown) && volumespec.IsEnough(grown, size) {
		if err := (expansion{s.volumes}).record(ctx, grown, required); err != nil {
			return nil, err
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: volumespec.SizeOf(grown),
		NodeExpansionRequired: needsNode(grown, request.GetVolumeCapability())}, nil
}

// needsNode reports whether the node has to expand something above the logical volume: a file system, or the mapped
// device of an encrypted volume. Without a capability, it is not known that there is no file system.
func needsNode(lv *topolvmv1.LogicalVolume, capability *csi.VolumeCapability) bool {
	return capability.GetBlock() == nil || view.Encryption(lv) != ""
}

// expansion requests sizes from nodes.
type expansion struct{ volumes *objects.Volumes }

// grow requests a size from the node and waits for it. It returns the LogicalVolume with the new size.
func (e expansion) grow(ctx context.Context, lv *topolvmv1.LogicalVolume,
	size int64) (*topolvmv1.LogicalVolume, error) {
	joined := e.volumes.Join(lv.Name)
	defer joined.Leave()
	asked, err := e.ask(ctx, lv, size)
	if err != nil {
		return nil, err
	}
	if has(asked, size) {
		return asked, nil
	}
	waiting, cancel := objects.WithResponseMargin(ctx)
	defer cancel()
	last, err := e.volumes.Await(waiting, joined, asked,
		func(now *topolvmv1.LogicalVolume) (bool, error) { return e.grown(waiting, asked, now, size) })
	switch {
	case err == nil && has(last, size):
		return last, nil
	case err == nil:
		refusal := status.Errorf(expandCode(last.Status.Code), "node %s: %s", last.Spec.NodeName, last.Status.Message)
		if _, err := e.ask(ctx, lv, 0); err != nil {
			return nil, status.Errorf(codes.Unavailable, "%s; the expansion request could not be reverted: %v",
				refusal, err)
		}
		return nil, refusal
	case waiting.Err() != nil:
		return nil, objects.TimeoutError(last, "expanded", waiting.Err())
	}
	return nil, err
}

// record records the request of an expansion that was made, in bytes. It is not recorded before, so that the
// record of a volume that could not be expanded stays.
func (e expansion) record(ctx context.Context, lv *topolvmv1.LogicalVolume, required int64) error {
	now := lv.DeepCopy()
	view.SetRequestedSize(now, required)
	if err := e.volumes.Client.Patch(ctx, now, client.MergeFrom(lv)); err != nil {
		return status.Errorf(codes.Unavailable, "volume %s was expanded, but its request cannot be recorded: update "+
			"LogicalVolume %s: %v", lv.Status.VolumeID, lv.Name, err)
	}
	return nil
}

// grown reports whether the node has answered a request for a size, by success or refusal.
func (e expansion) grown(ctx context.Context, asked, now *topolvmv1.LogicalVolume, size int64) (bool, error) {
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
	live, err := e.volumes.ReadByUID(ctx, asked)
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
func (e expansion) ask(ctx context.Context, lv *topolvmv1.LogicalVolume,
	size int64) (*topolvmv1.LogicalVolume, error) {
	var now *topolvmv1.LogicalVolume
	err := clientretry.RetryOnConflict(clientretry.DefaultBackoff, func() error {
		now = &topolvmv1.LogicalVolume{}
		if err := e.volumes.Live.Get(ctx, client.ObjectKeyFromObject(lv), now); err != nil {
			return err
		}
		if now.UID != lv.UID {
			return apierrors.NewNotFound(topolvmv1.GroupVersion.WithResource("logicalvolumes").GroupResource(), lv.Name)
		}
		want := size
		if has(now, size) {
			want = now.Status.CurrentSize.Value()
		}
		if err := e.resize(ctx, now, want); err != nil {
			return err
		}
		return e.clear(ctx, now)
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
func (e expansion) clear(ctx context.Context, now *topolvmv1.LogicalVolume) error {
	if now.Status.Code == codes.OK {
		return nil
	}
	before := now.DeepCopy()
	now.Status.Code = codes.OK
	now.Status.Message = ""
	return e.volumes.Client.Status().Patch(ctx, now, client.MergeFromWithOptions(before,
		client.MergeFromWithOptimisticLock{}))
}

// resize sets the size in the spec; 0 keeps the present one.
func (e expansion) resize(ctx context.Context, now *topolvmv1.LogicalVolume, size int64) error {
	if now.Spec.Size.Value() == size || size == 0 {
		return nil
	}
	before := now.DeepCopy()
	now.Spec.Size = *resource.NewQuantity(size, resource.BinarySI)
	if now.Annotations == nil {
		now.Annotations = map[string]string{}
	}
	now.Annotations[wellknown.ResizeRequestedAnnotation] = time.Now().UTC().String()
	return e.volumes.Client.Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
