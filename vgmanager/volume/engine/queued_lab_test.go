//go:build lab

package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/groupsnapshot"
)

// queuedBench is a pool in a state that a killed command of LVM leaves: the test writes this state to LVM's metadata
// and to the kernel, because a command cannot be killed at a certain moment.
type queuedBench struct {
	*killedBench
	e *Engine
}

// newQueuedBench returns a pool with the volumes "full", whose 8 MiB have data, "other" and "later".
func newQueuedBench(t *testing.T, look bool) *queuedBench {
	disk, _, _ := strings.Cut(os.Getenv("LVMS_TEST_DISKS"), ",")
	if disk == "" {
		t.Fatal("LVMS_TEST_DISKS must name a blank disk of a lab node")
	}
	b := &killedBench{T: t, kernel: devicemapper.New()}
	b.lvm = b.run(host.NewLocal())
	if look {
		b.lvm.ReadGroupsWith(device.New(host.NewLocal()).ReadPhysicalVolumes)
	}
	must(t, b.lvm.Apply(t.Context(), lvm.VGCreate{Name: killedGroup, Devices: []string{disk}}))
	t.Cleanup(b.clean)
	must(t, b.lvm.Apply(t.Context(), lvm.LVCreateThinPool{VG: killedGroup, Name: "pool", PercentFree: 50}))
	q := &queuedBench{killedBench: b, e: b.engine(b.lvm)}
	for _, name := range []string{"full", "other", "later"} {
		must(t, q.create(name))
	}
	q.fillDevice("/dev/"+killedGroup+"/full", 8)
	return q
}

func (b *queuedBench) create(name string) error {
	_, err := b.e.CreateLV(b.Context(), NewVolume{Name: name, Class: killedGroup,
		Size: 8 * mib, Tags: []string{wellknown.NewTag}})
	return err
}

func (b *queuedBench) command(name string, args ...string) string {
	b.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		b.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

func (b *queuedBench) read(name string) []byte {
	b.Helper()
	content, err := os.ReadFile("/dev/" + killedGroup + "/" + name)
	must(b.T, err)
	return content
}

func (b *queuedBench) pool() devicemapper.ThinPool {
	b.Helper()
	state, err := b.kernel.ThinPool(b.Context(), killedGroup, "pool")
	must(b.T, err)
	return state
}

func (b *queuedBench) message(text string) {
	b.Helper()
	b.command("/usr/sbin/dmsetup", "message", killedGroup+"-pool-tpool", "0", text)
}

func (b *queuedBench) thinID(name string) uint64 {
	b.Helper()
	text := b.command("/usr/sbin/lvm", "lvs", "--noheadings", "-o", "thin_id", killedGroup+"/"+name)
	id, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	must(b.T, err)
	return id
}

// queue writes a message for the pool to LVM's metadata, as a command does before it sends it.
func (b *queuedBench) queue(message string) {
	b.Helper()
	file := filepath.Join(b.TempDir(), "metadata")
	b.command("/usr/sbin/lvm", "vgcfgbackup", "--file", file, killedGroup)
	text, err := os.ReadFile(file)
	must(b.T, err)
	pool := regexp.MustCompile(`(type = "thin-pool"(?s:.*?)transaction_id = \d+\n)`)
	changed := pool.ReplaceAll(text, []byte("${1}message1 {\n"+message+"\n}\n"))
	if bytes.Equal(text, changed) {
		b.Fatalf("the metadata has no pool: %s", text)
	}
	must(b.T, os.WriteFile(file, changed, 0o600))
	b.command("/usr/sbin/lvm", "vgcfgrestore", "--force", "--yes", "--file", file, killedGroup)
}

// unsent makes the last volume that was created one whose message was not sent: its pool does not have it.
func (b *queuedBench) unsent(name string) {
	b.Helper()
	number := b.pool().TransactionID
	id := b.thinID(name)
	b.command("/usr/sbin/lvm", "lvchange", "--activate", "n", killedGroup+"/"+name)
	b.message(fmt.Sprint("delete ", id))
	b.message(fmt.Sprint("set_transaction_id ", number, " ", number-1))
	b.queue(fmt.Sprintf("create = %q", name))
}

func (b *queuedBench) suspend() { b.command("/usr/sbin/dmsetup", "suspend", killedGroup+"-pool-tpool") }

// leave creates a thin device with data that LVM does not know, with the ID that the next new volume gets.
func (b *queuedBench) leave() {
	b.Helper()
	var next uint64
	for _, name := range strings.Fields(b.command("/usr/sbin/lvm", "lvs", "--noheadings", "-o", "lv_name", "--select",
		"segtype=thin", killedGroup)) {
		next = max(next, b.thinID(name)+1)
	}
	b.message(fmt.Sprint("create_thin ", next))
	b.command("/usr/sbin/dmsetup", "create", "leftover", "--table",
		fmt.Sprintf("0 %d thin /dev/mapper/%s-pool-tpool %d", 8*mib/512, killedGroup, next))
	b.fillDevice("/dev/mapper/leftover", 8)
	b.command("/usr/sbin/dmsetup", "remove", "--retry", "leftover")
}

// works checks that the pool still does everything, and has no data of removed volumes.
func (b *queuedBench) works() {
	b.Helper()
	for _, name := range []string{"new1", "new2"} {
		must(b.T, b.create(name))
		b.mustBeEmpty(name, 8*mib)
		b.write(name)
	}
	for _, name := range []string{"new1", "new2", "other", "later"} {
		b.remove(name)
	}
	if state := b.pool(); state.UsedData != 0 || state.HasFailed() {
		b.Errorf("all volumes are removed, and the pool is %+v", state)
	}
	if states := b.states("none"); states != "" {
		b.Error(states)
	}
}

// TestLabARemovalDeletesTheDataAfterAKilledCommand removes a volume while LVM's metadata has a message that the kernel
// has already, and while the pool is suspended too.
func TestLabARemovalDeletesTheDataAfterAKilledCommand(t *testing.T) {
	for _, look := range []bool{true, false} {
		for _, suspended := range []bool{false, true} {
			if testing.Short() && look != suspended {
				continue
			}
			t.Run(fmt.Sprintf("look %t, suspended %t", look, suspended), func(t *testing.T) {
				b := newQueuedBench(t, look)
				b.queue(`create = "later"`)
				if suspended {
					b.suspend()
				}
				b.remove("full")
				b.works()
			})
		}
	}
}

// TestLabMessagesThatWereNotSent removes and creates volumes while LVM has committed a volume that the kernel does not
// have.
func TestLabMessagesThatWereNotSent(t *testing.T) {
	for name, request := range map[string]func(b *queuedBench){
		"removal":  func(b *queuedBench) { b.remove("full") },
		"creation": func(b *queuedBench) { must(b.T, b.create("another")) },
		"snapshot": func(b *queuedBench) { must(b.T, b.snapshot("full", "copy")) },
		"extension of the pool": func(b *queuedBench) {
			must(b.T, b.lvm.Apply(b.Context(), lvm.LVExtend{VG: killedGroup, Name: "pool", Size: lvm.Bytes(800 * mib)}))
		},
		"extension of a volume": func(b *queuedBench) {
			_, err := b.e.ResizeLV(b.Context(), killedGroup, "other", 16*mib)
			must(b.T, err)
		},
	} {
		for _, suspended := range []bool{false, true} {
			if testing.Short() && !suspended {
				continue
			}
			t.Run(fmt.Sprintf("%s, suspended %t", name, suspended), func(t *testing.T) {
				b := newQueuedBench(t, true)
				b.unsent("later")
				if suspended {
					b.suspend()
				}
				request(b)
				must(t, b.lvm.Apply(t.Context(), lvm.LVActivate{VG: killedGroup, Name: "later"}))
				b.write("later")
				for _, extra := range []string{"another", "copy", "full"} {
					err := b.e.RemoveLV(t.Context(), killedGroup, extra)
					if err != nil && status.Code(err) != codes.NotFound {
						t.Fatal(err)
					}
				}
				b.works()
			})
		}
	}
}

func (b *queuedBench) snapshot(source, name string) error {
	_, err := b.e.CreateLVSnapshot(b.Context(), NewSnapshot{Name: name, Class: killedGroup,
		Source: source, ReadOnly: true})
	return err
}

// TestLabANewVolumeHasNoDataOfARemovedOne creates volumes and snapshots while the pool has a thin device with data that
// LVM does not know.
func TestLabANewVolumeHasNoDataOfARemovedOne(t *testing.T) {
	b := newQueuedBench(t, true)
	full := b.read("full")
	b.leave()
	err := b.create("new")
	if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), errHasData.Error()) {
		t.Fatalf("got %v", err)
	}
	must(t, b.create("new"))
	b.mustBeEmpty("new", 8*mib)

	b.leave()
	b.command("/usr/sbin/lvm", "lvcreate", "--name", "earlier", "--virtualsize", fmt.Sprint(8*mib, "b"), "--addtag", wellknown.NewTag,
		"--thinpool", killedGroup+"/pool")
	if len(bytes.Trim(b.read("earlier"), "\x00")) == 0 {
		t.Fatal("LVM does not use the thin device: this test shows nothing")
	}
	if err := b.create("earlier"); !errors.Is(err, ErrUnfinished) {
		t.Fatalf("got %v", err)
	}
	must(t, b.e.Discard(t.Context(), killedGroup, "earlier"))
	must(t, b.create("earlier"))
	b.mustBeEmpty("earlier", 8*mib)

	b.leave()
	must(t, b.snapshot("full", "copy"))
	if !bytes.Equal(b.read("copy"), full) {
		t.Error("the snapshot differs from its source")
	}
	b.leave()
	must(t, b.e.PrepareSnapshot(t.Context(), NewSnapshot{Name: "member", Class: killedGroup,
		Source: "full", ReadOnly: true, Tags: []string{groupsnapshot.PendingTag}}))
	for _, name := range []string{"member", "copy", "new", "earlier", "full"} {
		b.remove(name)
	}
	if _, err := b.kernel.Volume(t.Context(), killedGroup, leftoverName); !errors.Is(err, devicemapper.ErrNotFound) {
		t.Errorf("%s: %v", leftoverName, err)
	}
	b.works()
}
