package limit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPeerIsItsAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:4000": "192.0.2.1", "[::ffff:192.0.2.1]:4000": "192.0.2.1", "[2001:db8::1]:4000": "2001:db8::1",
		"[fe80::1%eth0]:4000": "fe80::1", "@": "@", "": "",
	} {
		if got := Peer(remote); got != want {
			t.Errorf("%q: got %q, want %q", remote, got, want)
		}
	}
}

func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRates(Rate{Interval: time.Second, Burst: 3}, 2)
		allowed := func(key string, tries int) (n int) {
			for range tries {
				if r.Allow(key) {
					n++
				}
			}
			return n
		}
		if a, b := allowed("a", 100), allowed("b", 2); a != 3 || b != 2 {
			t.Errorf("%d of a and %d of b, want 3 and 2", a, b)
		}
		if d := r.Delay("a"); d != time.Second || r.Delay("b") != 0 {
			t.Errorf("delays %s and %s, want 1s and none", d, r.Delay("b"))
		}
		time.Sleep(2 * time.Second)
		if n := allowed("a", 100); n != 2 {
			t.Errorf("%d after two seconds, want 2", n)
		}
		begun := time.Now()
		if err := r.Wait(t.Context(), "a"); err != nil || time.Since(begun) != time.Second {
			t.Errorf("%v after %s, want none after a second", err, time.Since(begun))
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := r.Wait(short, "a"); !errors.Is(err, ErrTooMany) {
			t.Errorf("got %v", err)
		}
		r.Forget("a")
		if n := allowed("a", 100); n != 3 {
			t.Errorf("%d after it was forgotten, want 3", n)
		}
	})
}

// TestRatesRememberFewKeys: the key that was used least recently is dropped.
func TestRatesRememberFewKeys(t *testing.T) {
	r := NewRates(Rate{Interval: time.Hour, Burst: 1}, 2)
	for i := range 1000 {
		if !r.Allow(fmt.Sprint(i)) || r.keys.Len() > 2 {
			t.Fatalf("key %d: refused, or %d keys are remembered", i, r.keys.Len())
		}
	}
	if r.Allow("999") || !r.Allow("0") {
		t.Error("the latest key is forgotten, or the oldest is not")
	}
}

func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares(3, 2)
		take := func(key string) func() {
			leave, err := s.Try(key)
			if err != nil {
				return nil
			}
			return leave
		}
		first, second := take("a"), take("a")
		if first == nil || second == nil || take("a") != nil {
			t.Fatal("a has not two slots")
		}
		third := take("b")
		if third == nil || take("b") != nil || take("c") != nil {
			t.Fatal("there are not three slots")
		}
		// A call that is repeated gives one slot back.
		third()
		third()
		if third = take("c"); third == nil || take("b") != nil {
			t.Error("not one slot was given back")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(time.Second, first)
		begun := time.Now()
		leave, err := s.Wait(ctx, "a")
		if err != nil || time.Since(begun) != time.Second {
			t.Fatalf("%v after %s, want a slot after a second", err, time.Since(begun))
		}
		if _, err := s.Wait(ctx, "a"); !errors.Is(err, ErrTooMany) || time.Since(begun) != time.Minute {
			t.Errorf("%v after %s, want a refusal after a minute", err, time.Since(begun))
		}
		leave()
		second()
		third()
		if len(s.keys) != 0 || len(s.all) != 0 {
			t.Errorf("%d keys and %d slots remain", len(s.keys), len(s.all))
		}
	})
}

// TestWhoWaitsForAShareHasNone: a key whose slots are taken does not take those of others.
func TestWhoWaitsForAShareHasNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares(3, 2)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{}, 100)
		for range cap(ended) {
			go func() {
				leave, err := s.Wait(ctx, "a")
				<-ctx.Done()
				if err == nil {
					leave()
				}
				ended <- struct{}{}
			}()
		}
		synctest.Wait()
		leave, err := s.Try("b")
		if err != nil {
			t.Fatal(err)
		}
		leave()
		cancel()
		for range cap(ended) {
			<-ended
		}
		if len(s.keys) != 0 {
			t.Errorf("%d keys remain", len(s.keys))
		}
	})
}

func newReviews(wait time.Duration) *Reviews {
	return NewReviews(ReviewOptions{Strangers: Rate{Interval: 2 * time.Second, Burst: 10},
		Stranger: Rate{Interval: 10 * time.Second, Burst: 5}, Known: Rate{Interval: time.Second, Burst: 3}, Wait: wait})
}

// attempt returns whether the API server may be asked.
func attempt(t *testing.T, r *Reviews, peer, token string, authorized bool) bool {
	t.Helper()
	end, err := r.Begin(t.Context(), peer, Hash([]byte(token)))
	if err != nil {
		if !errors.Is(err, ErrTooMany) || strings.Contains(err.Error(), token) {
			t.Errorf("got %v", err)
		}
		return false
	}
	end(authorized)
	return true
}

// TestAFloodOfStrangersKeepsNobodyOut: neither another stranger nor whoever was authorized, by the address or by the
// credential.
func TestAFloodOfStrangersKeepsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReviews(0)
		if !attempt(t, r, "prometheus", "good-1", true) {
			t.Fatal("the first request is refused")
		}
		flood := func(peer string) (n int) {
			for i := range 1000 {
				if attempt(t, r, peer, fmt.Sprint("bad-", i), false) {
					n++
				}
			}
			return n
		}
		if n := flood("attacker"); n != 5 {
			t.Errorf("%d reviews for one peer, want 5", n)
		}
		if !attempt(t, r, "stranger", "good-2", false) {
			t.Error("another stranger is refused")
		}
		n := 0
		for i := range 100 {
			n += flood(fmt.Sprint("attacker-", i))
		}
		if n != 3 {
			t.Errorf("%d more reviews for all strangers, want 3", n)
		}
		if !attempt(t, r, "prometheus", "good-3", true) {
			t.Error("a new token of a known peer is refused")
		}
		if !attempt(t, r, "attacker", "good-1", true) {
			t.Error("a known token is refused at the address of the flood")
		}
		time.Sleep(10 * time.Second)
		if n := flood("attacker-0"); n != 1 {
			t.Errorf("%d reviews for one peer after ten seconds, want 1", n)
		}
		time.Sleep(knownFor)
		r.all.AllowN(time.Now(), 10)
		if attempt(t, r, "prometheus", "good-1", true) {
			t.Error("known for longer than an hour")
		}
	})
}

// TestAKnownPeerIsLimited: what was authorized once can be misused later. A refusal by the API server adds nobody.
func TestAKnownPeerIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReviews(0)
		attempt(t, r, "peer", "token", true)
		for _, want := range []int{3, 1} {
			n := 0
			for range 100 {
				if attempt(t, r, "peer", "token", false) {
					n++
				}
			}
			if n != want {
				t.Errorf("%d reviews, want %d", n, want)
			}
			time.Sleep(time.Second)
		}
		if attempt(t, r, "other", "x", false); r.isKnown("other") || r.isKnown(Hash([]byte("x"))) {
			t.Error("known without an authorization")
		}
	})
}

// TestReviewsThatHang: the API server does not answer. A peer has few reviews at the same time, and all have few.
func TestReviewsThatHang(t *testing.T) {
	r := NewReviews(ReviewOptions{Strangers: Rate{Interval: time.Hour, Burst: 10000},
		Stranger: Rate{Interval: time.Hour, Burst: 10000}, Known: Rate{Interval: time.Hour, Burst: 10000}})
	var ends []func(bool)
	for i := range 100 {
		for range 10 {
			if end, err := r.Begin(t.Context(), fmt.Sprint(i), Hash(nil)); err == nil {
				ends = append(ends, end)
			}
		}
		if want := min(maxReviews, (i+1)*reviewsEach); len(ends) != want {
			t.Fatalf("%d reviews of %d peers, want %d", len(ends), i+1, want)
		}
	}
	for _, end := range ends {
		end(false)
	}
	if _, err := r.Begin(t.Context(), "x", Hash(nil)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestReviewsThatWait: a burst of calls waits, and ends in time.
func TestReviewsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReviews(25 * time.Second)
		begun := time.Now()
		results := make(chan bool, 20)
		for range cap(results) {
			go func() { results <- attempt(t, r, "peer", "token", false) }()
		}
		n := 0
		for range cap(results) {
			if <-results {
				n++
			}
		}
		if took := time.Since(begun); n != 7 || took != 20*time.Second {
			t.Errorf("%d reviews in %s, want 5 at once and 2 in 20 seconds", n, took)
		}
	})
}

// accepted is a net.Listener that accepts connections of addresses.
type accepted struct {
	net.Listener
	from chan string
}

type from struct {
	net.Conn
	address string
	closed  bool
}

func (f *from) RemoteAddr() net.Addr { return remote(f.address) }
func (f *from) Close() error         { f.closed = true; return nil }

type remote string

func (remote) Network() string  { return "tcp" }
func (r remote) String() string { return string(r) }

var errClosed = errors.New("closed")

func (a *accepted) Accept() (net.Conn, error) {
	address, open := <-a.from
	if !open {
		return nil, errClosed
	}
	return &from{address: address + ":4000"}, nil
}

// TestConnections: a peer with too many does not keep others from connecting, and a closed connection counts no more.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := 0
		inner := &accepted{from: make(chan string, 2000)}
		l := Listener(inner, Connections{All: 5, Peer: 3, Report: func(error) { reports++ }})
		next := func(refused int, refusedPeer, peer string) net.Conn {
			t.Helper()
			for range refused {
				inner.from <- refusedPeer
			}
			inner.from <- peer
			c, err := l.Accept()
			if err != nil || Peer(c.RemoteAddr().String()) != peer {
				t.Fatalf("got %v, %v, want one of %s", c, err, peer)
			}
			return c
		}
		own := []net.Conn{next(0, "", "192.0.2.1"), next(0, "", "192.0.2.1"), next(0, "", "192.0.2.1")}
		other := next(1000, "192.0.2.1", "192.0.2.2")
		if reports != 1 {
			t.Errorf("%d reports of refused connections within a minute, want one", reports)
		}
		_ = own[0].Close()
		_ = own[0].Close()
		time.Sleep(time.Minute)
		own[0] = next(0, "", "192.0.2.1")
		next(0, "", "192.0.2.3")
		_ = other.Close()
		next(10, "192.0.2.1", "192.0.2.4")
		_ = own[1].Close()
		next(0, "", "192.0.2.5")
		if reports != 2 {
			t.Errorf("%d reports, want another one after a minute", reports)
		}
		close(inner.from)
		if _, err := l.Accept(); !errors.Is(err, errClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// TestNewConnectionsHaveARate: those that are closed at once, too.
func TestNewConnectionsHaveARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &accepted{from: make(chan string, 2000)}
		l := Listener(inner, Connections{All: 5, Peer: 3})
		for range 1000 {
			inner.from <- "192.0.2.1"
		}
		inner.from <- "192.0.2.2"
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
			if Peer(c.RemoteAddr().String()) == "192.0.2.2" {
				if n != newConnections.Burst {
					t.Errorf("%d connections of one peer, want %d", n, newConnections.Burst)
				}
				return
			}
		}
	})
}

func TestAnAddressInUse(t *testing.T) {
	first, err := Listen(t.Context(), "127.0.0.1:0", Connections{All: 1, Peer: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	if _, err := Listen(t.Context(), first.Addr().String(), Connections{All: 1, Peer: 1}); err == nil {
		t.Error("no error")
	}
}
