package state

import (
	"slices"
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
	Seen   []PeerDisk
	// Partial has, for each node whose list may omit disks, how many entries it omits.
	Partial map[string]int32
}

// PeerDisk is a disk in the node status of another node.
type PeerDisk struct {
	wwn.Disk
	Node string
	// Device is the name of the device there, and Group its volume group or "".
	Device, Group string
	// Stale is when the node agent last observed its node, if that is too long ago, or nil.
	Stale *time.Time
}

// NewPeers returns Peers of a node with these devices, whose node status is own.
func NewPeers(devices []device.Device, own *v1alpha1.LVMVolumeGroupNodeStatus) *Peers {
	p := &Peers{keys: map[string]bool{}, Partial: map[string]int32{}}
	for _, d := range devices {
		for _, disk := range DisksBelow(devices, d) {
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
		p.Partial[status.Name] = status.Status.DevicesOmitted
	}
	for i := range status.Status.Devices {
		d := &status.Status.Devices[i]
		disk := listedDisk(d)
		if d.State != v1alpha1.DeviceMissing && p.keys[wwn.Key(disk.WWN)] {
			p.Seen = append(p.Seen, PeerDisk{Disk: disk, Node: status.Name, Device: d.Name, Group: d.VolumeGroup,
				Stale: stale})
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

// DisksBelow returns the disks with a WWN that a device is, or is built on: that of a partition, the paths of a
// multipath device, and the members of an array.
func DisksBelow(devices []device.Device, d device.Device) []wwn.Disk {
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

// Lists returns true if the node status of this node Lists the disks.
func (p *Peers) Lists(disks []wwn.Disk) bool {
	for _, disk := range disks {
		listed := func(o wwn.Disk) bool { return wwn.Key(o.WWN) == wwn.Key(disk.WWN) }
		if !slices.ContainsFunc(p.listed, listed) {
			return false
		}
	}
	return true
}
