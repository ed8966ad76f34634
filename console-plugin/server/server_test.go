package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/test/limit"
)

const script = "plugin-entry.0123456789abcdef0123.min.js"

func compressed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func build(t *testing.T) fs.FS {
	t.Helper()
	files := fstest.MapFS{"locales/fr/plugin__x.json": {Data: []byte(`{"a":"b"}`)},
		"legacy/locales/fr/plugin__x.json": {Data: []byte(`{"a":"c"}`)}, "source.map": {Data: []byte("secret")}}
	for name, text := range map[string]string{"plugin-manifest.json": `{"name":"x"}`, script: "run()",
		"legacy/plugin-manifest.json": `{"name":"y"}`, "legacy/" + script: "walk()"} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
		files[name+".gz"] = &fstest.MapFile{Data: compressed(t, text)}
	}
	return files
}

// log is the output of the server.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// running is a server with real TLS.
type running struct {
	url, folder string
	client      *http.Client
	said        *log
}

// writeCertificate creates a certificate for a name in a directory, and returns it.
func writeCertificate(t *testing.T, folder, name string) []byte {
	t.Helper()
	pair, err := pki.SelfSigned(pki.ServerRequest(time.Now(), time.Hour, name, "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key} {
		if err := os.WriteFile(filepath.Join(folder, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pair.Certificate
}

func trusting(certificate []byte) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	return &http.Client{Timeout: limit.Hang,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableCompression: true,
			ForceAttemptHTTP2: true}}
}

func start(t *testing.T) running {
	t.Helper()
	r := running{folder: t.TempDir(), said: &log{}}
	r.client = trusting(writeCertificate(t, r.folder, "localhost"))
	ctx, cancel := context.WithCancel(context.Background())
	listening := make(chan net.Addr, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			Address: "127.0.0.1:0", CertDir: r.folder, Namespace: "ns", Files: build(t),
			Log:       slog.New(slog.NewJSONHandler(r.said, nil)),
			Listening: func(a net.Addr) { listening <- a },
		})
	}()
	select {
	case address := <-listening:
		r.url = "https://" + address.String()
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r running) do(t *testing.T, method, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, r.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func TestFilesHaveTheirTypeAndCache(t *testing.T) {
	r := start(t)
	tests := map[string]struct {
		code              int
		kind, cache, body string
	}{
		"/" + script: {200, "text/javascript; charset=utf-8",
			"public, max-age=31536000, immutable", "run()"},
		"/plugin-manifest.json":      {200, "application/json; charset=utf-8", "no-cache", `{"name":"x"}`},
		"/locales/fr/plugin__x.json": {200, "application/json; charset=utf-8", "no-cache", `{"a":"b"}`},
		"/config.json":               {200, "application/json; charset=utf-8", "no-store", `{"namespace":"ns"}`},
		Legacy + script: {200, "text/javascript; charset=utf-8",
			"public, max-age=31536000, immutable", "walk()"},
		Legacy + "plugin-manifest.json":      {200, "application/json; charset=utf-8", "no-cache", `{"name":"y"}`},
		Legacy + "locales/fr/plugin__x.json": {200, "application/json; charset=utf-8", "no-cache", `{"a":"c"}`},
		Legacy + "config.json": {200, "application/json; charset=utf-8", "no-store",
			`{"namespace":"ns"}`},
		Legacy:               {404, "text/plain; charset=utf-8", "no-store", "file not found\n"},
		"/healthz":           {200, "text/plain; charset=utf-8", "no-store", "ok\n"},
		"/source.map":        {404, "text/plain; charset=utf-8", "no-store", "file not found\n"},
		"/":                  {404, "text/plain; charset=utf-8", "no-store", "file not found\n"},
		"/locales/":          {404, "text/plain; charset=utf-8", "no-store", "file not found\n"},
		"/../../etc/passwd":  {404, "text/plain; charset=utf-8", "no-store", "file not found\n"},
		"/" + script + ".gz": {404, "text/plain; charset=utf-8", "no-store", "file not found\n"},
	}
	for path, want := range tests {
		response, body := r.do(t, http.MethodGet, path)
		head := response.Header
		if response.StatusCode != want.code || head.Get("Content-Type") != want.kind ||
			head.Get("Cache-Control") != want.cache || body != want.body {
			t.Errorf("%s: got %d, %q, %q, %q, want %+v", path, response.StatusCode, head.Get("Content-Type"),
				head.Get("Cache-Control"), body, want)
		}
		if head.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(head.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: got the headers %v", path, head)
		}
		if response.ProtoMajor != 2 {
			t.Errorf("%s: got %s, want HTTP/2", path, response.Proto)
		}
	}
}

func TestCompressedForThoseWhoTakeIt(t *testing.T) {
	r := start(t)
	for accepted, want := range map[string]bool{"gzip": true, "br, gzip;q=0.5": true, "GZIP": true, "": false,
		"br": false, "gzip;q=0": false, "gzip; q=x": false} {
		response, body := r.do(t, http.MethodGet, "/"+script, "Accept-Encoding", accepted)
		if got := response.Header.Get("Content-Encoding") == "gzip"; got != want ||
			response.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: compressed %v, want %v; Vary %q", accepted, got, want, response.Header.Get("Vary"))
		}
		if want {
			reader, err := gzip.NewReader(strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := io.ReadAll(reader)
			if err != nil || string(plain) != "run()" {
				t.Errorf("%q: got %q, %v", accepted, plain, err)
			}
		} else if body != "run()" {
			t.Errorf("%q: got %q", accepted, body)
		}
	}
}

func TestUnchangedIsNotSentAgain(t *testing.T) {
	r := start(t)
	first, _ := r.do(t, http.MethodGet, "/plugin-manifest.json")
	second, body := r.do(t, http.MethodGet, "/plugin-manifest.json", "If-None-Match", first.Header.Get("ETag"))
	if second.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("got %d, %q", second.StatusCode, body)
	}
	if other, _ := r.do(t, http.MethodGet, "/plugin-manifest.json", "If-None-Match",
		`"x"`); other.StatusCode != http.StatusOK {
		t.Errorf("got %d", other.StatusCode)
	}
}

func TestNothingIsWrittenAndNoHeaderIsLogged(t *testing.T) {
	r := start(t)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch,
		http.MethodOptions} {
		response, _ := r.do(t, method, "/plugin-manifest.json", "Authorization", "Bearer sekret")
		if response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: got %d", method, response.StatusCode)
		}
	}
	if response, body := r.do(t, http.MethodHead, "/"+script, "Authorization",
		"Bearer sekret"); response.StatusCode != http.StatusOK || body != "" || response.ContentLength != 5 {
		t.Errorf("HEAD: got %d, %q, %d", response.StatusCode, body, response.ContentLength)
	}
	r.do(t, http.MethodGet, "/nothing?sekret", "Cookie", "session=sekret")
	// Failed handshakes and plain HTTP are in the log.
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write([]byte("GET / HTTP/1.1\r\nAuthorization: Bearer sekret\r\n\r\n"))
	_, _ = io.ReadAll(c)
	_ = c.Close()
	for range 100 {
		if strings.Contains(r.said.String(), "TLS handshake error") {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if said := r.said.String(); !strings.Contains(said, "TLS handshake error") || strings.Contains(said, "sekret") ||
		strings.Contains(said, "Bearer") {
		t.Errorf("the log has %s", said)
	}
}

func TestNewCertificateIsServed(t *testing.T) {
	r := start(t)
	served := func() string {
		t.Helper()
		c, err := tls.Dial("tcp", strings.TrimPrefix(r.url, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		return c.ConnectionState().PeerCertificates[0].DNSNames[0]
	}
	later := func(file string, d time.Duration) {
		t.Helper()
		at := time.Now().Add(d)
		if err := os.Chtimes(filepath.Join(r.folder, file), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if got := served(); got != "localhost" {
		t.Errorf("got %s", got)
	}
	writeCertificate(t, r.folder, "second")
	later("tls.crt", time.Minute)
	if got := served(); got != "second" {
		t.Errorf("got %s after a renewal", got)
	}
	if err := os.WriteFile(filepath.Join(r.folder, "tls.key"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	later("tls.key", 2*time.Minute)
	if got := served(); got != "second" || !strings.Contains(r.said.String(), "cannot reload") {
		t.Errorf("got %s in the middle of a renewal; the log has %s", got, r.said)
	}
}

func TestWhatCannotBeServedIsSaidAtTheStart(t *testing.T) {
	folder := t.TempDir()
	writeCertificate(t, folder, "localhost")
	for name, tt := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"no certificate":     {func(o *Options) { o.CertDir = t.TempDir() }, "serving certificate"},
		"an unknown version": {func(o *Options) { o.Profile.MinTLSVersion = "VersionTLS14" }, `"VersionTLS14"`},
		"no cipher suite": {func(o *Options) {
			o.Profile = configv1.TLSProfileSpec{MinTLSVersion: "VersionTLS12", Ciphers: []string{"RC4-SHA"}}
		}, "RC4-SHA"},
		"only cipher suites": {func(o *Options) { o.Profile.Ciphers = []string{"ECDHE-RSA-AES128-GCM-SHA256"} },
			"minTLSVersion"},
	} {
		o := Options{Address: "127.0.0.1:0", CertDir: folder, Files: build(t), Log: slog.New(slog.DiscardHandler)}
		tt.change(&o)
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestProfileIsServed(t *testing.T) {
	for version, want := range map[configv1.TLSProtocolVersion]uint16{"": tls.VersionTLS12,
		configv1.VersionTLS12: tls.VersionTLS12, configv1.VersionTLS13: tls.VersionTLS13} {
		folder := t.TempDir()
		writeCertificate(t, folder, "localhost")
		o := Options{CertDir: folder, Log: slog.New(slog.DiscardHandler),
			Profile: configv1.TLSProfileSpec{MinTLSVersion: version}}
		if version == configv1.VersionTLS12 {
			o.Profile.Ciphers = []string{"ECDHE-RSA-AES128-GCM-SHA256"}
		}
		config, err := tlsConfig(o)
		if err != nil {
			t.Fatal(err)
		}
		served, err := config.GetConfigForClient(nil)
		if err != nil || served.MinVersion != want || len(served.CipherSuites) != len(o.Profile.Ciphers) {
			t.Errorf("%q: got %+v, %v", version, served, err)
		}
	}
}
