package limit

import (
	"context"
	"fmt"
	"net"
	"time"

	"golang.org/x/time/rate"
)

const (
	// reportInterval is the minimum time between two reports of refused connections.
	reportInterval = time.Minute
	// maxPeers is the maximum number of peers whose rates are remembered.
	maxPeers = 4096
)

// newConnections limits the TLS handshakes that a peer can cause. It is far more than what the clients of LVMS need:
// they keep connections, or open one for each volume.
var newConnections = Rate{Interval: 20 * time.Millisecond, Burst: 100}

// Connections limit the connections of a server before TLS. One that is over a limit is closed at once.
type Connections struct {
	// All is the maximum number of all peers, Peer that of one peer.
	All, Peer int
	// Report is called for refused connections, at most once a minute. It may be nil.
	Report func(err error)
}

// Listen listens on a TCP address.
func Listen(ctx context.Context, address string, c Connections) (net.Listener, error) {
	inner, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return Listener(inner, c), nil
}

// Listener limits the connections of a listener.
func Listener(inner net.Listener, c Connections) net.Listener {
	return &listener{Listener: inner, Connections: c, shares: NewShares(c.All, c.Peer),
		rates: NewRates(newConnections, maxPeers), reports: rate.Sometimes{First: 1, Interval: reportInterval}}
}

type listener struct {
	net.Listener
	Connections
	shares  *Shares
	rates   *Rates
	reports rate.Sometimes
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, err := l.admit(Peer(accepted.RemoteAddr().String()))
		if err == nil {
			return &connection{Conn: accepted, leave: leave}, nil
		}
		refuse(accepted)
		if l.Report != nil {
			l.reports.Do(func() { l.Report(err) })
		}
	}
}

func (l *listener) admit(peer string) (leave func(), err error) {
	leave, err = l.shares.Try(peer)
	if err != nil {
		return nil, fmt.Errorf("refuse a connection of %s: %w", peer, err)
	}
	if !l.rates.Allow(peer) {
		leave()
		return nil, fmt.Errorf("refuse a connection of %s: %w: it opens more than %d connections a second", peer,
			ErrTooMany, time.Second/newConnections.Interval)
	}
	return leave, nil
}

// refuse closes a connection without waiting for the peer.
func refuse(accepted net.Conn) {
	if tcp, is := accepted.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = accepted.Close()
}

// connection gives its slot back when it is closed.
type connection struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
