package driver

import (
	"context"
	"maps"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientretry "k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/csi/objects"
	"github.com/lvm-storage/lvm-operator/internal/csi/volumespec"
	"github.com/lvm-storage/lvm-operator/internal/volume/iolimits"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// ControllerModifyVolume changes the limits for the I/O of Pods to a volume. It returns when the node applies them to
// all Pods that use the volume. If the node refuses, the earlier limits are requested again, and the error is
// InvalidArgument: the resizer then reports the reason in the status of the claim, and accepts another class.
func (s *ControllerServer) ControllerModifyVolume(ctx context.Context,
	request *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	id := request.GetVolumeId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is required")
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
	requested, err := volumespec.LimitsOf(request.GetMutableParameters())
	if err != nil {
		return nil, err
	}
	if err := (limits{s.volumes}).request(ctx, lv, requested); err != nil {
		return nil, err
	}
	return &csi.ControllerModifyVolumeResponse{}, nil
}

// limits requests limits from nodes.
type limits struct{ volumes *objects.Volumes }

// hasLimits reports whether limits of a volume are requested or in force.
func hasLimits(lv *topolvmv1.LogicalVolume) bool {
	limits := view.IOLimitsOf(lv)
	return limits.Requested+limits.InForce != ""
}

// request requests limits from the node and waits until they are in force.
func (l limits) request(ctx context.Context, lv *topolvmv1.LogicalVolume, desired string) error {
	joined := l.volumes.Join(lv.Name)
	defer joined.Leave()
	asked, err := l.ask(ctx, lv, func(now *topolvmv1.LogicalVolume) {
		if desired == iolimits.None && !hasLimits(now) {
			return // The volume never had limits.
		}
		// An answer to an earlier request does not apply to this one.
		view.IOLimits{Requested: desired, InForce: view.IOLimitsOf(now).InForce}.Set(now)
	})
	if err != nil {
		return err
	}
	waiting, cancel := objects.WithResponseMargin(ctx)
	defer cancel()
	last, err := l.volumes.Await(waiting, joined, asked,
		func(now *topolvmv1.LogicalVolume) (bool, error) { return l.answered(waiting, asked, now) })
	switch {
	case err == nil && view.IOLimitsOf(last).Refusal() == "":
		return nil
	case err == nil:
		return l.restore(ctx, last)
	case waiting.Err() != nil:
		return objects.TimeoutError(last, "limited", waiting.Err())
	}
	return err
}

// answered reports whether the node has answered a request for limits, by success or refusal.
func (l limits) answered(ctx context.Context, asked, now *topolvmv1.LogicalVolume) (bool, error) {
	switch {
	case now == nil:
		return false, status.Errorf(codes.NotFound, "volume %s was deleted", asked.Name)
	case volumespec.LimitsRequested(now) != volumespec.LimitsRequested(asked), view.IOLimitsOf(now).IsPending():
		return false, nil
	case view.IOLimitsOf(now).Refusal() == "":
		return true, nil
	}
	// This may be the earlier answer that ask removed, because the watch may be stale.
	live, err := l.volumes.ReadByUID(ctx, asked)
	if err != nil {
		return false, err
	}
	return live != nil && live.ResourceVersion == now.ResourceVersion, nil
}

// restore requests the limits again that the node last had in force, and returns the refusal.
func (l limits) restore(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	refusal := status.Errorf(codes.InvalidArgument, "node %s cannot apply %s to volume %s: %s", lv.Spec.NodeName,
		volumespec.LimitsRequested(lv), lv.Name, view.IOLimitsOf(lv).Refusal())
	_, err := l.ask(ctx, lv, func(now *topolvmv1.LogicalVolume) {
		present := view.IOLimitsOf(now)
		if present.Refusal() == "" {
			return // The node has answered differently since.
		}
		view.IOLimits{Requested: present.InForce, InForce: present.InForce}.Set(now)
	})
	if err != nil {
		return status.Errorf(codes.Unavailable, "%v; the request could not be reverted: %v", refusal, err)
	}
	return refusal
}

// ask changes the annotations of a LogicalVolume.
func (l limits) ask(ctx context.Context, lv *topolvmv1.LogicalVolume,
	change func(now *topolvmv1.LogicalVolume)) (*topolvmv1.LogicalVolume, error) {
	var now *topolvmv1.LogicalVolume
	err := clientretry.RetryOnConflict(clientretry.DefaultBackoff, func() error {
		now = &topolvmv1.LogicalVolume{}
		if err := l.volumes.Live.Get(ctx, client.ObjectKeyFromObject(lv), now); err != nil {
			return err
		}
		if now.UID != lv.UID {
			return apierrors.NewNotFound(topolvmv1.GroupVersion.WithResource("logicalvolumes").GroupResource(), lv.Name)
		}
		before := now.DeepCopy()
		if now.Annotations == nil {
			now.Annotations = map[string]string{}
		}
		change(now)
		if maps.Equal(before.Annotations, now.Annotations) {
			return nil
		}
		return l.volumes.Client.Patch(ctx, now, client.MergeFromWithOptions(before,
			client.MergeFromWithOptimisticLock{}))
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil, status.Errorf(codes.NotFound, "volume %s does not exist", lv.Name)
	case err != nil:
		return nil, status.Errorf(codes.Unavailable, "update LogicalVolume %s: %v", lv.Name, err)
	}
	return now, nil
}
