package lvmd

import (
	"context"
	"fmt"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Serve registers TopoLVM's two lvmd services and the gRPC health service for clients in other processes, for example
// TopoLVM's node service and controller.
func (e *Engine) Serve(server *grpc.Server) {
	proto.RegisterLVServiceServer(server, &lvService{engine: e})
	proto.RegisterVGServiceServer(server, &vgService{engine: e})
	state := health.NewServer()
	state.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, state)
}

// Check returns an error if a device class does not have its volume group or thin pool.
func (e *Engine) Check(ctx context.Context) error {
	states, err := e.States(ctx)
	if err != nil {
		return err
	}
	for _, state := range states {
		if state.Err != nil {
			return fmt.Errorf("%s", status.Convert(state.Err).Message())
		}
	}
	return nil
}

type lvService struct {
	proto.UnimplementedLVServiceServer
	engine *Engine
}

func (s *lvService) CreateLV(ctx context.Context, in *proto.CreateLVRequest) (*proto.CreateLVResponse, error) {
	return s.engine.CreateLV(ctx, in)
}

func (s *lvService) RemoveLV(ctx context.Context, in *proto.RemoveLVRequest) (*proto.Empty, error) {
	return s.engine.RemoveLV(ctx, in)
}

func (s *lvService) ResizeLV(ctx context.Context, in *proto.ResizeLVRequest) (*proto.ResizeLVResponse, error) {
	return s.engine.ResizeLV(ctx, in)
}

func (s *lvService) CreateLVSnapshot(ctx context.Context,
	in *proto.CreateLVSnapshotRequest) (*proto.CreateLVSnapshotResponse, error) {
	return s.engine.CreateLVSnapshot(ctx, in)
}

type vgService struct {
	proto.UnimplementedVGServiceServer
	engine *Engine
}

func (s *vgService) GetLVList(ctx context.Context, in *proto.GetLVListRequest) (*proto.GetLVListResponse, error) {
	return s.engine.GetLVList(ctx, in)
}

func (s *vgService) GetFreeBytes(ctx context.Context,
	in *proto.GetFreeBytesRequest) (*proto.GetFreeBytesResponse, error) {
	return s.engine.GetFreeBytes(ctx, in)
}

// Watch sends the capacity until the client disconnects or the server stops.
func (s *vgService) Watch(in *proto.Empty, out grpc.ServerStreamingServer[proto.WatchResponse]) error {
	stream, err := s.engine.Watch(out.Context(), in)
	if err != nil {
		return err
	}
	for {
		response, err := stream.Recv()
		if status.Code(err) == codes.Canceled {
			return nil
		}
		if err != nil {
			return err
		}
		if err := out.Send(response); err != nil {
			return err
		}
	}
}
