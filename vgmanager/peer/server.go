// Package peer is how node agents send each other the data of volumes: HTTP with mutual TLS.
//
// The agent of a target asks the agent of the source. A request names the target, and the source serves it only if the
// cluster wants this copy on the node of the caller (Open):
//
//	GET /v1/copies/TARGET/data?from=OFFSET   the data from an offset on, as package copystream
//	GET /v1/copies/TARGET/sums               the checksums of all of it
//
// For the target of a move, which is copied to in rounds, the parameters source and base name the snapshots of the
// round that the caller has begun: it gets only the differences to the base, and nothing of another round.
package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/mutualtls"
	"github.com/lvm-storage/lvm-operator/vgmanager/volumecopy"
)

const (
	// maxStreams is the maximum number of streams at the same time. More are refused with 503.
	maxStreams = 8
	// stallLimit is the time in which the client must take what was sent. A client that is gone ends the stream then.
	stallLimit = time.Minute
	// headerLimit is the time for the TLS handshake and the header of a request, idleLimit that between requests.
	headerLimit = 10 * time.Second
	idleLimit   = time.Minute
	// stopLimit is the time that streams have to end after the server is stopped. The client continues later.
	stopLimit   = 5 * time.Second
	maxHeader   = 16 << 10
	contentType = "application/vnd.lvms.copy"
	// sizeHeader has the size of the volume in bytes, and contentHeader a tag that describes its content, once for
	// each. baseSizeHeader has the size of the base, if there is one.
	sizeHeader     = "Lvms-Volume-Size"
	contentHeader  = "Lvms-Volume-Content"
	baseSizeHeader = "Lvms-Base-Size"
)

// Errors that Open wraps. Any other error can go away, so the client repeats its request.
var (
	// ErrForbidden says that the cluster does not want this copy on the node of the caller.
	ErrForbidden = errors.New("the copy is not permitted")
	// ErrGone says that the source can never be copied: it does not exist, or its data is lost.
	ErrGone = errors.New("the source cannot be copied")
)

// Opened is a source that is open until it is closed.
type Opened struct {
	volumecopy.Source
	// BaseSize is the size of the base in bytes, 0 without one.
	BaseSize uint64
	// Content are the tags of the volume that describe its content.
	Content []string
	Close   func() error
}

// Request is what the agent of a target asks for.
type Request struct {
	// Target is the name of its LogicalVolume.
	Target string
	// Source and Base are the LogicalVolumes of the snapshots of the round that the agent has begun, if the target is
	// copied to in rounds. Without Base, it gets all data of Source.
	Source, Base string
	// From is the byte from which on it needs the data.
	From uint64
}

// Open returns the source of a target for the agent of a node, if the cluster wants this copy. It ignores From.
type Open func(ctx context.Context, node string, r Request) (*Opened, error)

// Options configure a Server.
type Options struct {
	// Address is the TCP address to listen on.
	Address string
	// Credentials are those of this agent.
	Credentials mutualtls.Source
	// Configure applies the TLS profile of the cluster.
	Configure func(*tls.Config)
	Open      Open
}

// Server is a Runnable.
type Server struct {
	Options
	streams chan struct{}
}

// NewServer returns a Server. Only node agents can call it.
func NewServer(o Options) *Server {
	return &Server{Options: o, streams: make(chan struct{}, maxStreams)}
}

// NeedLeaderElection returns false: each agent serves.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until the context ends.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("listen for other node agents on %s: %w", s.Address, err)
	}
	return s.serve(ctx, listener)
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	config := mutualtls.ServerOfNodes(s.Credentials)
	// A stream has the connection for itself. HTTP/2 would only add its flow control.
	config.NextProtos = []string{"http/1.1"}
	s.Configure(config)
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerLimit, IdleTimeout: idleLimit, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(logr.ToSlogHandler(log.FromContext(ctx)), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(tls.NewListener(listener, config)) }()
	log.FromContext(ctx).Info("serving other node agents", "address", listener.Addr().String())
	select {
	case err := <-served:
		return fmt.Errorf("serve other node agents on %s: %w", s.Address, err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve other node agents on %s: %w", s.Address, err)
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/copies/{target}/data", s.stream(volumecopy.Send))
	mux.HandleFunc("GET /v1/copies/{target}/sums", s.stream(volumecopy.SendSums))
	return mux
}

// stream returns the handler that sends a source. An error after the first byte closes the connection: the stream has
// no end then.
func (s *Server) stream(send func(context.Context, io.Writer, volumecopy.Source) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.streams <- struct{}{}:
			defer func() { <-s.streams }()
		default:
			http.Error(w, fmt.Sprintf("the node agent already sends %d volumes: try again later", cap(s.streams)),
				http.StatusServiceUnavailable)
			return
		}
		logger := log.FromContext(r.Context()).WithValues("logicalVolume", r.PathValue("target"))
		opened, err := s.open(r)
		if err != nil {
			logger.Info("cannot send a volume", "cause", err.Error())
			http.Error(w, err.Error(), statusOf(err))
			return
		}
		defer func() {
			if err := opened.Close(); err != nil {
				logger.Error(err, "cannot close the source of a copy")
			}
		}()
		w.Header().Set("Content-Type", contentType)
		w.Header().Set(sizeHeader, strconv.FormatUint(opened.Size, 10))
		if opened.BaseSize > 0 {
			w.Header().Set(baseSizeHeader, strconv.FormatUint(opened.BaseSize, 10))
		}
		for _, tag := range opened.Content {
			w.Header().Add(contentHeader, tag)
		}
		if err := send(r.Context(), &unstalled{ResponseController: http.NewResponseController(w), w: w},
			opened.Source); err != nil {
			logger.Info("the stream of a volume was cut off", "cause", err.Error())
			panic(http.ErrAbortHandler)
		}
	}
}

// open authorizes a request, and returns its source.
func (s *Server) open(r *http.Request) (*Opened, error) {
	query := r.URL.Query()
	request := Request{Target: r.PathValue("target"), Source: query.Get("source"), Base: query.Get("base")}
	if text := query.Get("from"); text != "" {
		var err error
		if request.From, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, fmt.Errorf("%w: from is %q, must be a number of bytes", errBadRequest, text)
		}
	}
	if r.TLS == nil {
		return nil, fmt.Errorf("%w: no TLS", ErrForbidden)
	}
	node, err := mutualtls.NodeOf(*r.TLS)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	opened, err := s.Open(r.Context(), node, request)
	if err != nil {
		return nil, fmt.Errorf("copy of %s for node %s: %w", request.Target, node, err)
	}
	if request.From > opened.Size {
		return nil, errors.Join(fmt.Errorf("%w: from is %d, the volume has %d bytes", errBadRequest, request.From,
			opened.Size), opened.Close())
	}
	opened.From = request.From
	return opened, nil
}

var errBadRequest = errors.New("bad request")

func statusOf(err error) int {
	switch {
	case errors.Is(err, errBadRequest):
		return http.StatusBadRequest
	case errors.Is(err, ErrForbidden):
		return http.StatusForbidden
	case errors.Is(err, ErrGone):
		return http.StatusGone
	}
	return http.StatusServiceUnavailable
}

// unstalled writes to a client that must take each part in time.
type unstalled struct {
	*http.ResponseController
	w io.Writer
}

func (u *unstalled) Write(p []byte) (int, error) {
	if err := u.SetWriteDeadline(time.Now().Add(stallLimit)); err != nil {
		return 0, err
	}
	return u.w.Write(p)
}
