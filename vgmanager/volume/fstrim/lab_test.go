//go:build lab

package fstrim

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/topolvm/topolvm/pkg/lvmd/types"
	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mountedfs"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

const (
	// group is the volume group of the test, which has the volumes 1, in a thin pool, and 2, which is thick.
	group = "trimmed"
	mib   = 1 << 20
)

// formats are the file systems. After the mount, the kernel writes no new blocks on its own.
var formats = map[string][]string{
	"ext4": {"mkfs.ext4", "-q", "-m0", "-E", "lazy_itable_init=0,lazy_journal_init=0"},
	"xfs":  {"mkfs.xfs", "-q", "-l", "size=64m"},
}

// node is a bare node with real LVM and mounted file systems.
type node struct {
	*bench
	engine *engine.Engine
	kernel *devicemapper.Reader
	staged string
}

func newNode(t *testing.T, kind string, config v1alpha1.TrimConfig) *node {
	t.Helper()
	disk, _, _ := strings.Cut(os.Getenv("LVMS_TEST_DISKS"), ",")
	if disk == "" {
		t.Fatal("LVMS_TEST_DISKS must name a blank disk of a lab node, of 800 MiB")
	}
	n := &node{bench: newBench(t, config, "1"), kernel: devicemapper.New(),
		staged: filepath.Join(t.TempDir(), "csi")}
	n.sh("wipefs", "--all", disk)
	n.sh("vgcreate", group, disk)
	t.Cleanup(func() {
		n.sh("vgremove", "--force", "--yes", group)
		n.sh("pvremove", disk)
	})
	n.sh("lvcreate", "--yes", "--type", "thin-pool", "--name", "pool", "--size", "500m", group)
	n.sh("lvcreate", "--yes", "--thinpool", "pool", "--name", "1", "--virtualsize", "400m", group)
	n.sh("lvcreate", "--yes", "--thinpool", "pool", "--name", "other", "--virtualsize", "16m", group)
	volumes := lvmexec.New(host.NewLocal())
	engine, err := engine.New(volumes, n.kernel, filepath.Join(t.TempDir(), "lvmd.yaml"))
	n.ok(err)
	n.ok(engine.Publish(deviceclass.Class{Name: "vg1", VolumeGroup: group, Type: types.TypeThin,
		ThinPoolConfig: &deviceclass.ThinPool{Name: "pool", OverprovisionRatio: 10}}))
	n.engine = engine
	n.sh("/usr/sbin/"+formats[kind][0], append(formats[kind][1:], "/dev/"+group+"/1")...)
	n.reboot()
	return n
}

// reboot starts another agent, on the file systems and volumes of the node.
func (n *node) reboot() {
	n.restart()
	n.agent.Volumes, n.agent.FileSystems = n.engine, mountedfs.New("node1")
	n.agent.NotSupported, n.agent.Plugins = mountedfs.NotSupported, n.staged
}

func (n *node) sh(program string, args ...string) {
	n.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		n.Fatalf("%s %s: %v: %s", program, strings.Join(args, " "), err, out)
	}
}

// stage mounts the file system as the kubelet has it, for a driver.
func (n *node) stage(driver string) string {
	n.Helper()
	path := filepath.Join(n.staged, driver, "3d0f", "globalmount")
	n.ok(os.MkdirAll(path, 0o750))
	n.sh("mount", "-o", "noatime", "/dev/"+group+"/1", path)
	n.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	return path
}

// used returns the usage of the pool in bytes, from the kernel.
func (n *node) used() int64 {
	n.Helper()
	pool, err := n.kernel.ThinPool(n.Context(), group, "pool")
	n.ok(err)
	return int64(pool.UsedData) * 500 * mib / int64(pool.TotalData)
}

// freed returns by how much the usage of the pool is less than before, when it is at least want, or after two minutes:
// xfs does not wait for the discards of a trim (xfs_discard_extents).
func (n *node) freed(before, want int64) int64 {
	n.Helper()
	end := time.Now().Add(2 * time.Minute)
	for {
		freed := before - n.used()
		if freed >= want || time.Now().After(end) {
			return freed
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (n *node) write(path string, size int) []byte {
	n.Helper()
	data := make([]byte, size)
	_, err := rand.Read(data)
	n.ok(err)
	f, err := os.Create(path)
	n.ok(err)
	_, err = f.Write(data)
	n.ok(errors.Join(err, f.Sync(), f.Close()))
	return data
}

// remove deletes a file, and waits until the file system has its blocks back: xfs frees them in the background.
func (n *node) remove(path string, size int64) {
	n.Helper()
	free := func() int64 {
		var fs unix.Statfs_t
		n.ok(unix.Statfs(filepath.Dir(path), &fs))
		return int64(fs.Bfree) * fs.Bsize
	}
	before := free()
	n.ok(os.Remove(path))
	end := time.Now().Add(2 * time.Minute)
	for free() < before+size {
		if time.Now().After(end) {
			n.Fatalf("%s was deleted, and the file system has %d bytes free, %d before", path, free(), before)
		}
		time.Sleep(50 * time.Millisecond)
	}
	unix.Sync()
}

func (n *node) wantData(path string, want []byte) {
	n.Helper()
	got := make([]byte, len(want))
	f, err := os.OpenFile(path, os.O_RDONLY, 0)
	n.ok(err)
	defer func() { _ = f.Close() }()
	if _, err := f.Read(got); err != nil || !bytes.Equal(got, want) {
		n.Errorf("%s has changed (%v)", path, err)
	}
}

// pass calls pass once, and returns whether it tried a volume.
func (n *node) pass() bool {
	n.Helper()
	tried, err := n.agent.pass(n.Context())
	n.ok(err)
	return tried
}

// TestLabAPoolGetsTheBlocksOfDeletedFilesBack: the pool stays full after a file was deleted, until the volume is
// trimmed, by schedule or because the pool is above its threshold. No other data changes.
func TestLabAPoolGetsTheBlocksOfDeletedFilesBack(t *testing.T) {
	for name, test := range map[string]struct {
		kind, driver string
		config       v1alpha1.TrimConfig
	}{
		"ext4, by schedule": {"ext4", wellknown.DriverName, v1alpha1.TrimConfig{Schedule: v1alpha1.TrimWeekly}},
		"xfs, by threshold": {"xfs", wellknown.EarlierDriverName,
			v1alpha1.TrimConfig{Schedule: v1alpha1.TrimNone, PoolUsageThresholdPercent: 50}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, test.kind, test.config)
			other := n.write("/dev/"+group+"/other", 8*mib)
			if n.pass() {
				t.Error("a volume was trimmed that is not mounted")
			}
			path := n.stage(test.driver)
			kept := n.write(filepath.Join(path, "kept"), 4*mib)
			n.write(filepath.Join(path, "deleted"), 200*mib)
			full := n.used()
			n.remove(filepath.Join(path, "deleted"), 200*mib)
			if now := n.used(); now < full {
				t.Fatalf("the pool used %d bytes and uses %d after the deletion: this shows nothing", full, now)
			}
			n.now = start.Add(week)
			if !n.pass() {
				t.Fatal("the volume was not trimmed")
			}
			freed := n.freed(full, 190*mib)
			record := n.record("1")
			t.Logf("the pool used %d MiB, and uses %d MiB less; %+v", full/mib, freed/mib, record)
			if freed < 190*mib || record == nil || record.Result != Trimmed || record.TrimmedBytes < 190*mib {
				t.Errorf("freed %d bytes; %+v", freed, record)
			}
			for range 2 { // Neither this agent nor the next one repeats it.
				if n.pass() {
					t.Error("it was trimmed again")
				}
				n.reboot()
			}
			n.wantData(filepath.Join(path, "kept"), kept)
			n.sh("umount", path)
			n.wantData("/dev/"+group+"/other", other)
			n.sh("mount", "-o", "noatime", "/dev/"+group+"/1", path)
			n.wantData(filepath.Join(path, "kept"), kept)
		})
	}
}

// TestLabAReadOnlyFileSystemIsNotTrimmed.
func TestLabAReadOnlyFileSystemIsNotTrimmed(t *testing.T) {
	n := newNode(t, "ext4", v1alpha1.TrimConfig{PoolUsageThresholdPercent: 10})
	path := n.stage(wellknown.DriverName)
	n.write(filepath.Join(path, "deleted"), 100*mib)
	n.remove(filepath.Join(path, "deleted"), 100*mib)
	n.sh("mount", "-o", "remount,ro", path)
	before := n.used()
	if n.pass() || n.used() != before || n.record("1") != nil {
		t.Errorf("it was trimmed: %d and %d bytes are used, %+v", before, n.used(), n.record("1"))
	}
}

// TestLabADiskWithoutDiscards: this is stated, and is not a failure. The device refuses discards as that of a pool does
// that ignores them.
func TestLabADiskWithoutDiscards(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			n := newNode(t, kind, v1alpha1.TrimConfig{PoolUsageThresholdPercent: 10})
			n.sh("vgchange", "--activate", "n", group)
			n.sh("lvchange", "--discards", "ignore", group+"/pool")
			n.sh("vgchange", "--activate", "y", group)
			path := n.stage(wellknown.DriverName)
			n.write(filepath.Join(path, "data"), 100*mib)
			n.pass()
			record := n.record("1")
			if record == nil || record.Result != NotSupported || record.Failures != 0 {
				t.Errorf("got %+v", record)
			}
			t.Logf("%+v", record)
			if said := n.events(); len(said) != 1 || !strings.Contains(said[0], "TrimNotSupported") {
				t.Errorf("events: %q", said)
			}
		})
	}
}

// TestLabADeviceThatDoesNotRespond: the trim ends with its context, and the rest of the agent is not blocked.
func TestLabADeviceThatDoesNotRespond(t *testing.T) {
	n := newNode(t, "ext4", v1alpha1.TrimConfig{Schedule: v1alpha1.TrimWeekly})
	n.pass()
	n.now = start.Add(week)
	path := n.stage(wellknown.DriverName)
	n.write(filepath.Join(path, "deleted"), 100*mib)
	n.remove(filepath.Join(path, "deleted"), 100*mib)
	n.sh("dmsetup", "suspend", "--nolockfs", group+"-1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	real := n.agent.FileSystems
	n.agent.FileSystems = endsLater{real, cancel}
	_, err := n.agent.pass(ctx)
	n.agent.FileSystems = real
	n.sh("dmsetup", "resume", group+"-1")
	if !errors.Is(err, context.Canceled) || n.record("1") != nil {
		t.Errorf("got %v, %+v", err, n.record("1"))
	}
	if !n.pass() || n.record("1") == nil || n.record("1").Result != Trimmed {
		t.Errorf("when it responds again: %+v", n.record("1"))
	}
}

// endsLater ends the process two seconds after a trim began.
type endsLater struct {
	FileSystems
	end context.CancelFunc
}

func (e endsLater) TrimStaged(ctx context.Context, device, path string) (int64, error) {
	defer time.AfterFunc(2*time.Second, e.end).Stop()
	return e.FileSystems.TrimStaged(ctx, device, path)
}
