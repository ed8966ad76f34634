// Package snapshotmetadata serves the API of external-snapshot-metadata (KEP-3314), with which backup software reads
// which blocks of a VolumeSnapshot are allocated, and which ones differ between two. It authenticates and authorizes
// the caller, and passes the answer of the node agent that has the snapshot on. The library of
// external-snapshot-metadata is for a process of its own, so only its API is used.
package snapshotmetadata

import (
	"context"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/external-snapshot-metadata/pkg/api"
	"google.golang.org/grpc/codes"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/tls/limit"
	"github.com/lvm-storage/lvm-operator/internal/tls/streamserver"
)

// maxCalls is the maximum number of calls at the same time, and tenantCalls that of one tenant. More are refused with
// ResourceExhausted. A call counts when its client is authorized, so that others cannot prevent it.
const (
	maxCalls    = 64
	tenantCalls = 16
)

// Options configure a Server.
type Options struct {
	// Client creates reviews. Live reads without a cache.
	Client client.Client
	Live   client.Reader
	// Relay passes the calls on.
	Relay *Relay
}

// Server serves the API. It holds one message of a stream: it reads the next one from the agent when the client has
// taken this one.
//
// Codes, in addition to those of the agent: InvalidArgument, Unauthenticated, PermissionDenied, NotFound;
// ResourceExhausted and Unavailable if the call can be repeated; DeadlineExceeded.
type Server struct {
	api.UnimplementedSnapshotMetadataServer
	Options
	reviews *limit.Reviews
	calls   *limit.Shares
}

// New returns a Server.
func New(o Options) *Server {
	return &Server{Options: o, reviews: limit.NewReviews(reviews), calls: limit.NewShares(maxCalls, tenantCalls)}
}

// GetMetadataAllocated implements api.SnapshotMetadataServer.
func (s *Server) GetMetadataAllocated(in *api.GetMetadataAllocatedRequest,
	out api.SnapshotMetadata_GetMetadataAllocatedServer) error {
	ctx, cancel := context.WithTimeout(out.Context(), streamserver.CallTime)
	defer cancel()
	c := caller{peer: peerOf(ctx), token: in.GetSecurityToken(), namespace: in.GetNamespace(),
		snapshot: in.GetSnapshotName()}
	return s.withAgent(ctx, c, func(agent csi.SnapshotMetadataClient, handle string) error {
		stream, err := agent.GetMetadataAllocated(ctx, &csi.GetMetadataAllocatedRequest{SnapshotId: handle,
			StartingOffset: in.GetStartingOffset(), MaxResults: in.GetMaxResults()})
		if err != nil {
			return err
		}
		return relay(stream.Recv, func(m *csi.GetMetadataAllocatedResponse) error {
			return out.Send(&api.GetMetadataAllocatedResponse{BlockMetadataType: typeOf(m),
				VolumeCapacityBytes: m.GetVolumeCapacityBytes(), BlockMetadata: blocksOf(m)})
		})
	})
}

// GetMetadataDelta implements api.SnapshotMetadataServer. The client is authorized for the target. The agent refuses a
// base that is not a snapshot of the same volume.
func (s *Server) GetMetadataDelta(in *api.GetMetadataDeltaRequest,
	out api.SnapshotMetadata_GetMetadataDeltaServer) error {
	ctx, cancel := context.WithTimeout(out.Context(), streamserver.CallTime)
	defer cancel()
	if in.GetBaseSnapshotId() == "" {
		return status.Error(codes.InvalidArgument, "base_snapshot_id is empty")
	}
	c := caller{peer: peerOf(ctx), token: in.GetSecurityToken(), namespace: in.GetNamespace(),
		snapshot: in.GetTargetSnapshotName()}
	return s.withAgent(ctx, c, func(agent csi.SnapshotMetadataClient, handle string) error {
		stream, err := agent.GetMetadataDelta(ctx, &csi.GetMetadataDeltaRequest{TargetSnapshotId: handle,
			BaseSnapshotId: in.GetBaseSnapshotId(), StartingOffset: in.GetStartingOffset(),
			MaxResults: in.GetMaxResults()})
		if err != nil {
			return err
		}
		return relay(stream.Recv, func(m *csi.GetMetadataDeltaResponse) error {
			return out.Send(&api.GetMetadataDeltaResponse{BlockMetadataType: typeOf(m),
				VolumeCapacityBytes: m.GetVolumeCapacityBytes(), BlockMetadata: blocksOf(m)})
		})
	})
}

// caller is who calls, from which address, and for which VolumeSnapshot.
type caller struct{ peer, token, namespace, snapshot string }

func peerOf(ctx context.Context) string {
	if from, ok := grpcpeer.FromContext(ctx); ok {
		return limit.Peer(from.Addr.String())
	}
	return ""
}

// tenantOf returns the namespace of a ServiceAccount, because whoever can create one can create many, and other users
// as they are.
func tenantOf(user string) string {
	if account, is := strings.CutPrefix(user, "system:serviceaccount:"); is {
		namespace, _, _ := strings.Cut(account, ":")
		return "the ServiceAccounts of namespace " + namespace
	}
	return "user " + user
}

// withAgent authorizes a caller, and calls use with the agent that has the snapshot and with its handle.
func (s *Server) withAgent(ctx context.Context, c caller,
	use func(agent csi.SnapshotMetadataClient, handle string) error) error {
	for name, value := range map[string]string{"security_token": c.token, "namespace": c.namespace,
		"the name of the VolumeSnapshot": c.snapshot} {
		if value == "" {
			return status.Errorf(codes.InvalidArgument, "%s is empty", name)
		}
	}
	user, err := s.authorize(ctx, c)
	if err != nil {
		return err
	}
	leave, err := s.calls.Try(tenantOf(user))
	if err != nil {
		return status.Errorf(codes.ResourceExhausted, "cannot serve the call of %s now: %v: try again later",
			tenantOf(user), err)
	}
	defer leave()
	handle, err := s.handle(ctx, c.namespace, c.snapshot)
	if err != nil {
		return err
	}
	err = s.Relay.withAgent(ctx, handle, func(agent csi.SnapshotMetadataClient) error { return use(agent, handle) })
	if err == nil {
		return nil
	}
	return status.Errorf(status.Code(err), "VolumeSnapshot %s/%s: %s", c.namespace, c.snapshot,
		status.Convert(err).Message())
}

// message is what both responses of CSI have in common.
type message interface {
	GetBlockMetadataType() csi.BlockMetadataType
	GetBlockMetadata() []*csi.BlockMetadata
}

// typeOf returns the type of a message. Both APIs have the same numbers.
func typeOf(m message) api.BlockMetadataType { return api.BlockMetadataType(m.GetBlockMetadataType()) }

func blocksOf(m message) []*api.BlockMetadata {
	list := make([]*api.BlockMetadata, 0, len(m.GetBlockMetadata()))
	for _, b := range m.GetBlockMetadata() {
		list = append(list, &api.BlockMetadata{ByteOffset: b.GetByteOffset(), SizeBytes: b.GetSizeBytes()})
	}
	return list
}
