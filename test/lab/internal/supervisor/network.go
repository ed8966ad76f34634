package supervisor

import (
	"net"
	"os"

	"github.com/vishvananda/netlink"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// network creates the lab's bridge, which is also the nodes' router, and a tap device for every node.
func (s *supervisor) network() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "lab0"}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return err
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(spec.HostIP), Mask: net.CIDRMask(24, 32)}}
	if err := netlink.AddrAdd(bridge, addr); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return err
	}
	settings := map[string]string{
		"/proc/sys/net/ipv4/ip_forward":                  "1",
		"/proc/sys/net/ipv4/conf/all/send_redirects":     "0",
		"/proc/sys/net/ipv4/conf/default/send_redirects": "0",
		"/proc/sys/net/ipv4/conf/lab0/send_redirects":    "0",
	}
	for path, value := range settings {
		if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
			return err
		}
	}
	for _, n := range s.Nodes {
		if err := addTap(bridge, n); err != nil {
			return err
		}
	}
	return nil
}

func tapName(n spec.Node) string { return "tap-" + n.Name }

func addTap(bridge netlink.Link, n spec.Node) error {
	tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: tapName(n)}, Mode: netlink.TUNTAP_MODE_TAP,
		Flags: netlink.TUNTAP_DEFAULTS | netlink.TUNTAP_VNET_HDR}
	if err := netlink.LinkAdd(tap); err != nil {
		return err
	}
	if err := netlink.LinkSetMaster(tap, bridge); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(tap); err != nil {
		return err
	}
	_, pods, err := net.ParseCIDR(n.PodCIDR())
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: bridge.Attrs().Index, Dst: pods, Gw: net.ParseIP(n.IP())})
}
