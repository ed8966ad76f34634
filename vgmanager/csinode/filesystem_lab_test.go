//go:build lab

package csinode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/test/limit"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mountedfs"
)

// goingDown is XFS_IOC_GOINGDOWN (fs/xfs/libxfs/xfs_fs.h), which ext4 supports too. The argument decides whether the
// log is flushed.
const (
	goingDown  = 0x8004587d
	noLogFlush = 2
)

// TestLabABrokenFileSystemIsAbnormal breaks real file systems, as a disk and the kernel do, and checks the CSI
// response.
func TestLabABrokenFileSystemIsAbnormal(t *testing.T) {
	dead := fmt.Sprintf("0 %d error", size)
	for name, test := range map[string]struct {
		kind    string
		options []string
		do      func(m *mapping, folder string)
		want    string
	}{
		"ext4, an error": {"ext4", []string{"errors=remount-ro"}, (*mapping).triggerError,
			"recorded 1 errors"},
		"ext4 that goes on": {"ext4", []string{"errors=continue"}, (*mapping).triggerError,
			"recorded 1 errors"},
		"ext4, the disk is gone": {"ext4", []string{"errors=remount-ro"},
			func(m *mapping, folder string) { m.fail(dead, folder) }, "; it has recorded "},
		"XFS, the disk is gone": {"xfs", nil, func(m *mapping, folder string) { m.fail(dead, folder) },
			"is not accessible (input/output error)"},
		"XFS that is shut down":       {"xfs", nil, (*mapping).shutDown, "is not accessible (input/output error)"},
		"ext4, mounted read-only":     {"ext4", []string{"ro"}, func(*mapping, string) {}, ""},
		"ext4, another mount says so": {"ext4", nil, (*mapping).readOnlyBelow, "became read-only after an error"},
		"XFS that is read and well":   {"xfs", nil, func(*mapping, string) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMapping(t)
			m.ok(m.host.Format(t.Context(), service.FileSystems[test.kind].Mkfs, mapped))
			folder := t.TempDir()
			m.ok(m.host.Mount(t.Context(), mapped, folder, test.kind, test.options))
			if !slices.Contains(test.options, "ro") {
				m.ok(os.WriteFile(filepath.Join(folder, "before"), []byte("x"), 0o600))
			}
			t.Cleanup(func() {
				m.ok(unix.Unmount(folder, 0))
				m.replace(m.linear(0, size))
			})
			b := newBench(t)
			b.server.FileSystems = mountedfs.New("node1")
			read := func() []*csi.VolumeHealth_VolumeHealthEntry {
				got, err := b.server.NodeGetVolumeHealth(t.Context(),
					&csi.NodeGetVolumeHealthRequest{VolumeId: id, VolumePublishPath: folder})
				m.ok(err)
				return got.GetVolumeHealth().GetHealthStatuses()
			}
			if got := read(); len(got) > 0 {
				t.Fatalf("before: got %+v", got)
			}
			test.do(m, folder)
			got := read()
			// ext4 updates its error count in the background.
			end := time.Now().Add(limit.Hang)
			for test.want != "" && len(got) == 0 && time.Now().Before(end) {
				time.Sleep(20 * time.Millisecond)
				got = read()
			}
			t.Log(got)
			if (len(got) > 0) != (test.want != "") || len(got) > 0 && !strings.Contains(got[0].GetMessage(), test.want) {
				t.Errorf("got %+v", got)
			}
			number, err := m.host.Number(mapped)
			m.ok(err)
			list, err := b.server.FileSystems.Problems(context.Background(),
				map[string]service.Volume{number.String(): {Class: "vg1", Name: id}})
			if err != nil || !strings.Contains(list[number.String()].Message, test.want) ||
				(len(list) != 0) != (test.want != "") {
				t.Errorf("got %v, %v", list, err)
			}
		})
	}
}

// triggerError makes ext4 record an error (Documentation/ABI/testing/sysfs-fs-ext4).
func (m *mapping) triggerError(string) {
	m.Helper()
	device, err := filepath.EvalSymlinks(mapped)
	m.ok(err)
	m.ok(os.WriteFile(filepath.Join("/sys/fs/ext4", filepath.Base(device), "trigger_fs_error"),
		[]byte("of the test"), 0o200))
}

// replace loads another table, even if the file system is in use.
func (m *mapping) replace(table string) {
	m.Helper()
	file := filepath.Join(m.TempDir(), "table")
	m.ok(os.WriteFile(file, []byte(table+"\n"), 0o600))
	m.sh("dmsetup", "suspend", "--nolockfs", "--noflush", "volume")
	m.sh("dmsetup", "load", "volume", file)
	m.sh("dmsetup", "resume", "volume")
}

// fail makes the device return errors, and writes so that the file system notices.
func (m *mapping) fail(table, folder string) {
	m.Helper()
	dir, err := os.Open(folder)
	m.ok(err)
	defer func() { _ = dir.Close() }()
	m.replace(table)
	// Both can succeed or fail: ext4 becomes read-only by itself if it writes in the background, and then has nothing
	// to sync.
	_, _ = os.Chmod(folder, 0o711), dir.Sync()
	// ext4 notices at a later change that its journal was aborted.
	for end := time.Now().Add(limit.Hang); os.Mkdir(filepath.Join(folder, fmt.Sprint(time.Now().UnixNano())),
		0o700) == nil; {
		if time.Now().After(end) {
			m.Fatal("the file system takes changes for a device that gives errors")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// readOnlyBelow makes the file system read-only, but not one of its mounts.
func (m *mapping) readOnlyBelow(folder string) {
	m.Helper()
	other := m.TempDir()
	m.sh("mount", "--bind", folder, other)
	m.Cleanup(func() { m.sh("umount", other) })
	m.sh("mount", "-o", "remount,ro", folder) // the file system and this mount
}

// shutDown shuts XFS down, as the kernel does after a log error.
func (m *mapping) shutDown(folder string) {
	m.Helper()
	dir, err := os.Open(folder)
	m.ok(err)
	defer func() { _ = dir.Close() }()
	flags := uint32(noLogFlush)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), goingDown, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		m.Fatalf("XFS_IOC_GOINGDOWN: %v", errno)
	}
}
