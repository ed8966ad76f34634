//go:build lab

package csinode

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

const group = "suspended"

// newVolume creates a logical volume on the disk of the lab, and a node service for it.
func newVolume(t *testing.T) *bench {
	t.Helper()
	disk, _, _ := strings.Cut(os.Getenv("LVMS_TEST_DISKS"), ",")
	if disk == "" {
		t.Fatal("LVMS_TEST_DISKS must name a blank disk of a lab node, of 800 MiB")
	}
	m := &mapping{T: t, disk: disk, host: mounter.Mounter{Programs: host.NewLocal()},
		records: volume.Directory(t.TempDir())}
	m.sh("wipefs", "--all", disk)
	m.sh("vgcreate", group, disk)
	t.Cleanup(func() {
		m.sh("vgremove", "--force", "--yes", group)
		m.sh("pvremove", disk)
	})
	for range 2 { // as the agent tags a suspended device
		m.sh("pvchange", "--allocatable", "y", "--addtag", "lvms.suspended", disk)
		m.sh("pvchange", "--allocatable", "y", "--deltag", "lvms.suspended", disk)
	}
	m.sh("lvcreate", "--yes", "--wipesignatures", "y", "--name", id, "--size", "500m", group)
	b := newBench(t)
	b.rebuild(m.host, b.luks, m.records)
	b.volumes.lv.Path = "/dev/" + group + "/" + id
	number, err := m.host.Number(b.volumes.lv.Path)
	m.ok(err)
	b.volumes.lv.Major = number.Major
	b.volumes.lv.Minor = number.Minor
	return b
}

func (b *bench) publishAs(kind, target string) error {
	c := capability(kind, writer)
	if kind == "" {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	}
	_, err := b.server.NodePublishVolume(b.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: id, StagingTargetPath: b.staging, TargetPath: target, VolumeCapability: c})
	return err
}

func (b *bench) unpublish(target string) {
	b.Helper()
	_, err := b.server.NodeUnpublishVolume(b.Context(),
		&csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: target})
	b.wantCode(err, codes.OK)
}

// contentAt returns the file in which a Pod writes: one in the file system, or the device.
func contentAt(kind, target string) string {
	if kind == "" {
		return target
	}
	return filepath.Join(target, "data")
}

func (b *bench) write(path, text string) {
	b.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) wantText(path, want string) {
	b.Helper()
	got := make([]byte, len(want))
	f, err := os.Open(path)
	if err == nil {
		_, err = f.Read(got)
		_ = f.Close()
	}
	if err != nil || string(got) != want {
		b.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestLabASuspendedVolume suspends a volume while a Pod uses it. The Pod can write, another one does not get the
// volume, and the data is there after the volume was resumed.
func TestLabASuspendedVolume(t *testing.T) {
	for name, kind := range map[string]string{"ext4": "ext4", "xfs": "xfs", "block": ""} {
		t.Run(name, func(t *testing.T) {
			b := newVolume(t)
			first, second := b.target, b.target+"-second"
			if kind != "" {
				b.wantCode(b.stage(kind, writer), codes.OK)
			}
			b.wantCode(b.publishAs(kind, first), codes.OK)
			b.write(contentAt(kind, first), "before")
			b.annotate(map[string]string{wellknown.SuspendedAnnotation: "by admin"})
			for range 2 {
				if kind != "" {
					b.wantCode(b.stage(kind, writer), codes.OK)
				}
				b.wantCode(b.publishAs(kind, first), codes.OK)
				b.wantCode(b.publishAs(kind, second), codes.FailedPrecondition, "is suspended (by admin)")
			}
			if _, err := os.Stat(second); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a new Pod has a folder or file: %v", err)
			}
			b.wantText(contentAt(kind, first), "before")
			b.write(contentAt(kind, first), "during")
			for range 2 {
				b.unpublish(first)
			}
			b.unstage()
			b.wantCode(b.publishAs(kind, second), codes.FailedPrecondition, "is suspended (by admin)")
			if kind != "" {
				b.wantCode(b.stage(kind, writer), codes.FailedPrecondition, "is suspended (by admin)")
			}
			b.annotate(map[string]string{wellknown.SuspendedAnnotation: ""})
			if kind != "" {
				b.wantCode(b.stage(kind, writer), codes.OK)
			}
			b.wantCode(b.publishAs(kind, second), codes.OK)
			b.wantText(contentAt(kind, second), "during")
			b.write(contentAt(kind, second), "after!")
			b.unpublish(second)
			b.unstage()
		})
	}
}

// TestLabWriteAccessCannotBeTakenAway shows why no suspension makes a volume read-only for a Pod that runs: a file that
// is open for writing keeps the file system writable, also if LVM makes the logical volume read-only.
func TestLabWriteAccessCannotBeTakenAway(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			b := newVolume(t)
			b.wantCode(b.stage(kind, writer), codes.OK)
			file, err := os.OpenFile(filepath.Join(b.staging, "data"), os.O_WRONLY|os.O_CREATE, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("", b.staging, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); !errors.Is(err, unix.EBUSY) {
				t.Errorf("remount read-only: %v", err)
			}
			path := b.volumes.lv.Path
			if out, err := exec.Command("lvchange", "--permission", "r", path).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if out, err := exec.Command("blockdev", "--getro", path).Output(); err != nil || string(out) != "1\n" {
				t.Fatalf("the logical volume is not read-only: %q, %v", out, err)
			}
			_, err = file.WriteString("written")
			if err := errors.Join(err, file.Sync()); err != nil {
				t.Errorf("a write to a read-only logical volume: %v", err)
			}
			if out, err := exec.Command("lvchange", "--permission", "rw", path).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if err := file.Close(); err != nil {
				t.Error(err)
			}
			b.unstage()
			b.wantCode(b.stage(kind, writer), codes.OK)
			b.wantText(filepath.Join(b.staging, "data"), "written")
			b.unstage()
		})
	}
}
