package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/cluster/wwn"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
)

// Peers is what the node statuses list about the disks of this node, read right before the node takes devices that it
// did not use before.
//
// A disk that several nodes see is taken by none of them. There is no lock between the nodes, so the order matters: a
// node takes a disk only if its own node status already listed the disk when it began to read those of the others. If
// two nodes did this for the same disk, the one that was listed later would have read the entry of the other.
type Peers struct {
	// keys are the WWNs of the devices of this node, in the form of wwn.Key.
	keys map[string]bool
	// listed are the disks that the node status of this node lists, and seen those of other nodes with one of the keys.
	listed []wwn.Disk
	seen   []peerDisk
	// partial has, for each node whose list may omit disks, how many entries it omits.
	partial map[string]int32
}

// peerDisk is a disk in the node status of another node.
type peerDisk struct {
	wwn.Disk
	node string
	// device is the name of the device there, and group its volume group or "".
	device, group string
	// stale is when the node agent last observed its node, if that is too long ago, or nil.
	stale *time.Time
}

// NewPeers returns Peers of a node with these devices, whose node status is own.
func NewPeers(devices []device.Device, own *v1alpha1.LVMVolumeGroupNodeStatus) *Peers {
	p := &Peers{keys: map[string]bool{}, partial: map[string]int32{}}
	for _, d := range devices {
		for _, disk := range disksBelow(devices, d) {
			p.keys[wwn.Key(disk.WWN)] = true
		}
	}
	for i := range own.Status.Devices {
		d := &own.Status.Devices[i]
		if disk := listedDisk(d); d.State != v1alpha1.DeviceMissing && p.keys[wwn.Key(disk.WWN)] {
			p.listed = append(p.listed, disk)
		}
	}
	return p
}

// Add adds the node status of another node. Entries of missing devices do not count: they are not attached there.
func (p *Peers) Add(status *v1alpha1.LVMVolumeGroupNodeStatus, now time.Time) {
	var stale *time.Time
	if status.Status.IsStale(now) {
		stale = &status.Status.LastObserved.Time
	}
	if omitsDisks(&status.Status) {
		p.partial[status.Name] = status.Status.DevicesOmitted
	}
	for i := range status.Status.Devices {
		d := &status.Status.Devices[i]
		disk := listedDisk(d)
		if d.State != v1alpha1.DeviceMissing && p.keys[wwn.Key(disk.WWN)] {
			p.seen = append(p.seen, peerDisk{Disk: disk, node: status.Name, device: d.Name, group: d.VolumeGroup,
				stale: stale})
		}
	}
}

// listedDisk returns the disk of an entry in a node status. A long list has no WWNs, but identities.
func listedDisk(d *v1alpha1.DeviceStatus) wwn.Disk {
	disk := wwn.Disk{WWN: d.WWN, Serial: d.Serial, Transport: d.Transport}
	if wwn.Key(disk.WWN) == "" {
		disk.WWN = wwn.OfIdentity(d.ID)
	}
	return disk
}

// OmittedFirst returns true for a device that a list that is too long omits before it omits any disk: one that is
// neither a disk nor a multipath device, and that cannot be used.
func OmittedFirst(d *v1alpha1.DeviceStatus) bool {
	return d.Type != "disk" && d.Type != "mpath" &&
		(d.State == v1alpha1.DeviceInUse || d.State == v1alpha1.DeviceExcluded) &&
		!slices.ContainsFunc(d.Eligibility, func(e v1alpha1.DeviceEligibility) bool { return e.Eligible })
}

// omitsDisks returns true if the list of devices of a node may omit disks.
func omitsDisks(status *v1alpha1.LVMVolumeGroupNodeStatusStatus) bool {
	first := func(d v1alpha1.DeviceStatus) bool { return OmittedFirst(&d) }
	return status.DevicesOmitted > 0 && !slices.ContainsFunc(status.Devices, first)
}

// disksBelow returns the disks with a WWN that a device is, or is built on: that of a partition, the paths of a
// multipath device, and the members of an array.
func disksBelow(devices []device.Device, d device.Device) []wwn.Disk {
	var disks []wwn.Disk
	below := []device.Device{d}
	for i := 0; i < len(below); i++ {
		b := below[i]
		name := b.WWN
		if wwn.Key(name) == "" {
			name = wwn.OfIdentity(b.Identity())
		}
		if wwn.Key(name) != "" {
			disks = append(disks, wwn.Disk{WWN: name, Serial: b.Serial, Transport: b.Transport})
		}
		for _, o := range devices {
			holds := func(c device.Child) bool { return c.Name == b.Name }
			known := func(k device.Device) bool { return k.Number == o.Number }
			if slices.ContainsFunc(o.Children, holds) && !slices.ContainsFunc(below, known) {
				below = append(below, o)
			}
		}
	}
	return disks
}

// NeedsPeers returns true if an action takes a disk that another node may see.
func NeedsPeers(s NodeState, a Action) bool {
	return slices.ContainsFunc(a.taken(), func(d device.Device) bool { return len(disksBelow(s.Devices, d)) > 0 })
}

// taken returns the devices that an action takes, and to which it writes without regard to what other nodes wrote.
func (a Action) taken() []device.Device {
	switch a.Kind {
	case CreateVG, ExtendVG:
		return a.Devices
	case WipeDevice, DeactivateVG:
		return []device.Device{a.Wipe.Device}
	}
	return nil
}

// CheckPeers returns an error unless no other node sees the devices, according to node statuses that were read in this
// reconcile. A disk without a WWN cannot be compared.
func CheckPeers(w Desired, s NodeState, devices ...device.Device) error {
	for _, d := range devices {
		if len(disksBelow(s.Devices, d)) == 0 {
			continue
		}
		if s.Peers == nil || !s.Peers.lists(disksBelow(s.Devices, d)) {
			return fmt.Errorf("device %s of node %s is not used yet: it was not compared with the disks of other "+
				"nodes in this reconcile; the next one compares it", d.Name, w.Node)
		}
		if reasons := sharedWith(s, d); len(reasons) > 0 {
			return fmt.Errorf("device %s of node %s is not used: it %s", d.Name, w.Node, device.Messages(reasons))
		}
	}
	return nil
}

// sharedWith returns the reasons against a device that other nodes see, or may see. It returns none if the node
// statuses were not read.
func sharedWith(s NodeState, d device.Device) []device.Reason {
	if s.Peers == nil {
		return nil
	}
	disks := disksBelow(s.Devices, d)
	var seen []peerDisk
	for _, o := range s.Peers.seen {
		if slices.ContainsFunc(disks, func(disk wwn.Disk) bool { return wwn.Same(disk, o.Disk) }) {
			seen = append(seen, o)
		}
	}
	if len(seen) > 0 {
		return []device.Reason{{Code: device.SharedWithNode, Message: describePeers(disks[0].WWN, seen)}}
	}
	if len(disks) > 0 && len(s.Peers.partial) > 0 {
		var nodes []string
		for node, omitted := range s.Peers.partial {
			nodes = append(nodes, fmt.Sprintf("%s (%d)", node, omitted))
		}
		slices.Sort(nodes)
		return []device.Reason{{Code: device.SharedWithNode, Message: fmt.Sprintf("may also be attached to another "+
			"node: the lists of devices of these nodes omit some, because there are too many: %s; detach devices that "+
			"these nodes do not need", joined(nodes))}}
	}
	return nil
}

// describePeers describes the nodes that also see a disk, and what to do.
func describePeers(name string, seen []peerDisk) string {
	var places, stale []string
	for _, o := range seen {
		place := fmt.Sprintf("%s (%s", o.node, o.device)
		if o.group != "" {
			place += " in volume group " + o.group
		}
		if place += ")"; !slices.Contains(places, place) {
			places = append(places, place)
		}
		if o.stale != nil {
			stale = append(stale, fmt.Sprintf("%s has not reported its devices since %s", o.node,
				o.stale.UTC().Format("2006-01-02 15:04:05 UTC")))
		}
	}
	slices.Sort(places)
	slices.Sort(stale)
	message := fmt.Sprintf("is also attached to other nodes, which list a disk with the same WWN %s: %s. Two nodes "+
		"that use one disk destroy its data, so none takes it: present the disk to one node only (zoning, LUN "+
		"masking); if these are different disks with the same WWN, give each its own", name, joined(places))
	if len(stale) > 0 {
		message += fmt.Sprintf(". %s: if the disk was moved here and that machine never returns with it, delete its "+
			"Node object", joined(slices.Compact(stale)))
	}
	return message
}

// lists returns true if the node status of this node lists the disks.
func (p *Peers) lists(disks []wwn.Disk) bool {
	for _, disk := range disks {
		listed := func(o wwn.Disk) bool { return wwn.Key(o.WWN) == wwn.Key(disk.WWN) }
		if !slices.ContainsFunc(p.listed, listed) {
			return false
		}
	}
	return true
}

// awaitListing takes back what the node would use, while its own node status does not list it: other nodes cannot see
// yet that this node has it.
func (c *choice) awaitListing(s NodeState) {
	if s.Peers == nil {
		return
	}
	isUnlisted := func(d device.Device) bool { return !s.Peers.lists(disksBelow(s.Devices, d)) }
	c.candidates = slices.DeleteFunc(c.candidates, func(d device.Device) bool {
		if isUnlisted(d) {
			c.unlisted = append(c.unlisted, d.Name)
		}
		return isUnlisted(d)
	})
	for _, t := range c.wipes {
		if isUnlisted(t.Device) {
			c.unlisted = append(c.unlisted, t.Path)
		}
	}
	if len(c.unlisted) > 0 {
		c.wipes = nil // a volume group is wiped from all its devices
		c.waiting = true
	}
}

// waitForListing is the note of a node whose devices are not in its node status yet.
func waitForListing(w Desired, c choice) string {
	return fmt.Sprintf("waiting until the node status of node %s lists %s, so that no other node takes the same disk",
		w.Node, strings.Join(shorten(c.unlisted), ", "))
}
