package selection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/internal/cluster/wwn"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// NeedsPeers returns true if an action takes a disk that another node may see.
func NeedsPeers(s state.NodeState, a state.Action) bool {
	return slices.ContainsFunc(a.Taken(), func(d device.Device) bool { return len(state.DisksBelow(s.Devices, d)) > 0 })
}

// CheckPeers returns an error unless no other node sees the devices, according to node statuses that were read in this
// reconcile. A disk without a WWN cannot be compared.
func CheckPeers(desired state.Desired, s state.NodeState, devices ...device.Device) error {
	for _, d := range devices {
		if len(state.DisksBelow(s.Devices, d)) == 0 {
			continue
		}
		if s.Disks.Peers == nil || !s.Disks.Peers.Lists(state.DisksBelow(s.Devices, d)) {
			return fmt.Errorf("device %s of node %s is not used yet: it was not compared with the disks of other "+
				"nodes in this reconcile; the next one compares it", d.Name, desired.Node)
		}
		if reasons := sharedWith(s, d); len(reasons) > 0 {
			return fmt.Errorf("device %s of node %s is not used: it %s", d.Name, desired.Node, device.Messages(reasons))
		}
	}
	return nil
}

// sharedWith returns the reasons against a device that other nodes see, or may see. It returns none if the node
// statuses were not read.
func sharedWith(s state.NodeState, d device.Device) []device.Reason {
	if s.Disks.Peers == nil {
		return nil
	}
	disks := state.DisksBelow(s.Devices, d)
	var seen []state.PeerDisk
	for _, o := range s.Disks.Peers.Seen {
		if slices.ContainsFunc(disks, func(disk wwn.Disk) bool { return wwn.Same(disk, o.Disk) }) {
			seen = append(seen, o)
		}
	}
	if len(seen) > 0 {
		return []device.Reason{{Code: device.SharedWithNode, Message: describePeers(disks[0].WWN, seen)}}
	}
	if len(disks) > 0 && len(s.Disks.Peers.Partial) > 0 {
		var nodes []string
		for node, omitted := range s.Disks.Peers.Partial {
			nodes = append(nodes, fmt.Sprintf("%s (%d)", node, omitted))
		}
		slices.Sort(nodes)
		return []device.Reason{{Code: device.SharedWithNode, Message: fmt.Sprintf("may also be attached to another "+
			"node: the lists of devices of these nodes omit some, because there are too many: %s; detach devices that "+
			"these nodes do not need", state.Joined(nodes))}}
	}
	return nil
}

// describePeers describes the nodes that also see a disk, and what to do.
func describePeers(name string, seen []state.PeerDisk) string {
	var places, stale []string
	for _, o := range seen {
		place := fmt.Sprintf("%s (%s", o.Node, o.Device)
		if o.Group != "" {
			place += " in volume group " + o.Group
		}
		if place += ")"; !slices.Contains(places, place) {
			places = append(places, place)
		}
		if o.Stale != nil {
			stale = append(stale, fmt.Sprintf("%s has not reported its devices since %s", o.Node,
				o.Stale.UTC().Format("2006-01-02 15:04:05 UTC")))
		}
	}
	slices.Sort(places)
	slices.Sort(stale)
	message := fmt.Sprintf("is also attached to other nodes, which list a disk with the same WWN %s: %s. Two nodes "+
		"that use one disk destroy its data, so none takes it: present the disk to one node only (zoning, LUN "+
		"masking); if these are different disks with the same WWN, give each its own", name, state.Joined(places))
	if len(stale) > 0 {
		message += fmt.Sprintf(". %s: if the disk was moved here and that machine never returns with it, delete its "+
			"Node object", state.Joined(slices.Compact(stale)))
	}
	return message
}

// awaitListing takes back what the node would use, while its own node status does not list it: other nodes cannot see
// yet that this node has it.
func (c *Choice) awaitListing(s state.NodeState) {
	if s.Disks.Peers == nil {
		return
	}
	isUnlisted := func(d device.Device) bool { return !s.Disks.Peers.Lists(state.DisksBelow(s.Devices, d)) }
	c.Candidates = slices.DeleteFunc(c.Candidates, func(d device.Device) bool {
		if isUnlisted(d) {
			c.Unlisted = append(c.Unlisted, d.Name)
		}
		return isUnlisted(d)
	})
	for _, t := range c.Wipes {
		if isUnlisted(t.Device) {
			c.Unlisted = append(c.Unlisted, t.Path)
		}
	}
	if len(c.Unlisted) > 0 {
		c.Wipes = nil // a volume group is wiped from all its devices
		c.Waiting = true
	}
}

// WaitForListing is the note of a node whose devices are not in its node status yet.
func WaitForListing(d state.Desired, c Choice) string {
	return fmt.Sprintf("waiting until the node status of node %s lists %s, so that no other node takes the same disk",
		d.Node, strings.Join(state.Shorten(c.Unlisted), ", "))
}
