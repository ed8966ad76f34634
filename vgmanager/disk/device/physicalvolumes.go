package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/ondisk"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

// pvStart is the label of a physical volume, and where the metadata of its volume group is.
type pvStart struct {
	uuid      string
	locations []ondisk.Location
}

// ReadPhysicalVolumes reads the labels and the metadata of a volume group from its devices, past all caches, and
// without a process. It returns an error if a device does not respond within 15 s or has no label, if anything is
// damaged, if no device has the metadata, or if it is not the same on all devices that have it.
func (n *Node) ReadPhysicalVolumes(ctx context.Context, devices []ondisk.Device) (ondisk.Group, error) {
	starts := make([]pvStart, len(devices))
	errs := make([]error, len(devices))
	var all sync.WaitGroup
	for i, d := range devices {
		all.Go(func() { starts[i], errs[i] = readBounded(ctx, n, d, readStart) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return ondisk.Group{}, err
	}
	var found ondisk.Group
	var at []ondisk.Location
	var first ondisk.Device
	for i, start := range starts {
		found.UUIDs = append(found.UUIDs, start.uuid)
		if len(at) == 0 && len(start.locations) > 0 {
			first = devices[i]
		}
		at = append(at, start.locations...)
	}
	if len(at) == 0 {
		return ondisk.Group{}, errors.New("no device has the metadata of the volume group")
	}
	if slices.ContainsFunc(at, func(l ondisk.Location) bool {
		return l.Size != at[0].Size || l.Checksum != at[0].Checksum
	}) {
		return ondisk.Group{}, errors.New("the devices have different metadata of the volume group")
	}
	var err error
	found.Metadata, err = readBounded(ctx, n, first,
		func(r io.ReaderAt) ([]byte, error) { return ondisk.ReadText(r, at[0]) })
	return found, err
}

func readStart(r io.ReaderAt) (pvStart, error) {
	label, err := ondisk.ReadLabel(r)
	if err != nil {
		return pvStart{}, err
	}
	start := pvStart{uuid: label.UUID}
	for _, area := range label.Areas {
		location, ok, err := ondisk.ReadLocation(r, area)
		if err != nil {
			return pvStart{}, err
		}
		if ok {
			start.locations = append(start.locations, location)
		}
	}
	return start, nil
}

// readBounded reads from a device. A read that the kernel does not complete delays the caller by at most 15 s, and is
// not started a second time meanwhile.
func readBounded[T any](ctx context.Context, n *Node, device ondisk.Device,
	read func(io.ReaderAt) (T, error)) (T, error) {
	d := Beat{Number: Number(device.Number), Path: device.Path}
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := n.pulse.state(d); err != nil {
		return none, fmt.Errorf("device %s: %w", d.Path, err)
	}
	got, err := bounded.Do(ctx, n.labels, string(d.Number), func(context.Context) answer {
		f, err := openDirect(d)
		if err != nil {
			return answer{err: err}
		}
		defer func() { _ = f.Close() }()
		value, err := read(directReader{f})
		return answer{value, err}
	})
	if err == nil {
		err = got.err
	}
	if err != nil {
		return none, fmt.Errorf("device %s: %w", d.Path, err)
	}
	return got.value, nil
}

// openDirect opens a device for reads past the page cache. It returns an error if the path is another device.
func openDirect(d Beat) (*os.File, error) {
	// O_EXCL is not used, because LVM has the device open. O_NONBLOCK is for drives without a medium.
	f, err := os.OpenFile(d.Path, os.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot be opened: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		if number, ok := numberOf(info); !ok || number != d.Number {
			err = fmt.Errorf("was removed: its name %s now belongs to another device", d.Path)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// directReader reads from a device that is open for direct I/O, which requires whole blocks.
type directReader struct{ f io.ReaderAt }

func (r directReader) ReadAt(b []byte, offset int64) (int, error) {
	start := offset / blockSize * blockSize
	end := (offset + int64(len(b)) + blockSize - 1) / blockSize * blockSize
	whole, err := readDirect(r.f, start, end-start)
	if err != nil {
		return 0, err
	}
	return copy(b, whole[offset-start:]), nil
}
