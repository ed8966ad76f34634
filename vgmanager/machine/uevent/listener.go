package uevent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
)

// Times for settling.
const (
	// quiet is the time without messages after which a change is complete.
	quiet = 500 * time.Millisecond
	// longest is the time after which a change is complete even if more messages arrive.
	longest = 3 * time.Second
)

// Listener notifies its subscribers when block devices change.
type Listener struct {
	sysfs, udev string
	quiet       time.Duration
	longest     time.Duration

	mu          sync.Mutex
	subscribers []func()

	// notes is the last known state of the devices, by kernel name. Only settle uses it.
	notes map[string]string
	// volumes has the device-mapper devices that are logical volumes. Only receive uses it.
	volumes map[string]bool
}

// New returns a Listener. The process must have access to the node's /sys and /run/udev. It can be in any network
// namespace that belongs to the initial user namespace, because the kernel sends its messages to all of them.
func New() *Listener {
	return &Listener{sysfs: "/sys", udev: "/run/udev", quiet: quiet, longest: longest, notes: map[string]string{},
		volumes: map[string]bool{}}
}

// Subscribe adds a function that is called after each change. The function must not block.
func (l *Listener) Subscribe(changed func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscribers = append(l.subscribers, changed)
}

// Start listens until ctx ends.
func (l *Listener) Start(ctx context.Context) error {
	socket, err := open()
	if err != nil {
		return fmt.Errorf("listen to the kernel's messages about devices: %w", err)
	}
	defer func() { _ = socket.Close() }()
	l.learn()
	heard := make(chan struct{}, 1)
	failed := make(chan error, 1)
	go func() { failed <- l.receive(socket, heard) }()
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	defer stop()
	err = l.settle(ctx, heard, failed)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// open returns a socket that receives the kernel's messages. It is an os.File, so that Go's poller serves it and
// closing it ends a read.
func open() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, err
	}
	// Powering on a disk enclosure causes thousands of messages at once.
	const buffer = 16 << 20
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)
	}
	const kernelGroup = 1
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "uevents"), nil
}

// receive reads messages until the socket is closed.
func (l *Listener) receive(socket *os.File, heard chan<- struct{}) error {
	message := make([]byte, 64<<10)
	for {
		n, err := socket.Read(message)
		switch {
		case errors.Is(err, unix.ENOBUFS):
			// The kernel dropped messages, so anything may have changed.
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		default:
			e, err := Decode(message[:n])
			if err != nil || !l.counts(e) {
				continue
			}
		}
		select {
		case heard <- struct{}{}:
		default:
		}
	}
}

// counts returns true if a message can change the list of devices.
func (l *Listener) counts(e Event) bool {
	if e.Subsystem != "block" {
		return false
	}
	if strings.HasPrefix(e.Name, "dm-") && l.isVolume(e) {
		return false
	}
	// "change" is sent whenever a writer closes the device, as LVM does at every change of a group. Only settle can
	// determine whether udev found a change.
	return true
}

// isVolume returns true if a device-mapper device is, or was before its removal, a logical volume.
func (l *Listener) isVolume(e Event) bool {
	uuid, err := os.ReadFile(filepath.Join(l.sysfs, "block", e.Name, "dm/uuid"))
	if err == nil && len(uuid) > 0 {
		l.volumes[e.Name] = strings.HasPrefix(string(uuid), "LVM-")
	}
	volume := l.volumes[e.Name]
	if e.Action == "remove" {
		delete(l.volumes, e.Name)
	}
	return volume
}

// settle waits until a burst of messages ends and notifies the subscribers if devices changed. If udev is still busy,
// settle waits again, because the kernel sends no message for what udev finds later.
func (l *Listener) settle(ctx context.Context, heard <-chan struct{}, failed <-chan error) error {
	again := make(chan struct{})
	close(again)
	next := heard
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("listen to the kernel's messages about devices: %w", err)
		case <-next:
		}
		if !l.waitForQuiet(ctx, heard) {
			return nil
		}
		// This must happen before learn, so that later results of udev are read again.
		next = heard
		if l.udevIsBusy() {
			next = again
		}
		l.update(ctx)
	}
}

// update notifies the subscribers if devices changed.
func (l *Listener) update(ctx context.Context) {
	_, end := liveness.Begin(ctx, "list of the block devices")
	defer end()
	if l.learn() {
		l.tell()
	}
}

// waitForQuiet returns true when no message arrived for a while and udev is idle, or after the maximum time. It
// returns false if ctx ended.
func (l *Listener) waitForQuiet(ctx context.Context, heard <-chan struct{}) bool {
	end := time.After(l.longest)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-heard:
		case <-end:
			return true
		case <-time.After(l.quiet):
			if !l.udevIsBusy() {
				return true
			}
		}
	}
}

// udevIsBusy returns true while udev works, when this file exists (systemd, src/udev/udevd.c).
func (l *Listener) udevIsBusy() bool {
	_, err := os.Stat(filepath.Join(l.udev, "queue"))
	return err == nil
}

// learn reads the state of each block device and returns true if it differs from the last one.
func (l *Listener) learn() bool {
	entries, err := os.ReadDir(filepath.Join(l.sysfs, "class/block"))
	if err != nil {
		// Without a list to compare, assume a change.
		return true
	}
	notes := map[string]string{}
	for _, e := range entries {
		if note, ok := l.note(e.Name()); ok {
			notes[e.Name()] = note
		}
	}
	changed := len(notes) != len(l.notes)
	for name, note := range notes {
		changed = changed || l.notes[name] != note
	}
	l.notes = notes
	return changed
}

// note returns the state of a device that a list of devices shows, from the kernel and udev. It ignores logical
// volumes.
func (l *Listener) note(name string) (string, bool) {
	dir := filepath.Join(l.sysfs, "class/block", name)
	number, err := os.ReadFile(filepath.Join(dir, "dev"))
	if err != nil {
		return "", false
	}
	if uuid, err := os.ReadFile(filepath.Join(dir, "dm/uuid")); err == nil && strings.HasPrefix(string(uuid), "LVM-") {
		return "", false
	}
	parts := []string{strings.TrimSpace(string(number))}
	for _, file := range []string{"size", "ro", "diskseq", "dm/suspended"} {
		value, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			parts = append(parts, err.Error())
		}
		parts = append(parts, strings.TrimSpace(string(value)))
	}
	parts = append(parts, l.holders(dir)...)
	return strings.Join(append(parts, l.record(parts[0])...), "\n"), true
}

// holders returns the holders except logical volumes, whose activation does not change the device.
func (l *Listener) holders(dir string) []string {
	entries, _ := os.ReadDir(filepath.Join(dir, "holders"))
	var list []string
	for _, e := range entries {
		uuid, err := os.ReadFile(filepath.Join(l.sysfs, "class/block", e.Name(), "dm/uuid"))
		if err != nil || !strings.HasPrefix(string(uuid), "LVM-") {
			list = append(list, "holder "+e.Name())
		}
	}
	return list
}

// record returns udev's record without counters and times.
func (l *Listener) record(number string) []string {
	data, err := os.ReadFile(filepath.Join(l.udev, "data", "b"+number))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []string{err.Error()}
	}
	var list []string
	for _, line := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(line, "S:") || strings.HasPrefix(line, "E:ID_") {
			list = append(list, line)
		}
	}
	slices.Sort(list)
	return list
}

func (l *Listener) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, changed := range l.subscribers {
		changed()
	}
}
