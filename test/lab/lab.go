package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// Lab is a running lab. It is safe for concurrent use.
type Lab struct {
	spec   spec.Lab
	client *http.Client
	owner  *supervisorProcess
}

// Open returns the running lab with a state directory, or ErrNotRunning.
func Open(state string) (*Lab, error) {
	state, err := filepath.Abs(state)
	if err != nil {
		return nil, err
	}
	if !runs(state) {
		return nil, fmt.Errorf("%w in %s", ErrNotRunning, state)
	}
	l := &Lab{}
	if err := spec.Load(filepath.Join(state, spec.File), &l.spec); err != nil {
		return nil, err
	}
	l.client = &http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return l.control(ctx) },
		DisableKeepAlives: true,
	}}
	return l, nil
}

// Name returns the lab's name.
func (l *Lab) Name() string { return l.spec.Name }

// State returns the lab's directory.
func (l *Lab) State() string { return l.spec.State }

// Kubeconfig returns the path of the administrator's kubeconfig. Its server address is inside of the lab: see
// [Lab.Command].
func (l *Lab) Kubeconfig() string { return filepath.Join(l.spec.State, spec.CertDir, spec.Kubeconfig) }

// AuditLog returns the path of a file with the requests of Pods to the API server, one audit.k8s.io/v1 event on each
// line.
func (l *Lab) AuditLog() string { return filepath.Join(l.spec.State, spec.AuditLog) }

// Registry returns the name of the lab's image registry on its nodes, for example "registry.lab:5000". It always has
// pause:1 and busybox:1.
func (l *Lab) Registry() string { return spec.Registry }

// Mirrored returns the name of a public registry. A lab cannot reach it: images with this name are pulled from the
// lab's registry.
func (l *Lab) Mirrored() string { return spec.Mirrored }

// Down ends the lab and removes its directory. When it returns, all processes of the lab have ended.
func (l *Lab) Down(ctx context.Context) error {
	err := Down(ctx, l.spec.State)
	if l.owner != nil {
		if l.owner.life != nil {
			_ = l.owner.life.Close()
		}
		if err == nil {
			<-l.owner.ended
		}
	}
	return err
}

// control connects to the supervisor. The path of a unix socket is limited to 107 bytes, so control addresses it
// through the open directory.
func (l *Lab) control(ctx context.Context) (net.Conn, error) {
	dir, err := unix.Open(l.spec.State, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(dir) }()
	return (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir, spec.Socket))
}

// Dial connects to an address inside of the lab: a node, a Pod, or the API server. The network must be tcp.
func (l *Lab) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" {
		return nil, net.UnknownNetworkError(network)
	}
	conn, err := l.control(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", address, address); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to %s in lab %s: %w", address, l.spec.Name, err), conn.Close())
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := bufio.NewReader(resp.Body).ReadString('\n')
		return nil, errors.Join(fmt.Errorf("connect to %s in lab %s: %s", address, l.spec.Name, text), conn.Close())
	}
	return buffered{conn, reader}, nil
}

// buffered is a connection from which some bytes may already have been read.
type buffered struct {
	net.Conn
	reader *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.reader.Read(p) }

// RESTConfig returns a client configuration for administrator access to the lab's API server, from this process.
func (l *Lab) RESTConfig() (*rest.Config, error) {
	if l.spec.Bare {
		return nil, errors.New("a bare lab has no API server")
	}
	config := &rest.Config{Host: "https://" + spec.APIServer, QPS: -1, Dial: l.Dial}
	for name, into := range map[string]*[]byte{"ca.crt": &config.CAData, "admin.crt": &config.CertData,
		"admin.key": &config.KeyData} {
		data, err := os.ReadFile(filepath.Join(l.spec.State, spec.CertDir, name))
		if err != nil {
			return nil, err
		}
		*into = data
	}
	return config, nil
}

func (l *Lab) status(ctx context.Context) (spec.Status, error) {
	var status spec.Status
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return status, l.ask(ctx, http.MethodGet, "/status", nil, &status)
}

// ask sends a request to the supervisor.
func (l *Lab) ask(ctx context.Context, method, path string, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://lab"+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return fmt.Errorf("lab %s: %w", l.spec.Name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		var failure spec.Failure
		if err := json.NewDecoder(resp.Body).Decode(&failure); err != nil {
			failure.Error = resp.Status
		}
		return failureOf(failure.Error)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
