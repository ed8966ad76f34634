//go:build lab

package csinode

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mountedfs"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/luks"
)

// pattern is what a Pod writes. It must not be on the disk.
var pattern = []byte("a sentence that no disk may contain")

// encryptedLab is an encrypted volume on a real logical volume, with cryptsetup of the image.
type encryptedLab struct {
	*bench
	m *mapping
}

func newEncrypted(t *testing.T) *encryptedLab {
	t.Helper()
	b := newVolume(t)
	l := &encryptedLab{bench: b, m: &mapping{T: t}}
	l.m.sh("modprobe", "dm-crypt")
	b.encrypted()
	b.rebuild(b.server.system, luks.New(nodelvm.New(), devicemapper.New()), b.server.volumes.Records)
	t.Cleanup(func() {
		for _, path := range []string{b.target, b.staging} {
			_ = exec.Command("umount", path).Run()
		}
		_ = exec.Command("dmsetup", "remove", "--retry", volume.MappingName(id)).Run()
	})
	return l
}

// newEncryptedVolume is newVolume for an encrypted volume.
func newEncryptedVolume(t *testing.T) *bench {
	t.Helper()
	return newEncrypted(t).bench
}

// header returns a hash of the first 16 MiB of the logical volume.
func (l *encryptedLab) header() [sha256.Size]byte {
	l.Helper()
	f, err := os.Open(l.volumes.lv.Path)
	l.m.ok(err)
	defer func() { _ = f.Close() }()
	data := make([]byte, luks.HeaderSize)
	_, err = io.ReadFull(f, data)
	l.m.ok(err)
	return sha256.Sum256(data)
}

// isReadable reports whether the pattern is on a device.
func (l *encryptedLab) isReadable(path string) bool {
	l.Helper()
	l.m.sh("blockdev", "--flushbufs", path)
	f, err := os.Open(path)
	l.m.ok(err)
	defer func() { _ = f.Close() }()
	buffer := make([]byte, 4<<20)
	for {
		n, err := io.ReadFull(f, buffer)
		if bytes.Contains(buffer[:n], pattern) {
			return true
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				l.Fatal(err)
			}
			return false
		}
	}
}

func (l *encryptedLab) wantOpen(want bool) {
	l.Helper()
	_, err := os.Stat("/dev/mapper/" + volume.MappingName(id))
	found, failed := devicemapper.New().Named(l.Context(), volume.MappingName(id))
	if (err == nil) != want || (failed == nil) != want {
		l.Errorf("the mapped device: %v; %+v, %v; want it: %t", err, found, failed, want)
	}
}

func (l *encryptedLab) publishIn(fs string) error {
	return l.publishAs(fs, l.target)
}

// TestLabEncryptedVolume follows a volume from its first use to a copy of it.
func TestLabEncryptedVolume(t *testing.T) {
	for _, fs := range []string{"ext4", "xfs", ""} {
		t.Run("as "+fs, func(t *testing.T) {
			l := newEncrypted(t)
			secret := secretOf(present, "")
			for range 2 {
				l.wantCode(l.stageEncrypted(fs, secret, luksContext), codes.OK)
				l.wantCode(l.publishIn(fs), codes.OK)
			}
			l.wantOpen(true)
			l.write(fs)
			if l.isReadable(l.volumes.lv.Path) {
				t.Error("the data is on the logical volume")
			}
			if !l.isReadable("/dev/mapper/" + volume.MappingName(id)) {
				t.Error("the data is not on the mapped device: the search does not work")
			}
			l.grows(fs)
			l.isKnownByItsVolume(fs)
			before := l.header()
			l.copyOpens(secret)
			for range 2 {
				l.wantCode(l.unpublishAndUnstage(), codes.OK)
			}
			l.wantOpen(false)
			l.wantCode(l.stageEncrypted(fs, secretOf(previous, ""), luksContext), codes.FailedPrecondition, "its key "+
				"is not key")
			l.wantCode(l.stageEncrypted(fs, nil, luksContext), codes.FailedPrecondition, "no key")
			if l.header() != before {
				t.Error("a wrong key changed the header")
			}
			l.wantOpen(false)
			l.wantCode(l.stageEncrypted(fs, secret, luksContext), codes.OK)
			if !l.isReadable("/dev/mapper/" + volume.MappingName(id)) {
				t.Error("the data is lost")
			}
		})
	}
}

// write writes the pattern to the volume as a Pod does.
func (l *encryptedLab) write(fs string) {
	l.Helper()
	path := l.target
	if fs != "" {
		path = filepath.Join(l.target, "file")
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	l.m.ok(err)
	_, err = f.Write(bytes.Repeat(pattern, 1000))
	l.m.ok(errors.Join(err, f.Sync(), f.Close()))
	l.m.sh("sync")
}

func sizeOf(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	return f.Seek(0, io.SeekEnd)
}

// grows expands the logical volume. The expansion of the volume does not need its key.
func (l *encryptedLab) grows(fs string) {
	l.Helper()
	before, err := sizeOf("/dev/mapper/" + volume.MappingName(id))
	l.m.ok(err)
	l.m.sh("lvextend", "--size", "+100m", group+"/"+id)
	for range 2 {
		l.wantCode(l.expandReal(), codes.OK)
	}
	after, err := sizeOf("/dev/mapper/" + volume.MappingName(id))
	l.m.ok(err)
	if after != before+100<<20 || before != 500<<20-luks.HeaderSize {
		l.Errorf("the mapped device had %d bytes and has %d", before, after)
	}
	if fs == "" {
		return
	}
	usage, err := mountedfs.UsageOf(l.target)
	l.m.ok(err)
	if usage[0].Total < after*8/10 {
		l.Errorf("the file system has %d bytes of %d", usage[0].Total, after)
	}
}

func (l *encryptedLab) mappedNumber() mounter.Number {
	l.Helper()
	number, err := mounter.Mounter{}.Number("/dev/mapper/" + volume.MappingName(id))
	l.m.ok(err)
	return number
}

func (l *encryptedLab) expandReal() error {
	_, err := l.server.NodeExpandVolume(l.Context(), &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: l.target})
	return err
}

// isKnownByItsVolume checks that the file system is found by the number of the logical volume.
func (l *encryptedLab) isKnownByItsVolume(fs string) {
	l.Helper()
	number := mounter.Number{Major: l.volumes.lv.Major, Minor: l.volumes.lv.Minor}.String()
	points, err := l.server.system.MountPoints(l.mappedNumber())
	if err != nil || !slices.Contains(points, l.target) {
		l.Errorf("the Pods with the volume are found at %q, %v", points, err)
	}
	used, err := mountedfs.New("node1").Used(l.Context(), []string{number})
	if err != nil || (used[number] > 0) != (fs != "") {
		l.Errorf("got %v, %v", used, err)
	}
	problems, err := mountedfs.New("node1").Problems(l.Context(), map[string]service.Volume{number: {Class: "vg1", Name: "8a6e", Claim: "shop/orders"}})
	if err != nil || len(problems) != 0 {
		l.Errorf("got %v, %v", problems, err)
	}
}

// copyOpens opens a snapshot of the volume, with its key, while the volume is open.
func (l *encryptedLab) copyOpens(secret map[string]string) {
	l.Helper()
	const name = "lvms-crypt-copy"
	l.m.sh("lvcreate", "--yes", "--snapshot", "--size", "40m", "--name", "copy", group+"/"+id)
	path := "/dev/" + group + "/copy"
	containers := l.server.encryption.Containers
	l.m.ok(containers.Open(l.Context(), path, name, []byte(secret[wellknown.EncryptionKey]), false))
	if !l.isReadable("/dev/mapper/" + name) {
		l.Error("the copy does not have the data")
	}
	for range 2 {
		l.m.ok(containers.Close(l.Context(), name))
	}
	l.m.sh("lvremove", "--yes", group+"/copy")
}

// TestLabEncryptedVolumeThatLostItsHeader checks that a volume that was used is not formatted, whatever is on it.
func TestLabEncryptedVolumeThatLostItsHeader(t *testing.T) {
	for _, tag := range []string{wellknown.FormattedTagPrefix + "ext4", "other"} {
		t.Run(tag, func(t *testing.T) {
			l := newEncrypted(t)
			l.volumes.lv.Tags[0] = tag
			secret := secretOf(present, "")
			l.wantCode(l.stageEncrypted("ext4", secret, luksContext), codes.DataLoss, "nothing is formatted")
			l.m.sh("mkfs.ext4", "-q", l.volumes.lv.Path)
			before := l.header()
			l.wantCode(l.stageEncrypted("ext4", secret, luksContext), codes.FailedPrecondition, "contains ext4")
			if l.header() != before {
				t.Error("the volume was changed")
			}
			l.wantOpen(false)
		})
	}
}

// TestLabEncryptedVolumeAfterAKilledOpen creates what cryptsetup leaves if it is killed while it opens a volume: a
// mapped device without a table.
func TestLabEncryptedVolumeAfterAKilledOpen(t *testing.T) {
	l := newEncrypted(t)
	killed := func() {
		l.m.sh("dmsetup", "create", "--notable", "--uuid", "CRYPT-LUKS2-1234-"+volume.MappingName(id), volume.MappingName(id))
	}
	killed()
	l.wantCode(l.publishIn("ext4"), codes.FailedPrecondition, "is not open")
	l.wantCode(l.unpublishAndUnstage(), codes.OK)
	l.wantOpen(false)
	killed()
	l.wantCode(l.stageEncrypted("ext4", secretOf(present, ""), luksContext), codes.OK)
	l.wantCode(l.publishIn("ext4"), codes.OK)
	l.wantCode(l.unpublishAndUnstage(), codes.OK)
	l.wantOpen(false)
}

func TestLabEncryptedVolumeGetsAnotherKey(t *testing.T) {
	l := newEncrypted(t)
	stage := func(key, before string) error { return l.stageEncrypted("ext4", secretOf(key, before), luksContext) }
	l.wantCode(stage(previous, ""), codes.OK)
	l.wantCode(l.publishIn("ext4"), codes.OK)
	l.write("ext4")
	l.wantCode(l.unpublishAndUnstage(), codes.OK)
	for range 2 {
		l.wantCode(stage(present, previous), codes.OK)
		l.wantCode(l.unpublishAndUnstage(), codes.OK)
	}
	slots, err := l.server.encryption.Keyslots.Slots(t.Context(), l.volumes.lv.Path)
	if err != nil || slots != 1 {
		t.Errorf("%d key slots are used, %v", slots, err)
	}
	l.wantCode(stage(previous, ""), codes.FailedPrecondition, "its key is not key")
	l.wantCode(stage(present, ""), codes.OK)
	if !l.isReadable("/dev/mapper/" + volume.MappingName(id)) {
		t.Error("the data is lost")
	}
}

// killedFormat kills luksFormat after a delay.
type killedFormat struct {
	*nodelvm.Runner
	delay  time.Duration
	killed bool
}

func (k *killedFormat) RunWithInput(ctx context.Context, inputs [][]byte, accepted func(int) bool, name string,
	args ...string) ([]byte, int, error) {
	if args[0] != "luksFormat" || k.killed {
		return k.Runner.RunWithInput(ctx, inputs, accepted, name, args...)
	}
	k.killed = true
	cmd := exec.Command("/usr/sbin/chroot", nodelvm.InImage(name, args...)...)
	cmd.Stdin = bytes.NewReader(inputs[0])
	if err := cmd.Start(); err != nil {
		return nil, -1, err
	}
	time.Sleep(k.delay)
	_ = cmd.Process.Kill()
	return nil, -1, errors.Join(errors.New("killed"), cmd.Wait())
}

// TestLabEncryptedVolumeAfterAKilledFormat checks that the next call completes what a killed luksFormat has begun,
// whenever that was killed.
func TestLabEncryptedVolumeAfterAKilledFormat(t *testing.T) {
	l := newEncrypted(t)
	var slots []int
	for delay := 5 * time.Millisecond; delay < 3*time.Second; delay = delay * 2 {
		l.encrypted()
		l.m.sh("wipefs", "--all", l.volumes.lv.Path)
		killed := &killedFormat{Runner: nodelvm.New(), delay: delay}
		l.rebuild(l.server.system, luks.New(killed, devicemapper.New()), l.server.volumes.Records)
		if err := l.stageEncrypted("ext4", secretOf(present, ""), luksContext); err == nil || !killed.killed {
			t.Fatalf("luksFormat was not killed: %v", err)
		}
		if found, err := l.server.encryption.Keyslots.Slots(t.Context(), l.volumes.lv.Path); err == nil {
			slots = append(slots, found)
		}
		l.wantCode(l.stageEncrypted("ext4", secretOf(present, ""), luksContext), codes.OK)
		l.wantCode(l.unpublishAndUnstage(), codes.OK)
		l.wantOpen(false)
	}
	t.Logf("key slots after each kill: %v", slots)
}
