package streamserver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

// snapshots answers each call after release is closed.
type snapshots struct {
	csi.UnimplementedSnapshotMetadataServer
	entered chan struct{}
	release chan struct{}
}

func (s *snapshots) GetMetadataAllocated(_ *csi.GetMetadataAllocatedRequest,
	out csi.SnapshotMetadata_GetMetadataAllocatedServer) error {
	s.entered <- struct{}{}
	select {
	case <-s.release:
		return nil
	case <-out.Context().Done():
		return out.Context().Err()
	}
}

func newSnapshots() *snapshots {
	return &snapshots{entered: make(chan struct{}, 100), release: make(chan struct{})}
}

// newServer returns a server with a certificate of its own, and the configuration of its clients.
func newServer(t *testing.T, address string, s *snapshots, maxCalls int) (*Server, *tls.Config) {
	t.Helper()
	pair, err := pki.SelfSigned(pki.ServerRequest(time.Now(), time.Hour, "server"))
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	server := New(Options{Address: address, MaxCalls: maxCalls,
		TLS:      &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}},
		Register: func(r grpc.ServiceRegistrar) { csi.RegisterSnapshotMetadataServer(r, s) }})
	return server, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}
}

// started serves, and returns a client and a function that stops the server and returns its error.
func started(t *testing.T, s *snapshots, maxCalls int) (csi.SnapshotMetadataClient, func() error) {
	t.Helper()
	server, config := newServer(t, "", s, maxCalls)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	stop := func() error {
		cancel()
		err := <-done
		done <- err
		return err
	}
	t.Cleanup(func() { _ = stop() })
	connection, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return csi.NewSnapshotMetadataClient(connection), stop
}

// call returns the error of a call without messages; nil if it succeeds.
func call(t *testing.T, c csi.SnapshotMetadataClient, id string) error {
	t.Helper()
	stream, err := c.GetMetadataAllocated(t.Context(), &csi.GetMetadataAllocatedRequest{SnapshotId: id})
	if err != nil {
		return err
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func TestTooManyCallsAreRefused(t *testing.T) {
	for maxCalls, refused := range map[int]bool{2: true, 0: false} {
		s := newSnapshots()
		client, _ := started(t, s, maxCalls)
		results := make(chan error, 3)
		begin := func() { go func() { results <- call(t, client, "a") }() }
		begin()
		begin()
		<-s.entered
		<-s.entered
		begin()
		if refused {
			if err := <-results; status.Code(err) != codes.ResourceExhausted {
				t.Errorf("at most %d: got %v", maxCalls, err)
			}
			results <- nil
		} else {
			<-s.entered
		}
		close(s.release)
		for range 3 {
			if err := <-results; err != nil {
				t.Errorf("at most %d: %v", maxCalls, err)
			}
		}
		if err := call(t, client, "a"); err != nil {
			t.Errorf("at most %d, afterwards: %v", maxCalls, err)
		}
	}
}

func TestALargeRequestIsRefused(t *testing.T) {
	s := newSnapshots()
	client, _ := started(t, s, 0)
	if err := call(t, client, strings.Repeat("x", maxRequest)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}
	if len(s.entered) != 0 {
		t.Error("the call was served")
	}
}

func TestARunningCallEndsBeforeTheServer(t *testing.T) {
	s := newSnapshots()
	client, stop := started(t, s, 0)
	result := make(chan error, 1)
	go func() { result <- call(t, client, "a") }()
	<-s.entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	close(s.release)
	if err := errors.Join(<-result, <-stopped); err != nil {
		t.Error(err)
	}
}

func TestAnAddressThatIsInUseIsNamed(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	server, _ := newServer(t, listener.Addr().String(), newSnapshots(), 0)
	if err := server.Start(t.Context()); err == nil || !strings.Contains(err.Error(), listener.Addr().String()) {
		t.Errorf("got %v", err)
	}
}
