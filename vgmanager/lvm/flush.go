package lvm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Flush flushes the write cache of a device, /dev/NAME, to its medium.
type Flush func(ctx context.Context, device string) error

// FlushWith sets the function that flushes the devices after each change, before the change returns. LVM does not
// flush them: it writes its metadata past the page cache (LVM2, lib/device/bcache.c), and a disk with a volatile
// write cache can lose it in a power failure. Then a volume that was reported as created is missing, and a removed
// one exists again.
func (l *LVM) FlushWith(flush Flush) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush = flush
}

// flushDevices flushes the devices that a command wrote to: the devices of its volume group in the last report, and
// the devices in its arguments. LVM keeps a copy of the metadata on each device, so flushDevices fails only if it can
// flush none of them.
func (l *LVM) flushDevices(ctx context.Context, c command) error {
	l.mu.Lock()
	flush := l.flush
	devices := slices.Clone(l.devices[c.vg])
	l.mu.Unlock()
	for _, arg := range c.args {
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
		strings.Join(c.args, " "), errors.Join(errs...))
}
