package guest

import (
	"net"
	"os"

	"github.com/vishvananda/netlink"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// network configures the node's address. The lab's bridge leads to everything else, including Pods of other nodes.
func (m *machine) network() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	nic, err := netlink.LinkByName("vec0")
	if err != nil {
		return err
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(m.Node.IP()), Mask: net.CIDRMask(24, 32)}}
	if err := netlink.AddrAdd(nic, addr); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(nic); err != nil {
		return err
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: nic.Attrs().Index, Gw: net.ParseIP(spec.HostIP)}); err != nil {
		return err
	}
	if m.Bare {
		return nil
	}
	for _, path := range []string{"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/bridge/bridge-nf-call-iptables"} {
		if err := os.WriteFile(path, []byte("1"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
