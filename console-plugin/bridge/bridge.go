// Command bridge is a test double of the console's server, for the browser tests of the plugin and for `make console`.
// It serves a page that loads plugins like the console. It forwards requests to the plugin's server and to a real API
// server with the token of a user. It checks CSRF tokens, and enforces the console's Content-Security-Policy. It is
// only for tests: everybody who can reach it is an administrator.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// pluginName is also the name of the ConsolePlugin.
const pluginName = "lvms-console"

const (
	sessionCookie = "openshift-session-token"
	csrfCookie    = "csrf-token"
	csrfHeader    = "X-CSRFToken"
)

// bridge is the server for the browser.
type bridge struct {
	host   string // directory with the page
	plugin *httputil.ReverseProxy
	api    *httputil.ReverseProxy
	tokens map[string]string // by user
	// metrics is nil without a Prometheus.
	metrics *metrics
	// cut makes the API server unreachable; mute makes Prometheus unreachable.
	cut, mute atomic.Bool

	mu   sync.Mutex
	open map[*http.Request]func()
}

// reach is the address of a server, its authority, and a dialer if the server is not in the network of this machine.
type reach struct {
	url  *url.URL
	ca   []byte
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (r reach) proxy(rewrite func(*httputil.ProxyRequest)) (*httputil.ReverseProxy, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(r.ca) {
		return nil, fmt.Errorf("no trusted certificate for %s", r.url)
	}
	return &httputil.ReverseProxy{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			DisableCompression: true, DialContext: r.dial},
		FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(r.url)
			for _, name := range []string{"Cookie", csrfHeader, "Origin"} {
				p.Out.Header.Del(name)
			}
			rewrite(p)
		},
	}, nil
}

func newBridge(host string, plugin, api reach, tokens map[string]string) (*bridge, error) {
	b := &bridge{host: host, tokens: tokens, open: map[*http.Request]func(){}}
	var err error
	// Like the console, it also sends the token to the plugin's server.
	if b.plugin, err = plugin.proxy(func(p *httputil.ProxyRequest) { b.authorize(p) }); err != nil {
		return nil, err
	}
	b.api, err = api.proxy(func(p *httputil.ProxyRequest) { b.authorize(p) })
	return b, err
}

func (b *bridge) authorize(p *httputil.ProxyRequest) {
	p.Out.Header.Set("Authorization", "Bearer "+b.tokens[user(p.In)])
	if p.In.Header.Get("Upgrade") != "" {
		// The API server requires an Origin header for a WebSocket, and accepts only its own or localhost.
		p.Out.Header.Set("Origin", "http://localhost")
	}
}

// user returns the user of the session, or the administrator without one.
func user(r *http.Request) string {
	if cookie, err := r.Cookie(sessionCookie); err == nil {
		return cookie.Value
	}
	return adminUser
}

func (b *bridge) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /api/plugins/"+pluginName+"/", http.StripPrefix("/api/plugins/"+pluginName,
		nosniff(http.HandlerFunc(b.asset))))
	mux.HandleFunc("GET /locales/resource.json", b.locale)
	mux.Handle("/api/kubernetes/", http.StripPrefix("/api/kubernetes", http.HandlerFunc(b.kubernetes)))
	mux.Handle("GET /static/", http.StripPrefix("/static/", nosniff(http.FileServer(http.Dir(b.host)))))
	mux.HandleFunc("GET /api/prometheus/", b.prometheus("/api/prometheus", (*metrics).cluster))
	mux.HandleFunc("GET /api/prometheus-tenancy/", b.prometheus("/api/prometheus-tenancy", (*metrics).tenancy))
	mux.HandleFunc("GET /test/login", b.login)
	mux.HandleFunc("GET /test/cut", b.setCut)
	mux.HandleFunc("GET /test/mute", b.setMute)
	mux.HandleFunc("GET /test/metrics", b.prometheus("", (*metrics).scrape))
	mux.HandleFunc("PUT /test/metrics", b.prometheus("", (*metrics).put))
	mux.HandleFunc("/", b.index)
	return mux
}

func nosniff(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// legacyCookie is a cookie that makes the bridge an older console, which shares React 17: it has another page, and the
// ConsolePlugin has the path of another build of the plugin.
const legacyCookie = "legacy-console"

// legacyFolder is the folder of the page of the older console, and of the build for it.
const legacyFolder = "/legacy"

// folderFor returns the folder of the page and of the build for a request.
func folderFor(r *http.Request) string {
	if _, err := r.Cookie(legacyCookie); err != nil {
		return ""
	}
	return legacyFolder
}

// asset requests a file of the build from the plugin's server.
func (b *bridge) asset(w http.ResponseWriter, r *http.Request) {
	r.URL.Path = folderFor(r) + r.URL.Path
	b.plugin.ServeHTTP(w, r)
}

// locale requests a file from the plugin's server, like the console for a namespace plugin__NAME.
func (b *bridge) locale(w http.ResponseWriter, r *http.Request) {
	language := filepath.Base(r.URL.Query().Get("lng"))
	namespace := filepath.Base(r.URL.Query().Get("ns"))
	r.URL.Path = folderFor(r) + "/locales/" + language + "/" + namespace + ".json"
	r.URL.RawQuery = ""
	b.plugin.ServeHTTP(w, r)
}

// kubernetes forwards a request to the API server. Requests other than GET require the CSRF token, which only a page of
// the console has.
func (b *bridge) kubernetes(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		cookie, err := r.Cookie(csrfCookie)
		if err != nil || cookie.Value == "" || r.Header.Get(csrfHeader) != cookie.Value {
			http.Error(w, "invalid CSRF token", http.StatusForbidden)
			return
		}
	}
	if b.cut.Load() {
		http.Error(w, "the API server is out of reach", http.StatusBadGateway)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "read the request: "+err.Error(), http.StatusBadRequest)
		return
	}
	whole := r.WithContext(r.Context())
	whole.Body, whole.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	b.api.ServeHTTP(&hijacked{ResponseWriter: w, b: b, r: r}, whole)
	b.forget(r)
}

// maxBody is the maximum size of the body of a request, in bytes. It is read before it is forwarded: a server ends the
// body when its handler begins to respond, and if the API server answers before the transport has seen the end of the
// body, the transport would close the connection, and the answer would be cut off.
const maxBody = 4 << 20

// prometheus serves the stand-in for the cluster's Prometheus, if there is one.
func (b *bridge) prometheus(prefix string, serve func(*metrics, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if b.metrics == nil || prefix != "" && b.mute.Load() {
			http.Error(w, "Prometheus is out of reach", http.StatusBadGateway)
			return
		}
		http.StripPrefix(prefix, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			serve(b.metrics, w,
				r)
		})).ServeHTTP(w, r)
	}
}

// setMute makes Prometheus unreachable.
func (b *bridge) setMute(w http.ResponseWriter, r *http.Request) {
	b.mute.Store(r.URL.Query().Get("is") == "true")
	w.WriteHeader(http.StatusNoContent)
}

func (b *bridge) forget(r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, r)
}

// setCut makes the API server unreachable, and ends running watches.
func (b *bridge) setCut(w http.ResponseWriter, r *http.Request) {
	b.cut.Store(r.URL.Query().Get("is") == "true")
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut.Load() {
		for _, end := range b.open {
			end()
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

func (b *bridge) login(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("as")
	if b.tokens[name] == "" {
		http.Error(w, "there is no such user", http.StatusNotFound)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: name, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode})
	w.WriteHeader(http.StatusNoContent)
}

// policy is the console's policy, which the console only reports and the bridge enforces.
const policy = "base-uri 'self'; default-src 'self'; img-src 'self' data:; font-src 'self' data:; script-src 'self' " +
	"'unsafe-eval' 'nonce-%s'; " +
	"style-src 'self' 'unsafe-inline'; connect-src 'self'; object-src 'self'; frame-src 'none'; frame-ancestors 'none'"

// index serves the page for every path of the console.
func (b *bridge) index(w http.ResponseWriter, r *http.Request) {
	page, err := os.ReadFile(filepath.Join(b.host, folderFor(r), "index.html"))
	if err != nil {
		http.Error(w, "the page was not built", http.StatusInternalServerError)
		return
	}
	nonce := random()
	http.SetCookie(w, &http.Cookie{Name: csrfCookie, Value: random(), Path: "/", SameSite: http.SameSiteStrictMode})
	w.Header().Set("Content-Security-Policy", fmt.Sprintf(policy, nonce))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(strings.ReplaceAll(string(page), "NONCE", nonce)))
}

func random() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
