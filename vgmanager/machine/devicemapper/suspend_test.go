package devicemapper

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// suspended simulates ctl_ioctl, do_suspend, do_resume and target_message of drivers/md/dm-ioctl.c for one device.
type suspended struct {
	uuid     string
	flags    uint32
	messages []string
	err      error
	mask     unix.Sigset_t // signals that were blocked during the last request
}

func newChanger(t *testing.T, k *suspended) *Changer {
	t.Helper()
	r := newReader(t, &kernel{})
	r.ioctl = k.ioctl
	return &Changer{reader: r}
}

func (k *suspended) ioctl(_, code uintptr, buffer []byte) error {
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, nil, &k.mask); err != nil {
		return err
	}
	size := binary.NativeEndian.Uint32(buffer[atDataSize:])
	start := binary.NativeEndian.Uint32(buffer[atDataStart:])
	named := text(buffer[atName:atName+nameLength]) != "" || binary.NativeEndian.Uint64(buffer[atNumber:]) != 0
	switch {
	case k.err != nil:
		return k.err
	case int(size) != len(buffer) || start != headerSize || named:
		return unix.EINVAL
	case text(buffer[atUUID:atUUID+uuidLength]) != k.uuid:
		return unix.ENXIO
	}
	asked := flagsOf(buffer)
	switch code {
	case commandMessage.code():
		if binary.NativeEndian.Uint64(buffer[start:]) != 0 || buffer[size-1] != 0 {
			return unix.EINVAL
		}
		k.messages = append(k.messages, text(buffer[start+messagePrefix:]))
	case commandSuspend.code():
		if asked&^flagSuspended != 0 {
			return unix.EINVAL // neither without the file system nor without flush
		}
		k.flags = k.flags&^flagSuspended | asked
	case commandDevice.code():
	default:
		return unix.ENOTTY
	}
	binary.NativeEndian.PutUint32(buffer[atFlags:], k.flags)
	return nil
}

func TestADeviceIsSuspendedAndResumed(t *testing.T) {
	k := &suspended{uuid: "LVM-a"}
	c := newChanger(t, k)
	for _, step := range []struct {
		call func(string) error
		want State
	}{
		{c.Suspend, State{Suspended: true}}, {c.Suspend, State{Suspended: true}}, {c.Resume, State{}},
		{c.Resume, State{}},
	} {
		if err := step.call("LVM-a"); err != nil {
			t.Fatal(err)
		}
		if got, err := c.State("LVM-a"); err != nil || got != step.want {
			t.Errorf("got %+v, %v, want %+v", got, err, step.want)
		}
	}
	k.flags = flagInactiveTable
	if got, err := c.State("LVM-a"); err != nil || got != (State{InactiveTable: true}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestMessagesToAThinPool(t *testing.T) {
	k := &suspended{uuid: "LVM-pool-tpool"}
	c := newChanger(t, k)
	if err := errors.Join(c.DeleteThin(k.uuid, 7), c.CreateThinSnapshot(k.uuid, 7, 3)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"delete 7", "create_snap 7 3"}, k.messages); diff != "" {
		t.Error(diff)
	}
	k.err = unix.EEXIST
	if err := c.CreateThinSnapshot(k.uuid, 7, 3); !errors.Is(err, ErrExists) || !errors.Is(err, unix.EEXIST) {
		t.Errorf("got %v", err)
	}
	k.err = unix.ENODATA
	if err := c.DeleteThin(k.uuid, 7); !errors.Is(err, ErrNoThinDevice) ||
		!strings.Contains(err.Error(), `"delete 7"`) {
		t.Errorf("got %v", err)
	}
}

// TestAChangeThatFails: neither another device nor a failed call is a success, and a failed read is not "resumed".
func TestAChangeThatFails(t *testing.T) {
	k := &suspended{uuid: "LVM-a"}
	c := newChanger(t, k)
	calls := map[string]func(string) error{"suspend": c.Suspend, "resume": c.Resume,
		"state":   func(uuid string) error { _, err := c.State(uuid); return err },
		"message": func(uuid string) error { return c.DeleteThin(uuid, 1) }}
	for name, call := range calls {
		if err := call("LVM-b"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "LVM-b") {
			t.Errorf("%s of a device that does not exist: %v", name, err)
		}
		for _, uuid := range []string{"", strings.Repeat("x", uuidLength)} {
			if err := call(uuid); err == nil {
				t.Errorf("%s of %q succeeds", name, uuid)
			}
		}
	}
	k.err = unix.EPERM
	for name, call := range calls {
		if err := call("LVM-a"); !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.reader.control = filepath.Join(t.TempDir(), "nosuch")
	for name, call := range calls {
		if err := call("LVM-a"); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("%s without the control device: %v", name, err)
		}
	}
}

// TestNoSignalEndsASuspension checks that signals are blocked during a request and not after it.
func TestNoSignalEndsASuspension(t *testing.T) {
	k := &suspended{uuid: "LVM-a"}
	if err := newChanger(t, k).Suspend("LVM-a"); err != nil {
		t.Fatal(err)
	}
	const child = 1 << (unix.SIGCHLD - 1)
	if k.mask.Val[0]&child == 0 {
		t.Error("SIGCHLD is not blocked during a suspension")
	}
	err := withoutSignals(func() error { return nil })
	var after unix.Sigset_t
	if err := errors.Join(err, unix.PthreadSigmask(unix.SIG_BLOCK, nil, &after)); err != nil {
		t.Fatal(err)
	}
	if after.Val[0]&child != 0 {
		t.Error("SIGCHLD is still blocked after a suspension")
	}
}
