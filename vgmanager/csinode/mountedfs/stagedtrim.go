package mountedfs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
)

// endTrimTimeout is how long an unmount waits for the call of a trim. After it, umount(8) returns "target is busy", and
// the kubelet repeats the request.
const endTrimTimeout = 20 * time.Second

// stagedMount is the last part of the path at which the kubelet has a file system staged.
const stagedMount = "globalmount"

// stagedTrim is a trim of a staged file system that runs.
type stagedTrim struct {
	cancel context.CancelFunc

	mu sync.Mutex
	// ended: no further call starts. calling is closed at the end of the call that runs; nil if none runs.
	ended   bool
	calling chan struct{}
}

// enter returns a function that marks the end of a call, or false if no further call must start.
func (t *stagedTrim) enter() (leave func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, false
	}
	done := make(chan struct{})
	t.calling = done
	return func() { close(done) }, true
}

// end prevents further calls, and returns a channel that is closed when the last one has returned.
func (t *stagedTrim) end() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.cancel()
	return t.calling
}

// Staged returns the mount points of the file systems on devices that the kubelet has staged for this driver or the one
// of TopoLVM before 0.15, by device. plugins is the directory in which the kubelet has volumes staged. Devices are
// "MAJOR:MINOR". File systems that are read-only or were shut down are not in the result.
func (f *FileSystems) Staged(plugins string, devices []string) (map[string]string, error) {
	mounts, err := f.mountsOf(func(device string) bool { return slices.Contains(devices, device) })
	if err != nil {
		return nil, err
	}
	staged := map[string]string{}
	for device, list := range mounts {
		for _, m := range list {
			options := slices.Concat(m.MountOptions, m.SuperOptions)
			writable := !slices.ContainsFunc(options, func(o string) bool {
				return o == "ro" || o == "emergency_ro" || o == "shutdown"
			})
			if writable && m.Root == "/" && isStagingPath(plugins, m.MountPoint) {
				staged[device] = m.MountPoint
			}
		}
	}
	return staged, nil
}

// isStagingPath reports whether a path is DRIVER/HASH/globalmount in the directory of the kubelet for CSI volumes.
func isStagingPath(plugins, path string) bool {
	relative, err := filepath.Rel(plugins, path)
	if err != nil {
		return false
	}
	parts := strings.Split(relative, "/")
	return len(parts) == 3 && parts[2] == stagedMount &&
		(parts[0] == wellknown.DriverName || parts[0] == wellknown.EarlierDriverName)
}

// TrimStaged trims the file system on a device that is mounted at a path, and returns how many bytes it discarded. It
// uses the device for at most half of the time. It ends early, with an error that wraps context.Canceled, when the
// context is canceled or the path must be unmounted. A file system that does not respond does not block it.
func (f *FileSystems) TrimStaged(ctx context.Context, device, path string) (trimmed int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	trim := &stagedTrim{cancel: cancel}
	f.mu.Lock()
	f.trimming[path] = trim
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.trimming[path] == trim {
			delete(f.trimming, path)
		}
	}()
	on, err := f.mountedAt(device, path)
	if err != nil {
		return 0, err
	}
	err = f.trimSteps(ctx, device, path, func(start uint64) error {
		begun := time.Now()
		bytes, err := f.trim(ctx, on, func() (uint64, error) {
			leave, ok := trim.enter()
			if !ok {
				return 0, context.Canceled
			}
			defer leave()
			return f.TrimRange(path, on, start, trimStep)
		})
		trimmed += int64(bytes)
		if err != nil {
			return err
		}
		pause(ctx, time.Since(begun))
		return nil
	})
	return trimmed, err
}

func pause(ctx context.Context, t time.Duration) {
	defer liveness.Busy(ctx)()
	select {
	case <-ctx.Done():
	case <-time.After(t):
	}
}

// mountedAt returns the number of the device that is mounted at a path: the logical volume with the number device, or
// the opened LUKS2 container on it.
func (f *FileSystems) mountedAt(device, path string) (string, error) {
	mounts, err := f.mountsOf(func(mounted string) bool { return mounted == device })
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(mounts[device], func(m mount.MountInfo) bool { return m.MountPoint == path })
	if at < 0 {
		return "", fmt.Errorf("device %s is no longer mounted at %s on node %s", device, path, f.node)
	}
	return deviceOf(mounts[device][at]), nil
}

// EndTrim ends a trim of the file system at a path, and waits for its call: an open file system cannot be unmounted.
func (f *FileSystems) EndTrim(ctx context.Context, path string) {
	f.mu.Lock()
	trim := f.trimming[path]
	f.mu.Unlock()
	if trim == nil {
		return
	}
	called := trim.end()
	if called == nil {
		return
	}
	select {
	case <-called:
	case <-ctx.Done():
	case <-time.After(endTrimTimeout):
	}
}

// NotSupported reports whether an error of TrimStaged means that the file system or its device does not support
// discards.
func NotSupported(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY)
}
