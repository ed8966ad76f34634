package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
)

// seen returns the headers of a request that reached it.
func seen(t *testing.T) reach {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"authorization": r.Header.Get("Authorization"),
			"cookie": r.Header.Get("Cookie"), "csrf": r.Header.Get(csrfHeader), "path": r.URL.Path})
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return reach{url: at, ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
}

func newTestBridge(t *testing.T) *bridge {
	t.Helper()
	b, err := newBridge(t.TempDir(), seen(t), seen(t),
		map[string]string{adminUser: "admin-token", viewerUser: "viewer-token"})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func answer(b *bridge, r *http.Request) (int, string) {
	w := httptest.NewRecorder()
	b.handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestOnlyAPageOfTheConsoleCanChangeAnything(t *testing.T) {
	b := newTestBridge(t)
	for _, c := range []struct {
		name, method, cookie, header string
		code                         int
	}{
		{"a read needs no token", http.MethodGet, "", "", http.StatusOK},
		{"no token", http.MethodPost, "", "", http.StatusForbidden},
		{"a cookie alone, as another page's form sends it", http.MethodPost, "secret", "", http.StatusForbidden},
		{"a header alone", http.MethodPut, "", "secret", http.StatusForbidden},
		{"another token", http.MethodDelete, "secret", "guess", http.StatusForbidden},
		{"two that are empty", http.MethodPatch, "", "", http.StatusForbidden},
		{"the page's own", http.MethodPost, "secret", "secret", http.StatusOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "/api/kubernetes/api/v1/nodes", nil)
			r.AddCookie(&http.Cookie{Name: csrfCookie, Value: c.cookie})
			r.Header.Set(csrfHeader, c.header)
			if code, body := answer(b, r); code != c.code {
				t.Errorf("%d %s, not %d", code, body, c.code)
			}
		})
	}
}

// TestARequestIsForwardedWhenItIsWhole: an answer to a request that is not whole can be cut off.
func TestARequestIsForwardedWhenItIsWhole(t *testing.T) {
	arrived, content := make(chan struct{}), make(chan string, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		body, err := io.ReadAll(r.Body)
		content <- fmt.Sprint(string(body), " ", r.ContentLength, " ", err)
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	api := reach{url: at, ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	b, err := newBridge(t.TempDir(), seen(t), api, map[string]string{adminUser: "admin-token"})
	if err != nil {
		t.Fatal(err)
	}
	request := func(body io.Reader) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/api/kubernetes/apis/x", body)
		r.AddCookie(&http.Cookie{Name: csrfCookie, Value: "secret"})
		r.Header.Set(csrfHeader, "secret")
		return r
	}
	read, write := io.Pipe()
	code := make(chan int, 1)
	go func() {
		status, _ := answer(b, request(read))
		code <- status
	}()
	_, _ = io.WriteString(write, "one,") // The bridge has read it now.
	select {
	case <-arrived:
		t.Error("a part of a request was forwarded")
	default:
	}
	_, _ = io.WriteString(write, "two,")
	_ = write.Close()
	if got := <-content; got != "one,two, 8 <nil>" {
		t.Errorf("the API server got %q", got)
	}
	if got := <-code; got != http.StatusOK {
		t.Errorf("got %d", got)
	}
	if got, _ := answer(b, request(strings.NewReader(strings.Repeat("x", maxBody+1)))); got != http.StatusBadRequest {
		t.Errorf("a body that is too large: got %d", got)
	}
}

func TestTheTokenOfTheUserGoesOnAndWhatIsTheConsolesDoesNot(t *testing.T) {
	b := newTestBridge(t)
	for _, path := range []string{"/api/kubernetes/version", "/api/plugins/" + pluginName + "/config.json"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.AddCookie(&http.Cookie{Name: sessionCookie, Value: viewerUser})
		r.Header.Set(csrfHeader, "secret")
		_, body := answer(b, r)
		got := map[string]string{}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if got["authorization"] != "Bearer viewer-token" || got["cookie"] != "" || got["csrf"] != "" {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// Like a console whose ConsolePlugin has the path of the build for older consoles.
func TestAnOlderConsoleHasItsOwnBuild(t *testing.T) {
	b := newTestBridge(t)
	for _, folder := range []string{"", legacyFolder} {
		if err := os.MkdirAll(b.host+folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(b.host+folder+"/index.html", []byte("page "+folder), 0o600); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{
			"/api/plugins/" + pluginName + "/config.json":           `"path":"` + folder + `/config.json"`,
			"/locales/resource.json?lng=fr&ns=plugin__lvms-console": `"path":"` + folder + `/locales/fr/plugin__`,
			"/local-volumes": "page " + folder} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			if folder != "" {
				r.AddCookie(&http.Cookie{Name: legacyCookie, Value: "4.19"})
			}
			if code, body := answer(b, r); code != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: got %d %s, want %s", path, code, body, want)
			}
		}
	}
}

func TestWhatIsOutOfReachIsNoAnswer(t *testing.T) {
	b := newTestBridge(t)
	for range 2 {
		if code, _ := answer(b, httptest.NewRequest(http.MethodGet, "/test/cut?is=true",
			nil)); code != http.StatusNoContent {
			t.Fatalf("cut: %d", code)
		}
		if code, _ := answer(b, httptest.NewRequest(http.MethodGet, "/api/kubernetes/version",
			nil)); code != http.StatusBadGateway {
			t.Errorf("a cluster that is out of reach: %d", code)
		}
	}
	if code, _ := answer(b, httptest.NewRequest(http.MethodGet, "/api/prometheus/api/v1/query",
		nil)); code != http.StatusBadGateway {
		t.Errorf("no Prometheus: %d", code)
	}
}

func TestPrometheusIsAskedWithThePermissionsOfTheUser(t *testing.T) {
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sample := `{"metric":{"namespace":%q},"value":[1,"1"]}`
		if strings.HasSuffix(r.URL.Path, "/query_range") {
			sample = `{"metric":{"namespace":%q},"values":[[1,"0.25"]]}`
		}
		_, _ = fmt.Fprintf(w,
			`{"status":"success","data":{"resultType":"vector","result":[%s,%s,{"metric":{},"value":[1,"2"]}]}}`,
			fmt.Sprintf(sample, "mine"), fmt.Sprintf(sample, "other"))
	}))
	defer prometheus.Close()
	at, err := url.Parse(prometheus.URL)
	if err != nil {
		t.Fatal(err)
	}
	b := newTestBridge(t)
	b.metrics = newMetrics(at, nil, func(r *http.Request, right map[string]string) (bool, error) {
		if user(r) == "broken" {
			return false, io.ErrUnexpectedEOF
		}
		return user(r) == adminUser || right["namespace"] == "mine", nil
	})
	for _, c := range []struct {
		path, user string
		code       int
		has, not   string
	}{
		{"/api/prometheus-tenancy/api/v1/query?query=up&namespace=mine", viewerUser, http.StatusOK, "mine", "other"},
		{"/api/prometheus-tenancy/api/v1/query_range?query=up&namespace=mine", viewerUser,
			http.StatusOK, "0.25", "other"},
		{"/api/prometheus-tenancy/api/v1/query?query=up&namespace=other", viewerUser,
			http.StatusForbidden, "", "success"},
		{"/api/prometheus-tenancy/api/v1/query?query=up", adminUser, http.StatusBadRequest, "namespace", "success"},
		{"/api/prometheus/api/v1/query?query=up", viewerUser, http.StatusForbidden, "", "success"},
		{"/api/prometheus/api/v1/query?query=up", adminUser, http.StatusOK, "other", "Forbidden"},
		{"/api/prometheus/api/v1/query?query=up", "broken", http.StatusBadGateway, "", "success"},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.AddCookie(&http.Cookie{Name: sessionCookie, Value: c.user})
		code, body := answer(b, r)
		if code != c.code || !strings.Contains(body, c.has) || strings.Contains(body, c.not) {
			t.Errorf("%s as %s: %d %s", c.path, c.user, code, body)
		}
	}
}

func TestPrometheusScrapesWhatWasPutLast(t *testing.T) {
	b := newTestBridge(t)
	b.metrics = newMetrics(&url.URL{}, nil, nil)
	for _, text := range []string{"a 1\n", "b 2\n", "b 2\n"} {
		if code, _ := answer(b, httptest.NewRequest(http.MethodPut, "/test/metrics",
			strings.NewReader(text))); code != http.StatusNoContent {
			t.Fatalf("put: %d", code)
		}
		if _, body := answer(b, httptest.NewRequest(http.MethodGet, "/test/metrics", nil)); body != text {
			t.Errorf("scraped %q, not %q", body, text)
		}
	}
}
