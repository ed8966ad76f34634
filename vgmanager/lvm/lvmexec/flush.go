package lvmexec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Flush flushes the write cache of a device, /dev/NAME, to its medium.
type Flush func(ctx context.Context, device string) error

// flusher flushes the devices that a change was written to.
type flusher struct {
	mu sync.Mutex
	// flush flushes the write cache of a device, nil if not set. devices has the devices of each volume group in the
	// last report.
	flush   Flush
	devices map[string][]string
}

// FlushWith sets the function that flushes the devices after each change, before the change returns. LVM does not
// flush them: it writes its metadata past the page cache (LVM2, lib/device/bcache.c), and a disk with a volatile
// write cache can lose it in a power failure. Then a volume that was reported as created is missing, and a removed
// one exists again.
func (l *LVM) FlushWith(flush Flush) {
	l.flusher.mu.Lock()
	defer l.flusher.mu.Unlock()
	l.flusher.flush = flush
}

// flushDevices flushes the devices that a command wrote to: the devices of its volume group in the last report, and
// the devices in its arguments. LVM keeps a copy of the metadata on each device, so flushDevices fails only if it can
// flush none of them.
func (f *flusher) flushDevices(ctx context.Context, c command) error {
	f.mu.Lock()
	flush := f.flush
	devices := slices.Clone(f.devices[c.VG])
	f.mu.Unlock()
	for _, arg := range c.Args {
		if strings.HasPrefix(arg, "/dev/") {
			devices = append(devices, arg)
		}
	}
	slices.Sort(devices)
	devices = slices.Compact(devices)
	if flush == nil || len(devices) == 0 {
		return nil
	}
	errs := make([]error, len(devices))
	var all sync.WaitGroup
	for i, device := range devices {
		all.Go(func() { errs[i] = flush(ctx, device) })
	}
	all.Wait()
	if slices.Contains(errs, nil) {
		return nil
	}
	return fmt.Errorf("lvm %s succeeded, but the change may be lost in a power failure: %w",
		strings.Join(c.Args, " "), errors.Join(errs...))
}

// remember records the devices of the volume groups of a report.
func (f *flusher) remember(report *lvm.Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.devices = map[string][]string{}
	for i := range report.VGs {
		vg := &report.VGs[i]
		for _, pv := range vg.PVs {
			if !pv.Missing && pv.Major != 0 {
				f.devices[vg.Name] = append(f.devices[vg.Name], pv.Name)
			}
		}
	}
}
