package groupsnapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

// maxJournal is the maximum size of the journal in bytes: MaxMembers UUIDs of at most 128 bytes, and their names.
const maxJournal = 64 << 10

// journal is a file with the UUIDs of the mapped devices that may be suspended, by volume group. It is written before
// the first of them is suspended, and removed after the last of them was resumed.
type journal struct{ path string }

// absent returns an error unless there is no journal.
func (j journal) absent() error {
	_, err := os.Lstat(j.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("check for volumes that an earlier group snapshot left suspended: %w", err)
	}
	return fmt.Errorf("volumes that an earlier group snapshot may have left suspended are not resumed yet: they are "+
		"in %s on the node", j.path)
}

// write writes the journal as a whole. It does not flush it: a loss of power ends every suspension.
func (j journal) write(devices map[string][]string) error {
	content, err := json.Marshal(devices)
	if err == nil {
		err = os.WriteFile(j.path+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(j.path+".new", j.path)
	}
	if err != nil {
		return fmt.Errorf("record the volumes that will be suspended: %w", err)
	}
	return nil
}

// read returns nil if there is no journal.
func (j journal) read() (map[string][]string, error) {
	content, err := os.ReadFile(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the volumes that may be suspended: %w", err)
	}
	devices := map[string][]string{}
	if len(content) > maxJournal {
		return nil, fmt.Errorf("%s has %d bytes, want at most %d", j.path, len(content), maxJournal)
	}
	if err := json.Unmarshal(content, &devices); err != nil {
		return nil, fmt.Errorf("%s, the list of volumes that may be suspended: %w: resume them on the node: "+
			"dmsetup info -c -o name,suspended; dmsetup resume NAME; then remove the file", j.path, err)
	}
	return devices, nil
}

func (j journal) remove() error {
	if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the list of volumes that may be suspended: %w", err)
	}
	return nil
}

// Recover resumes what an earlier process has left suspended. Call it when the agent starts, and again after an error:
// until it has succeeded, Take returns an error. It holds LVM's lock of each volume group, so that it does not resume a
// volume that a command of LVM has suspended; a watchdog that is still running holds the lock too.
func (n *Node) Recover(ctx context.Context) error {
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return fmt.Errorf("resume the volumes of an earlier group snapshot: %w", ctx.Err())
	}
	devices, err := n.journal.read()
	if err != nil || devices == nil {
		return err
	}
	var errs []error
	for _, vg := range slices.Sorted(maps.Keys(devices)) {
		errs = append(errs, n.lvm.Exclusively(ctx, vg, "resume the volumes of an earlier group snapshot",
			func(Locked) error { return resumeSuspended(n.kernel, devices[vg]) }))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return n.journal.remove()
}

// resumeSuspended resumes those of the devices that are suspended. It tries every device.
func resumeSuspended(kernel Kernel, devices []string) error {
	var errs []error
	for _, device := range devices {
		state, err := kernel.State(device)
		switch {
		case errors.Is(err, devicemapper.ErrNotFound):
		case err != nil:
			errs = append(errs, err)
		case state.Suspended:
			errs = append(errs, resume(kernel, device))
		}
	}
	return errors.Join(errs...)
}
