//go:build lab

package copies

import (
	"bytes"
	"encoding/binary"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/blockdevice"
)

// TestLabSectors has mkfs write file systems on a disk with logical sectors of 512 bytes. The kernel mounts a copy on
// one with sectors of 4096 bytes if maxSector says so, and those that the driver creates.
func TestLabSectors(t *testing.T) {
	for name, test := range map[string]struct {
		mkfs []string
		want uint64
	}{
		"xfs of the disk":    {[]string{"mkfs.xfs", "-q", "-f", "-s", "size=512"}, 512},
		"ext4, small":        {[]string{"mkfs.ext4", "-q", "-F", "-b", "1024"}, 1024},
		"xfs of the driver":  {service.MkfsCommand("xfs", nil), 4096},
		"ext4 of the driver": {service.MkfsCommand("ext4", nil), 4096},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "disk")
			runCommand(t, exec.Command("/usr/bin/truncate", "--size", "320M", file))
			loop := func(sector string) string {
				device := strings.TrimSpace(runCommand(t, exec.Command("/usr/sbin/losetup", "--find", "--show",
					"--sector-size", sector, file)))
				t.Cleanup(func() { _ = exec.Command("/usr/sbin/losetup", "--detach", device).Run() })
				return device
			}
			small := loop("512")
			runCommand(t, exec.Command("/usr/sbin/chroot", append(nodelvm.InImage("/usr/sbin/"+test.mkfs[0],
				test.mkfs[1:]...), small)...))
			d, err := openSource(identityOf(t, small))
			must(t, err)
			start := make([]byte, startLength)
			_, err = d.ReadAt(start, 0)
			must(t, err)
			must(t, d.Close())
			if got := maxSector(start); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
			if unknown := newFeatures(start); unknown != 0 {
				t.Errorf("mkfs of the image sets the features %#x, which need a later kernel than the documents say", unknown)
			}
			runCommand(t, exec.Command("/usr/sbin/losetup", "--detach", small))
			large := loop("4096")
			d, err = openSource(identityOf(t, large))
			must(t, err)
			problem := checkSector(d, test.want)
			must(t, d.Close())
			at := t.TempDir()
			out, err := exec.Command("/usr/bin/mount", large, at).CombinedOutput()
			if err == nil {
				runCommand(t, exec.Command("/usr/bin/umount", at))
			}
			if (err == nil) != (problem == nil) {
				t.Errorf("the kernel says %v (%s), and the agent %v", err, out, problem)
			}
		})
	}
}

// newFeatures returns the features of a file system that Linux 5.10 does not know, so that it cannot mount it. XFS: all
// but ftype, spinodes, meta_uuid and bigtime, and those that it can only read without; ext4: orphan_file.
func newFeatures(start []byte) uint32 {
	if bytes.HasPrefix(start, []byte("XFSB")) {
		return (binary.BigEndian.Uint32(start[212:]) | binary.BigEndian.Uint32(start[216:])) &^ 0xf
	}
	return binary.LittleEndian.Uint32(start[ext4At+92:]) & 0x1000
}

// identityOf returns what openSource needs to know of a device.
func identityOf(t *testing.T, path string) blockdevice.Identity {
	t.Helper()
	number := strings.TrimSpace(runCommand(t, exec.Command("/usr/bin/lsblk", "--noheadings", "--nodeps", "--output",
		"MAJ:MIN", path)))
	return blockdevice.Identity{Path: path, Number: number, Size: 320 << 20}
}
