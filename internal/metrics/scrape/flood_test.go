package scrape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// apiServer answers reviews without a network. The token is the name of the user, and only those that begin with good
// are authenticated and have permission. It counts the reviews of tokens and of access.
type apiServer struct {
	mu             sync.Mutex
	tokens, access int
	err            error
}

func (a *apiServer) RoundTrip(request *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var review map[string]any
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		return nil, err
	}
	spec := review["spec"].(map[string]any)
	if strings.HasSuffix(request.URL.Path, "tokenreviews") {
		a.tokens++
		token := spec["token"].(string)
		review["status"] = map[string]any{"authenticated": !strings.HasPrefix(token, "bad"),
			"user": map[string]any{"username": token}}
	} else {
		a.access++
		review["status"] = map[string]any{"allowed": strings.HasPrefix(spec["user"].(string), "good")}
	}
	if a.err != nil {
		return nil, a.err
	}
	body, err := json.Marshal(review)
	return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), Request: request}, err
}

// guarded is a guard with its API server. It has no network, so that a test has its own time.
type guarded struct {
	*testing.T
	api   *apiServer
	guard *guard
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	api := &apiServer{}
	g, err := newGuard(Options{Reader: &published{}, HTTP: &http.Client{Transport: api},
		Config: &rest.Config{Host: "https://api", ContentConfig: rest.ContentConfig{ContentType: "application/json"}}},
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") }))
	if err != nil {
		t.Fatal(err)
	}
	return &guarded{T: t, api: api, guard: g}
}

// get returns the status code for a token from an address.
func (g *guarded) get(address, token string) int {
	request := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
	request.RemoteAddr = address + ":4000"
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer := httptest.NewRecorder()
	g.guard.ServeHTTP(answer, request)
	if (answer.Code == http.StatusTooManyRequests) != (answer.Header().Get("Retry-After") != "") {
		g.Errorf("%d with Retry-After %q", answer.Code, answer.Header().Get("Retry-After"))
	}
	return answer.Code
}

// flood sends n requests with different tokens from an address, and returns how many have each status code.
func (g *guarded) flood(n int, address, token string) map[int]int {
	codes := map[int]int{}
	for i := range n {
		codes[g.get(address, fmt.Sprint(token, i, address))]++
	}
	return codes
}

// TestAFloodOfTokens: it costs the API server as good as nothing, and does not stop a scrape: neither of a Prometheus
// that was there before, nor of a new one, nor with a new token.
func TestAFloodOfTokens(t *testing.T) {
	for token, code := range map[string]int{"bad": http.StatusUnauthorized, "somebody": http.StatusForbidden} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuarded(t)
			if got := g.get("192.0.2.1", "good"); got != http.StatusOK {
				t.Fatalf("%s: got %d before", token, got)
			}
			g.api.tokens, g.api.access = 0, 0
			codes := g.flood(10000, "192.0.2.9", token)
			if codes[code] != 5 || codes[http.StatusTooManyRequests] != 9995 || g.api.tokens != 5 || g.api.access > 5 {
				t.Errorf("%s: got %v, %d reviews of tokens and %d of access, want 5", token, codes, g.api.tokens,
					g.api.access)
			}
			if got := g.get("192.0.2.2", "good-2"); got != http.StatusOK {
				t.Errorf("%s: a new Prometheus got %d", token, got)
			}
			g.api.tokens = 0
			for i := range 20 {
				g.flood(100, fmt.Sprint("192.0.2.", 100+i), token)
			}
			// The burst of all strangers is ten, and two of them and the flood before have had seven.
			if g.api.tokens != 3 {
				t.Errorf("%s: %d reviews of tokens for twenty peers, want 3", token, g.api.tokens)
			}
			if got := g.get("192.0.2.1", "good-new"); got != http.StatusOK {
				t.Errorf("%s: a new token of a known Prometheus got %d", token, got)
			}
			// The flood lasts for an hour, and Prometheus scrapes.
			for range 120 {
				time.Sleep(30 * time.Second)
				for i := range 3 {
					g.get("192.0.2.9", fmt.Sprint(token, time.Now(), i))
				}
				if got := g.get("192.0.2.1", "good-new"); got != http.StatusOK {
					t.Fatalf("%s: a scrape during the flood got %d", token, got)
				}
			}
		})
	}
}

// TestWithoutATokenTheAPIServerIsNotAsked, however often.
func TestWithoutATokenTheAPIServerIsNotAsked(t *testing.T) {
	g := newGuarded(t)
	for range 1000 {
		if got := g.get("192.0.2.1", ""); got != http.StatusUnauthorized {
			t.Fatalf("got %d", got)
		}
	}
	if g.api.tokens+g.api.access != 0 {
		t.Errorf("%d reviews", g.api.tokens+g.api.access)
	}
}

// TestWhileTheAPIServerFails nobody becomes known, the attempts for each request are few, and who was known still is.
func TestWhileTheAPIServerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		if got := g.get("192.0.2.1", "good"); got != http.StatusOK {
			t.Fatalf("got %d before", got)
		}
		time.Sleep(tokenTTL + allowTTL)
		g.api.err = errors.New("connection refused")
		g.api.tokens = 0
		if got := g.get("192.0.2.1", "good"); got != http.StatusUnauthorized {
			t.Errorf("a known client got %d", got)
		}
		codes := g.flood(1000, "192.0.2.9", "good-x")
		if codes[http.StatusOK] != 0 || codes[http.StatusUnauthorized] > 10 || g.api.tokens > 11*reviewRetry.Steps {
			t.Errorf("got %v, %d reviews", codes, g.api.tokens)
		}
		g.api.err = nil
		if got := g.get("192.0.2.1", "good"); got != http.StatusOK {
			t.Errorf("a known client got %d afterwards", got)
		}
	})
}

// TestAnswersHaveAShare: a user that does not read its answers does not take those of others.
func TestAnswersHaveAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		hold := make(chan struct{})
		g.guard.handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.RemoteAddr, "192.0.2.1:") {
				<-hold
			}
		})
		codes := make(chan int, 2*userAnswers)
		for range cap(codes) {
			go func() { codes <- g.get("192.0.2.1", "good-slow") }()
			time.Sleep(time.Second)
		}
		if len(codes) != userAnswers {
			t.Errorf("%d of %d requests have an answer, want %d that are refused", len(codes), cap(codes), userAnswers)
		}
		if got := g.get("192.0.2.2", "good"); got != http.StatusOK {
			t.Errorf("another user got %d", got)
		}
		close(hold)
		all := map[int]int{}
		for range cap(codes) {
			all[<-codes]++
		}
		if all[http.StatusOK] != userAnswers || all[http.StatusTooManyRequests] != userAnswers {
			t.Errorf("got %v", all)
		}
	})
}
