// Package streamserver serves gRPC streams over the network, with TLS. It limits connections, the size of requests and
// the time of calls, so that a client that misbehaves cannot hold more than its share.
package streamserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/tls/limit"
)

const (
	// maxConnections is the maximum number of connections, and peerConnections that of one peer. More are closed.
	maxConnections  = 128
	peerConnections = 32
	// maxStreams is the maximum number of calls of a connection at the same time.
	maxStreams = 16
	// maxRequest is the maximum size of a request in bytes.
	maxRequest = 64 << 10
	// handshakeTime is the time limit of the TLS handshake.
	handshakeTime = 20 * time.Second
	// connectionAge is the time after which a connection accepts no more calls. The ones that run then have CallTime
	// to end, so that a client that does not read holds nothing for longer. idleTime ends a connection without calls.
	connectionAge = time.Minute
	idleTime      = 30 * time.Second
	// pingAfter and pingTimeout detect a client that is gone.
	pingAfter   = 30 * time.Second
	pingTimeout = 20 * time.Second
	// stopTimeout is the time that calls have to end after the server is stopped. It is less than the grace period of
	// the Pods.
	stopTimeout = 10 * time.Second
)

// CallTime is the time limit of a call. It is that of external-snapshot-metadata.
const CallTime = 10 * time.Minute

// Options configure a Server.
type Options struct {
	// Address is the TCP address to listen on.
	Address string
	// TLS has the certificate of the server, and whom it accepts. The Server changes NextProtos.
	TLS *tls.Config
	// Register registers the services.
	Register func(grpc.ServiceRegistrar)
	// MaxCalls is the maximum number of calls at the same time; 0 for the limit of the connections only. More are
	// refused with ResourceExhausted.
	MaxCalls int
}

// Server is a Runnable.
type Server struct {
	address string
	server  *grpc.Server
}

// New returns a Server.
func New(o Options) *Server {
	o.TLS.NextProtos = []string{"h2"}
	interceptors := []grpc.StreamServerInterceptor{logged}
	if o.MaxCalls > 0 {
		interceptors = append(interceptors, limited(limit.NewShares(o.MaxCalls, o.MaxCalls)))
	}
	server := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(o.TLS)),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: connectionAge,
			MaxConnectionAgeGrace: CallTime, MaxConnectionIdle: idleTime, Time: pingAfter, Timeout: pingTimeout}),
		grpc.ChainStreamInterceptor(interceptors...),
	)
	o.Register(server)
	return &Server{address: o.Address, server: server}
}

// NeedLeaderElection returns false: each replica and each agent serves.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until the context ends. It returns an error if the address cannot be used.
func (s *Server) Start(ctx context.Context) error {
	listener, err := s.Listen(ctx)
	if err != nil {
		return err
	}
	return s.Serve(ctx, listener)
}

// Listen returns the listener for Serve, which limits connections.
func (s *Server) Listen(ctx context.Context) (net.Listener, error) {
	listener, err := limit.Listen(ctx, s.address, limit.Connections{All: maxConnections, Peer: peerConnections,
		Report: func(err error) {
			log.FromContext(ctx).Info("refused connections", "name", "changed blocks", "cause", err.Error())
		}})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", s.address, err)
	}
	return listener, nil
}

// Serve is Start with a listener, which it closes. Calls that run when the context ends
// have stopTimeout to end.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	address := listener.Addr().String()
	log.FromContext(ctx).Info("serving changed blocks", "address", address)
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(listener) }()
	defer liveness.Ask(ctx, "gRPC server on "+address, limit.Answers(listener.Addr()))()
	select {
	case err := <-served:
		return fmt.Errorf("serve gRPC on %s: %w", address, err)
	case <-ctx.Done():
	}
	timer := time.AfterFunc(stopTimeout, s.server.Stop)
	defer timer.Stop()
	s.server.GracefulStop()
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve gRPC on %s: %w", address, err)
	}
	return nil
}

// limited refuses calls if too many run.
func limited(calls *limit.Shares) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		leave, err := calls.Try("")
		if err != nil {
			return status.Errorf(codes.ResourceExhausted, "cannot serve the call now: %v: try again later", err)
		}
		defer leave()
		return handle(server, stream)
	}
}

// logged logs each failed call, and other calls at debug level (1).
func logged(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	begun := time.Now()
	err := handle(server, stream)
	took := time.Since(begun).Round(time.Millisecond).String()
	logger := log.FromContext(stream.Context()).WithName(path.Base(info.FullMethod))
	if code := status.Code(err); code != codes.OK {
		logger.Info("call failed", "code", code.String(), "cause", status.Convert(err).Message(), "took", took)
	} else {
		logger.V(1).Info("call succeeded", "took", took)
	}
	return err
}
