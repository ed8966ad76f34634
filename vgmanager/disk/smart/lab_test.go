//go:build lab

package smart

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// inImage runs the smartctl of the image on the disks of the node on which the test runs.
type inImage struct {
	*host.Local
	root string
}

func (i inImage) RunAccepting(ctx context.Context, accepted func(int) bool, name string,
	args ...string) ([]byte, int, error) {
	return i.Local.RunAccepting(ctx, accepted, "/usr/sbin/chroot", append([]string{i.root, name}, args...)...)
}

// newImage returns the files of the image, with the node's devices.
func newImage(t *testing.T) inImage {
	t.Helper()
	root := os.Getenv("LVMS_TEST_ROOTFS")
	if root == "" {
		t.Fatal("LVMS_TEST_ROOTFS must be the folder of the image's files, which make image writes")
	}
	for _, name := range []string{"dev", "sys"} {
		to := filepath.Join(root, name)
		if err := unix.Mount("/"+name, to, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(to, err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(to, 0); err != nil {
				t.Error(to, err)
			}
		})
	}
	return inImage{host.NewLocal(), root}
}

// newSCSI creates a simulated SCSI disk with a health status (drivers/scsi/scsi_debug.c).
func newSCSI(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command("modprobe", "scsi_debug", "dev_size_mb=64").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for range 100 {
		found, err := filepath.Glob("/sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block/*")
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 1 {
			path := "/dev/" + filepath.Base(found[0])
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("there is no SCSI disk")
	return ""
}

// sgIO is struct sg_io_hdr of include/scsi/sg.h.
type sgIO struct {
	interfaceID, direction                int32
	commandLength, maxSense               uint8
	vectors                               uint16
	length                                uint32
	data, command, sense                  unsafe.Pointer
	timeout, flags                        uint32
	pack                                  int32
	_                                     [4]byte
	user                                  unsafe.Pointer
	status, masked, message, senseWritten uint8
	hostStatus, driverStatus              uint16
	residual                              int32
	duration, info                        uint32
}

// predict sets or clears the predicted failure of the disk: TEST of the mode page of informational exceptions (SPC-4,
// 7.5.13), reported on request.
func predict(t *testing.T, path string, yes bool) {
	t.Helper()
	const (
		ioctl       = 0x2285
		toDevice    = -2
		modeSelect6 = 0x15
		pageFormat  = 0x10
		page        = 0x1c
		onRequest   = 6
	)
	data := make([]byte, 4+12)
	data[4] = page
	data[5] = 10
	data[7] = onRequest
	if yes {
		data[6] = 1 << 2
	}
	command := []byte{modeSelect6, pageFormat, 0, 0, byte(len(data)), 0}
	sense := make([]byte, 32)
	header := sgIO{interfaceID: 'S', direction: toDevice, commandLength: uint8(len(command)),
		maxSense: uint8(len(sense)), length: uint32(len(data)),
		data: unsafe.Pointer(&data[0]), command: unsafe.Pointer(&command[0]), sense: unsafe.Pointer(&sense[0]),
		timeout: 10_000}
	disk, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, disk.Fd(), ioctl, uintptr(unsafe.Pointer(&header))); errno != 0 ||
		header.status != 0 {
		t.Fatalf("%s: %v, status %d, sense %x", path, errno, header.status, bytes.TrimRight(sense, "\x00"))
	}
}

// TestLabADiskForeseesItsFailure checks that the metrics show what the image's smartctl reads from a simulated disk,
// also after the health status changes.
func TestLabADiskForeseesItsFailure(t *testing.T) {
	plain, _, _ := strings.Cut(os.Getenv("LVMS_TEST_DISKS"), ",")
	if plain == "" {
		t.Fatal("LVMS_TEST_DISKS must name a disk of a lab node")
	}
	path := newSCSI(t)
	n := &node{devices: []v1alpha1.DeviceStatus{{Name: path, ID: "serial:x", State: v1alpha1.DeviceInUse,
		VolumeGroup: "vg1"}, {Name: plain, State: v1alpha1.DeviceAvailable}}}
	image := newImage(t)
	m := New(Options{Client: n, Node: "node1", Namespace: "ns", Runner: image, Interval: time.Hour})
	m.now = func() time.Time { return time.Unix(1000, 0) }
	for _, foreseen := range []bool{false, true, true, false} {
		predict(t, path, foreseen)
		if err := m.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		verdict := map[bool]string{true: "0", false: "1"}[foreseen]
		all := m.series(t)
		for _, want := range []string{"healthy " + path + " serial:x " + verdict, "answered " + path + " serial:x 1",
			"temperature_celsius " + path + " serial:x 38", "answered " + plain + "  0"} {
			if !slices.Contains(all, want) {
				t.Errorf("foreseen %t: no %q in %q", foreseen, want, all)
			}
		}
	}
	// A disk of User Mode Linux has no health status. The output of smartctl has the reason.
	text, code, err := image.RunAccepting(t.Context(), ends, program, arguments(plain)...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decode(text, code); err == nil || !strings.Contains(err.Error(), plain) {
		t.Errorf("%s: %v", plain, err)
	}
	if n := image.Started().Total(); n != 9 {
		t.Errorf("%d processes, want one for each of 9 questions", n)
	}
}
