package service

import (
	"context"
	"path"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"
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
	case *csi.CreateVolumeGroupSnapshotRequest:
		return ClaimOf(r.GetParameters())
	case *csi.CreateSnapshotRequest:
		return r.GetName()
	}
	return ""
}

func claimOfCall(ctx context.Context, request any, claimOfID func(context.Context, string) string) string {
	switch r := request.(type) {
	case *csi.CreateVolumeRequest:
		return ClaimOf(r.GetParameters())
	case *csi.CreateSnapshotRequest:
		return ClaimOf(r.GetParameters())
	case interface{ GetVolumeId() string }:
		return claimOfID(ctx, r.GetVolumeId())
	}
	return ""
}

// The parameters that external-provisioner and external-snapshotter add (--extra-create-metadata).
const (
	ClaimNamespaceKey    = "csi.storage.k8s.io/pvc/namespace"
	ClaimNameKey         = "csi.storage.k8s.io/pvc/name"
	snapshotNamespaceKey = "csi.storage.k8s.io/volumesnapshot/namespace"
	snapshotNameKey      = "csi.storage.k8s.io/volumesnapshot/name"
	groupNamespaceKey    = "csi.storage.k8s.io/volumegroupsnapshot/namespace"
	groupNameKey         = "csi.storage.k8s.io/volumegroupsnapshot/name"
)

// ClaimOf returns the claim, VolumeSnapshot or VolumeGroupSnapshot for which a volume is created, as NAMESPACE/NAME.
func ClaimOf(parameters map[string]string) string {
	for _, keys := range [][2]string{{ClaimNamespaceKey, ClaimNameKey}, {snapshotNamespaceKey, snapshotNameKey},
		{groupNamespaceKey, groupNameKey}} {
		if parameters[keys[0]] != "" && parameters[keys[1]] != "" {
			return parameters[keys[0]] + "/" + parameters[keys[1]]
		}
	}
	return ""
}
