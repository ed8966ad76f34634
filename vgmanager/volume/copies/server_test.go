package copies

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

const volumeSize = 24 << 20

// credentials is a mutualtls.Source.
type credentials struct{ current *mutualtls.Credentials }

func (c credentials) Current() (*mutualtls.Credentials, error) {
	if c.current == nil {
		return nil, errNone
	}
	return c.current, nil
}

var errNone = errors.New("no certificate yet")

// site is a certificate authority.
type site struct{ authority *pki.Authority }

func newSite(t *testing.T) site {
	t.Helper()
	a, err := pki.NewAuthority(pki.Request{Name: "authority", Now: time.Now(), Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return site{authority: a}
}

func (s site) agent(t *testing.T, node string) credentials {
	t.Helper()
	return s.issue(t, mutualtls.Node(node), node)
}

func (s site) issue(t *testing.T, identity string, hosts ...string) credentials {
	t.Helper()
	pair, err := s.authority.Issue(pki.Request{Name: "test", URIs: []string{identity}, Hosts: hosts, Now: time.Now(),
		Validity: time.Hour, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(s.authority.Certificate())
	return credentials{current: &mutualtls.Credentials{Certificate: certificate, Authorities: pool}}
}

// served is what the agent of node1 serves: the volume "copy1", for node2.
type served struct {
	content []byte
	// read is called before each read of the volume.
	read   func(offset int64) error
	opened atomic.Int32
	closed atomic.Int32
}

func newServed() *served {
	content := make([]byte, volumeSize)
	for i := range 4 << 20 {
		content[8<<20+i] = byte(i * 7 >> 8)
	}
	return &served{content: content, read: func(int64) error { return nil }}
}

func (s *served) ReadAt(p []byte, offset int64) (int, error) {
	if err := s.read(offset); err != nil {
		return 0, err
	}
	return bytes.NewReader(s.content).ReadAt(p, offset)
}

func (s *served) open(_ context.Context, node string, r Request) (*opened, error) {
	target := r.Target
	switch {
	case target == "lost":
		return nil, fmt.Errorf("%w: its thin pool is damaged", ErrGone)
	case target == "busy":
		return nil, errors.New("the thin pool is suspended")
	case target != "copy1" || node != "node2":
		return nil, ErrForbidden
	}
	s.opened.Add(1)
	return &opened{description: description{Size: volumeSize, BaseSize: baseSizes[r.Source+"-"+r.Base],
		Content: []string{"lvms.formatted=xfs", "lvms.new"}}, device: s, ranges: whole(volumeSize),
		close: func() error { s.closed.Add(1); return nil }}, nil
}

// start serves a source as node1, and returns the address, and what stops the server and returns its error.
func start(t *testing.T, s site, open openFunc) (address string, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(Options{Credentials: s.agent(t, "node1"), Configure: func(*tls.Config) {}}, open)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String(), stop
}

// receiveFrom writes a stream to a device, from an offset on. It returns how much is saved.
func receiveFrom(t *testing.T, stream *Stream, m *memoryDevice, from uint64) (saved uint64, err error) {
	t.Helper()
	defer func() { _ = stream.Close() }()
	saved = from
	err = writing{Target: Target{Done: from, Round: zeroedRound}, device: m, size: stream.Size, saveEvery: 1 << 20,
		saveOffset: func(_ context.Context, offset uint64) error { saved = offset; return nil },
		progress:   noProgress}.receive(t.Context(), stream)
	return saved, err
}

func noProgress(uint64) {}

func TestAVolumeIsCopiedFromNodeToNode(t *testing.T) {
	s := newSite(t)
	from := newServed()
	address, stop := start(t, s, from.open)
	client := &agent{node: "node1", address: address, credentials: s.agent(t, "node2")}
	stream, err := client.Data(t.Context(), Request{Target: "copy1"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"lvms.formatted=xfs", "lvms.new"}; !slices.Equal(stream.Content, want) {
		t.Errorf("content %q, want %q", stream.Content, want)
	}
	m := &memoryDevice{content: make([]byte, volumeSize)}
	saved, err := receiveFrom(t, stream, m, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.content, from.content) || saved == 0 || saved > volumeSize {
		t.Fatalf("the copy differs, or %d bytes are saved", saved)
	}
	sums, err := client.Sums(t.Context(), Request{Target: "copy1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(t.Context(), sums, m, sums.Size, noProgress); err != nil {
		t.Error(err)
	}
	if err := sums.Close(); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if from.opened.Load() != 2 || from.closed.Load() != 2 {
		t.Errorf("%d sources were opened and %d closed, want 2", from.opened.Load(), from.closed.Load())
	}
}

// TestACopyContinues: the source cannot be read once, then the copy continues where it was saved.
func TestACopyContinues(t *testing.T) {
	s := newSite(t)
	from := newServed()
	var broken atomic.Bool
	broken.Store(true)
	var begin atomic.Int64
	begin.Store(-1)
	from.read = func(offset int64) error {
		begin.CompareAndSwap(-1, offset)
		if offset == 10<<20 && broken.Load() {
			return errors.New("input/output error")
		}
		return nil
	}
	address, _ := start(t, s, from.open)
	client := &agent{node: "node1", address: address, credentials: s.agent(t, "node2")}
	stream, err := client.Data(t.Context(), Request{Target: "copy1"})
	if err != nil {
		t.Fatal(err)
	}
	m := &memoryDevice{content: make([]byte, volumeSize)}
	saved, err := receiveFrom(t, stream, m, 0)
	if err == nil || saved != 10<<20 {
		t.Fatalf("%v, %d bytes are saved, want an error and 10 MiB", err, saved)
	}
	broken.Store(false)
	begin.Store(-1)
	if stream, err = client.Data(t.Context(), Request{Target: "copy1", From: saved}); err != nil {
		t.Fatal(err)
	}
	if _, err := receiveFrom(t, stream, m, saved); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.content, from.content) || begin.Load() != 10<<20 {
		t.Errorf("the copy differs, or was read from offset %d on", begin.Load())
	}
}

func TestWhoMayNotHaveACopy(t *testing.T) {
	s := newSite(t)
	address, _ := start(t, s, newServed().open)
	node2 := s.agent(t, "node2")
	for name, c := range map[string]struct {
		credentials credentials
		node        string
		target      string
		want        error
	}{
		"another node":   {credentials: s.agent(t, "node3"), node: "node1", target: "copy1", want: ErrForbidden},
		"another copy":   {credentials: node2, node: "node1", target: "copy2", want: ErrForbidden},
		"another path":   {credentials: node2, node: "node1", target: "x/../../copy1", want: nil},
		"a lost source":  {credentials: node2, node: "node1", target: "lost", want: ErrGone},
		"a busy source":  {credentials: node2, node: "node1", target: "busy", want: nil},
		"another source": {credentials: node2, node: "node4", target: "copy1", want: nil},
		"the operator": {credentials: s.issue(t, mutualtls.Operator, "operator"), node: "node1", target: "copy1",
			want: nil},
		"no certificate": {node: "node1", target: "copy1", want: errNone},
		"another site":   {credentials: newSite(t).agent(t, "node2"), node: "node1", target: "copy1", want: nil},
	} {
		client := &agent{node: c.node, address: address, credentials: c.credentials}
		stream, err := client.Data(t.Context(), Request{Target: c.target})
		if err == nil {
			_ = stream.Close()
			t.Errorf("%s: no error", name)
			continue
		}
		for _, known := range []error{ErrForbidden, ErrGone, errNone} {
			if errors.Is(err, known) != errors.Is(c.want, known) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
	}
}

func TestAnOffsetBehindTheEnd(t *testing.T) {
	s := newSite(t)
	from := newServed()
	address, _ := start(t, s, from.open)
	client := &agent{node: "node1", address: address, credentials: s.agent(t, "node2")}
	_, err := client.Data(t.Context(), Request{Target: "copy1", From: volumeSize + 1})
	if err == nil || !strings.Contains(err.Error(), http.StatusText(http.StatusBadRequest)) {
		t.Errorf("%v, want 400", err)
	}
	if from.opened.Load() != from.closed.Load() {
		t.Error("the source is still open")
	}
}

// anyCopy opens a source for every node and target whose name does not begin with "no".
func (s *served) anyCopy(ctx context.Context, _ string, r Request) (*opened, error) {
	if strings.HasPrefix(r.Target, "no") {
		return nil, ErrForbidden
	}
	r.Target = "copy1"
	return s.open(ctx, "node2", r)
}

// TestStreamsHaveShares: clients that do not read occupy streams. A node has two, and one for the data of a target; all
// have eight. A request without a copy occupies none, and does not need one.
func TestStreamsHaveShares(t *testing.T) {
	s := newSite(t)
	from := newServed()
	address, _ := start(t, s, from.anyCopy)
	agents := map[string]*agent{}
	agent := func(node string) *agent {
		if agents[node] == nil {
			agents[node] = &agent{node: "node1", address: address, credentials: s.agent(t, node)}
		}
		return agents[node]
	}
	entered := make(chan struct{})
	hold := make(chan struct{})
	from.read = func(int64) error {
		entered <- struct{}{}
		<-hold
		return context.Canceled
	}
	answers := make(chan error, maxStreams)
	occupy := func(node, target string) {
		client := agent(node)
		go func() {
			stream, err := client.Data(t.Context(), Request{Target: target})
			if err == nil {
				_, err = io.Copy(io.Discard, stream)
				_ = stream.Close()
			}
			answers <- err
		}()
		<-entered
	}
	refused := func(node, target, want string) {
		t.Helper()
		_, err := agent(node).Data(t.Context(), Request{Target: target})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s, %s: %v, want %q", node, target, err, want)
		}
	}
	occupy("node2", "a")
	refused("node2", "a", "already sends a/data to node node2")
	occupy("node2", "b")
	refused("node2", "c", "already sends 2 volumes to node node2")
	refused("node2", "none", "not permitted")
	for i := range maxStreams - 2 {
		refused("node3", "none", "not permitted")
		occupy(fmt.Sprint("node", 4+i/2), fmt.Sprint("of", i))
	}
	refused("node3", "d", "or 8 to all nodes")
	refused("node3", "none", "not permitted")
	close(hold)
	for range maxStreams {
		if err := <-answers; err == nil {
			t.Error("a stream that was cut off has no error")
		}
	}
	if err := stopped(from); err != nil {
		t.Error(err)
	}
}

// stopped returns an error unless each source that was opened is closed.
func stopped(from *served) error {
	if opened, closed := from.opened.Load(), from.closed.Load(); opened != closed {
		return fmt.Errorf("%d sources were opened, and %d closed", opened, closed)
	}
	return nil
}

// TestRequestsHaveARate: each of them reads from the API server. It is by node.
func TestRequestsHaveARate(t *testing.T) {
	s := newSite(t)
	asked := map[string]int{}
	server := newServer(Options{Credentials: s.agent(t, "node1"), Configure: func(*tls.Config) {}},
		func(_ context.Context, node string, _ Request) (*opened, error) {
			asked[node]++
			return nil, errors.New("the API server does not answer")
		})
	codes := map[int]int{}
	send := func(node string) int {
		request := httptest.NewRequest(http.MethodGet, "/v1/copies/x/data", http.NoBody)
		leaf := s.agent(t, node).current.Certificate.Leaf
		request.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
		answer := httptest.NewRecorder()
		server.handler().ServeHTTP(answer, request)
		return answer.Code
	}
	synctest.Test(t, func(t *testing.T) {
		for range 200 {
			codes[send("node2")]++
		}
		if codes[503] != requests.Burst || codes[429] != 200-requests.Burst || asked["node2"] != requests.Burst {
			t.Errorf("got %v, asked %v, want %d", codes, asked, requests.Burst)
		}
		if got := send("node3"); got != 503 {
			t.Errorf("another node got %d", got)
		}
		time.Sleep(requests.Interval)
		if first, second := send("node2"), send("node2"); first != 503 || second != 429 {
			t.Errorf("later: got %d and %d", first, second)
		}
	})
}

// slow is a client that takes some time for each write, as long as the deadline allows.
type slow struct {
	each     time.Duration
	deadline time.Time
	err      error
}

func (s *slow) SetWriteDeadline(at time.Time) error { s.deadline = at; return s.err }

func (s *slow) Write(p []byte) (int, error) {
	if end := time.Now().Add(s.each); end.After(s.deadline) {
		time.Sleep(time.Until(s.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(s.each)
	return len(p), nil
}

// TestAClientThatReadsSlowlyIsCutOff: also if it takes something each minute. The time in which the source is read does
// not count.
func TestAClientThatReadsSlowlyIsCutOff(t *testing.T) {
	piece := make([]byte, minThroughput)
	for name, tt := range map[string]struct {
		each, between time.Duration
		writes        int // until the client is cut off; 0: never
	}{
		"fast":               {each: time.Millisecond},
		"as fast as it must": {each: time.Second},
		"a slow source":      {each: time.Second, between: time.Hour},
		"slow":               {each: 2 * time.Second, writes: 60},
		"very slow":          {each: 50 * time.Second, writes: 2},
		"gone":               {each: 24 * time.Hour, writes: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := &slow{each: tt.each}
			w := newUnstalled(client, client)
			n := 1
			for ; n <= 500; n++ {
				if _, err := w.Write(piece); err != nil {
					break
				}
				time.Sleep(tt.between)
			}
			if want := tt.writes; want == 0 && n != 501 || want != 0 && n != want {
				t.Errorf("%s: cut off at write %d, want %d", name, n, want)
			}
		})
	}
	none := errors.New("the connection is closed")
	client := &slow{err: none}
	if _, err := newUnstalled(client, client).Write(piece); !errors.Is(err, none) {
		t.Errorf("no deadline: %v", err)
	}
}

// TestWhatWasSentIsNotTrustedBlindly: a client that is given another stream notices.
func TestWhatWasSentIsNotTrustedBlindly(t *testing.T) {
	s := newSite(t)
	from := newServed()
	address, _ := start(t, s, from.open)
	client := &agent{node: "node1", address: address, credentials: s.agent(t, "node2")}
	sums, err := client.Sums(t.Context(), Request{Target: "copy1"})
	if err != nil {
		t.Fatal(err)
	}
	m := &memoryDevice{content: slices.Clone(from.content)}
	m.content[9<<20] ^= 1
	if err := verify(t.Context(), sums, m, sums.Size, noProgress); !errors.Is(err, ErrDiffers) {
		t.Errorf("%v, want ErrDiffers", err)
	}
	// The source has sent all when the client has read the end.
	_, _ = io.Copy(io.Discard, sums)
	_ = sums.Close()
	if sums, err = client.Sums(t.Context(), Request{Target: "copy1"}); err != nil {
		t.Fatal(err)
	}
	if saved, err := receiveFrom(t, sums, m, 0); !errors.Is(err, errDamaged) || saved > 8<<20 {
		t.Errorf("sums as data: %v, want ErrDamaged", err)
	}
}

// baseSizes are the sizes of the bases by SOURCE-BASE.
var baseSizes = map[string]uint64{"s2-s1": volumeSize / 2}

// TestARequestNamesTheSnapshotsOfItsRound, for the data and the checksums.
func TestARequestNamesTheSnapshotsOfItsRound(t *testing.T) {
	s := newSite(t)
	address, _ := start(t, s, newServed().open)
	client := &agent{node: "node1", address: address, credentials: s.agent(t, "node2")}
	for _, get := range []func(context.Context, Request) (*Stream, error){client.Data, client.Sums} {
		for r, want := range map[Request]uint64{
			{Target: "copy1", Source: "s2", Base: "s1"}: volumeSize / 2,
			{Target: "copy1", Source: "s2"}:             0,
			{Target: "copy1"}:                           0,
		} {
			stream, err := get(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			// The source ends the stream, and with it its share, before the client has all of it.
			if _, err := io.Copy(io.Discard, stream); err != nil {
				t.Error(err)
			}
			if stream.BaseSize != want || stream.Size != volumeSize {
				t.Errorf("%+v: a base of %d bytes, want %d", r, stream.BaseSize, want)
			}
			if err := stream.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
