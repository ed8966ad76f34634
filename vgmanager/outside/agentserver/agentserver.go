// Package agentserver serves the operator over the network, with mutual TLS.
package agentserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
	"github.com/lvm-storage/lvm-operator/internal/tls/streamserver"
)

// maxCalls is the maximum number of calls at the same time. More are refused with ResourceExhausted.
const maxCalls = 16

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
	server *streamserver.Server
}

// New returns a Server. Only the operator can call it.
func New(o Options) *Server {
	config := mutualtls.Server(o.Credentials, mutualtls.Operator)
	o.Configure(config)
	return &Server{Options: o, server: streamserver.New(streamserver.Options{Address: o.Address, TLS: config,
		MaxCalls: maxCalls,
		Register: func(s grpc.ServiceRegistrar) { csi.RegisterSnapshotMetadataServer(s, o.Snapshots) }})}
}

// NeedLeaderElection returns false: each agent serves.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until the context ends.
func (s *Server) Start(ctx context.Context) error {
	listener, err := s.server.Listen(ctx)
	if err != nil {
		return fmt.Errorf("serve the operator: %w", err)
	}
	return s.serve(ctx, listener)
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	if err := s.Prepare(ctx); err != nil {
		log.FromContext(ctx).Error(err, "cannot release what an earlier node agent reserved")
	}
	return s.server.Serve(ctx, listener)
}
