// Package agentserver serves the operator over the network, with mutual TLS.
package agentserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/mutualtls"
)

const (
	// maxCalls is the maximum number of calls at the same time. More are refused with ResourceExhausted.
	maxCalls = 16
	// maxRequest is the maximum size of a request in bytes.
	maxRequest = 64 << 10
	// connectionAge is the time after which a connection accepts no more calls. The ones that run then have callTime
	// to end, so that a client that does not read holds nothing for longer. external-snapshot-metadata ends a call
	// after 10 minutes.
	connectionAge = time.Minute
	callTime      = 10 * time.Minute
	// pingAfter and pingTimeout detect a client that is gone.
	pingAfter   = 30 * time.Second
	pingTimeout = 20 * time.Second
	// stopTimeout is the time that calls have to end after the server is stopped. It is less than the grace period of
	// the Pod.
	stopTimeout = 10 * time.Second
)

// Options configure a Server.
type Options struct {
	// Address is the TCP address to listen on.
	Address string
	// Credentials are those of this agent.
	Credentials mutualtls.Source
	// Configure applies the TLS profile of the cluster.
	Configure func(*tls.Config)
	// Snapshots reads the changed blocks of snapshots.
	Snapshots csi.SnapshotMetadataServer
	// Prepare is called once before the first call. A failure is logged.
	Prepare func(ctx context.Context) error
}

// Server is a Runnable.
type Server struct {
	Options
	server *grpc.Server
}

// New returns a Server. Only the operator can call it.
func New(o Options) *Server {
	config := mutualtls.Server(o.Credentials, mutualtls.Operator)
	config.NextProtos = []string{"h2"}
	o.Configure(config)
	calls := make(chan struct{}, maxCalls)
	server := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(config)),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: connectionAge,
			MaxConnectionAgeGrace: callTime, Time: pingAfter, Timeout: pingTimeout}),
		grpc.ChainStreamInterceptor(logged, limited(calls)),
	)
	csi.RegisterSnapshotMetadataServer(server, o.Snapshots)
	return &Server{Options: o, server: server}
}

// NeedLeaderElection returns false: each agent serves.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until the context ends.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("listen for the operator on %s: %w", s.Address, err)
	}
	return s.serve(ctx, listener)
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	if err := s.Prepare(ctx); err != nil {
		log.FromContext(ctx).Error(err, "cannot release what an earlier node agent reserved")
	}
	log.FromContext(ctx).Info("serving the operator", "address", listener.Addr().String())
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve the operator on %s: %w", s.Address, err)
	case <-ctx.Done():
	}
	timer := time.AfterFunc(stopTimeout, s.server.Stop)
	defer timer.Stop()
	s.server.GracefulStop()
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve the operator on %s: %w", s.Address, err)
	}
	return nil
}

// limited refuses calls if too many run.
func limited(calls chan struct{}) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		select {
		case calls <- struct{}{}:
			defer func() { <-calls }()
			return handle(server, stream)
		default:
			return status.Errorf(codes.ResourceExhausted, "the node agent already serves %d calls: try again later",
				cap(calls))
		}
	}
}

// logged logs each failed call, and other calls at debug level (1).
func logged(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	begun := time.Now()
	err := handle(server, stream)
	took := time.Since(begun).Round(time.Millisecond).String()
	logger := log.FromContext(stream.Context()).WithName(path.Base(info.FullMethod))
	if code := status.Code(err); code != codes.OK {
		logger.Info("call of the operator failed", "code", code.String(), "cause", status.Convert(err).Message(),
			"took", took)
	} else {
		logger.V(1).Info("call of the operator succeeded", "took", took)
	}
	return err
}
