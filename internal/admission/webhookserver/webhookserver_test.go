package webhookserver

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
)

// call sends a request from an address, and returns the status code.
func call(ctx context.Context, h http.Handler, address string) int {
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/validate", http.NoBody)
	request.RemoteAddr = address + ":4000"
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request)
	return answer.Code
}

// TestAFloodDelaysOnlyItself: 10,000 requests of one client wait for its share, and one of the API server does not.
func TestAFloodDelaysOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		h := limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
		}))
		codes := make(chan int, 10000)
		for range cap(codes) {
			go func() { codes <- call(t.Context(), h, "192.0.2.9") }()
		}
		synctest.Wait()
		begun := time.Now()
		if code := call(t.Context(), h, "192.0.2.1"); code != http.StatusOK || time.Since(begun) != time.Second {
			t.Errorf("the API server got %d after %s, want an answer at once", code, time.Since(begun))
		}
		all := map[int]int{}
		for range cap(codes) {
			all[<-codes]++
		}
		// All that are served begin within the ten seconds, 16 at the same time.
		if n := all[http.StatusOK]; n < 9*peerRequests || n > 11*peerRequests ||
			all[http.StatusTooManyRequests] != cap(codes)-n || most.Load() > peerRequests+1 {
			t.Errorf("got %v, %d at the same time", all, most.Load())
		}
	})
}

// TestAClientThatGoesAwayNeedsNoShare although it waited.
func TestAClientThatGoesAwayNeedsNoShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		h := limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
		codes := make(chan int, peerRequests)
		for range cap(codes) {
			go func() { codes <- call(t.Context(), h, "192.0.2.1") }()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if code := call(ctx, h, "192.0.2.1"); code != http.StatusTooManyRequests {
			t.Errorf("got %d", code)
		}
		close(hold)
		for range cap(codes) {
			<-codes
		}
		if code := call(t.Context(), h, "192.0.2.1"); code != http.StatusOK {
			t.Errorf("afterwards: got %d", code)
		}
	})
}

// TestItIsStartedWhenItAnswers: before that, the Pod is not ready.
func TestItIsStartedWhenItAnswers(t *testing.T) {
	s := New(Options{TLS: []func(*tls.Config){servingcert.Configure(servingcert.NewFolder(t.TempDir(), nil))}})
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", http.NoBody)
	if err := s.StartedChecker()(request); err == nil {
		t.Error("started before it was")
	}
	s.Register("/validate", http.NotFoundHandler())
	if s.WebhookMux() == nil || s.NeedLeaderElection() {
		t.Error("no webhooks can be registered, or only the leader serves")
	}
}
