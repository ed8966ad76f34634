package stack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	// vg1 and guest are UUIDs of volume groups as in the UUIDs of mapped devices.
	vg1   = "LVM-11111111111111111111111111111111"
	guest = "LVM-22222222222222222222222222222222"
)

// fakeNode has devices in a directory like sysfs.
type fakeNode struct {
	*testing.T
	Reader
	backings map[string]Backing
	fails    map[string]error
	opened   []string
}

func newNode(t *testing.T) *fakeNode {
	f := &fakeNode{T: t, backings: map[string]Backing{}, fails: map[string]error{}}
	f.Reader = Reader{Sysfs: t.TempDir(), Proc: t.TempDir(), Loop: func(path string) (Backing, error) {
		f.opened = append(f.opened, path)
		return f.backings[path], f.fails[path]
	}}
	f.mkdir("class/block")
	return f
}

func (f *fakeNode) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fakeNode) mkdir(path string) { f.ok(os.MkdirAll(filepath.Join(f.Sysfs, path), 0o755)) }

func (f *fakeNode) write(path, text string) {
	f.mkdir(filepath.Dir(path))
	f.ok(os.WriteFile(filepath.Join(f.Sysfs, path), []byte(text+"\n"), 0o600))
}

// device adds a device that is built on others.
func (f *fakeNode) device(name, number string, below ...string) {
	f.write("devices/"+name+"/dev", number)
	f.mkdir("devices/" + name + "/slaves")
	for _, b := range below {
		f.mkdir("devices/" + name + "/slaves/" + b)
	}
	f.link("devices/"+name, name)
}

func (f *fakeNode) link(target, name string) {
	f.ok(os.Symlink(filepath.Join("../..", target), filepath.Join(f.Sysfs, "class/block", name)))
}

func (f *fakeNode) mapped(name, number, mapping, uuid string, below ...string) {
	f.device(name, number, below...)
	f.write("devices/"+name+"/dm/name", mapping)
	f.write("devices/"+name+"/dm/uuid", uuid)
}

func (f *fakeNode) partition(disk, name, number string) {
	f.write("devices/"+disk+"/"+name+"/dev", number)
	f.write("devices/"+disk+"/"+name+"/partition", "1")
	f.link("devices/"+disk+"/"+name, name)
}

func (f *fakeNode) loop(name, number, file string, behind Backing) {
	f.device(name, number)
	f.write("devices/"+name+"/loop/backing_file", file)
	f.backings["/dev/"+name] = behind
}

// node has a class vg1 on sda with a thin pool and two volumes, volumes of the host in another group, and everything
// that a user of a volume can have built on it.
func node(t *testing.T) *fakeNode {
	f := newNode(t)
	f.device("sda", "8:0")
	f.device("sdb", "8:16")
	f.partition("sdb", "sdb1", "8:17")
	f.mapped("dm-0", "254:0", "vg1-pool_tdata", vg1+"a-tdata", "sda")
	f.mapped("dm-1", "254:1", "vg1-pool-tpool", vg1+"a-tpool", "dm-0")
	f.mapped("dm-2", "254:2", "vg1-block", vg1+"b", "dm-1")
	f.mapped("dm-3", "254:3", "vg1-files", vg1+"c", "dm-1")
	f.mapped("dm-4", "254:4", "vg1--old-root", "LVM-33333333333333333333333333333333d", "sdb1")
	f.loop("loop0", "7:0", "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/x", Backing{Device: "254:2"})
	f.loop("loop1", "7:1", "/disk.img", Backing{FileSystem: "254:3"}) // a file on a volume
	f.loop("loop2", "7:2", "/var/lib/disk.img", Backing{FileSystem: "254:4"})
	f.loop("loop3", "7:3", "/gone", Backing{})
	f.device("loop4", "7:4") // not set up
	f.partition("loop0", "loop0p1", "259:0")
	f.mapped("dm-5", "254:5", "vg1-root", guest+"e", "loop0p1") // the name of the class
	f.mapped("dm-6", "254:6", "secret", "CRYPT-LUKS2-x-secret", "dm-5")
	f.device("md127", "9:127", "dm-3", "loop1")
	f.mapped("dm-7", "254:7", "lvms-crypt-x", "CRYPT-LUKS2-y-lvms-crypt-x", "dm-3")
	return f
}

func names(blocks []*Block) string {
	var list []string
	for _, b := range blocks {
		list = append(list, b.Name)
	}
	return strings.Join(list, " ")
}

func TestGuestsAreWhatIsBuiltOnVolumes(t *testing.T) {
	tests := map[string]struct {
		groups []string
		want   string
	}{
		"class":         {[]string{"vg1"}, "dm-5 dm-6 dm-7 loop0 loop0p1 loop1 md127"},
		"no class yet":  {nil, "dm-5 dm-6 loop0 loop0p1"},
		"another class": {[]string{"vg1-old"}, "dm-5 dm-6 loop0 loop0p1 loop2"},
		"prefix":        {[]string{"vg"}, "dm-5 dm-6 loop0 loop0p1"},
	}
	for name, tt := range tests {
		f := node(t)
		for range 2 {
			blocks, err := f.Read()
			if got := names(blocks.Guests(tt.groups)); err != nil || got != tt.want {
				t.Errorf("%s: got %s, %v, want %s", name, got, err, tt.want)
			}
		}
		if slices.Contains(f.opened, "/dev/loop0") {
			t.Errorf("%s: the loop device of a Pod was opened", name)
		}
	}
}

func TestAFailedReadIsNoEmptyList(t *testing.T) {
	f := node(t)
	f.fails["/dev/loop1"] = errors.New("input/output error")
	if blocks, err := f.Read(); err == nil || !strings.Contains(err.Error(), "loop1") {
		t.Errorf("loop device: got %v, %v", blocks, err)
	}
	f.fails["/dev/loop1"] = ErrDetached
	if blocks, err := f.Read(); err != nil || blocks["7:1"] == nil {
		t.Errorf("removed loop device: got %v, %v", blocks, err)
	}
	f.mkdir("devices/bad/dev") // a directory cannot be read as a file
	f.link("devices/bad", "bad")
	if blocks, err := f.Read(); err == nil {
		t.Errorf("device: got %v", blocks)
	}
	if blocks, err := (&Reader{Sysfs: t.TempDir()}).Read(); err == nil {
		t.Errorf("no sysfs: got %v", blocks)
	}
}

func TestADeviceThatIsRemovedMeanwhileIsLeftOut(t *testing.T) {
	f := node(t)
	f.link("devices/nothing", "sdz")
	if blocks, err := f.Read(); err != nil || blocks["8:0"] == nil {
		t.Errorf("got %v, %v", blocks, err)
	}
}

// The kernel's answers are those of 6.1 and 7.2.
func TestADeviceThatIsRemovedWhileItIsReadIsGone(t *testing.T) {
	for _, tt := range []struct {
		path string
		err  error
		want bool
	}{
		{"/sys/class/block/dm-5/dm/name", unix.EINVAL, true},
		{"/sys/class/block/dm-5/dev", unix.ENODEV, true},
		{"/sys/class/block/dm-5/dev", unix.ENOENT, true},
		{"/sys/class/block/dm-5/dm/name", unix.EIO, false},
		{"/sys/class/block/loop0/loop/backing_file", unix.EINVAL, false},
	} {
		err := fmt.Errorf("read: %w", &fs.PathError{Op: "read", Path: tt.path, Err: tt.err})
		if got := isGone(errors.Join(nil, err)); got != tt.want {
			t.Errorf("%v: got %v", err, got)
		}
	}
}

func TestACircleEnds(t *testing.T) {
	f := newNode(t)
	f.mapped("dm-0", "254:0", "a", "x", "dm-1")
	f.mapped("dm-1", "254:1", "b", "y", "dm-0")
	blocks, err := f.Read()
	f.ok(err)
	if got := blocks.Guests([]string{"vg1"}); len(got) != 0 || names(blocks.Above("254:0")) != "dm-1" {
		t.Errorf("got %s", names(got))
	}
}

func TestGroupOfAMappedDevice(t *testing.T) {
	for mapping, want := range map[string]string{"vg1-a": "vg1", "vg--1-a--b": "vg-1", "vg----1-a": "vg--1",
		"vg1-pool-tpool": "vg1", "plain": ""} {
		if got := (&Block{Mapping: mapping, UUID: vg1}).group(); got != want {
			t.Errorf("%s: got %q, want %q", mapping, got, want)
		}
	}
	if got := (&Block{Mapping: "vg1-a", UUID: "CRYPT-x"}).group(); got != "" {
		t.Errorf("got %q for a device that LVM did not make", got)
	}
}

func TestAboveBeginsAtTheTop(t *testing.T) {
	blocks, err := node(t).read(true)
	if got := names(blocks.Above("254:2")); err != nil || got != "dm-6 dm-5 loop0p1 loop0" {
		t.Errorf("got %s, %v", got, err)
	}
	if got := names(blocks.Above("7:99")); got != "" {
		t.Errorf("got %s for no device", got)
	}
}

func TestLoopBackingOfWhatIsNoLoopDevice(t *testing.T) {
	if _, err := LoopBacking(filepath.Join(t.TempDir(), "loop0")); !errors.Is(err, ErrDetached) {
		t.Errorf("got %v", err)
	}
	if got, err := LoopBacking("/dev/null"); err == nil {
		t.Errorf("got %v", got)
	}
}
