package copies

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/tls/httpserver"
	"github.com/lvm-storage/lvm-operator/internal/tls/limit"
	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
)

// This file is how node agents send each other the data of volumes: HTTP with mutual TLS.
//
// The agent of a target asks the agent of the source. A request names the target, and the source serves it only if the
// cluster wants this copy on the node of the caller (Sender):
//
//	GET /v1/copies/TARGET/data?from=OFFSET   the data from an offset on, in the format of format.go
//	GET /v1/copies/TARGET/sums               the checksums of all of it
//
// For the target of a move, which is copied to in rounds, the parameters source and base name the snapshots of the
// round that the caller has begun: it gets only the differences to the base, and nothing of another round.

const (
	// maxStreams is the maximum number of streams at the same time, and nodeStreams that of one node: the number of
	// copies that an agent receives at the same time. More are refused with 503.
	maxStreams  = 8
	nodeStreams = 2
	// maxConnections and peerConnections limit connections. A stream has a connection for itself.
	maxConnections  = 256
	peerConnections = 16
	// maxNodes is the maximum number of nodes whose rates are remembered. It is more than a cluster has.
	maxNodes = 8192
	// stallLimit is the time in which the client must take what was sent. A client that is gone ends the stream then.
	stallLimit = time.Minute
	// minThroughput is the least number of bytes per second that a client takes over stallLimit, so that one that reads
	// slowly does not keep its stream for ever. It is much less than what any disk of a target writes.
	minThroughput = 1 << 20
	// readLimit is the time to receive a request, which has no body.
	readLimit   = 10 * time.Second
	contentType = "application/vnd.lvms.copy"
	// sizeHeader has the size of the volume in bytes, and contentHeader a tag that describes its content, once for
	// each. baseSizeHeader has the size of the base, if there is one. allocatedHeader has how many bytes are allocated
	// in a thin volume, and sectorHeader maxSector of the source.
	sizeHeader      = "Lvms-Volume-Size"
	contentHeader   = "Lvms-Volume-Content"
	baseSizeHeader  = "Lvms-Base-Size"
	allocatedHeader = "Lvms-Volume-Allocated"
	sectorHeader    = "Lvms-Volume-Max-Sector"
)

// requests is the rate of requests of a node. Each of them reads from the API server. An agent requests two streams for
// a copy, and again with a backoff if they fail.
var requests = limit.Rate{Interval: 200 * time.Millisecond, Burst: 50}

// Errors that a Sender wraps. Any other error can go away, so the client repeats its request.
var (
	// ErrForbidden says that the cluster does not want this copy on the node of the caller.
	ErrForbidden = errors.New("the copy is not permitted")
	// ErrGone says that the source can never be copied: it does not exist, or its data is lost.
	ErrGone = errors.New("the source cannot be copied")
)

// description is what a source says about its volume, before the data.
type description struct {
	// Size is the size of the source in bytes, and BaseSize that of the base, 0 without one.
	Size, BaseSize uint64
	// Allocated is how many bytes of a thin volume have blocks in its pool, 0 for a thick one, or if the agent of the
	// source is of a version that does not say so.
	Allocated uint64
	// MaxSector is maxSector of the source, also 0 if the agent of the source is of a version that does not say so.
	MaxSector uint64
	// Content are the tags of the source that describe its content.
	Content []string
}

// sizes returns the numbers by their fields in the header.
func (d *description) sizes() map[string]*uint64 {
	return map[string]*uint64{sizeHeader: &d.Size, baseSizeHeader: &d.BaseSize, allocatedHeader: &d.Allocated,
		sectorHeader: &d.MaxSector}
}

// write writes the header of an answer.
func (d *description) write(header http.Header) {
	for name, size := range d.sizes() {
		if *size > 0 || name == sizeHeader {
			header.Set(name, strconv.FormatUint(*size, 10))
		}
	}
	for _, tag := range d.Content {
		header.Add(contentHeader, tag)
	}
}

// read reads the header of an answer.
func (d *description) read(header http.Header) (err error) {
	for name, size := range d.sizes() {
		text := header.Get(name)
		if text == "" && name != sizeHeader {
			continue
		}
		if *size, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("the field %s of the answer: %w", name, err)
		}
	}
	d.Content = header.Values(contentHeader)
	return nil
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

// Options configure a Server.
type Options struct {
	// Address is the TCP address to listen on.
	Address string
	// Credentials are those of this agent.
	Credentials mutualtls.Source
	// Configure applies the TLS profile of the cluster.
	Configure func(*tls.Config)
}

// openFunc is Sender.open.
type openFunc func(ctx context.Context, node string, r Request) (*opened, error)

// Server is a Runnable.
type Server struct {
	*httpserver.Server
	open     openFunc
	requests *limit.Rates
	// streams are those of each node, copies those of each target: one for its data, and one for its checksums.
	streams, copies *limit.Shares
}

// NewServer returns the Server of what a Sender opens. Only node agents can call it.
func NewServer(o Options, sender *Sender) *Server { return newServer(o, sender.open) }

func newServer(o Options, open openFunc) *Server {
	config := mutualtls.ServerOfNodes(o.Credentials)
	// A stream has the connection for itself. HTTP/2 would only add its flow control.
	config.NextProtos = []string{"http/1.1"}
	o.Configure(config)
	s := &Server{open: open, requests: limit.NewRates(requests, maxNodes),
		streams: limit.NewShares(maxStreams, nodeStreams), copies: limit.NewShares(math.MaxInt32, 1)}
	s.Server = httpserver.New(httpserver.Options{Name: "other node agents", Address: o.Address, TLS: config,
		Handler: s.handler(), All: maxConnections, Peer: peerConnections, Read: readLimit})
	return s
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/copies/{target}/data", s.stream("data", sendData))
	mux.HandleFunc("GET /v1/copies/{target}/sums", s.stream("sums", sendSums))
	return mux
}

// stream returns the handler that sends a source. An error after the first byte closes the connection: the stream has
// no end then.
func (s *Server) stream(what string, send func(context.Context, io.Writer, *opened) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		logger := log.FromContext(r.Context()).WithValues("logicalVolume", r.PathValue("target"))
		refuse := func(err error) {
			logger.Info("cannot send a volume", "cause", err.Error())
			http.Error(w, err.Error(), statusOf(err))
		}
		node, err := s.caller(r)
		if err != nil {
			refuse(err)
			return
		}
		opened, err := s.source(r, node)
		if err != nil {
			refuse(err)
			return
		}
		defer func() {
			if err := opened.close(); err != nil {
				logger.Error(err, "cannot close the source of a copy")
			}
		}()
		leave, err := s.enter(node, r.PathValue("target")+"/"+what)
		if err != nil {
			refuse(err)
			return
		}
		defer leave()
		w.Header().Set("Content-Type", contentType)
		opened.write(w.Header())
		if err := send(r.Context(), newUnstalled(w, http.NewResponseController(w)), opened); err != nil {
			logger.Info("the stream of a volume was cut off", "cause", err.Error())
			panic(http.ErrAbortHandler)
		}
	}
}

// enter takes a stream of a node. Only a request that is authorized does: others could take the streams of all nodes.
func (s *Server) enter(node, stream string) (leave func(), err error) {
	ofCopy, err := s.copies.Try(stream)
	if err != nil {
		return nil, fmt.Errorf("the node agent already sends %s to node %s: try again later: %w", stream, node, err)
	}
	ofNode, err := s.streams.Try(node)
	if err != nil {
		ofCopy()
		return nil, fmt.Errorf("the node agent already sends %d volumes to node %s, or %d to all nodes: "+
			"try again later: %w", nodeStreams, node, maxStreams, err)
	}
	return func() { ofNode(); ofCopy() }, nil
}

// caller returns the node whose agent sent a request, unless it sends too many.
func (s *Server) caller(r *http.Request) (string, error) {
	if r.TLS == nil {
		return "", fmt.Errorf("%w: no TLS", ErrForbidden)
	}
	node, err := mutualtls.NodeOf(*r.TLS)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	if !s.requests.Allow(node) {
		return "", fmt.Errorf("%w: the node agent of %s requests too many copies: %w", errBusy, node, limit.ErrTooMany)
	}
	return node, nil
}

// source authorizes a request of a node, and returns its source.
func (s *Server) source(r *http.Request, node string) (*opened, error) {
	query := r.URL.Query()
	request := Request{Target: r.PathValue("target"), Source: query.Get("source"), Base: query.Get("base")}
	if text := query.Get("from"); text != "" {
		var err error
		if request.From, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, fmt.Errorf("%w: from is %q, must be a number of bytes", errBadRequest, text)
		}
	}
	opened, err := s.open(r.Context(), node, request)
	if err != nil {
		return nil, fmt.Errorf("copy of %s for node %s: %w", request.Target, node, err)
	}
	if request.From > opened.Size {
		return nil, errors.Join(fmt.Errorf("%w: from is %d, the volume has %d bytes", errBadRequest, request.From,
			opened.Size), opened.close())
	}
	opened.from = request.From
	return opened, nil
}

var (
	errBadRequest = errors.New("bad request")
	errBusy       = errors.New("try again later")
)

func statusOf(err error) int {
	switch {
	case errors.Is(err, errBadRequest):
		return http.StatusBadRequest
	case errors.Is(err, errBusy):
		return http.StatusTooManyRequests
	case errors.Is(err, ErrForbidden):
		return http.StatusForbidden
	case errors.Is(err, ErrGone):
		return http.StatusGone
	}
	return http.StatusServiceUnavailable
}

// deadlines sets the time at which a write fails. http.ResponseController implements it.
type deadlines interface{ SetWriteDeadline(time.Time) error }

// unstalled writes to a client that must take each part in stallLimit, and minThroughput on average. Only the time of
// writes counts: the source may be slow.
type unstalled struct {
	deadlines
	w io.Writer
	// credit is how long writes may take in addition to what minThroughput allows. Fast writes raise it to stallLimit.
	credit time.Duration
}

func newUnstalled(w io.Writer, d deadlines) *unstalled {
	return &unstalled{deadlines: d, w: w, credit: stallLimit}
}

func (u *unstalled) Write(p []byte) (int, error) {
	begun := time.Now()
	u.credit = min(u.credit+time.Duration(len(p))*time.Second/minThroughput, stallLimit)
	if err := u.SetWriteDeadline(begun.Add(u.credit)); err != nil {
		return 0, err
	}
	n, err := u.w.Write(p)
	if u.credit -= time.Since(begun); err == nil && u.credit < 0 {
		err = errors.New("the client reads too slowly")
	}
	return n, err
}
