package engine

import (
	"context"
	"fmt"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Serve registers TopoLVM's two lvmd services and the gRPC health service for clients in other processes, for example
// TopoLVM's node service and controller.
func (e *Engine) Serve(server *grpc.Server) {
	proto.RegisterLVServiceServer(server, e)
	proto.RegisterVGServiceServer(server, e)
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
