package pki

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/lvm-storage/lvm-operator/test/limit"
)

// folder returns a folder with an authority and a certificate named "x" for the hosts.
func folder(t *testing.T, ca *CA, hosts ...string) string {
	t.Helper()
	dir := t.TempDir()
	pair, err := ca.Issue(Request{User: "x", Groups: []string{"g"}, Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(pair, dir, "x"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), ca.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func newCA(t *testing.T) *CA {
	t.Helper()
	ca, err := New("test")
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestOnlyTheLabsOwnAreTrusted(t *testing.T) {
	ca := newCA(t)
	other := newCA(t)
	server := folder(t, ca, "server.lab", "10.0.0.1")
	friend := folder(t, ca)
	stranger := folder(t, other)
	for name, c := range map[string]struct {
		client, host string
		ok           bool
	}{
		"by name":             {friend, "server.lab", true},
		"by address":          {friend, "10.0.0.1", true},
		"by another name":     {friend, "other.lab", false},
		"another authority's": {stranger, "server.lab", false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := handshake(t, server, c.client, c.host); (err == nil) != c.ok {
				t.Errorf("got %v, want success: %v", err, c.ok)
			}
		})
	}
}

func TestAClientsCertificateCannotServe(t *testing.T) {
	ca := newCA(t)
	if err := handshake(t, folder(t, ca), folder(t, ca), "x"); err == nil {
		t.Error("a certificate without hosts served")
	}
}

func handshake(t *testing.T, serverDir, clientDir, host string) error {
	t.Helper()
	serverConfig, err := TLS(serverDir, "x")
	if err != nil {
		t.Fatal(err)
	}
	clientConfig, err := TLS(clientDir, "x")
	if err != nil {
		t.Fatal(err)
	}
	clientConfig.ServerName = host
	listener, err := tls.Listen("tcp", "127.0.0.1:0", serverConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte("x"))
		_ = conn.Close()
	}()
	conn, err := (&net.Dialer{Timeout: limit.Hang}).Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := tls.Client(conn, clientConfig)
	// with TLS 1.3 a client finds out only when it reads that the server rejects its certificate
	_, err = client.Read(make([]byte, 1))
	return err
}
