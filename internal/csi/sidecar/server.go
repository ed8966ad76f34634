package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	csirpc "github.com/kubernetes-csi/csi-lib-utils/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
)

// stopTimeout is the time that calls have to end after the server is stopped. It is less than the grace period of a
// Pod.
const stopTimeout = 10 * time.Second

// GRPCServer serves gRPC on a unix socket as a manager.Runnable.
type GRPCServer struct {
	server *grpc.Server
	socket string
}

// NewGRPCServer returns a Runnable that serves on a unix socket. The services of server must be registered already.
func NewGRPCServer(server *grpc.Server, socket string) *GRPCServer {
	return &GRPCServer{server: server, socket: socket}
}

// NeedLeaderElection returns false: the callers are in the same Pod or on the same node.
func (s *GRPCServer) NeedLeaderElection() bool { return false }

// Start serves until the context ends. It then waits up to stopTimeout for calls to end, and removes the socket.
func (s *GRPCServer) Start(ctx context.Context) error {
	listener, err := listen(ctx, s.socket)
	if err != nil {
		return err
	}
	log.FromContext(ctx).Info("serving", "socket", s.socket)
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(listener) }()
	if _, isDriver := s.server.GetServiceInfo()[csi.Identity_ServiceDesc.ServiceName]; isDriver {
		defer liveness.Ask(ctx, "CSI driver on "+s.socket, s.probe)()
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve gRPC on %s: %w", s.socket, err)
	case <-ctx.Done():
	}
	stop(s.server)
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve gRPC on %s: %w", s.socket, err)
	}
	return nil
}

// probe asks the driver through its socket, like a new client. It returns an error if it is not ready.
func (s *GRPCServer) probe(ctx context.Context) error {
	connection, err := grpc.NewClient("unix://"+s.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	ready, err := csirpc.Probe(ctx, connection)
	if err == nil && !ready {
		err = errors.New("the driver is not ready")
	}
	return errors.Join(err, connection.Close())
}

// stop stops a server gracefully, and after stopTimeout at once.
func stop(server *grpc.Server) {
	timer := time.AfterFunc(stopTimeout, server.Stop)
	defer timer.Stop()
	server.GracefulStop()
}

// listen listens on a unix socket. It removes a socket that an earlier process has left. Closing the listener removes
// the socket.
func listen(ctx context.Context, socket string) (net.Listener, error) {
	info, err := os.Lstat(socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("check socket %s: %w", socket, err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("listen on %s: the path exists and is not a socket (%s): remove it",
			socket, info.Mode())
	default:
		if err := os.Remove(socket); err != nil {
			return nil, fmt.Errorf("remove the socket of an earlier process: %w", err)
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen on socket %s: %w", socket, err)
	}
	return listener, nil
}
