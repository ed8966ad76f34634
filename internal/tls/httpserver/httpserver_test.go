package httpserver

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/tls/limit"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

// start serves with a TLS configuration until the test ends, and returns the address and what is logged.
func start(t *testing.T, config *tls.Config, maxConnections int) (address net.Addr, logged func() string) {
	t.Helper()
	pair, err := pki.SelfSigned(pki.ServerRequest(time.Now(), time.Hour, "server"))
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	config.Certificates = []tls.Certificate{certificate}
	s := New(Options{Name: "test", Address: "127.0.0.1:0", TLS: config, Handler: http.NotFoundHandler(),
		All: maxConnections, Peer: maxConnections, Read: time.Second, Write: time.Second})
	var mu sync.Mutex
	var lines strings.Builder
	ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines.WriteString(args + "\n")
	}, funcr.Options{})))
	listener, err := s.listen(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr(), func() string {
		mu.Lock()
		defer mu.Unlock()
		return lines.String()
	}
}

func TestAServerAnswers(t *testing.T) {
	for name, config := range map[string]*tls.Config{
		"without client certificates": {},
		"with client certificates":    {ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12},
	} {
		t.Run(name, func(t *testing.T) {
			address, logged := start(t, config, 10)
			for range 2 {
				if err := limit.Answers(address)(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if text := logged(); strings.Contains(text, "handshake") {
				t.Errorf("the server logs its own connections: %s", text)
			}
		})
	}
}

// A lock that is held forever where a server reads its certificate or accepts a connection stops all handshakes.
func TestAFrozenServerDoesNotAnswer(t *testing.T) {
	release := make(chan struct{})
	frozen := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		<-release
		return nil, nil
	}}
	address, _ := start(t, frozen, 10)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := limit.Answers(address)(ctx); err == nil || !strings.Contains(err.Error(), address.String()) {
		t.Errorf("got %v", err)
	}
	close(release)
	if err := limit.Answers(address)(t.Context()); err != nil {
		t.Error(err)
	}
}

// Who opens many connections must not make the process look frozen.
func TestAServerWithTooManyConnectionsAnswers(t *testing.T) {
	address, _ := start(t, &tls.Config{}, 1)
	held, err := tls.Dial("tcp", address.String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	if err := limit.Answers(address)(t.Context()); err != nil {
		t.Error(err)
	}
}
