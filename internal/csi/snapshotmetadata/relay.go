package snapshotmetadata

import (
	"context"
	"errors"
	"io"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Relay serves CSI's SnapshotMetadata in the operator: it passes a call on to the node agent that has the snapshot. It
// authorizes nobody, so it must be served on a socket of the container only.
type Relay struct {
	csi.UnimplementedSnapshotMetadataServer
	// Live reads without a cache.
	Live client.Reader
	// NameOf returns the name of the LogicalVolume with a volume ID, or "" if none was observed.
	NameOf func(volumeID string) string
	// Dial returns a connection to the agent of a node, which the caller closes.
	Dial func(ctx context.Context, node string) (*grpc.ClientConn, error)
}

// GetMetadataAllocated implements csi.SnapshotMetadataServer.
func (r *Relay) GetMetadataAllocated(in *csi.GetMetadataAllocatedRequest,
	out csi.SnapshotMetadata_GetMetadataAllocatedServer) error {
	ctx := out.Context()
	return r.withAgent(ctx, in.GetSnapshotId(), func(agent csi.SnapshotMetadataClient) error {
		stream, err := agent.GetMetadataAllocated(ctx, in)
		if err != nil {
			return err
		}
		return relay(stream.Recv, out.Send)
	})
}

// GetMetadataDelta implements csi.SnapshotMetadataServer.
func (r *Relay) GetMetadataDelta(in *csi.GetMetadataDeltaRequest,
	out csi.SnapshotMetadata_GetMetadataDeltaServer) error {
	ctx := out.Context()
	return r.withAgent(ctx, in.GetTargetSnapshotId(), func(agent csi.SnapshotMetadataClient) error {
		stream, err := agent.GetMetadataDelta(ctx, in)
		if err != nil {
			return err
		}
		return relay(stream.Recv, out.Send)
	})
}

// withAgent calls use with the agent that has a snapshot.
func (r *Relay) withAgent(ctx context.Context, handle string, use func(csi.SnapshotMetadataClient) error) error {
	node, err := r.node(ctx, handle)
	if err != nil {
		return err
	}
	connection, err := r.Dial(ctx, node)
	if err != nil {
		return status.Errorf(codes.Unavailable, "connect to the node agent of %s: %v", node, err)
	}
	defer func() { _ = connection.Close() }()
	if err := use(csi.NewSnapshotMetadataClient(connection)); err != nil {
		return status.Errorf(status.Code(err), "node %s: %s", node, status.Convert(err).Message())
	}
	return nil
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
