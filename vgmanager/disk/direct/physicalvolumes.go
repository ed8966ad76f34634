package direct

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/ondisk"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

// pvStart is the label of a physical volume, and where the metadata of its volume group is.
type pvStart struct {
	uuid      string
	locations []ondisk.Location
}

// PhysicalVolumes reads the physical volumes of volume groups.
type PhysicalVolumes struct {
	Pulse *Pulse
	// Calls are the reads, by the number of the device.
	Calls *bounded.Calls
}

// Read reads the labels and the metadata of a volume group from its devices, past all caches, and
// without a process. It returns an error if a device does not respond within 15 s or has no label, if anything is
// damaged, if no device has the metadata, or if it is not the same on all devices that have it.
func (v *PhysicalVolumes) Read(ctx context.Context, devices []ondisk.Device) (ondisk.Group, error) {
	starts := make([]pvStart, len(devices))
	errs := make([]error, len(devices))
	var all sync.WaitGroup
	for i, d := range devices {
		all.Go(func() { starts[i], errs[i] = readBounded(ctx, v, d, readStart) })
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
	found.Metadata, err = readBounded(ctx, v, first,
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
func readBounded[T any](ctx context.Context, v *PhysicalVolumes, device ondisk.Device,
	read func(io.ReaderAt) (T, error)) (T, error) {
	d := Beat{Number: Number(device.Number), Path: device.Path}
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := v.Pulse.state(d); err != nil {
		return none, fmt.Errorf("device %s: %w", d.Path, err)
	}
	got, err := bounded.Do(ctx, v.Calls, string(d.Number), func(context.Context) answer {
		f, err := open(d)
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
