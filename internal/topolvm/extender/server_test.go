package extender

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

// start runs a server on a free port, and returns its address. It is stopped at the end of the test.
func start(t *testing.T, address, certDir string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	listening, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{Config: Config{Address: address, Divisors: Divisors{Default: 1}}, CertDir: certDir,
			Log: logr.Discard(), Listening: func(at net.Addr) { listening <- at }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended: %v", err)
		}
	})
	select {
	case at := <-listening:
		return at.String()
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return ""
}

// certificates writes a self-signed certificate into a directory, and returns the directory and the certificate.
func certificates(t *testing.T) (dir string, pem []byte) {
	t.Helper()
	dir = t.TempDir()
	pair, err := pki.SelfSigned(pki.ServerRequest(time.Now(), time.Hour, "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, pair.Certificate
}

func get(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestHTTPIsServedOnLoopbackAddresses(t *testing.T) {
	for _, host := range []string{"localhost", "127.0.0.1"} {
		address := start(t, host+":0", "")
		if got := get(t, http.DefaultClient, "http://"+address+"/status"); got != "ok" {
			t.Errorf("%s: got %q", host, got)
		}
	}
}

func TestHTTPIsRefusedOnOtherAddresses(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		err := Run(t.Context(), Options{Config: Config{Address: address}, Log: logr.Discard()})
		if err == nil || !strings.Contains(err.Error(), "--tls-cert-dir") {
			t.Errorf("%s: error %v", address, err)
		}
	}
}

func TestHTTPSIsServedOnAllAddresses(t *testing.T) {
	dir, pem := certificates(t)
	_, port, err := net.SplitHostPort(start(t, ":0", dir))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	if got := get(t, client, "https://127.0.0.1:"+port+"/status"); got != "ok" {
		t.Errorf("got %q", got)
	}
	outdated := &tls.Config{RootCAs: roots, MaxVersion: tls.VersionTLS11}
	old := &http.Client{Transport: &http.Transport{TLSClientConfig: outdated}}
	if response, err := old.Get("https://127.0.0.1:" + port + "/status"); err == nil {
		_ = response.Body.Close()
		t.Error("TLS 1.1 is accepted")
	}
}

func TestAServerThatCannotStart(t *testing.T) {
	taken := start(t, "localhost:0", "")
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"no certificate": {Options{Config: Config{Address: "localhost:0"}, CertDir: t.TempDir()}, "tls.crt"},
		"a used port":    {Options{Config: Config{Address: taken}}, "address already in use"},
		"not an address": {Options{Config: Config{Address: "localhost"}}, "missing port"},
	} {
		t.Run(name, func(t *testing.T) {
			test.options.Log = logr.Discard()
			if err := Run(t.Context(), test.options); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
