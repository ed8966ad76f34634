// Package snapshotmetadata serves the API of external-snapshot-metadata (KEP-3314), with which backup software reads
// which blocks of a VolumeSnapshot are allocated, and which ones differ between two. It authenticates and authorizes
// the caller, and passes the answer of the node agent that has the snapshot on. The library of
// external-snapshot-metadata is for a process of its own, so only its API is used.
package snapshotmetadata

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/external-snapshot-metadata/pkg/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// callTime is the time limit of a call. It is that of external-snapshot-metadata.
const callTime = 10 * time.Minute

// Options configure a Server.
type Options struct {
	// Client creates reviews. Live reads without a cache.
	Client client.Client
	Live   client.Reader
	// NameOf returns the name of the LogicalVolume with a volume ID, or "" if none was observed.
	NameOf func(volumeID string) string
	// Dial returns a connection to the agent of a node, which the caller closes.
	Dial func(ctx context.Context, node string) (*grpc.ClientConn, error)
}

// Server serves the API. It holds one message of a stream: it reads the next one from the agent when the client has
// taken this one.
//
// Codes, in addition to those of the agent: InvalidArgument, Unauthenticated, PermissionDenied, NotFound; Unavailable
// if the call can be repeated; DeadlineExceeded.
type Server struct {
	api.UnimplementedSnapshotMetadataServer
	Options
}

// New returns a Server.
func New(o Options) *Server { return &Server{Options: o} }

// GetMetadataAllocated implements api.SnapshotMetadataServer.
func (s *Server) GetMetadataAllocated(in *api.GetMetadataAllocatedRequest,
	out api.SnapshotMetadata_GetMetadataAllocatedServer) error {
	ctx, cancel := context.WithTimeout(out.Context(), callTime)
	defer cancel()
	c := caller{token: in.GetSecurityToken(), namespace: in.GetNamespace(), snapshot: in.GetSnapshotName()}
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
	ctx, cancel := context.WithTimeout(out.Context(), callTime)
	defer cancel()
	if in.GetBaseSnapshotId() == "" {
		return status.Error(codes.InvalidArgument, "base_snapshot_id is empty")
	}
	c := caller{token: in.GetSecurityToken(), namespace: in.GetNamespace(), snapshot: in.GetTargetSnapshotName()}
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

// caller is who calls, and for which VolumeSnapshot.
type caller struct{ token, namespace, snapshot string }

// withAgent authorizes a caller, and calls use with the agent that has the snapshot and with its handle.
func (s *Server) withAgent(ctx context.Context, c caller,
	use func(agent csi.SnapshotMetadataClient, handle string) error) error {
	for name, value := range map[string]string{"security_token": c.token, "namespace": c.namespace,
		"the name of the VolumeSnapshot": c.snapshot} {
		if value == "" {
			return status.Errorf(codes.InvalidArgument, "%s is empty", name)
		}
	}
	if err := s.authorize(ctx, c); err != nil {
		return err
	}
	found, err := s.locate(ctx, c.namespace, c.snapshot)
	if err != nil {
		return err
	}
	connection, err := s.Dial(ctx, found.node)
	if err != nil {
		return status.Errorf(codes.Unavailable, "VolumeSnapshot %s/%s: connect to the node agent of %s: %v",
			c.namespace, c.snapshot, found.node, err)
	}
	defer func() { _ = connection.Close() }()
	err = use(csi.NewSnapshotMetadataClient(connection), found.handle)
	if err == nil {
		return nil
	}
	return status.Errorf(status.Code(err), "VolumeSnapshot %s/%s on node %s: %s", c.namespace, c.snapshot, found.node,
		status.Convert(err).Message())
}

// relay passes the messages of a stream on until it ends. A send blocks until the client has room for the message.
func relay[M any](receive func() (M, error), send func(M) error) error {
	for {
		message, err := receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := send(message); err != nil {
			return err
		}
	}
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
