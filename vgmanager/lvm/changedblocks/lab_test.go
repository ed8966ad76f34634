//go:build lab

package changedblocks

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

// node is a lab node with real LVM.
type node struct{ runner *nodelvm.Runner }

func (n node) parts() (LVM, Kernel, Open) {
	return lvmexec.New(n.runner), devicemapper.New(), OpenSnapshot
}

func (n node) run(t *testing.T, name string, args ...string) {
	t.Helper()
	command := nodelvm.Command
	if strings.HasPrefix(name, "/usr/bin/") {
		command = exec.Command
	}
	if out, err := command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

func (n node) lvm(t *testing.T, args ...string) {
	t.Helper()
	n.run(t, "/usr/sbin/lvm", args...)
}

func (n node) write(t *testing.T, chunks ...string) {
	t.Helper()
	for _, at := range chunks {
		n.run(t, "/usr/bin/dd", "if=/dev/urandom", "of=/dev/changed/origin", "bs=64k", "seek="+at, "count=1",
			"oflag=direct", "conv=notrunc")
	}
}

func (n node) isReserved(t *testing.T) bool {
	t.Helper()
	state, err := devicemapper.New().ThinPool(t.Context(), group, "pool")
	if err != nil {
		t.Fatal(err)
	}
	return state.HeldRoot != 0
}

func (n node) message(t *testing.T, text string) {
	t.Helper()
	n.run(t, "/usr/sbin/dmsetup", "message", "changed-pool-tpool", "0", text)
}

func (n node) reserve(t *testing.T) { n.message(t, "reserve_metadata_snap") }
func (n node) suspend(t *testing.T) { n.run(t, "/usr/sbin/dmsetup", "suspend", "changed-pool-tpool") }
func (n node) resume(t *testing.T)  { n.run(t, "/usr/sbin/dmsetup", "resume", "changed-pool-tpool") }

// deactivate and activate are what a reboot does: LVM checks the metadata before it activates the pool.
func (n node) deactivate(t *testing.T) { n.lvm(t, "vgchange", "-qq", "-an", group) }
func (n node) activate(t *testing.T)   { n.lvm(t, "vgchange", "-qq", "-ay", group) }

// newNode returns a lab node with the group and its pool.
func newNode(t *testing.T) node {
	t.Helper()
	disk, _, _ := strings.Cut(os.Getenv("LVMS_TEST_DISKS"), ",")
	if disk == "" {
		t.Fatal("LVMS_TEST_DISKS must name a blank disk of a lab node")
	}
	n := node{nodelvm.New()}
	n.lvm(t, "vgcreate", "-qq", group, disk)
	t.Cleanup(func() { n.lvm(t, "vgremove", "-qq", "--force", "--yes", group) })
	n.lvm(t, "lvcreate", "-qq", "-L", "128M", "--chunksize", "64k", "--poolmetadatasize", "4M", "-T", group+"/pool")
	n.lvm(t, "lvcreate", "-qq", "-V", "64M", "-T", group+"/pool", "-n", "origin")
	return n
}

// snapshot creates a snapshot of the origin, as for a VolumeSnapshot.
func (n node) snapshot(t *testing.T, name string, options ...string) {
	t.Helper()
	n.lvm(t, append([]string{"lvcreate", "-qq", "--snapshot", "--permission", "r", "--setactivationskip", "n", "-n",
		name, group + "/origin"}, options...)...)
}

func (n node) discard(t *testing.T, offset, length uint64) {
	t.Helper()
	n.run(t, "/usr/sbin/blkdiscard", "--offset", fmt.Sprint(offset), "--length", fmt.Sprint(length),
		"/dev/changed/origin")
}

func TestLabContract(t *testing.T) {
	n := newNode(t)
	n.lvm(t, "lvcreate", "-qq", "-L", "64M", "--permission", "r", "-Zn", "-Wn", "-n", "thick", group)
	n.write(t, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
	n.snapshot(t, "first")
	n.write(t, "3", "100", "1023")
	n.discard(t, 5*chunk, chunk)
	n.snapshot(t, "second")
	n.snapshot(t, "encrypted", "--addtag", encryptedTag)
	contract(t, n)
}
