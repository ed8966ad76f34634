package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

// flushTimeout is the time limit for a device to flush its write cache.
const flushTimeout = 30 * time.Second

// Flush writes the kernel's and the device's cache of a device, /dev/NAME, to its medium (Linux,
// Documentation/block/writeback_cache_control.rst). It takes up to 30 s and returns an error if the device does not
// respond. It does not start another flush of a device while one is pending.
func (n *Node) Flush(ctx context.Context, path string) error {
	failure, err := bounded.Do(ctx, n.flushes, path, func(context.Context) error { return flush(path) })
	if err != nil {
		return fmt.Errorf("flush %s: %w", path, err)
	}
	return failure
}

func flush(path string) (err error) {
	// When a writable descriptor is closed, udev reads the device again.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}
