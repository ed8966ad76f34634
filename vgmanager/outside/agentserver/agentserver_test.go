package agentserver

import (
	"context"
	"crypto/x509"
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
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/internal/tls/tlsprofile"
)

// credentialsOf are credentials that do not change.
type credentialsOf struct{ current *mutualtls.Credentials }

func (c credentialsOf) Current() (*mutualtls.Credentials, error) {
	if c.current == nil {
		return nil, errors.New("no certificate yet")
	}
	return c.current, nil
}

func newAuthority(t *testing.T) *pki.Authority {
	t.Helper()
	authority, err := pki.NewAuthority(pki.Request{Name: "test", Now: time.Now(), Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func issue(t *testing.T, authority *pki.Authority, identity, host string) credentialsOf {
	t.Helper()
	pair, err := authority.Issue(pki.Request{Name: "test", URIs: []string{identity}, Hosts: []string{host},
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, Now: time.Now(),
		Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(authority.Certificate())
	return credentialsOf{&mutualtls.Credentials{Certificate: certificate, Authorities: pool}}
}

// snapshots answers each call with one message, after release is closed.
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
		return out.Send(&csi.GetMetadataAllocatedResponse{VolumeCapacityBytes: 7})
	case <-out.Context().Done():
		return out.Context().Err()
	}
}

// started returns the address of a server, its snapshots, and a function that stops it.
func started(t *testing.T, own mutualtls.Source, prepare error) (string, *snapshots, func() error) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := &snapshots{entered: make(chan struct{}, 2*maxCalls), release: make(chan struct{})}
	server := New(Options{Credentials: own, Configure: tlsprofile.New().Configure, Snapshots: served,
		Prepare: func(context.Context) error { return prepare }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.serve(ctx, listener) }()
	stop := func() error {
		cancel()
		err := <-done
		done <- err
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return listener.Addr().String(), served, stop
}

// dialAs connects as the operator does to the agent of the node a.
func dialAs(t *testing.T, address string, as mutualtls.Source) csi.SnapshotMetadataClient {
	t.Helper()
	config, err := mutualtls.ClientOfNode(as, "a")
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, address, credentials.NewTLS(config))
}

func connect(t *testing.T, address string, with credentials.TransportCredentials) csi.SnapshotMetadataClient {
	t.Helper()
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(with))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return csi.NewSnapshotMetadataClient(connection)
}

// call returns the size in the only message of a call.
func call(t *testing.T, c csi.SnapshotMetadataClient) (int64, error) {
	t.Helper()
	stream, err := c.GetMetadataAllocated(t.Context(), &csi.GetMetadataAllocatedRequest{})
	if err != nil {
		return 0, err
	}
	message, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return 0, err
	}
	return message.GetVolumeCapacityBytes(), nil
}

func TestOnlyTheOperatorIsServed(t *testing.T) {
	ca, foreign := newAuthority(t), newAuthority(t)
	address, served, stop := started(t, issue(t, ca, mutualtls.Node("a"), "a"), nil)
	close(served.release)
	if size, err := call(t, dialAs(t, address, issue(t, ca, mutualtls.Operator, "x"))); size != 7 || err != nil {
		t.Errorf("the operator: got %d, %v", size, err)
	}
	for name, as := range map[string]mutualtls.Source{
		"another agent":     issue(t, ca, mutualtls.Node("b"), "b"),
		"another authority": credentialsOf{&mutualtls.Credentials{Certificate: issue(t, foreign, mutualtls.Operator, "x").current.Certificate, Authorities: issue(t, ca, mutualtls.Operator, "x").current.Authorities}},
	} {
		if _, err := call(t, dialAs(t, address, as)); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := call(t, connect(t, address, insecure.NewCredentials())); status.Code(err) != codes.Unavailable {
		t.Errorf("without TLS: got %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if len(served.entered) != 1 {
		t.Errorf("%d calls were served", len(served.entered))
	}
}

func TestWithoutACertificateNobodyIsServed(t *testing.T) {
	address, _, _ := started(t, credentialsOf{}, nil)
	if _, err := call(t, dialAs(t, address, issue(t, newAuthority(t), mutualtls.Operator, "x"))); status.Code(err) !=
		codes.Unavailable {
		t.Errorf("got %v", err)
	}
}

func TestTooManyCallsAreRefused(t *testing.T) {
	ca := newAuthority(t)
	// A release that fails prevents nothing.
	address, served, _ := started(t, issue(t, ca, mutualtls.Node("a"), "a"), errors.New("no release"))
	operator := issue(t, ca, mutualtls.Operator, "x")
	results := make(chan error, maxCalls)
	for range maxCalls {
		c := dialAs(t, address, operator) // each call of the operator has a connection
		go func() {
			_, err := call(t, c)
			results <- err
		}()
	}
	for range maxCalls {
		<-served.entered
	}
	if _, err := call(t, dialAs(t, address, operator)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}
	close(served.release)
	for range maxCalls {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if size, err := call(t, dialAs(t, address, operator)); size != 7 || err != nil {
		t.Errorf("afterwards: got %d, %v", size, err)
	}
}

func TestAnAddressThatIsInUseIsNamed(t *testing.T) {
	address, _, _ := started(t, credentialsOf{}, nil)
	second := New(Options{Address: address, Credentials: credentialsOf{}, Configure: tlsprofile.New().Configure,
		Snapshots: &snapshots{}, Prepare: func(context.Context) error { return nil }})
	if err := second.Start(t.Context()); err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("got %v", err)
	}
}
