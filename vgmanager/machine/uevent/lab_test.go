//go:build lab

package uevent

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// lab is a node with real devices, and a Listener whose notifications are counted.
type lab struct {
	*testing.T
	disk string
	told atomic.Int32
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{T: t, disk: strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")[0]}
	if l.disk == "" {
		t.Fatal("LVMS_TEST_DISKS must name a blank disk of a lab node")
	}
	l.sh("/usr/bin/udevadm", "settle")
	listener := New()
	ended := make(chan error, 1)
	listener.Subscribe(func() { l.told.Add(1) })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- listener.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	l.silent("the start", func() {})
	return l
}

func (l *lab) sh(name string, args ...string) string {
	l.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		l.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// heard runs do and expects a notification. It logs the delay, but "make bench NAME=node" measures it, because test
// machines are shared.
func (l *lab) heard(what string, do func()) {
	l.Helper()
	before := l.told.Load()
	begun := time.Now()
	do()
	for l.told.Load() == before && time.Since(begun) < time.Minute {
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(begun)
	time.Sleep(2 * time.Second)
	if l.told.Load() == before {
		l.Errorf("%s: not told", what)
	}
	l.Logf("%s: heard after %v, told %d times", what, took.Round(time.Millisecond), l.told.Load()-before)
}

func (l *lab) silent(what string, do func()) {
	l.Helper()
	before := l.told.Load()
	do()
	l.sh("/usr/bin/udevadm", "settle")
	time.Sleep(2 * time.Second)
	if n := l.told.Load() - before; n != 0 {
		l.Errorf("%s: told %d times", what, n)
	}
}

func TestLabLoopDevice(t *testing.T) {
	l := newLab(t)
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	var loop string
	l.heard("attach", func() { loop = l.sh("/usr/sbin/losetup", "--find", "--show", image) })
	l.heard("file system", func() { l.sh("/usr/sbin/mkfs.ext4", "-q", loop) })
	l.heard("detach", func() { l.sh("/usr/sbin/losetup", "--detach", loop) })
}

func TestLabDiskThatIsPulled(t *testing.T) {
	l := newLab(t)
	before, _ := filepath.Glob("/sys/block/sd*")
	l.heard("disks come", func() { l.sh("/usr/sbin/modprobe", "scsi_debug", "dev_size_mb=32", "delay=0") })
	after, _ := filepath.Glob("/sys/block/sd*")
	if len(after) != len(before)+1 {
		t.Fatalf("got the disks %v, had %v", after, before)
	}
	dir, err := filepath.EvalSymlinks(after[len(after)-1] + "/device")
	if err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o200); err != nil {
			t.Fatal(err)
		}
	}
	host := strings.Split(filepath.Base(dir), ":")[0]
	l.heard("a disk goes", func() { write(dir+"/delete", "1\n") })
	l.heard("a disk comes back", func() { write("/sys/class/scsi_host/host"+host+"/scan", "- - -\n") })
	l.heard("a disk goes and comes back at once", func() {
		write(dir+"/delete", "1\n")
		write("/sys/class/scsi_host/host"+host+"/scan", "- - -\n")
	})
	l.sh("/usr/bin/udevadm", "settle")
	l.heard("all go", func() { l.sh("/usr/sbin/modprobe", "--remove", "scsi_debug") })
}

func TestLabRAMDisks(t *testing.T) {
	l := newLab(t)
	l.heard("they come", func() { l.sh("/usr/sbin/modprobe", "brd", "rd_nr=16", "rd_size=4096") })
	l.heard("they go", func() { l.sh("/usr/sbin/modprobe", "--remove", "brd") })
}

func TestLabMapping(t *testing.T) {
	l := newLab(t)
	l.heard("made", func() {
		l.sh("/usr/sbin/dmsetup", "create", "plain", "--table", fmt.Sprintf("0 20480 linear %s 0", l.disk))
	})
	l.heard("removed", func() { l.sh("/usr/sbin/dmsetup", "remove", "--retry", "plain") })
}

// TestLabSilentWhileLVMWorks checks that LVM commands cause no notification, unless a disk becomes a physical volume
// or stops being one.
func TestLabSilentWhileLVMWorks(t *testing.T) {
	l := newLab(t)
	l.heard("a group is made", func() { l.sh("/usr/sbin/vgcreate", "-qq", "noise", l.disk) })
	steps := []struct{ what, command string }{
		{"a volume is made", "lvcreate -qq -y -L 20M -n a noise"},
		{"a pool is made", "lvcreate -qq -y --type thin-pool -L 60M -n pool noise"},
		{"a thin volume is made", "lvcreate -qq -y --type thin -V 100M --thinpool pool -n thin noise"},
		{"a snapshot is made", "lvcreate -qq -y -kn -ay -s -n snap noise/thin"},
		{"a volume grows", "lvextend -qq -L 40M noise/a"},
		{"a file system is made on a volume", "mkfs.ext4 -q /dev/noise/a"},
		{"a tag is set", "vgchange -qq --addtag x noise"},
		{"the group is put to rest", "vgchange -qq -an noise"},
		{"the group is activated", "vgchange -qq -ay noise"},
		{"volumes are removed", "lvremove -qq -y noise/snap noise/thin noise/pool noise/a"},
	}
	for _, step := range steps {
		l.silent(step.what, func() {
			words := strings.Fields(step.command)
			l.sh("/usr/sbin/"+words[0], words[1:]...)
		})
	}
	l.silent("somebody wrote to the disk", func() {
		l.sh("/usr/bin/dd", "if=/dev/zero", "of="+l.disk, "bs=1M", "seek=200", "count=1", "conv=notrunc")
	})
	l.heard("the group is removed", func() {
		l.sh("/usr/sbin/vgremove", "-qq", "-y", "noise")
		l.sh("/usr/sbin/pvremove", "-qq", l.disk)
	})
}
