// Package httpserver serves HTTPS to other Pods, with limits for connections, sizes and times.
package httpserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/tls/limit"
)

const (
	// headerLimit is the time for the TLS handshake and the header of a request, idleLimit that between requests.
	headerLimit = 10 * time.Second
	idleLimit   = 90 * time.Second
	// maxHeader is the maximum size of a header in bytes. Tokens of the API server are much smaller.
	maxHeader = 32 << 10
	// maxStreams is the maximum number of requests of an HTTP/2 connection at the same time.
	maxStreams = 64
	// stopLimit is the time that requests have to end after the server is stopped.
	stopLimit = 5 * time.Second
)

// Options configure a Server.
type Options struct {
	// Name says in logs and errors what is served: "serve NAME".
	Name string
	// Address is the TCP address to listen on.
	Address string
	// TLS has the certificate of the server, and the protocols. It has HTTP/1.1 only if it has none.
	TLS *tls.Config
	// Handler handles requests. It authorizes them.
	Handler http.Handler
	// All is the maximum number of connections, Peer that of one peer.
	All, Peer int
	// Read and Write limit the time to receive a request and to send the answer. They are 0 if the Handler limits them.
	Read, Write time.Duration
}

// Server is a Runnable.
type Server struct{ Options }

// New returns a Server.
func New(o Options) *Server {
	if len(o.TLS.NextProtos) == 0 {
		o.TLS.NextProtos = []string{"http/1.1"}
	}
	return &Server{o}
}

// NeedLeaderElection returns false: each replica and each agent serves.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until the context ends.
func (s *Server) Start(ctx context.Context) error {
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	return s.Serve(ctx, listener)
}

// Early listens, and returns a Runnable that serves before the caches of the manager have objects. It serves also while
// the API server does not answer.
func (s *Server) Early(ctx context.Context) (*manager.Server, error) {
	listener, err := s.listen(ctx)
	if err != nil {
		return nil, err
	}
	liveness.Ask(ctx, "server of "+s.Name, limit.Answers(listener.Addr()))
	return s.managed(ctx, listener), nil
}

func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	listener, err := limit.Listen(ctx, s.Address, limit.Connections{All: s.All, Peer: s.Peer, Report: func(err error) {
		log.FromContext(ctx).Info("refused connections", "name", s.Name, "cause", err.Error())
	}})
	if err != nil {
		return nil, fmt.Errorf("serve %s on %s: %w", s.Name, s.Address, err)
	}
	return listener, nil
}

// managed returns the server with all its limits.
func (s *Server) managed(ctx context.Context, listener net.Listener) *manager.Server {
	stop := stopLimit
	return &manager.Server{Name: s.Name, Listener: tls.NewListener(listener, s.TLS), ShutdownTimeout: &stop,
		Server: &http.Server{
			Handler: s.units(), ReadHeaderTimeout: headerLimit, ReadTimeout: s.Read, WriteTimeout: s.Write,
			IdleTimeout: idleLimit, MaxHeaderBytes: maxHeader,
			HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
			BaseContext: func(net.Listener) context.Context { return ctx },
			ErrorLog:    slog.NewLogLogger(peers{logr.ToSlogHandler(log.FromContext(ctx))}, slog.LevelWarn),
		}}
}

// units makes each request a unit of work of liveness. Without time limits, a request waits for its client.
func (s *Server) units() http.Handler {
	if s.Read == 0 || s.Write == 0 {
		return s.Handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end := liveness.Begin(r.Context(), fmt.Sprintf("%s %s of %s", r.Method, r.URL.Path, s.Name))
		defer end()
		s.Handler.ServeHTTP(w, r.WithContext(ctx))
	})
}

// peers drops what the server logs about connections of its own process: those of liveness have no certificate.
type peers struct{ slog.Handler }

// Handle implements slog.Handler.
func (p peers) Handle(ctx context.Context, r slog.Record) error {
	for _, own := range []string{" from 127.0.0.1:", " from [::1]:"} {
		if strings.Contains(r.Message, own) {
			return nil
		}
	}
	return p.Handler.Handle(ctx, r)
}

// Serve is Start with a listener, which it closes. Requests that run when the context ends have stopLimit to end.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	managed := s.managed(ctx, listener)
	defer func() { _ = managed.Server.Close() }()
	defer liveness.Ask(ctx, "server of "+s.Name, limit.Answers(listener.Addr()))()
	if err := managed.Start(ctx); err != nil {
		return fmt.Errorf("serve %s on %s: %w", s.Name, s.Address, err)
	}
	return nil
}
