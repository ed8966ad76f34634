package scrape

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
)

// authority signs certificates.
type authority struct{ *pki.Authority }

func newAuthority(t *testing.T) authority {
	t.Helper()
	made, err := pki.NewAuthority(pki.Request{Name: "authority", Now: time.Now(), Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return authority{made}
}

func (a authority) pem() string { return string(a.PEM()) }

func (a authority) issue(t *testing.T, user string, usage x509.ExtKeyUsage, until time.Time) tls.Certificate {
	t.Helper()
	const validity = time.Hour
	pair, err := a.Issue(pki.Request{Name: user, Usages: []x509.ExtKeyUsage{usage}, Now: until.Add(-validity),
		Validity: validity})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// published returns the ConfigMap of the API server, or an error.
type published struct {
	client.Reader
	bundle string
	err    error
	reads  atomic.Int32
}

func (p *published) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	p.reads.Add(1)
	if key.String() != "kube-system/extension-apiserver-authentication" {
		return errors.New("asked for " + key.String())
	}
	object.(*corev1.ConfigMap).Data = map[string]string{"client-ca-file": p.bundle}
	return p.err
}

// reviewer answers TokenReviews and SubjectAccessReviews: the token is the name of the user, and only "reader" has
// permission.
func reviewer(t *testing.T, asked *atomic.Int32) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var review map[string]any
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		spec := review["spec"].(map[string]any)
		if strings.HasSuffix(r.URL.Path, "tokenreviews") {
			token := spec["token"].(string)
			review["status"] = map[string]any{"authenticated": token != "nobody",
				"user": map[string]any{"username": token}}
		} else {
			asks := spec["nonResourceAttributes"].(map[string]any)
			review["status"] = map[string]any{"allowed": spec["user"] == "reader" && asks["path"] == "/metrics" &&
				asks["verb"] == "get"}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// served is a metrics server, as the programs have it.
type served struct {
	*testing.T
	address string
	asked   atomic.Int32
}

func serve(t *testing.T, trust *published) *served {
	t.Helper()
	s := &served{T: t}
	registry := prometheus.NewRegistry()
	registry.MustRegister(Process{Component: "test"})
	server, err := NewServer(t.Context(), Options{Address: "127.0.0.1:0", Reader: trust, Config: reviewer(t, &s.asked),
		HTTP: http.DefaultClient, Metrics: registry,
		TLS: []func(*tls.Config){servingcert.Configure(servingcert.NewFolderOrSelfSigned("", nil))}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	s.address = "https://" + server.Listener.Addr().String()
	return s
}

// get returns the status code for a client with a certificate, a token, or neither.
func (s *served) get(method, path, token string, certificates ...tls.Certificate) int {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), method, s.address+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}}}
	response, err := web.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode
}

func TestWhoMayReadMetrics(t *testing.T) {
	ours := newAuthority(t)
	others := newAuthority(t)
	soon := time.Now().Add(time.Hour)
	past := time.Now().Add(-time.Minute)
	of := func(a authority, user string) []tls.Certificate {
		return []tls.Certificate{a.issue(t, user, x509.ExtKeyUsageClientAuth, soon)}
	}
	for name, tt := range map[string]struct {
		method, path, token string
		certificates        []tls.Certificate
		want                int
		asks                int32 // requests to the API server
	}{
		"nobody":                           {want: 401},
		"a token that is not one":          {token: "nobody", want: 401, asks: 1},
		"a token, without the right":       {token: "somebody", want: 403, asks: 2},
		"a token, with the right":          {token: "reader", want: 200, asks: 2},
		"a token, and another path":        {token: "reader", path: "/debug", want: 404},
		"a token, writing":                 {token: "reader", method: http.MethodPost, want: 405},
		"a token, and a method of its own": {token: "reader", method: "X", want: 405},
		"a certificate, without the right": {certificates: of(ours, "somebody"), want: 403, asks: 1},
		"a certificate, with the right":    {certificates: of(ours, "reader"), want: 200, asks: 1},
		"the platform's Prometheus":        {certificates: of(ours, PlatformPrometheus), want: 200},
		"the platform's Prometheus, another path": {certificates: of(ours, PlatformPrometheus), path: "/debug",
			want: 404},
		"the platform's Prometheus, writing": {certificates: of(ours, PlatformPrometheus), method: http.MethodPost,
			want: 405},
		"its name, by another authority": {certificates: of(others, PlatformPrometheus), want: 401},
		"its name, in a token":           {token: PlatformPrometheus, want: 200, asks: 1},
		"its name, in a certificate of a server": {certificates: []tls.Certificate{ours.issue(t, PlatformPrometheus,
			x509.ExtKeyUsageServerAuth, soon)}, want: 401},
		"its name, in a certificate that ended": {certificates: []tls.Certificate{ours.issue(t, PlatformPrometheus,
			x509.ExtKeyUsageClientAuth, past)}, want: 401},
		"a bad certificate, and a token": {certificates: of(others, "x"), token: "reader", want: 200, asks: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &published{bundle: ours.pem()})
			if tt.path == "" {
				tt.path = "/metrics"
			}
			if got := s.get(tt.method, tt.path, tt.token, tt.certificates...); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
			if got := s.asked.Load(); got != tt.asks {
				t.Errorf("the API server was asked %d times, want %d", got, tt.asks)
			}
		})
	}
}

func TestAuthoritiesAreReadWhenNeeded(t *testing.T) {
	before := newAuthority(t)
	after := newAuthority(t)
	trust := &published{bundle: before.pem()}
	s := serve(t, trust)
	s.get("GET", "/metrics", "reader")
	if n := trust.reads.Load(); n != 0 {
		t.Errorf("%d reads though nobody showed a certificate", n)
	}
	soon := time.Now().Add(time.Hour)
	for range 3 {
		if got := s.get("GET", "/metrics", "",
			before.issue(t, PlatformPrometheus, x509.ExtKeyUsageClientAuth, soon)); got != 200 {
			t.Errorf("got %d", got)
		}
	}
	if n := trust.reads.Load(); n != 1 {
		t.Errorf("%d reads, want one", n)
	}
	// The authority has changed. A certificate that fails verification triggers another read, at most once a minute.
	trust.bundle = after.pem()
	if got := s.get("GET", "/metrics", "",
		after.issue(t, PlatformPrometheus, x509.ExtKeyUsageClientAuth, soon)); got != 401 {
		t.Errorf("got %d within a minute after the last read", got)
	}
	if n := trust.reads.Load(); n != 1 {
		t.Errorf("%d reads within a minute", n)
	}
}

func TestAuthoritiesThatCannotBeRead(t *testing.T) {
	authorities := newAuthority(t)
	trust := &published{bundle: authorities.pem(), err: errors.New("the API server does not answer")}
	now := time.Now()
	ca := &clientCA{reader: trust, now: func() time.Time { return now }}
	if _, known := ca.VerifyOptions(); known {
		t.Error("nothing was read, and certificates are checked against something")
	}
	trust.err, now = nil, now.Add(trustGap)
	if _, known := ca.VerifyOptions(); !known {
		t.Error("not read again after a minute")
	}
	// After a failed read the known authorities remain for an hour.
	trust.err = errors.New("the API server does not answer")
	for _, step := range []struct {
		after time.Duration
		known bool
	}{{trustAge - time.Second, true}, {2 * time.Second, false}} {
		now = now.Add(step.after)
		if _, known := ca.VerifyOptions(); known != step.known {
			t.Errorf("after %s: known %v", step.after, known)
		}
	}
	trust.err, trust.bundle, now = nil, "no certificate", now.Add(trustGap)
	if _, known := ca.VerifyOptions(); known {
		t.Error("a bundle without a certificate counts")
	}
	trust.bundle, now = authorities.pem(), now.Add(trustGap)
	if ca.renew(); len(ca.CurrentCABundleContent()) == 0 {
		t.Error("nothing was read")
	}
	now = now.Add(trustGap)
	if ca.renew() {
		t.Error("the same authorities are told to be others")
	}
	trust.bundle, now = newAuthority(t).pem(), now.Add(trustGap)
	if !ca.renew() {
		t.Error("other authorities are told to be the same")
	}
}

func TestProcessTellsBuildAndCertificates(t *testing.T) {
	p := Process{Component: "vg-manager", Certificates: map[string]func() (*tls.Certificate, error){
		"metrics": servingcert.NewFolderOrSelfSigned("", nil).Current,
		"webhook": func() (*tls.Certificate, error) { return nil, errors.New("not there yet") },
	}}
	for metric, want := range map[string]int{"lvms_build_info": 1, "lvms_certificate_expiry_timestamp_seconds": 1} {
		if n := testutil.CollectAndCount(p, metric); n != want {
			t.Errorf("%d series of %s, want %d", n, metric, want)
		}
	}
	if problems, err := testutil.CollectAndLint(p); err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
