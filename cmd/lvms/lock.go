package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	lockFile  = "/var/lock/vgmanager/vgmanager.lock"
	lockRetry = time.Second
)

// lockNode ensures that this process is the only agent of the node: a Pod that was deleted with force may still run
// when its successor starts. lockNode waits until the other agent or ctx has ended. The kernel releases the lock when
// the process ends.
func lockNode(ctx context.Context, path string) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	ticker := time.NewTicker(lockRetry)
	defer ticker.Stop()
	for waited := false; ; waited = true {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		if !waited {
			ctrl.Log.Info("another node agent is running on this node; waiting for it to stop", "lock", path)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, ctx.Err()), file.Close())
		case <-ticker.C:
		}
	}
}
