package lvm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Flush writes the cache of a device, /dev/NAME, to its medium.
type Flush func(ctx context.Context, device string) error

// FlushWith has each change written to the medium before it is reported as done. LVM does not ask for that: it writes
// its metadata past the page cache (LVM2, lib/device/bcache.c), and a disk with a volatile cache may lose it when the
// power fails. A volume whose creation was reported would be missing then, and a removed one would be back.
func (l *LVM) FlushWith(flush Flush) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush = flush
}

// flushDevices flushes the devices that a command wrote to: those of its volume group at the last report, and those
// that it names. LVM keeps a copy of the metadata on each, so it fails only if no device could be flushed.
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
	return fmt.Errorf("lvm %s has succeeded, but the change may be lost when the power fails: %w",
		strings.Join(c.args, " "), errors.Join(errs...))
}
