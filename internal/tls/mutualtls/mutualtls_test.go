package mutualtls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/internal/tls/tlsprofile"
)

// source is a Source that the test changes.
type source struct {
	current *Credentials
	err     error
}

func (s *source) Current() (*Credentials, error) { return s.current, s.err }

func newAuthority(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.NewAuthority(pki.Request{Name: "authority", Now: time.Now(), Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var both = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}

// issued returns credentials by an authority that trust others.
func issued(t *testing.T, by *pki.Authority, r pki.Request, trusted ...*pki.Authority) *source {
	t.Helper()
	r.Name = "test"
	r.Now = time.Now()
	r.Validity = time.Hour
	pair, err := by.Issue(r)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	for _, a := range trusted {
		pool.AddCert(a.Certificate())
	}
	return &source{current: &Credentials{Certificate: certificate, Authorities: pool}}
}

func agent(node string) pki.Request {
	return pki.Request{URIs: []string{Node(node)}, Hosts: []string{node}, Usages: both}
}

func operator() pki.Request {
	return pki.Request{URIs: []string{Operator}, Usages: both}
}

// call connects to a server, and returns the error of the client and of the server.
func call(t *testing.T, server *tls.Config, client *tls.Config) (clientErr, serverErr error) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	done := make(chan error, 1)
	go func() {
		connection, err := listener.Accept()
		if err == nil {
			_, err = connection.Write([]byte{1})
			err = errors.Join(err, connection.Close())
		}
		done <- err
	}()
	raw, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	// With TLS 1.3, the client learns from the first read whether the server accepted its certificate.
	_, clientErr = io.ReadFull(tls.Client(raw, client), make([]byte, 1))
	_ = raw.Close()
	return clientErr, <-done
}

func TestOnlyTheOperatorCallsAnAgent(t *testing.T) {
	ca, foreign := newAuthority(t), newAuthority(t)
	serverOnly := operator()
	serverOnly.Usages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	two := operator()
	two.URIs = append(two.URIs, Node("b"))
	for name, tt := range map[string]struct {
		server, client *source
		node           string
		want           string
	}{
		"the operator":          {issued(t, ca, agent("a"), ca), issued(t, ca, operator(), ca), "a", ""},
		"a node that is an IP":  {issued(t, ca, agent("192.0.2.1"), ca), issued(t, ca, operator(), ca), "192.0.2.1", ""},
		"another node":          {issued(t, ca, agent("a"), ca), issued(t, ca, agent("b"), ca), "a", "must be for"},
		"itself":                {issued(t, ca, agent("a"), ca), issued(t, ca, agent("a"), ca), "a", "must be for"},
		"two identities":        {issued(t, ca, agent("a"), ca), issued(t, ca, two, ca), "a", "must be for"},
		"no client certificate": {issued(t, ca, agent("a"), ca), issued(t, ca, serverOnly, ca), "a", "usage"},
		"another authority":     {issued(t, ca, agent("a"), ca), issued(t, foreign, operator(), ca), "a", "unknown authority"},
		"the agent of another node": {issued(t, ca, agent("a"), ca), issued(t, ca, operator(), ca), "b",
			"certificate is valid for a, not b"},
		"a false agent": {issued(t, foreign, agent("a"), ca), issued(t, ca, operator(), ca), "a", "unknown authority"},
		"a host without an identity": {issued(t, ca, pki.Request{Hosts: []string{"a"}, Usages: both}, ca),
			issued(t, ca, operator(), ca), "a", "must be for"},
		// During a rotation, either side may have the new authority first.
		"an operator with a new authority": {issued(t, ca, agent("a"), ca, foreign),
			issued(t, foreign, operator(), ca, foreign), "a", ""},
		"an agent with a new authority": {issued(t, foreign, agent("a"), ca, foreign),
			issued(t, ca, operator(), ca, foreign), "a", ""},
	} {
		client, err := ClientOfNode(tt.client, tt.node)
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			server := Server(tt.server, Operator)
			server.MaxVersion = version
			tlsprofile.New().Configure(server)
			clientErr, serverErr := call(t, server, client.Clone())
			got := ""
			if err := errors.Join(clientErr, serverErr); err != nil {
				got = err.Error()
			}
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%s, version %x: got %q, want %q", name, version, got, tt.want)
			}
			if tt.want != "" && clientErr == nil {
				t.Errorf("%s, version %x: the client could read", name, version)
			}
		}
	}
}

func TestWithoutCredentialsNobodyIsServed(t *testing.T) {
	ca := newAuthority(t)
	missing := errors.New("no certificate yet")
	client, err := ClientOfNode(issued(t, ca, operator(), ca), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, Server(&source{err: missing}, Operator), client); !errors.Is(err, missing) {
		t.Errorf("got %v", err)
	}
	if _, err := ClientOfNode(&source{err: missing}, "a"); !errors.Is(err, missing) {
		t.Errorf("got %v", err)
	}
	if clientErr, _ := call(t, Server(issued(t, ca, agent("a"), ca), Operator),
		&tls.Config{RootCAs: issued(t, ca, operator(), ca).current.Authorities, ServerName: "a",
			MinVersion: tls.VersionTLS12}); clientErr == nil {
		t.Error("a client without a certificate was served")
	}
}

// TestTheServerFollowsItsCredentials: a renewed certificate and new authorities apply to the next connection.
func TestTheServerFollowsItsCredentials(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	own := issued(t, before, agent("a"), before)
	server := Server(own, Operator)
	client, err := ClientOfNode(issued(t, after, operator(), before, after), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, server, client.Clone()); err == nil {
		t.Error("an authority that is not trusted yet was accepted")
	}
	own.current = issued(t, after, agent("a"), after).current
	if _, err := call(t, server, client.Clone()); err != nil {
		t.Error(err)
	}
}

func TestAServerOfNodesKnowsItsClient(t *testing.T) {
	a := newAuthority(t)
	config := ServerOfNodes(issued(t, a, agent("node1"), a))
	var got string
	verified := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) (err error) {
		if err := verified(state); err != nil {
			return err
		}
		got, err = NodeOf(state)
		return err
	}
	client, err := ClientOfNode(issued(t, a, agent("node2.example.com"), a), "node1")
	if err != nil {
		t.Fatal(err)
	}
	if clientErr, serverErr := call(t, config, client); clientErr != nil || serverErr != nil || got != "node2.example.com" {
		t.Fatalf("client %v, server %v, node %q", clientErr, serverErr, got)
	}
}

func TestAServerOfNodesRefusesOthers(t *testing.T) {
	a := newAuthority(t)
	other := newAuthority(t)
	for name, credentials := range map[string]*source{
		"the operator":      issued(t, a, operator(), a),
		"another authority": issued(t, other, agent("node2"), a),
		"two names": issued(t, a, pki.Request{URIs: []string{Node("node2"), Node("node3")}, Hosts: []string{"node2"},
			Usages: both}, a),
		"no node":      issued(t, a, pki.Request{URIs: []string{Node("")}, Usages: both}, a),
		"another host": issued(t, a, pki.Request{URIs: []string{"lvms://example.com/node/node2"}, Usages: both}, a),
		"no name":      issued(t, a, pki.Request{Usages: both}, a),
	} {
		client, err := ClientOfNode(credentials, "node1")
		if err != nil {
			t.Fatal(err)
		}
		if _, serverErr := call(t, ServerOfNodes(issued(t, a, agent("node1"), a)), client); serverErr == nil {
			t.Errorf("%s: the server accepts it", name)
		}
	}
	if _, err := NodeOf(tls.ConnectionState{}); !errors.Is(err, errNoCertificate) {
		t.Errorf("no certificate: %v", err)
	}
}
