package csinode

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/internal/volume/health"
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

// broken is a volume with XFS, of which the kernel returns an error.
func broken(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.server.FileSystems, _ = fileSystemsWith(t, "120 30 254:7 / /staging rw,noatime shared:60 - xfs /dev/mapper/vg1-8a6e rw\n"+
		"121 30 254:7 / /target rw,noatime shared:61 - xfs /dev/mapper/vg1-8a6e rw\n")
	b.server.FileSystems.Usage = func(string) ([]mountedfs.Usage, error) { return nil, unix.EIO }
	b.volumes.problems = []health.Condition{health.Degraded(health.ThinPoolOutOfData, "thin pool vg1/pool is full")}
	return b
}

func TestStatsOfABrokenFileSystemSayWhatIsWrong(t *testing.T) {
	b := broken(t)
	_, err := b.server.NodeGetVolumeStats(t.Context(),
		&csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: "/target"})
	b.wantCode(err, codes.Internal, "xfs", id, "/dev/mapper/vg1-8a6e", "node1", "input/output error", "delete the Pods")
}

func TestHealthOfAVolumeAndItsFileSystem(t *testing.T) {
	b := broken(t)
	b.server.FileSystems.Usage = func(path string) ([]mountedfs.Usage, error) {
		if path == "/none" {
			return nil, unix.ENOENT
		}
		return nil, unix.EIO
	}
	const pool, files = "DEGRADED ThinPoolOutOfData", "INACCESSIBLE FileSystemUnavailable"
	for name, test := range map[string]struct {
		publish, stage string
		want           []string
	}{
		"published":            {"/target", "/staging", []string{files, pool}},
		"staged":               {"", "/staging", []string{files, pool}},
		"could not be mounted": {"/none", "/staging", []string{files, pool}},
		"not staged":           {"", "", []string{pool}},
	} {
		got, err := b.server.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: id,
			VolumePublishPath: test.publish, StagingTargetPath: test.stage})
		b.wantCode(err, codes.OK)
		var reasons []string
		for _, s := range got.GetVolumeHealth().GetHealthStatuses() {
			reasons = append(reasons, s.GetStatus().String()+" "+s.GetReason())
		}
		if !slices.Equal(reasons, test.want) || got.GetVolumeHealth().GetVolumeId() != id {
			t.Errorf("%s: got %v, want %q", name, got, test.want)
		}
	}
}

func TestHealthThatCannotBeReadIsAnError(t *testing.T) {
	b := newBench(t)
	read := func(id, path string) error {
		_, err := b.server.NodeGetVolumeHealth(t.Context(),
			&csi.NodeGetVolumeHealthRequest{VolumeId: id, VolumePublishPath: path})
		return err
	}
	b.wantCode(read("", ""), codes.InvalidArgument)
	b.wantCode(read("none", ""), codes.NotFound)
	b.volumes.err = status.Error(codes.Unavailable, "no answer")
	b.wantCode(read(id, ""), codes.Unavailable)
	_, err := b.server.NodeGetStorageHealth(t.Context(), &csi.NodeGetStorageHealthRequest{})
	b.wantCode(err, codes.Unavailable)
	b.volumes.err = nil
	b.server.FileSystems, _ = fileSystemsWith(t, "not a mount table")
	b.wantCode(read(id, "/target"), codes.Internal)
}

func TestHealthOfTheDeviceClasses(t *testing.T) {
	b := newBench(t)
	for name, test := range map[string]struct {
		problems []health.Condition
		want     []string
	}{
		"healthy": {},
		"degraded": {[]health.Condition{health.Degraded(health.DeviceMissing, "a"), health.Degraded(health.DeviceMissing, "b")},
			[]string{"STORAGE_DEGRADED DeviceMissing a; b"}},
		"unavailable": {[]health.Condition{health.Inaccessible(health.DeviceClassUnavailable, "a")},
			[]string{"STORAGE_UNREACHABLE DeviceClassUnavailable a"}},
	} {
		b.volumes.problems = test.problems
		got, err := b.server.NodeGetStorageHealth(t.Context(), &csi.NodeGetStorageHealthRequest{})
		b.wantCode(err, codes.OK)
		var all []string
		for _, h := range got.GetBackendHealth() {
			all = append(all, h.GetStatus().String()+" "+h.GetReason()+" "+h.GetMessage())
		}
		if !slices.Equal(all, test.want) {
			t.Errorf("%s: got %q, want %q", name, all, test.want)
		}
	}
}
