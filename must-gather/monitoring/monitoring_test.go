package monitoring

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/lvm-storage/lvm-operator/must-gather/archive"
	"github.com/lvm-storage/lvm-operator/must-gather/redact"
)

const (
	alertsText = `{"status":"success","data":{"alerts":[{"labels":{"alertname":"LVMSDeviceMissing"},"state":"firing"},{"labels":{"alertname":"Watchdog"},"state":"firing"}]}}`
	rulesText  = `{"status":"success","data":{"groups":[{"name":"lvms","rules":[{"name":"LVMSDeviceMissing"},{"name":"Other"}]},{"name":"foreign","rules":[{"name":"Other"}]}]}}`
	queryText  = `{"status":"success","data":{"resultType":"vector","result":[]}}`
)

// answers are the responses of Prometheus, by path.
type answers map[string]string

func (a answers) Get(_ context.Context, path string, _ url.Values) ([]byte, error) {
	text, found := a[path]
	if !found {
		return nil, errors.New("connection refused")
	}
	return []byte(text), nil
}

func gathered(t *testing.T, p Prometheus) (*archive.Writer, func(string) string) {
	t.Helper()
	out, err := archive.New(t.TempDir(), 64<<20, redact.Text)
	if err != nil {
		t.Fatal(err)
	}
	Collect(t.Context(), p, out)
	return out, func(name string) string {
		content, err := os.ReadFile(filepath.Join(out.Root(), name))
		if err != nil {
			return ""
		}
		return string(content)
	}
}

func TestOnlyOursIsKept(t *testing.T) {
	out, file := gathered(t, answers{"/api/v1/alerts": alertsText, "/api/v1/rules": rulesText,
		"/api/v1/query": queryText})
	if text := file("monitoring/alerts.json"); !strings.Contains(text, "LVMSDeviceMissing") ||
		strings.Contains(text, "Watchdog") {
		t.Errorf("alerts: %s", text)
	}
	if text := file("monitoring/rules.json"); !strings.Contains(text, "LVMSDeviceMissing") ||
		strings.Contains(text, "Other") || strings.Contains(text, "foreign") {
		t.Errorf("rules: %s", text)
	}
	if file("monitoring/metrics.json") != queryText || len(out.Failures().Failures) != 0 {
		t.Errorf("metrics: %s, %v", file("monitoring/metrics.json"), out.Failures())
	}
}

func TestAnAnswerThatFailedIsSaidAndNotEmpty(t *testing.T) {
	tests := map[string]answers{
		"refused": {},
		"an error": {"/api/v1/alerts": `{"status":"error","error":"busy"}`,
			"/api/v1/rules": `{"status":"error","error":"busy"}`, "/api/v1/query": `{"status":"error","error":"busy"}`},
		"not JSON": {"/api/v1/alerts": "<html>", "/api/v1/rules": "<html>", "/api/v1/query": "<html>"},
		"other one": {"/api/v1/alerts": `{"status":"success","data":[]}`,
			"/api/v1/rules": `{"status":"success","data":[]}`, "/api/v1/query": ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out, file := gathered(t, test)
			if len(out.Failures().Failures) != 3 || file("monitoring/alerts.json") != "" ||
				file("monitoring/rules.json") != "" {
				t.Errorf("got %+v, %q", out.Failures(), file("monitoring/alerts.json"))
			}
		})
	}
}

// The token is sent only to a server with a certificate of the services' authority.
func TestTheTokenIsShownToNobodyElse(t *testing.T) {
	var shown string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown = r.Header.Get("Authorization")
		_, _ = w.Write([]byte(alertsText))
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	trusting, err := newDirect(server.URL, token, authority)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := trusting.Get(t.Context(), "/api/v1/alerts", nil); err != nil || string(content) != alertsText ||
		shown != "Bearer abc" {
		t.Errorf("got %q, %v, %q", content, err, shown)
	}
	stranger := httptest.NewTLSServer(http.NotFoundHandler())
	defer stranger.Close()
	shown = ""
	trusting.base = strings.Replace(stranger.URL, "127.0.0.1", "localhost", 1)
	if _, err := trusting.Get(t.Context(), "/api/v1/alerts", nil); err == nil || shown != "" {
		t.Errorf("got %v, %q", err, shown)
	}
	if _, err := newDirect(server.URL, token, []byte("x")); err == nil {
		t.Error("an authority that is none was taken")
	}
}

func TestPrometheusIsReachedThroughTheAPIServer(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RequestURI()
		_, _ = w.Write([]byte(queryText))
	}))
	defer server.Close()
	core, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	p := proxied{core, "monitoring", "http:prometheus-k8s:9090"}
	if _, err := p.Get(t.Context(), "/api/v1/query", url.Values{"query": {"up"}}); err != nil {
		t.Fatal(err)
	}
	if want := "/api/v1/namespaces/monitoring/services/http:prometheus-k8s:9090/proxy/api/v1/query?query=up"; asked !=
		want {
		t.Errorf("asked for %s, want %s", asked, want)
	}
	if _, err := Find(&rest.Config{}, "nonsense"); err == nil {
		t.Error("a service that is none was taken")
	}
}
