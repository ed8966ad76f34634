// Package webhookserver serves admission webhooks. The API server does not authenticate itself to them, so every client
// has a share of the server: more requests of a client wait, and do not delay those of others.
package webhookserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/lvm-storage/lvm-operator/internal/tls/httpserver"
	"github.com/lvm-storage/lvm-operator/internal/tls/limit"
)

const (
	// maxConnections and peerConnections limit connections. An API server sends all requests over a few. On a hosted
	// control plane, all API servers can have one address.
	maxConnections  = 512
	peerConnections = 128
	// maxRequests and peerRequests limit the requests that are handled at the same time. One takes milliseconds.
	maxRequests  = 64
	peerRequests = 16
	// waitLimit is how long a request waits for its turn: the default time limit of the API server for a webhook.
	waitLimit = 10 * time.Second
	// readLimit is the time to receive a request, writeLimit that to answer it: the maximum time limit of the API
	// server for a webhook.
	readLimit  = 10 * time.Second
	writeLimit = 30 * time.Second
	maxPeers   = 4096
	dialLimit  = 10 * time.Second
)

// requests is the rate of requests of a client. Handlers read from the API server.
var requests = limit.Rate{Interval: 10 * time.Millisecond, Burst: 200}

// Options configure a Server.
type Options struct {
	Port int
	// TLS are options of the TLS configuration. One of them sets the certificate.
	TLS []func(*tls.Config)
}

// Server is a ctrlwebhook.Server.
type Server struct {
	*ctrlwebhook.DefaultServer
	port      int
	server    *httpserver.Server
	listening atomic.Bool
}

var _ ctrlwebhook.Server = &Server{}

// New returns a Server.
func New(o Options) *Server {
	mux := http.NewServeMux()
	config := &tls.Config{NextProtos: []string{"h2"}}
	for _, option := range o.TLS {
		option(config)
	}
	return &Server{
		// Only its register of webhooks is used.
		DefaultServer: &ctrlwebhook.DefaultServer{Options: ctrlwebhook.Options{Port: o.Port, WebhookMux: mux}},
		port:          o.Port,
		server: httpserver.New(httpserver.Options{Name: "admission webhooks",
			Address: net.JoinHostPort("", strconv.Itoa(o.Port)), TLS: config, Handler: limited(mux),
			All: maxConnections, Peer: peerConnections, Read: readLimit, Write: writeLimit}),
	}
}

// Start serves until the context ends.
func (s *Server) Start(ctx context.Context) error {
	s.listening.Store(true)
	defer s.listening.Store(false)
	return s.server.Start(ctx)
}

// StartedChecker returns a check that fails until the server answers, with its certificate.
func (s *Server) StartedChecker() healthz.Checker {
	return func(request *http.Request) error {
		if !s.listening.Load() {
			return errors.New("the server of admission webhooks is not started yet")
		}
		// The server checks itself, and its certificate is for the name of the Service.
		dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: dialLimit}, Config: &tls.Config{InsecureSkipVerify: true}}
		ctx := context.Background()
		if request != nil {
			ctx = request.Context()
		}
		connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(s.port)))
		if err != nil {
			return fmt.Errorf("connect to the server of admission webhooks: %w", err)
		}
		return connection.Close()
	}
}

// limited has requests wait for the share of their client.
func limited(next http.Handler) http.Handler {
	rates := limit.NewRates(requests, maxPeers)
	shares := limit.NewShares(maxRequests, peerRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), waitLimit)
		defer cancel()
		peer := limit.Peer(r.RemoteAddr)
		if err := rates.Wait(ctx, peer); err != nil {
			http.Error(w, err.Error(), http.StatusTooManyRequests)
			return
		}
		leave, err := shares.Wait(ctx, peer)
		if err != nil {
			http.Error(w, err.Error(), http.StatusTooManyRequests)
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}
