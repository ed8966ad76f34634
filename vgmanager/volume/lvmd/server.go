// Package lvmd serves an engine with the protocol of TopoLVM's lvmd, for TopoLVM's node service and controller
// (`lvms lvmd`).
package lvmd

import (
	"context"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// Server implements the services of TopoLVM's lvmd. The errors of the engine have their gRPC codes.
type Server struct {
	proto.UnimplementedLVServiceServer
	proto.UnimplementedVGServiceServer

	engine *engine.Engine
}

// Register adds TopoLVM's two lvmd services and the gRPC health service to a server.
func Register(server *grpc.Server, e *engine.Engine) {
	s := &Server{engine: e}
	proto.RegisterLVServiceServer(server, s)
	proto.RegisterVGServiceServer(server, s)
	state := health.NewServer()
	state.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, state)
}

// Check returns an error if a device class does not have its volume group or thin pool.
func Check(ctx context.Context, e *engine.Engine) error {
	states, err := e.States(ctx)
	if err != nil {
		return err
	}
	for _, state := range states {
		if state.Err != nil {
			return state.Err
		}
	}
	return nil
}

// CreateLV creates a volume (engine.Provisioner.CreateLV).
func (s *Server) CreateLV(ctx context.Context, in *proto.CreateLVRequest) (*proto.CreateLVResponse, error) {
	lv, err := s.engine.CreateLV(ctx, engine.NewVolume{Class: in.GetDeviceClass(), Name: in.GetName(),
		OptionClass: in.GetLvcreateOptionClass(), Size: in.GetSizeBytes(), Tags: in.GetTags()})
	if err != nil {
		return nil, err
	}
	return &proto.CreateLVResponse{Volume: message(lv)}, nil
}

// CreateLVSnapshot creates a snapshot.
func (s *Server) CreateLVSnapshot(ctx context.Context,
	in *proto.CreateLVSnapshotRequest) (*proto.CreateLVSnapshotResponse, error) {
	readOnly, err := engine.IsReadOnly(in.GetAccessType())
	if err != nil {
		return nil, err
	}
	lv, err := s.engine.CreateLVSnapshot(ctx, engine.NewSnapshot{Class: in.GetDeviceClass(), Name: in.GetName(),
		Source: in.GetSourceVolume(), Size: in.GetSizeBytes(), ReadOnly: readOnly, Tags: in.GetTags()})
	if err != nil {
		return nil, err
	}
	return &proto.CreateLVSnapshotResponse{Snapshot: message(lv)}, nil
}

// ResizeLV extends a volume.
func (s *Server) ResizeLV(ctx context.Context, in *proto.ResizeLVRequest) (*proto.ResizeLVResponse, error) {
	size, err := s.engine.ResizeLV(ctx, in.GetDeviceClass(), in.GetName(), in.GetSizeBytes())
	if err != nil {
		return nil, err
	}
	return &proto.ResizeLVResponse{SizeBytes: size}, nil
}

// RemoveLV removes a volume.
func (s *Server) RemoveLV(ctx context.Context, in *proto.RemoveLVRequest) (*proto.Empty, error) {
	if err := s.engine.RemoveLV(ctx, in.GetDeviceClass(), in.GetName()); err != nil {
		return nil, err
	}
	return &proto.Empty{}, nil
}

// GetLVList returns the volumes of a class.
func (s *Server) GetLVList(ctx context.Context, in *proto.GetLVListRequest) (*proto.GetLVListResponse, error) {
	list, err := s.engine.ListLVs(ctx, in.GetDeviceClass())
	if err != nil {
		return nil, err
	}
	response := &proto.GetLVListResponse{}
	for i := range list {
		response.Volumes = append(response.Volumes, message(&list[i]))
	}
	return response, nil
}

// GetFreeBytes returns the capacity of a class for new volumes, without the spare.
func (s *Server) GetFreeBytes(ctx context.Context, in *proto.GetFreeBytesRequest) (*proto.GetFreeBytesResponse, error) {
	free, err := s.engine.FreeBytes(ctx, in.GetDeviceClass())
	if err != nil {
		return nil, err
	}
	return &proto.GetFreeBytesResponse{FreeBytes: free}, nil
}

// message returns a volume as TopoLVM's message. The device number and the path of a new volume are not known: no
// caller uses them.
func message(lv *lvm.LV) *proto.LogicalVolume {
	return &proto.LogicalVolume{
		Name: lv.Name, SizeBytes: int64(lv.Size), DevMajor: lv.Major, DevMinor: lv.Minor,
		Tags: lv.Tags, Path: lv.Path, Attr: string(lv.Attr),
	}
}
