package lab

import (
	"context"
	"fmt"
	"net/http"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// Disk is a data disk of a node.
type Disk struct {
	Name string
	Kind Kind
	Size int64
	// Device is its path on the node, for example /dev/ubdb or /dev/sda. That of a SCSI disk may be another one after a
	// restart.
	Device string
	// Serial is its serial number, as udev and lsblk on the node show it.
	Serial string
}

func diskOf(d spec.Disk) Disk {
	return Disk{Name: d.Name, Kind: Kind(d.Kind), Size: d.Size, Device: d.Device, Serial: d.Serial}
}

// Disks are the node's data disks.
func (n *Node) Disks(ctx context.Context) ([]Disk, error) {
	status, err := n.statusOf(ctx)
	if err != nil {
		return nil, err
	}
	var disks []Disk
	for _, d := range status.Disks {
		disks = append(disks, diskOf(d))
	}
	return disks, nil
}

// AddDisk gives the running node a new, empty disk and returns when the kernel has it; udev may need a moment more for
// a plain one. A test that wants a disk to pull or to fail while it is used asks for one of kind SCSI.
func (n *Node) AddDisk(ctx context.Context, d DiskSpec) (Disk, error) {
	flavor, err := FindFlavor(n.lab.spec.Flavor.Name)
	if err != nil {
		return Disk{}, err
	}
	d = withDefaults([]DiskSpec{d}, flavor.kind)[0]
	if err := d.validate(); err != nil {
		return Disk{}, err
	}
	return n.disk(ctx, d.Name, spec.DiskAdd, spec.DiskRequest{Kind: string(d.Kind), Size: d.Size})
}

// AddSCSIDisks adds count SCSI disks of sizeMB MiB each, called scsi1, scsi2, …: the first numbers that are free.
func (n *Node) AddSCSIDisks(ctx context.Context, count int, sizeMB int64) ([]Disk, error) {
	have, err := n.Disks(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, d := range have {
		taken[d.Name] = true
	}
	var added []Disk
	for i := 1; len(added) < count; i++ {
		name := fmt.Sprintf("scsi%d", i)
		if taken[name] {
			continue
		}
		d, err := n.AddDisk(ctx, DiskSpec{Name: name, Kind: SCSI, Size: sizeMB * MiB})
		if err != nil {
			return added, err
		}
		added = append(added, d)
	}
	return added, nil
}

// RemoveDisk takes a disk away, and what was on it is gone. A SCSI disk is pulled from under whatever uses it; a plain
// disk in use gives ErrDiskBusy.
func (n *Node) RemoveDisk(ctx context.Context, name string) error {
	_, err := n.disk(ctx, name, spec.DiskRemove, spec.DiskRequest{})
	return err
}

// GrowDisk makes a disk bigger and keeps what is on it. A SCSI disk may be in use; a plain one goes away for a moment,
// and gives ErrDiskBusy when it is in use.
func (n *Node) GrowDisk(ctx context.Context, name string, size int64) (Disk, error) {
	return n.disk(ctx, name, spec.DiskGrow, spec.DiskRequest{Size: size})
}

// FailDisk makes every read and write of a SCSI disk fail with an I/O error, until HealDisk or a restart of the node.
// It is an error for a plain disk.
func (n *Node) FailDisk(ctx context.Context, name string) error {
	_, err := n.disk(ctx, name, spec.DiskFail, spec.DiskRequest{})
	return err
}

// HealDisk undoes FailDisk.
func (n *Node) HealDisk(ctx context.Context, name string) error {
	_, err := n.disk(ctx, name, spec.DiskHeal, spec.DiskRequest{})
	return err
}

// PullDisk takes a SCSI disk from under whatever uses it, until PutDisk or a restart of the node: as a disk that is
// pulled, or a shelf that is reset. It is an error for a plain disk.
func (n *Node) PullDisk(ctx context.Context, name string) error {
	_, err := n.disk(ctx, name, spec.DiskPull, spec.DiskRequest{})
	return err
}

// PutDisk puts a pulled disk back with what is on it. Its device may have another name then. It returns when the kernel
// has it.
func (n *Node) PutDisk(ctx context.Context, name string) (Disk, error) {
	return n.disk(ctx, name, spec.DiskPut, spec.DiskRequest{})
}

func (n *Node) disk(ctx context.Context, name, verb string, req spec.DiskRequest) (Disk, error) {
	var d spec.Disk
	err := n.lab.ask(ctx, http.MethodPost, "/nodes/"+n.spec.Name+"/disks/"+name+"/"+verb, req, &d)
	return diskOf(d), err
}
