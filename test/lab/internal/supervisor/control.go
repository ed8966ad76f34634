package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// serveControl serves a socket in the state directory, to which only root has access. The method CONNECT connects to
// the lab's network: to the API server, the registry and the nodes' agents.
func (s *supervisor) serveControl(ctx context.Context) error {
	_ = os.Remove(spec.Socket)
	listener, err := net.Listen("unix", spec.Socket)
	if err != nil {
		return err
	}
	if err := os.Chmod(spec.Socket, 0o700); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", s.getStatus)
	mux.HandleFunc("POST /nodes/{node}/{action}", s.postAction)
	mux.HandleFunc("POST /nodes/{node}/disks/{disk}/{verb}", s.postDisk)
	mux.HandleFunc("POST /etcd/{verb}", s.postEtcd)
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodConnect {
				s.connect(w, r)
				return
			}
			mux.ServeHTTP(w, r)
		}),
	}
	go func() { _ = server.Serve(listener) }()
	return nil
}

func (s *supervisor) getStatus(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	status := spec.Status{Up: s.up, Failed: s.failed}
	s.mu.Unlock()
	for _, n := range s.Nodes {
		if node, ok := s.nodes[n.Name]; ok {
			status.Nodes = append(status.Nodes, node.status())
		}
	}
	answer(w, status, nil)
}

func (s *supervisor) postAction(w http.ResponseWriter, r *http.Request) {
	if n := s.node(w, r); n != nil {
		answer(w, struct{}{}, n.act(r.Context(), r.PathValue("action")))
	}
}

func (s *supervisor) postDisk(w http.ResponseWriter, r *http.Request) {
	n := s.node(w, r)
	if n == nil {
		return
	}
	var req spec.DiskRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		answer(w, nil, err)
		return
	}
	disk, err := n.disk(r.Context(), r.PathValue("verb"), r.PathValue("disk"), req)
	answer(w, disk, err)
}

func (s *supervisor) postEtcd(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	if !up || s.Bare {
		answer(w, nil, errors.New("the lab has no API server, or is not up yet"))
		return
	}
	var req spec.EtcdRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		answer(w, nil, err)
		return
	}
	answer(w, struct{}{}, s.actOnEtcd(r.Context(), r.PathValue("verb"), req.Dir))
}

func (s *supervisor) node(w http.ResponseWriter, r *http.Request) *node {
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	n, ok := s.nodes[r.PathValue("node")]
	if !up || !ok {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(spec.Failure{Error: "no such node, or the lab is not up yet"})
		return nil
	}
	return n
}

func answer(w http.ResponseWriter, body any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		body = spec.Failure{Error: err.Error()}
	}
	_ = json.NewEncoder(w).Encode(body)
}

// connect connects the caller to an address in the lab. It closes the connection when the kernel of the node ends: TCP
// would detect a lost node only after two and a half minutes.
func (s *supervisor) connect(w http.ResponseWriter, r *http.Request) {
	target, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = target.Close() }()
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, "cannot take over the connection", http.StatusInternalServerError)
		return
	}
	client, buffered, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer func() { _ = client.Close() }()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connected\r\n\r\n"); err != nil {
		return
	}
	ended := make(chan struct{})
	defer close(ended)
	if kernel := s.kernelAt(r.Host); kernel != nil {
		go func() {
			select {
			case <-kernel.Done():
				_ = target.Close()
			case <-ended:
			}
		}()
	}
	var both sync.WaitGroup
	both.Go(func() { pipe(target, buffered) })
	both.Go(func() { pipe(client, target) })
	both.Wait()
}

// kernelAt returns the running kernel of the node with an address, host:port, or nil if no node has the address.
func (s *supervisor) kernelAt(address string) *process {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	if !up { // The nodes are still being created.
		return nil
	}
	for _, n := range s.nodes {
		if n.spec.IP() == host {
			return n.kernel()
		}
	}
	return nil
}

// pipe copies one direction and forwards its end.
func pipe(to net.Conn, from io.Reader) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
}
