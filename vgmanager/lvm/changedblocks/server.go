package changedblocks

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// perMessage is the maximum number of ranges of a message, which has at most 100 KiB then.
const perMessage = 1 << 12

// Volume is where the logical volume of a snapshot is.
type Volume struct {
	VG, Name string
	// Source identifies the volume that the snapshot was taken of, also after that was deleted.
	Source string
}

// Locate returns the logical volume of a snapshot by its CSI ID. It returns an error that wraps lvm.ErrNotFound if the
// node does not have it.
type Locate func(ctx context.Context, snapshotID string) (Volume, error)

// Server serves CSI's SnapshotMetadata for the snapshots of this node. A message has the result of one read, so the
// metadata of the pool is not held while a client is slow.
//
// Codes: InvalidArgument, NotFound, OutOfRange; FailedPrecondition if the client has to back up the whole snapshot
// (ErrUnsupported); Unavailable if the call can be repeated; DeadlineExceeded; Internal, also if the metadata is
// damaged.
type Server struct {
	csi.UnimplementedSnapshotMetadataServer
	reader *Reader
	locate Locate
}

// NewServer returns a Server.
func NewServer(r *Reader, locate Locate) *Server { return &Server{reader: r, locate: locate} }

// GetMetadataAllocated implements csi.SnapshotMetadataServer.
func (s *Server) GetMetadataAllocated(in *csi.GetMetadataAllocatedRequest,
	out csi.SnapshotMetadata_GetMetadataAllocatedServer) error {
	c := call{target: in.GetSnapshotId(), offset: in.GetStartingOffset(), max: in.GetMaxResults()}
	if c.target == "" {
		return status.Error(codes.InvalidArgument, "snapshot_id is empty")
	}
	return s.stream(out.Context(), c, func(p *Page) error {
		return out.Send(&csi.GetMetadataAllocatedResponse{BlockMetadataType: csi.BlockMetadataType_VARIABLE_LENGTH,
			VolumeCapacityBytes: int64(p.Size), BlockMetadata: p.blocks()})
	})
}

// GetMetadataDelta implements csi.SnapshotMetadataServer. Both snapshots must be of the same volume: the ID of the base
// is what the client says, and nobody has checked that the client may read it (external-snapshot-metadata checks only
// the target). A base that is newer is not an error: the result has the blocks in which the two differ.
func (s *Server) GetMetadataDelta(in *csi.GetMetadataDeltaRequest,
	out csi.SnapshotMetadata_GetMetadataDeltaServer) error {
	c := call{base: in.GetBaseSnapshotId(), target: in.GetTargetSnapshotId(), offset: in.GetStartingOffset(),
		max: in.GetMaxResults()}
	if c.base == "" || c.target == "" {
		return status.Error(codes.InvalidArgument, "base_snapshot_id or target_snapshot_id is empty")
	}
	return s.stream(out.Context(), c, func(p *Page) error {
		return out.Send(&csi.GetMetadataDeltaResponse{BlockMetadataType: csi.BlockMetadataType_VARIABLE_LENGTH,
			VolumeCapacityBytes: int64(p.Size), BlockMetadata: p.blocks()})
	})
}

// call is a request. base is empty for all allocated blocks.
type call struct {
	base, target string
	offset       int64
	max          int32
}

// stream sends all pages of a result. It sends at least one, so the client knows the size.
func (s *Server) stream(ctx context.Context, c call, send func(*Page) error) error {
	q, err := s.query(ctx, c)
	if err != nil {
		return err
	}
	for {
		page, err := s.reader.Read(ctx, q)
		if err != nil {
			return status.Error(codeOf(err), err.Error())
		}
		if q.Offset > page.Size {
			return status.Errorf(codes.OutOfRange, "starting_offset %d is behind the end of snapshot %s, which has %d "+
				"bytes", q.Offset, c.target, page.Size)
		}
		if err := send(page); err != nil {
			return err
		}
		if page.Next == 0 {
			return nil
		}
		q.Offset = page.Next
	}
}

func (s *Server) query(ctx context.Context, c call) (Query, error) {
	switch {
	case c.offset < 0:
		return Query{}, status.Errorf(codes.OutOfRange, "starting_offset is %d, want 0 or more", c.offset)
	case c.max < 0:
		return Query{}, status.Errorf(codes.InvalidArgument, "max_results is %d, want 0 or more", c.max)
	}
	target, err := s.locate(ctx, c.target)
	if err != nil {
		return Query{}, status.Error(codeOf(err), fmt.Sprintf("snapshot %s: %v", c.target, err))
	}
	q := Query{VG: target.VG, Target: target.Name, Offset: uint64(c.offset), MaxRanges: perMessage}
	if c.max > 0 {
		q.MaxRanges = min(q.MaxRanges, int(c.max))
	}
	if c.base == "" {
		return q, nil
	}
	base, err := s.locate(ctx, c.base)
	if err != nil {
		return Query{}, status.Error(codeOf(err), fmt.Sprintf("snapshot %s: %v", c.base, err))
	}
	if base.Source != target.Source || base.Source == "" {
		return Query{}, status.Errorf(codes.InvalidArgument, "snapshot %s is not of the same volume as %s: "+
			"base_snapshot_id must be an older snapshot of it", c.base, c.target)
	}
	if base.VG != target.VG {
		return Query{}, status.Errorf(codes.FailedPrecondition, "snapshots %s and %s are in different volume groups, "+
			"%s and %s: back up all data", c.base, c.target, base.VG, target.VG)
	}
	q.Base = base.Name
	return q, nil
}

func codeOf(err error) codes.Code {
	switch {
	case errors.Is(err, lvm.ErrNotFound):
		return codes.NotFound
	case errors.Is(err, ErrUnsupported):
		return codes.FailedPrecondition
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, ErrUnavailable), errors.Is(err, lvm.ErrBusy), errors.Is(err, lvm.ErrRunning):
		return codes.Unavailable
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	}
	return codes.Internal
}

func (p *Page) blocks() []*csi.BlockMetadata {
	list := make([]*csi.BlockMetadata, 0, len(p.Ranges))
	for _, r := range p.Ranges {
		list = append(list, &csi.BlockMetadata{ByteOffset: int64(r.Offset), SizeBytes: int64(r.Length)})
	}
	return list
}
