package devicemapper

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrExists: the thin pool already has a thin device with this ID.
var ErrExists = errors.New("the thin pool already has a thin device with this ID")

// ErrNoThinDevice: the thin pool has no thin device with this ID.
var ErrNoThinDevice = errors.New("the thin pool has no thin device with this ID")

var (
	// DM_DEV_SUSPEND without DM_SKIP_LOCKFS_FLAG and DM_NOFLUSH_FLAG: the kernel freezes the file system that is on the
	// device, and completes its I/O.
	commandSuspend = command{number: 6, flags: flagSuspended}
	commandResume  = command{number: 6}
	commandMessage = command{number: 14} // DM_TARGET_MSG
)

// flagInactiveTable: a table is loaded that is not in use yet. A resume puts it in use.
const flagInactiveTable = 1 << 6

// messagePrefix is the size of struct dm_target_msg, without the message.
const messagePrefix = 8

// State is the state of a mapped device that matters for its suspension.
type State struct {
	// Suspended: I/O is suspended.
	Suspended bool
	// InactiveTable: a table is loaded that a resume puts in use. A command of LVM is in progress or was killed.
	InactiveTable bool
}

// Changer suspends and resumes mapped devices, and sends messages to thin pools. Devices are named by their UUID in
// device-mapper, so that another device that has the name by now is not affected. The process must run as root and have
// access to the node's /dev/mapper/control.
//
// Its calls start no process, and have no time limit: a suspension ends when the file system is frozen and the I/O of
// the device is complete, and cannot be interrupted. A device stays suspended after the process has ended.
type Changer struct{ reader *Reader }

// NewChanger returns a Changer.
func NewChanger() *Changer { return &Changer{reader: New()} }

// State reads the state of a device. It returns ErrNotFound if there is no device with this UUID.
func (c *Changer) State(uuid string) (State, error) {
	answer, err := c.request(commandDevice, uuid, nil)
	if err != nil {
		return State{}, fmt.Errorf("read mapped device %s: %w", uuid, err)
	}
	flags := flagsOf(answer)
	return State{Suspended: flags&flagSuspended != 0, InactiveTable: flags&flagInactiveTable != 0}, nil
}

// Suspend suspends a device, after the kernel has frozen the file system on it and has completed its I/O. It has no
// effect on a suspended device (Linux, drivers/md/dm-ioctl.c, do_suspend): the caller must know that it is not.
func (c *Changer) Suspend(uuid string) error {
	if _, err := c.request(commandSuspend, uuid, nil); err != nil {
		return fmt.Errorf("suspend mapped device %s: %w", uuid, err)
	}
	return nil
}

// Resume resumes a device and thaws the file system on it. If the device is not suspended, it is not an error.
func (c *Changer) Resume(uuid string) error {
	if _, err := c.request(commandResume, uuid, nil); err != nil {
		return fmt.Errorf("resume mapped device %s: %w", uuid, err)
	}
	return nil
}

// CreateThinSnapshot creates a thin device in a pool that has the present data of another one, the origin. If the
// origin is active, it must be suspended: the kernel does not check it (Linux,
// Documentation/admin-guide/device-mapper/thin-provisioning.rst). The kernel commits the metadata of the pool. It
// returns ErrExists if a thin device has the ID, and ErrNoThinDevice if none has that of the origin. LVM does not know
// of the device: its metadata must already have a volume with this ID.
func (c *Changer) CreateThinSnapshot(pool string, id, origin uint64) error {
	text := "create_snap " + strconv.FormatUint(id, 10) + " " + strconv.FormatUint(origin, 10)
	return c.message(pool, text)
}

// DeleteThin deletes a thin device of a pool with its data. It returns ErrNoThinDevice if no device has the ID; the
// kernel refuses to delete one that is active. The caller must know what the ID belongs to.
func (c *Changer) DeleteThin(pool string, id uint64) error {
	return c.message(pool, "delete "+strconv.FormatUint(id, 10))
}

func (c *Changer) message(uuid, text string) error {
	_, err := c.request(commandMessage, uuid, append([]byte(text), 0))
	switch {
	case errors.Is(err, unix.EEXIST):
		err = fmt.Errorf("%w: %w", ErrExists, err)
	case errors.Is(err, unix.ENODATA):
		err = fmt.Errorf("%w: %w", ErrNoThinDevice, err)
	}
	if err != nil {
		return fmt.Errorf("send %q to mapped device %s: %w", text, uuid, err)
	}
	return nil
}

// request sends a request about a device by its UUID. payload is the message of a commandMessage.
func (c *Changer) request(what command, uuid string, payload []byte) ([]byte, error) {
	if uuid == "" || len(uuid) >= uuidLength {
		return nil, fmt.Errorf("%q is not the UUID of a mapped device", uuid)
	}
	control, err := c.reader.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = control.Close() }()
	buffer := make([]byte, headerSize+messagePrefix+max(len(payload), 1))
	what.encode(subject{uuid: uuid}, buffer)
	copy(buffer[headerSize+messagePrefix:], payload)
	err = withoutSignals(func() error { return c.reader.ioctl(control.Fd(), what.code(), buffer) })
	if errors.Is(err, unix.ENXIO) {
		err = ErrNotFound
	}
	return buffer, err
}

// withoutSignals calls f in a thread that gets no signal. The kernel gives up a suspension if the thread gets one
// (drivers/md/dm.c, dm_wait_for_completion), also one that the process ignores or handles, for example SIGCHLD.
func withoutSignals(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, before unix.Sigset_t
	size := unsafe.Sizeof(all)
	for i := range size {
		*(*byte)(unsafe.Add(unsafe.Pointer(&all), i)) = 0xff
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, &before); err != nil {
		return fmt.Errorf("block the signals of a thread: %w", err)
	}
	err := f()
	if restore := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil); restore != nil {
		return errors.Join(err, fmt.Errorf("restore the signals of a thread: %w", restore))
	}
	return err
}
