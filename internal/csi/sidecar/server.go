package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// stopTimeout is how long calls may go on after the end was asked for. It is less than a pod's grace period.
const stopTimeout = 10 * time.Second

// GRPCServer serves gRPC on a unix socket as a manager.Runnable.
type GRPCServer struct {
	server *grpc.Server
	socket string
}

// NewGRPCServer returns a Runnable that serves a gRPC server, with its services registered, on a socket.
func NewGRPCServer(server *grpc.Server, socket string) *GRPCServer {
	return &GRPCServer{server: server, socket: socket}
}

// NeedLeaderElection is false: the socket is for callers in the same pod or on the same node.
func (s *GRPCServer) NeedLeaderElection() bool { return false }

// Start serves until the context ends, lets calls finish for a while and removes the socket.
func (s *GRPCServer) Start(ctx context.Context) error {
	listener, err := listen(ctx, s.socket)
	if err != nil {
		return err
	}
	log.FromContext(ctx).Info("Serving", "socket", s.socket)
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(listener) }()
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

// stop ends a server: gracefully at first, then at once.
func stop(server *grpc.Server) {
	timer := time.AfterFunc(stopTimeout, server.Stop)
	defer timer.Stop()
	server.GracefulStop()
}

// listen listens on a unix socket in place of one that a process which is gone has left. Closing the listener
// removes the socket.
func listen(ctx context.Context, socket string) (net.Listener, error) {
	info, err := os.Lstat(socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("look at socket %s: %w", socket, err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("listen on %s: there is something that is not a socket (%s): remove it",
			socket, info.Mode())
	default:
		if err := os.Remove(socket); err != nil {
			return nil, fmt.Errorf("remove the socket that an earlier process left: %w", err)
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen on socket %s: %w", socket, err)
	}
	return listener, nil
}
