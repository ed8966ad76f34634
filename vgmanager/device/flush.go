package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/internal/bounded"
)

// flushTimeout is how long a device may take to write its cache to its medium.
const flushTimeout = 30 * time.Second

// Flush writes what the kernel and the device cache of a device, /dev/NAME, to its medium (Linux,
// Documentation/block/writeback_cache_control.rst). It takes up to 30 s; a device that does not answer gives an error,
// and none is asked a second time before it has answered.
func (n *Node) Flush(ctx context.Context, path string) error {
	failure, err := bounded.Do(ctx, n.flushes, path, func(context.Context) error { return flush(path) })
	if err != nil {
		return fmt.Errorf("flush %s: %w", path, err)
	}
	return failure
}

func flush(path string) (err error) {
	// A descriptor that could write would tell udev, when it is closed, that the content may have changed.
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
