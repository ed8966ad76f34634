package uevent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lvm-storage/lvm-operator/test/expect"
)

// message returns a kernel message. Bars in text stand for zero bytes.
func message(text string) []byte { return []byte(strings.ReplaceAll(text, "|", "\x00")) }

const added = "add@/devices/platform/host1/block/sdb|ACTION=add|DEVPATH=/devices/platform/host1/block/sdb|SUBSYSTEM=block|MAJOR=8|MINOR=16|DEVNAME=sdb|DEVTYPE=disk|DISKSEQ=7|SEQNUM=1234|"

func TestDecode(t *testing.T) {
	e, err := Decode(message(added))
	if err != nil {
		t.Fatalf("got %+v, %v", e, err)
	}
	expect.Equal(t, "Action", e.Action, "add")
	expect.Equal(t, "Subsystem", e.Subsystem, "block")
	expect.Equal(t, "Name", e.Name, "sdb")
	expect.Equal(t, "Number", e.Number, "8:16")
	expect.Equal(t, `Properties["SEQNUM"]`, e.Properties["SEQNUM"], "1234")
	for _, bad := range []string{"", "libudev|xx", "add@", "@/devices/x", "add@/x|ACTION=remove|",
		"add@/x|nonsense|", "add@/x|=y|"} {
		if e, err := Decode(message(bad)); err == nil {
			t.Errorf("%q: got %+v, want an error", bad, e)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(message(added))
	f.Add(message("change@/devices/virtual/block/dm-0|ACTION=change|SUBSYSTEM=block|DEVNAME=dm-0|"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if e, err := Decode(data); err == nil && (e.Action == "" || e.Properties["ACTION"] != e.Action) {
			t.Errorf("got %+v", e)
		}
	})
}

// node simulates a node's /sys and /run/udev.
type node struct {
	*testing.T
	dir string
	l   *Listener
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{T: t, dir: t.TempDir()}
	n.l = New()
	n.l.sysfs, n.l.udev, n.l.quiet, n.l.longest = filepath.Join(n.dir, "sys"), filepath.Join(n.dir, "udev"),
		20*time.Millisecond, time.Second
	n.disk("sda", "8:0", "E:ID_SERIAL=a\n")
	n.l.learn()
	return n
}

func (n *node) write(path, content string) {
	n.Helper()
	path = filepath.Join(n.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		n.Fatal(err)
	}
}

func (n *node) disk(name, number, record string) {
	n.Helper()
	n.write("sys/class/block/"+name+"/dev", number+"\n")
	n.write("sys/class/block/"+name+"/size", "2048\n")
	n.write("udev/data/b"+number, "I:123\n"+record)
}

func TestWhatIsAChange(t *testing.T) {
	tests := map[string]struct {
		change func(*node)
		want   bool
	}{
		"nothing":        {func(*node) {}, false},
		"a new disk":     {func(n *node) { n.disk("sdb", "8:16", "") }, true},
		"a disk is gone": {func(n *node) { _ = os.RemoveAll(filepath.Join(n.dir, "sys/class/block/sda")) }, true},
		"a file system":  {func(n *node) { n.disk("sda", "8:0", "E:ID_SERIAL=a\nE:ID_FS_TYPE=ext4\n") }, true},
		"another size":   {func(n *node) { n.write("sys/class/block/sda/size", "4096\n") }, true},
		"LVM wrote its labels": {func(n *node) {
			n.write("udev/data/b8:0",
				"I:456\nE:ID_SERIAL=a\nG:systemd\nE:SYSTEMD_READY=1\n")
		}, false},
		"a mapping on it": {func(n *node) { n.write("sys/class/block/sda/holders/dm-0", "") }, true},
		"a logical volume on it": {func(n *node) {
			n.write("sys/class/block/dm-0/dev", "253:0\n")
			n.write("sys/class/block/dm-0/dm/uuid", "LVM-abc\n")
			n.write("sys/class/block/sda/holders/dm-0", "")
		}, false},
	}
	for name, tt := range tests {
		n := newNode(t)
		tt.change(n)
		if got := n.l.learn(); got != tt.want {
			t.Errorf("%s: got %t, want %t", name, got, tt.want)
		}
		if n.l.learn() {
			t.Errorf("%s: it is a change a second time", name)
		}
	}
}

func TestWhatCounts(t *testing.T) {
	n := newNode(t)
	n.write("sys/block/dm-0/dm/uuid", "LVM-abc\n")
	n.write("sys/block/dm-1/dm/uuid", "CRYPT-LUKS2-abc\n")
	tests := []struct {
		e    Event
		want bool
	}{
		{Event{Action: "add", Subsystem: "net", Name: "eth0"}, false},
		{Event{Action: "add", Subsystem: "block", Name: "sdb"}, true},
		{Event{Action: "change", Subsystem: "block", Name: "dm-0"}, false},
		{Event{Action: "change", Subsystem: "block", Name: "dm-1"}, true},
		{Event{Action: "add", Subsystem: "block", Name: "dm-7"}, true}, // unknown, so it counts
	}
	for _, tt := range tests {
		if got := n.l.counts(tt.e); got != tt.want {
			t.Errorf("%+v: got %t", tt.e, got)
		}
	}
	if err := os.RemoveAll(filepath.Join(n.dir, "sys/block/dm-0")); err != nil {
		t.Fatal(err)
	}
	if n.l.counts(Event{Action: "remove", Subsystem: "block", Name: "dm-0"}) {
		t.Error("a logical volume that is gone counts")
	}
}

func TestABurstIsToldOnceAndAfterUdev(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		var told atomic.Int32
		done := make(chan struct{}, 10)
		n.l.Subscribe(func() { told.Add(1); done <- struct{}{} })
		ctx, cancel := context.WithCancel(t.Context())
		heard := make(chan struct{}, 1)
		failed := make(chan error, 1)
		ended := make(chan error, 1)
		go func() { ended <- n.l.settle(ctx, heard, failed) }()
		n.write("udev/queue", "")
		n.disk("sdb", "8:16", "")
		for range 5 {
			heard <- struct{}{}
		}
		time.Sleep(5 * n.l.quiet)
		if told.Load() != 0 {
			t.Error("told while udev was at work")
		}
		if err := os.Remove(filepath.Join(n.dir, "udev/queue")); err != nil {
			t.Fatal(err)
		}
		<-done
		// A burst without a change.
		heard <- struct{}{}
		time.Sleep(5 * n.l.quiet)
		if told.Load() != 1 {
			t.Errorf("told %d times", told.Load())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestUdevThatTakesLongIsLookedAtAgain checks that what udev finds late is read, although the kernel sends no message
// for it.
func TestUdevThatTakesLongIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.l.longest = 3 * n.l.quiet
		told := make(chan struct{}, 10)
		n.l.Subscribe(func() { told <- struct{}{} })
		ctx, cancel := context.WithCancel(t.Context())
		heard := make(chan struct{}, 1)
		failed := make(chan error, 1)
		ended := make(chan error, 1)
		go func() { ended <- n.l.settle(ctx, heard, failed) }()
		n.write("udev/queue", "")
		n.disk("sdb", "8:16", "")
		heard <- struct{}{}
		<-told // the time limit passed
		n.disk("sdb", "8:16", "E:ID_FS_TYPE=ext4\n")
		if err := os.Remove(filepath.Join(n.dir, "udev/queue")); err != nil {
			t.Fatal(err)
		}
		<-told
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestARecordThatCannotBeReadIsNotAnEmptyOne(t *testing.T) {
	n := newNode(t)
	n.disk("sdb", "8:16", "")
	n.l.learn()
	if err := os.Remove(filepath.Join(n.dir, "udev/data/b8:16")); err != nil {
		t.Fatal(err)
	}
	n.write("udev/data/b8:16/x", "") // A directory exists, but reading it returns an error.
	if !n.l.learn() {
		t.Error("a record of udev that cannot be read counts as empty")
	}
}

func TestASocketThatFailsIsAnError(t *testing.T) {
	n := newNode(t)
	failed := make(chan error, 1)
	failed <- os.ErrClosed
	if err := n.l.settle(t.Context(), make(chan struct{}), failed); err == nil {
		t.Error("nobody hears that nobody listens")
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	l := New()
	go func() { ended <- l.Start(ctx) }()
	time.Sleep(20 * time.Millisecond)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
