package supervisor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/uml"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/wire"
)

// busyLimit is how long a plain disk may be in use before that is an error.
const busyLimit = 2 * time.Second

// disk runs an operation on a disk of the node and returns the resulting disk.
func (n *node) disk(ctx context.Context, verb, name string, req spec.DiskRequest) (spec.Disk, error) {
	n.op.Lock()
	defer n.op.Unlock()
	if verb == spec.DiskInsert {
		return n.insertDisk(ctx, spec.Disk{Name: name, Kind: spec.KindPlain, Serial: req.Serial}, req.File)
	}
	if verb != spec.DiskTake && n.status().State != spec.NodeRunning {
		return spec.Disk{}, fmt.Errorf("node %s does not run", n.spec.Name)
	}
	if verb == spec.DiskAdd {
		return n.addDisk(ctx, spec.Disk{Name: name, Kind: req.Kind, Size: req.Size})
	}
	i := slices.IndexFunc(n.spec.Disks, func(d spec.Disk) bool { return d.Name == name })
	if i < 0 {
		return spec.Disk{}, fmt.Errorf("node %s has no disk %q", n.spec.Name, name)
	}
	d := n.spec.Disks[i]
	var err error
	switch {
	case verb == spec.DiskRemove:
		return d, n.removeDisk(ctx, d)
	case verb == spec.DiskTake:
		return d, n.takeDisk(ctx, d, req.File)
	case verb == spec.DiskGrow && d.Kind == spec.KindShared:
		err = fmt.Errorf("disk %s is shared, and cannot grow", name)
	case verb == spec.DiskGrow:
		d, err = n.growDisk(ctx, d, req.Size)
	case d.Kind != spec.KindSCSI:
		err = fmt.Errorf("disk %s is a %s disk: only %s disks can %s", name, d.Kind, spec.KindSCSI, verb)
	case verb == spec.DiskFail:
		_, err = n.call(ctx, wire.Request{Op: wire.OpSCSIFail, Disk: wire.DiskArgs{Name: name}})
	case verb == spec.DiskHeal:
		_, err = n.call(ctx, wire.Request{Op: wire.OpSCSIHeal, Disk: wire.DiskArgs{Name: name}})
	case verb == spec.DiskPull:
		_, err = n.call(ctx, wire.Request{Op: wire.OpSCSIOut, Disk: wire.DiskArgs{Name: name}})
	case verb == spec.DiskPut:
		return n.putSCSI(ctx, d)
	default:
		err = fmt.Errorf("no verb %q", verb)
	}
	if err == nil {
		n.keep(d)
	}
	return d, err
}

func (n *node) addDisk(ctx context.Context, d spec.Disk) (spec.Disk, error) {
	if slices.ContainsFunc(n.spec.Disks, func(o spec.Disk) bool { return o.Name == d.Name }) {
		return d, fmt.Errorf("node %s already has a disk %q", n.spec.Name, d.Name)
	}
	if d.Kind == spec.KindSCSI {
		return n.addSCSI(ctx, d)
	}
	if err := n.addFile(d); err != nil {
		return d, err
	}
	d = n.spec.Disks[len(n.spec.Disks)-1]
	return d, n.plug(ctx, d)
}

// addFile creates the file of a plain or shared disk. Another node may already have the file of a shared one.
func (n *node) addFile(d spec.Disk) error {
	d.Serial = n.serial(d)
	if err := n.keepFile(d); err != nil {
		return err
	}
	return sparse(n.diskFile(d), d.Size)
}

// keepFile records a plain or shared disk with the first free letter; b follows the root disk.
func (n *node) keepFile(d spec.Disk) error {
	for letter := 'b'; letter <= 'p'; letter++ {
		l := string(letter)
		if slices.ContainsFunc(n.spec.Disks, func(o spec.Disk) bool { return o.Letter == l }) {
			continue
		}
		d.Letter = l
		d.Device = "/dev/ubd" + l
		n.keep(d)
		return nil
	}
	return fmt.Errorf("node %s has %d plain disks, and cannot have more", n.spec.Name, spec.MaxDisks)
}

// plug attaches a plain or shared disk to a running node.
func (n *node) plug(ctx context.Context, d spec.Disk) error {
	args := wire.DiskArgs{Device: "ubd" + d.Letter, Serial: d.Serial, WWN: d.WWN()}
	if _, err := n.call(ctx, wire.Request{Op: wire.OpUbdAdd, Disk: args}); err != nil {
		return err
	}
	if _, err := uml.Console(spec.RunDir, n.spec.Name,
		"config "+uml.DiskArg(d.Letter, d.Kind == spec.KindShared, n.diskFile(d))); err != nil {
		return err
	}
	_, err := n.call(ctx, wire.Request{Op: wire.OpSettle, Disk: args})
	return err
}

// unplug detaches a plain or shared disk. udev may have it open for a moment after its last user has closed it.
func (n *node) unplug(ctx context.Context, d spec.Disk) error {
	begin := time.Now()
	for {
		_, err := uml.Console(spec.RunDir, n.spec.Name, "remove ubd"+d.Letter)
		if err == nil {
			return nil
		}
		if !errors.Is(err, uml.ErrBusy) || time.Since(begin) > busyLimit || ctx.Err() != nil {
			return fmt.Errorf("disk %s of node %s: %w", d.Name, n.spec.Name, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (n *node) addSCSI(ctx context.Context, d spec.Disk) (spec.Disk, error) {
	d.Serial = n.serial(d)
	device, err := n.call(ctx, wire.Request{Op: wire.OpSCSIAdd,
		Disk: wire.DiskArgs{Name: d.Name, Serial: d.Serial, Size: d.Size}})
	if err != nil {
		return d, err
	}
	d.Device = device
	n.keep(d)
	return d, nil
}

// putSCSI attaches a pulled disk again, and reads its new device name.
func (n *node) putSCSI(ctx context.Context, d spec.Disk) (spec.Disk, error) {
	if _, err := n.call(ctx, wire.Request{Op: wire.OpSCSIBack, Disk: wire.DiskArgs{Name: d.Name}}); err != nil {
		return d, err
	}
	if err := n.nameSCSI(ctx); err != nil {
		return d, err
	}
	i := slices.IndexFunc(n.spec.Disks, func(o spec.Disk) bool { return o.Name == d.Name })
	return n.spec.Disks[i], nil
}

// nameSCSI reads the device names of SCSI disks, which may change with a boot.
func (n *node) nameSCSI(ctx context.Context) error {
	text, err := n.call(ctx, wire.Request{Op: wire.OpSCSIList})
	if err != nil {
		return err
	}
	var devices map[string]string
	if err := json.Unmarshal([]byte(text), &devices); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, d := range n.spec.Disks {
		if device, ok := devices[d.Name]; ok {
			n.spec.Disks[i].Device = device
		}
	}
	return nil
}

func (n *node) removeDisk(ctx context.Context, d spec.Disk) error {
	if d.Kind == spec.KindSCSI {
		if _, err := n.call(ctx, wire.Request{Op: wire.OpSCSIPull, Disk: wire.DiskArgs{Name: d.Name}}); err != nil {
			return err
		}
	} else if err := n.unplug(ctx, d); err != nil {
		return err
	}
	n.forget(d)
	if d.Kind == spec.KindPlain {
		return os.Remove(n.diskFile(d))
	}
	return nil
}

// takeDisk takes a plain disk out of a node, and moves its file.
func (n *node) takeDisk(ctx context.Context, d spec.Disk, file string) error {
	if d.Kind != spec.KindPlain {
		return fmt.Errorf("disk %s is a %s disk: only %s disks can be taken out", d.Name, d.Kind, spec.KindPlain)
	}
	if _, err := os.Lstat(file); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("take out disk %s: %s must not exist: %w", d.Name, file, cmp.Or(err, os.ErrExist))
	}
	if n.status().State == spec.NodeRunning {
		if err := n.unplug(ctx, d); err != nil {
			return err
		}
	}
	// If the file cannot be moved, for example to another file system, a running node misses the disk until it
	// restarts.
	if err := os.Rename(n.diskFile(d), file); err != nil {
		return fmt.Errorf("take out disk %s: %w", d.Name, err)
	}
	n.forget(d)
	return nil
}

// insertDisk moves a file to a node, as a plain disk with its content.
func (n *node) insertDisk(ctx context.Context, d spec.Disk, file string) (spec.Disk, error) {
	if slices.ContainsFunc(n.spec.Disks, func(o spec.Disk) bool { return o.Name == d.Name }) {
		return d, fmt.Errorf("node %s already has a disk %q", n.spec.Name, d.Name)
	}
	info, err := os.Stat(file)
	if err != nil {
		return d, fmt.Errorf("insert disk %s: %w", d.Name, err)
	}
	d.Size = info.Size()
	if d.Serial == "" {
		d.Serial = n.serial(d)
	}
	if err := n.keepFile(d); err != nil {
		return d, err
	}
	d = n.spec.Disks[len(n.spec.Disks)-1]
	if err := os.Rename(file, n.diskFile(d)); err != nil {
		n.forget(d)
		return d, fmt.Errorf("insert disk %s: %w", d.Name, err)
	}
	if n.status().State != spec.NodeRunning {
		return d, nil
	}
	return d, n.plug(ctx, d)
}

// growDisk increases the size of a disk. A plain disk is detached for a moment, so it must not be in use.
func (n *node) growDisk(ctx context.Context, d spec.Disk, size int64) (spec.Disk, error) {
	if size <= d.Size {
		return d, fmt.Errorf("disk %s has %d bytes already: it can only grow", d.Name, d.Size)
	}
	if d.Kind == spec.KindSCSI {
		d.Size = size
		_, err := n.call(ctx, wire.Request{Op: wire.OpSCSIGrow, Disk: wire.DiskArgs{Name: d.Name, Size: size}})
		return d, err
	}
	if err := n.unplug(ctx, d); err != nil {
		return d, err
	}
	d.Size = size
	if err := sparse(n.diskFile(d), size); err != nil {
		return d, err
	}
	return d, n.plug(ctx, d)
}

// keep records a disk.
func (n *node) keep(d spec.Disk) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.IndexFunc(n.spec.Disks, func(o spec.Disk) bool { return o.Name == d.Name }); i >= 0 {
		n.spec.Disks[i] = d
		return
	}
	n.spec.Disks = append(n.spec.Disks, d)
}

// forget removes a disk from the record.
func (n *node) forget(d spec.Disk) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spec.Disks = slices.DeleteFunc(n.spec.Disks, func(o spec.Disk) bool { return o.Name == d.Name })
}

// serial returns a disk's serial number. It is hexadecimal, because the kernel derives the WWN of a SCSI disk from its
// digits.
func (n *node) serial(d spec.Disk) string {
	owner := n.spec.Name
	if d.Kind == spec.KindShared {
		owner = spec.KindShared
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{n.lab.Name, owner, d.Name}, "/")))
	return fmt.Sprintf("%x", sum[:8])
}
