// Package extender is a scheduler extender: kube-scheduler asks it which nodes have the capacity for the volumes of a
// Pod, and which of them have the most. It is compatible with topolvm-scheduler (TopoLVM v0.41,
// docs/topolvm-scheduler.md) and reads only the annotations of the Pod and of the nodes in the request. It has no
// access to the API server.
package extender

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Limits of requests. kube-scheduler sends all nodes that pass its own filters, with all their fields: 10 to 30 KiB
// each. It schedules one Pod at a time, so it has one request at a time; a few more allow several schedulers.
const (
	maxBody     = 128 << 20
	maxRequests = 4
)

// errUnknownNodes is the error for a request without Node objects.
var errUnknownNodes = errors.New("the request has no nodes: the extender needs the annotations of the nodes, so set " +
	"nodeCacheCapable: false for it in the KubeSchedulerConfiguration")

// handler answers the requests of kube-scheduler.
type handler struct {
	divisors Divisors
	log      logr.Logger
	// slots limits the number of requests that are processed at the same time.
	slots   chan struct{}
	maxBody int64
}

// NewHandler returns a handler for /predicate, /prioritize and /status.
func NewHandler(divisors Divisors, log logr.Logger) http.Handler {
	h := &handler{divisors: divisors, log: log, slots: make(chan struct{}, maxRequests), maxBody: maxBody}
	return h.routes()
}

func (h *handler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /predicate", h.limited("predicate", predicate))
	mux.HandleFunc("POST /prioritize", h.limited("prioritize", h.prioritize))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	return mux
}

func predicate(args *extenderv1.ExtenderArgs) (any, error) {
	if args.Nodes == nil {
		return extenderv1.ExtenderFilterResult{Error: errUnknownNodes.Error()}, nil
	}
	return filter(args.Nodes.Items, requestedBy(args.Pod)), nil
}

func (h *handler) prioritize(args *extenderv1.ExtenderArgs) (any, error) {
	if args.Nodes == nil {
		return nil, errUnknownNodes
	}
	return h.divisors.score(args.Nodes.Items, classesOf(args.Pod)), nil
}

// limited returns a handler that decodes a request, answers it, and limits how many are processed at the same time. The
// scheduler ends a request that has to wait for longer than its httpTimeout.
func (h *handler) limited(verb string, answer func(*extenderv1.ExtenderArgs) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case h.slots <- struct{}{}:
			defer func() { <-h.slots }()
		case <-r.Context().Done():
			return
		}
		start := time.Now()
		args, err := decode(http.MaxBytesReader(w, r.Body, h.maxBody))
		if err != nil {
			h.refuse(w, verb, err)
			return
		}
		response, err := answer(args)
		if err != nil {
			h.refuse(w, verb, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(response); err != nil {
			h.log.Error(err, "cannot send the response to the scheduler", "action", verb, "address", r.RemoteAddr)
			return
		}
		h.log.V(1).Info("answered the scheduler", "action", verb, "namespace", args.Pod.Namespace,
			"name", args.Pod.Name, "took", time.Since(start).String())
	}
}

func (h *handler) refuse(w http.ResponseWriter, verb string, err error) {
	code := http.StatusBadRequest
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		code = http.StatusRequestEntityTooLarge
	}
	h.log.Info("refused a request", "action", verb, "code", code, "cause", err.Error())
	http.Error(w, err.Error(), code)
}

// decode reads a request, which must have a Pod.
func decode(body io.Reader) (*extenderv1.ExtenderArgs, error) {
	args := &extenderv1.ExtenderArgs{}
	if err := json.NewDecoder(body).Decode(args); err != nil {
		return nil, fmt.Errorf("the request is not JSON of a scheduler: %w", err)
	}
	if args.Pod == nil {
		return nil, errors.New("the request has no Pod")
	}
	return args, nil
}
