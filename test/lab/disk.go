package lab

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// Disk is a data disk of a node.
type Disk struct {
	Name string
	Kind Kind
	Size int64
	// Device is its path on the node, for example /dev/ubdb or /dev/sda. That of a SCSI disk may change after a
	// restart.
	Device string
	// Serial is its serial number, as shown by udev and lsblk on the node.
	Serial string
	// WWN is the WWN of a shared disk, as shown by udev and lsblk.
	WWN string
}

func diskOf(d spec.Disk) Disk {
	return Disk{Name: d.Name, Kind: Kind(d.Kind), Size: d.Size, Device: d.Device, Serial: d.Serial, WWN: d.WWN()}
}

// Disks returns the node's data disks.
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

// AddDisk adds a new, empty disk to the running node and returns when the kernel has it; udev may need a moment more
// for a plain one. To pull a disk or make it fail while it is in use, request the kind SCSI.
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

// AddSCSIDisks adds count SCSI disks of sizeMB MiB each, called scsi1, scsi2, …, with the first unused numbers.
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

// RemoveDisk removes a disk and its content. A SCSI disk may be in use; for a plain disk in use it returns ErrDiskBusy.
func (n *Node) RemoveDisk(ctx context.Context, name string) error {
	_, err := n.disk(ctx, name, spec.DiskRemove, spec.DiskRequest{})
	return err
}

// GrowDisk increases the size of a disk and keeps its content. A SCSI disk may be in use. A plain disk is removed for a
// moment; if it is in use, GrowDisk returns ErrDiskBusy.
func (n *Node) GrowDisk(ctx context.Context, name string, size int64) (Disk, error) {
	return n.disk(ctx, name, spec.DiskGrow, spec.DiskRequest{Size: size})
}

// FailDisk makes every read and write of a SCSI disk fail with an I/O error, until HealDisk or a restart of the node.
// It returns an error for a plain disk.
func (n *Node) FailDisk(ctx context.Context, name string) error {
	_, err := n.disk(ctx, name, spec.DiskFail, spec.DiskRequest{})
	return err
}

// HealDisk undoes FailDisk.
func (n *Node) HealDisk(ctx context.Context, name string) error {
	_, err := n.disk(ctx, name, spec.DiskHeal, spec.DiskRequest{})
	return err
}

// PullDisk removes a SCSI disk, even if it is in use, until PutDisk or a restart of the node: like a disk that is
// pulled, or a shelf that is reset. It returns an error for a plain disk.
func (n *Node) PullDisk(ctx context.Context, name string) error {
	_, err := n.disk(ctx, name, spec.DiskPull, spec.DiskRequest{})
	return err
}

// PutDisk attaches a pulled disk again with its content, and returns when the kernel has it. Its device name may have
// changed.
func (n *Node) PutDisk(ctx context.Context, name string) (Disk, error) {
	return n.disk(ctx, name, spec.DiskPut, spec.DiskRequest{})
}

// TakeDisk takes a plain disk out of the node, and moves its content to a new file, from where InsertDisk inserts it in
// a node of this or another lab. If the node runs, nothing may use the disk, or TakeDisk returns ErrDiskBusy. The file
// must be on the file system of the lab's state directory.
func (n *Node) TakeDisk(ctx context.Context, name, file string) (Disk, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return Disk{}, err
	}
	return n.disk(ctx, name, spec.DiskTake, spec.DiskRequest{File: file})
}

// InsertDisk inserts a disk that was taken out of a node, with its content and its serial number. The node may be off.
// The disk has the name in d, which must be unused on the node. If d has no serial number, it gets a new one. Its
// device is the first unused one. The file is moved, so it must be on the file system of the lab's state directory.
func (n *Node) InsertDisk(ctx context.Context, d Disk, file string) (Disk, error) {
	if !validName.MatchString(d.Name) {
		return Disk{}, fmt.Errorf("disk %q: a name has to be like disk-1", d.Name)
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return Disk{}, err
	}
	return n.disk(ctx, d.Name, spec.DiskInsert, spec.DiskRequest{File: file, Serial: d.Serial})
}

func (n *Node) disk(ctx context.Context, name, verb string, req spec.DiskRequest) (Disk, error) {
	var d spec.Disk
	err := n.lab.ask(ctx, http.MethodPost, "/nodes/"+n.spec.Name+"/disks/"+name+"/"+verb, req, &d)
	return diskOf(d), err
}
