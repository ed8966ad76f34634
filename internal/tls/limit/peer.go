// Package limit bounds what clients cost that nobody has authorized yet. Every server that other Pods can reach uses
// it: Listen bounds connections, Rates events, Shares what is in progress, and Reviews what the API server must decide.
// All count by peer, so that one peer cannot take what others need, and use bounded memory.
package limit

import (
	"errors"
	"net/netip"
)

// ErrTooMany is wrapped by all refusals. They go away by themselves: the client tries again later.
var ErrTooMany = errors.New("too many requests")

// Peer returns the IP address of a remote address, which identifies a Pod or a node. It is the whole IPv6 address: the
// Pods of a node often share a /64, and CNI plugins do not let a Pod send from another address.
func Peer(remote string) string {
	if at, err := netip.ParseAddrPort(remote); err == nil {
		return at.Addr().Unmap().WithZone("").String()
	}
	return remote
}
