//go:build lab

package groupsnapshot

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

const (
	labGroup = "grouped"
	// members is the number of volumes of the group.
	members = 5
	// holdVariable makes the test's program an agent that keeps a group suspended. Its value is the journal.
	holdVariable = "LVMS_TEST_HOLD"
	block        = 4096
	hierarchy    = "/sys/fs/cgroup"
)

// TestMain makes the test's program the watchdog, or an agent.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == watchdogCommand:
		command := WatchdogCommand()
		command.SetArgs(os.Args[2:])
		if err := command.Execute(); err != nil {
			os.Exit(1)
		}
	case os.Getenv(holdVariable) != "":
		n := newAgent(lvmexec.New(nodelvm.New()), os.Getenv(holdVariable))
		_, err := n.Take(context.Background(), Request{Name: "killed", Pairs: labPairs(), Limit: MaxLimit},
			whenHeld(func(ctx context.Context) error {
				fmt.Println("held")
				<-ctx.Done()
				return ctx.Err()
			}))
		fmt.Println(err)
	default:
		os.Exit(m.Run())
	}
}

func newAgent(l *lvmexec.LVM, journal string) *Node {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return New(OfNode(l), devicemapper.New(), devicemapper.NewChanger(), WatchWith(host.NewLocal(), self), journal)
}

func labPairs() []Pair {
	var pairs []Pair
	for i := range members {
		pairs = append(pairs, Pair{VG: labGroup, Source: fmt.Sprint("v", i), Snapshot: fmt.Sprint("s", i)})
	}
	return pairs
}

// lab is a lab node with a thin pool and the volumes of a group.
type lab struct {
	*testing.T
	lvm    *lvmexec.LVM
	kernel *devicemapper.Reader
	path   string
	node   *Node
}

func newLab(t *testing.T) *lab {
	t.Helper()
	disk, _, _ := strings.Cut(os.Getenv("LVMS_TEST_DISKS"), ",")
	if disk == "" {
		t.Fatal("LVMS_TEST_DISKS must name a blank disk of a lab node, of 800 MiB")
	}
	b := &lab{T: t, lvm: lvmexec.New(nodelvm.New()), kernel: devicemapper.New(),
		path: filepath.Join(t.TempDir(), "suspended")}
	b.node = newAgent(b.lvm, b.path)
	b.run("vgcreate", "-qq", labGroup, disk)
	t.Cleanup(func() {
		b.run("vgremove", "-qq", "--force", "--yes", labGroup)
		b.run("pvremove", "-qq", disk)
	})
	b.run("lvcreate", "-qq", "-L", "600M", "--poolmetadatasize", "8M", "-T", labGroup+"/pool")
	for i := range members {
		b.run("lvcreate", "-qq", "-V", "400M", "-T", labGroup+"/pool", "-n", fmt.Sprint("v", i))
	}
	b.run("udevadm", "settle")
	return b
}

// run runs a program of LVM, or of the node.
func (b *lab) run(name string, args ...string) string {
	b.Helper()
	out, err := b.try(name, args...)
	if err != nil {
		b.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func (b *lab) try(name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	if strings.HasPrefix(name, "lv") || strings.HasPrefix(name, "vg") || strings.HasPrefix(name, "pv") {
		command = nodelvm.Command("/usr/sbin/lvm", append([]string{name}, args...)...)
	}
	out, err := command.CombinedOutput()
	return string(out), err
}

func (b *lab) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// prepare creates the pending snapshots.
func (b *lab) prepare(readOnly bool) {
	b.Helper()
	for _, p := range labPairs() {
		b.ok(b.lvm.Apply(b.Context(), lvm.LVCreateSnapshot{VG: p.VG, Source: p.Source, Name: p.Snapshot,
			ReadOnly: readOnly, Inactive: true, Tags: []string{PendingTag}}))
	}
}

// keep makes the pending snapshots usable.
func (b *lab) keep() {
	b.Helper()
	for _, p := range labPairs() {
		b.ok(b.lvm.Apply(b.Context(), lvm.LVChangeTags{VG: p.VG, Name: p.Snapshot,
			Remove: []string{PendingTag}}))
		b.ok(b.lvm.Apply(b.Context(), lvm.LVAllowActivation{VG: p.VG, Name: p.Snapshot}))
		b.ok(b.lvm.Apply(b.Context(), lvm.LVActivate{VG: p.VG, Name: p.Snapshot}))
	}
}

// drop removes the snapshots with the agent's own command.
func (b *lab) drop() {
	b.Helper()
	for _, p := range labPairs() {
		b.ok(b.lvm.Apply(b.Context(), lvm.LVRemove{VG: p.VG, Names: []string{p.Snapshot}}))
	}
}

func (b *lab) atRest() {
	b.Helper()
	devices, err := b.kernel.List(b.Context())
	b.ok(err)
	for _, d := range devices {
		if d.Suspended {
			b.Errorf("%s is suspended", d.Name)
		}
	}
	b.ok(b.node.journal.absent())
}

// versions reads the numbers of the volumes with a prefix.
func (b *lab) versions(prefix string) []uint64 {
	b.Helper()
	var versions []uint64
	for i := range members {
		device, err := os.Open(fmt.Sprintf("/dev/%s/%s%d", labGroup, prefix, i))
		b.ok(err)
		var number [8]byte
		_, err = io.ReadFull(device, number[:])
		b.ok(errors.Join(err, device.Close()))
		versions = append(versions, binary.NativeEndian.Uint64(number[:]))
	}
	return versions
}

// isTorn returns whether versions are not those of one moment: a writer writes each number to the first volume, then
// to the second, and so on.
func isTorn(versions []uint64) bool {
	first, last := versions[0], versions[len(versions)-1]
	return !slices.IsSortedFunc(versions, func(a, b uint64) int { return int(int64(b) - int64(a)) }) || first > last+1
}

// write writes numbers to the volumes, one after another, until stop is called. It does not write ahead: a write is
// complete before the next one begins.
func (b *lab) write() (stop func()) {
	b.Helper()
	var files []int
	for i := range members {
		fd, err := unix.Open(fmt.Sprintf("/dev/%s/v%d", labGroup, i), unix.O_WRONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
		b.ok(err)
		files = append(files, fd)
	}
	buffer, err := unix.Mmap(-1, 0, block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	b.ok(err)
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for number := uint64(1); ; number++ {
			binary.NativeEndian.PutUint64(buffer, number)
			for _, fd := range files {
				if _, err := unix.Pwrite(fd, buffer, 0); err != nil {
					ended <- err
					return
				}
			}
			select {
			case <-end:
				ended <- nil
				return
			default:
			}
		}
	}()
	return func() {
		close(end)
		b.ok(<-ended)
		for _, fd := range files {
			b.ok(unix.Close(fd))
		}
		b.ok(unix.Munmap(buffer))
	}
}

// TestLabAGroupIsOfOneMoment takes groups while a writer writes to the volumes in a fixed order. To show that it would
// find a torn group, it first creates the snapshots one after another.
func TestLabAGroupIsOfOneMoment(t *testing.T) {
	b := newLab(t)
	stop := b.write()
	defer stop()
	torn := false
	for try := 0; try < 20 && !torn; try++ {
		b.prepare(true)
		b.keep()
		torn = isTorn(b.versions("s"))
		b.drop()
	}
	if !torn {
		t.Fatal("snapshots that were created one after another are not torn: this test cannot find a torn group")
	}
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	for round := range rounds {
		b.prepare(true)
		var during []uint64
		took, err := b.node.Take(t.Context(), Request{Name: "g", Pairs: labPairs(), Limit: MaxLimit}, alone)
		b.ok(err)
		b.atRest()
		b.keep()
		if during = b.versions("s"); isTorn(during) || during[0] == 0 {
			t.Errorf("round %d: the snapshots are of several moments: %v", round, during)
		}
		t.Logf("round %d: %d volumes were suspended for %s: %v", round, members, took.Suspended, during)
		b.drop()
	}
	b.run("udevadm", "settle")
	for i := range members {
		if _, err := os.Stat(fmt.Sprintf("/dev/%s/v%d", labGroup, i)); err != nil {
			t.Errorf("the link of a resumed volume is gone: %v", err)
		}
	}
	b.check()
}

// check lets LVM check the metadata of the pool: it does when it activates the pool.
func (b *lab) check() {
	b.Helper()
	b.Cleanup(func() {
		b.run("vgchange", "-qq", "-an", labGroup)
		b.run("vgchange", "-qq", "-ay", labGroup)
	})
}

// TestLabFileSystemsAreFrozen takes a group of file systems, in which a writer syncs a file in each one after another.
func TestLabFileSystemsAreFrozen(t *testing.T) {
	b := newLab(t)
	kinds := map[string][]string{"v0": {"mkfs.ext4", "-q"}, "v1": {"mkfs.xfs", "-q"}}
	var files []*os.File
	for _, name := range []string{"v0", "v1"} {
		device, target := "/dev/"+labGroup+"/"+name, t.TempDir()
		b.run(kinds[name][0], append(kinds[name][1:], device)...)
		b.run("mount", device, target)
		t.Cleanup(func() { b.run("umount", target) })
		file, err := os.Create(filepath.Join(target, "number"))
		b.ok(err)
		t.Cleanup(func() { _ = file.Close() })
		files = append(files, file)
	}
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for number := 1; ; number++ {
			for _, file := range files {
				_, err := fmt.Fprintf(io.NewOffsetWriter(file, 0), "%08d", number)
				if err := errors.Join(err, file.Sync()); err != nil {
					ended <- err
					return
				}
			}
			select {
			case <-end:
				ended <- nil
				return
			default:
			}
		}
	}()
	for range 3 {
		b.prepare(false)
		_, err := b.node.Take(t.Context(), Request{Name: "g", Pairs: labPairs(), Limit: MaxLimit}, alone)
		b.ok(err)
		b.keep()
		var numbers []int
		for i, options := range []string{"rw", "rw,nouuid"} {
			target := t.TempDir()
			b.run("mount", "-o", options, fmt.Sprintf("/dev/%s/s%d", labGroup, i), target)
			content, err := os.ReadFile(filepath.Join(target, "number"))
			b.run("umount", target)
			b.ok(err)
			number := 0
			_, err = fmt.Sscanf(string(content), "%d", &number)
			b.ok(err)
			numbers = append(numbers, number)
		}
		if difference := numbers[0] - numbers[1]; difference != 0 && difference != 1 {
			t.Errorf("the file systems are of two moments: %v", numbers)
		}
		b.drop()
	}
	close(end)
	b.ok(<-ended)
	b.atRest()
}

// TestLabLVMWaitsForAGroup: the lock is the one of LVM's commands. Reports of this process do not fail meanwhile.
func TestLabLVMWaitsForAGroup(t *testing.T) {
	b := newLab(t)
	b.prepare(true)
	const once = "global/wait_for_locks=0"
	_, err := b.node.Take(t.Context(), Request{Name: "g", Pairs: labPairs(), Limit: MaxLimit},
		whenHeld(func(context.Context) error {
			for _, args := range [][]string{{"lvchange", "--config", once, "--addtag", "x", labGroup + "/v0"},
				{"lvcreate", "--config", once, "-s", "-n", "other", labGroup + "/v0"}} {
				if out, err := b.try(args[0], args[1:]...); err == nil || !strings.Contains(out, "lock") {
					t.Errorf("%v: got %v: %s", args, err, out)
				}
			}
			return nil
		}))
	b.ok(err)
	b.run("lvchange", "--config", once, "--addtag", "x", labGroup+"/v0")
	b.keep()
	b.drop()
	b.atRest()
}

// TestLabNothingIsKeptOverTheLimit: the volumes are resumed, and what is left can be removed with LVM, also a pending
// snapshot whose thin device was deleted.
func TestLabNothingIsKeptOverTheLimit(t *testing.T) {
	b := newLab(t)
	for range 2 {
		b.prepare(true)
		took, err := b.node.Take(t.Context(), Request{Name: "g", Pairs: labPairs(), Limit: 2 * time.Second},
			whenHeld(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
		if !errors.Is(err, ErrNotHeld) {
			t.Errorf("got %v", err)
		}
		t.Logf("the volumes were suspended for %s", took.Suspended)
		b.atRest()
		b.drop()
	}
	b.prepare(true)
	pool, _, err := b.kernel.ThinPoolDevice(t.Context(), labGroup, "pool")
	b.ok(err)
	ids, err := b.lvm.ThinDeviceIDs(t.Context(), labGroup, "pool")
	b.ok(err)
	report, err := b.lvm.Report(t.Context())
	b.ok(err)
	changer := devicemapper.NewChanger()
	id := ids[report.VG(labGroup).LV("s0").UUID]
	b.ok(changer.DeleteThin(pool.UUID, id))
	if err := changer.DeleteThin(pool.UUID, id); !errors.Is(err, devicemapper.ErrNoThinDevice) {
		t.Errorf("the second deletion: %v", err)
	}
	active := ids[report.VG(labGroup).LV("v0").UUID]
	if err := changer.DeleteThin(pool.UUID, active); !errors.Is(err, unix.EBUSY) {
		t.Errorf("the deletion of an active volume: %v", err)
	}
	if err := changer.CreateThinSnapshot(pool.UUID, active, id+1); !errors.Is(err, devicemapper.ErrExists) {
		t.Errorf("a snapshot over a volume: %v", err)
	}
	b.drop()
	b.check()
}

// childOf returns the only child of a process that still runs: its watchdog.
func (b *lab) childOf(parent int) int {
	b.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	b.ok(err)
	var children []int
	for _, file := range files {
		content, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue
		}
		b.ok(err)
		// The name, in parentheses, can have any character (proc_pid_stat(5)).
		fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
		if fields[1] != strconv.Itoa(parent) || fields[0] == "Z" {
			continue
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		b.ok(err)
		children = append(children, child)
	}
	if len(children) != 1 {
		b.Fatalf("process %d has the children %v, want its watchdog", parent, children)
	}
	return children[0]
}

// TestLabKilledAgent kills an agent with all processes of its cgroup, as the container runtime does. The watchdog
// resumes the volumes. If it is killed too, the next agent does.
func TestLabKilledAgent(t *testing.T) {
	for name, watchdogToo := range map[string]bool{"watchdog": false, "next agent": true} {
		t.Run(name, func(t *testing.T) {
			b := newLab(t)
			b.prepare(true)
			cgroup := filepath.Join(hierarchy, "killed")
			b.ok(os.Mkdir(cgroup, 0o755))
			t.Cleanup(func() { _ = os.Remove(cgroup) })
			directory, err := os.Open(cgroup)
			b.ok(err)
			self, err := os.Executable()
			b.ok(err)
			agent := exec.Command(self)
			agent.Env = append(os.Environ(), holdVariable+"="+b.path)
			agent.SysProcAttr = &unix.SysProcAttr{UseCgroupFD: true, CgroupFD: int(directory.Fd())}
			out, err := agent.StdoutPipe()
			b.ok(err)
			b.ok(agent.Start())
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
				t.Fatalf("got %q, %v", line, err)
			}
			if watchdogToo {
				b.ok(unix.Kill(b.childOf(agent.Process.Pid), unix.SIGKILL))
			}
			b.ok(os.WriteFile(filepath.Join(cgroup, "cgroup.kill"), []byte("1"), 0o600))
			killed := time.Now()
			if err := agent.Wait(); err == nil {
				t.Error("the agent was not killed")
			}
			if watchdogToo {
				b.ok(b.node.Recover(t.Context()))
			} else {
				// LVM's lock is free when the watchdog has ended.
				b.ok(b.lvm.Apply(t.Context(), lvm.LVChangeTags{VG: labGroup, Name: "v0", Add: []string{"x"}}))
				t.Logf("the watchdog has resumed the volumes %s after the kill", time.Since(killed))
			}
			b.ok(b.node.Recover(t.Context()))
			b.atRest()
			b.drop()
		})
	}
}
