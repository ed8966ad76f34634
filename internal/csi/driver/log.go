package driver

import (
	"context"
	"path"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// LogCalls logs each failed call with volume, claim, code and message, and other calls at debug level (1). All log
// entries of a call, including those of commands on the host, have the volume and the claim. claimOfID returns the
// claim of a volume by its ID, or "" if it is unknown.
func LogCalls(claimOfID func(ctx context.Context, volumeID string) string) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		values := []any{"call", path.Base(info.FullMethod)}
		if volume := volumeOf(request); volume != "" {
			values = append(values, "volume", volume)
			if claim := claimOfCall(ctx, request, claimOfID); claim != "" {
				values = append(values, "claim", claim)
			}
		}
		logger := log.FromContext(ctx).WithName("csi").WithValues(values...)
		begun := time.Now()
		response, err := handle(log.IntoContext(ctx, logger), request)
		took := time.Since(begun).Round(time.Millisecond).String()
		if code := status.Code(err); code != codes.OK {
			logger.Info("CSI call failed", "code", code.String(), "cause", status.Convert(err).Message(), "took", took)
		} else {
			logger.V(1).Info("CSI call succeeded", "took", took)
		}
		return response, err
	}
}

// volumeOf returns the ID of the volume or snapshot of a call, or the name of one to create.
func volumeOf(request any) string {
	switch r := request.(type) {
	case interface{ GetVolumeId() string }:
		return r.GetVolumeId()
	case interface{ GetSnapshotId() string }:
		return r.GetSnapshotId()
	case *csi.CreateVolumeRequest:
		return r.GetName()
	case *csi.CreateSnapshotRequest:
		return r.GetName()
	}
	return ""
}

func claimOfCall(ctx context.Context, request any, claimOfID func(context.Context, string) string) string {
	switch r := request.(type) {
	case *csi.CreateVolumeRequest:
		return claimOf(r.GetParameters())
	case *csi.CreateSnapshotRequest:
		return claimOf(r.GetParameters())
	case interface{ GetVolumeId() string }:
		return claimOfID(ctx, r.GetVolumeId())
	}
	return ""
}

// ClaimOf returns the claim of a volume on this node by its ID, from the cache.
func (s *NodeServer) ClaimOf(ctx context.Context, volumeID string) string {
	list := &topolvmv1.LogicalVolumeList{}
	if err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return "" // The call itself reports the problem.
	}
	for i := range list.Items {
		if lv := &list.Items[i]; lv.Status.VolumeID == volumeID || string(lv.UID) == volumeID {
			return lv.Annotations[v1alpha1.ClaimAnnotation]
		}
	}
	return ""
}

// ClaimOf returns the claim of a volume by its ID. It knows only volumes that are not settled.
func (s *ControllerServer) ClaimOf(ctx context.Context, volumeID string) string {
	lv := &topolvmv1.LogicalVolume{}
	if name := s.NameOf(volumeID); name == "" || s.Active.Get(ctx, client.ObjectKey{Name: name}, lv) != nil {
		return ""
	}
	return lv.Annotations[v1alpha1.ClaimAnnotation]
}
