package csinode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mountedfs"
)

// fileSystemsWith returns FileSystems with a mount table, and the folder that they read instead of /sys.
func fileSystemsWith(t *testing.T, table string) (f *mountedfs.FileSystems, sysfs string) {
	t.Helper()
	f = mountedfs.New("node1")
	dir := t.TempDir()
	f.MountInfo = filepath.Join(dir, "mountinfo")
	f.Sysfs = dir
	if err := os.WriteFile(f.MountInfo, []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	return f, dir
}

// TestStatsOfABrokenFileSystem calls NodeGetVolumeStats. If it returned an error, the kubelet would keep the old
// values.
func TestStatsOfABrokenFileSystem(t *testing.T) {
	b := newBench(t)
	b.server.FileSystems, _ = fileSystemsWith(t, "120 30 254:7 / /staging rw,noatime shared:60 - xfs /dev/mapper/vg1-8a6e rw\n"+
		"121 30 254:7 / /target rw,noatime shared:61 - xfs /dev/mapper/vg1-8a6e rw\n")
	b.server.FileSystems.Usage = func(string) ([]mountedfs.Usage, error) { return nil, unix.EIO }
	b.volumes.wrong = "thin pool vg1/pool is full"
	got, err := b.server.NodeGetVolumeStats(t.Context(),
		&csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: "/target"})
	b.wantCode(err, codes.OK)
	for _, word := range []string{"xfs", id, "/dev/mapper/vg1-8a6e", "node1", "input/output error", "delete the Pods",
		b.volumes.wrong} {
		if !got.VolumeCondition.Abnormal || !strings.Contains(got.VolumeCondition.Message, word) {
			t.Errorf("got %+v, want %q", got.VolumeCondition, word)
		}
	}
	if len(got.Usage) != 0 {
		t.Errorf("got the use %v", got.Usage)
	}
}
