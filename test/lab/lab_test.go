//go:build lab

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/wire"
	"github.com/lvm-storage/lvm-operator/test/limit"
)

// These tests run real labs: go test -tags lab ./test/lab. They need root, and the packages that Doctor lists.

const testLimit = 3 * time.Minute

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	t.Cleanup(cancel)
	return ctx
}

// up creates a lab that is removed at the end of the test, with a check that nothing remains.
func up(t *testing.T, o Options) *Lab {
	t.Helper()
	o.State = filepath.Join(t.TempDir(), "lab")
	o.Progress = t.Output()
	l, err := Up(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Error(err)
		}
		nothingIsLeft(t, o.State)
	})
	return l
}

// nothingIsLeft checks that no processes, mounts and files of a lab remain.
func nothingIsLeft(t *testing.T, state string) {
	t.Helper()
	if exists(state) {
		t.Errorf("%s is still there", state)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), state) {
		t.Errorf("a mount of %s is still there (%v)", state, err)
	}
	if left := processesOf(t, state); len(left) > 0 {
		t.Errorf("processes are still there: %v", left)
	}
}

// processesOf returns the processes on this machine whose command line contains the text.
func processesOf(t *testing.T, text string) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, line := range lines {
		data, err := os.ReadFile(line)
		if err == nil && bytes.Contains(data, []byte(text)) {
			found = append(found, filepath.Dir(line)+" "+string(bytes.ReplaceAll(data, []byte{0}, []byte{' '})))
		}
	}
	return found
}

func bare(t *testing.T, disks ...DiskSpec) *Node {
	t.Helper()
	return up(t, Options{Name: "bare", Bare: true, Disks: disks}).Nodes()[0]
}

func (n *Node) sh(t *testing.T, script string) string {
	t.Helper()
	result, err := n.Exec(testContext(t), "sh", "-ec", script)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(result.Stdout)
}

func TestBareNode(t *testing.T) {
	n := bare(t, DiskSpec{Size: GiB}, DiskSpec{Size: 300 * MiB, Kind: SCSI})
	t.Run("exec", func(t *testing.T) { testExec(t, n) })
	t.Run("disks are what was asked for", func(t *testing.T) { testDisksAreSeen(t, n) })
	t.Run("a plain disk comes, grows and goes", func(t *testing.T) { testPlainDisk(t, n) })
	t.Run("a SCSI disk fails, grows and is pulled in use", func(t *testing.T) { testSCSIDisk(t, n) })
	t.Run("the node's root is its own", func(t *testing.T) { testRootIsOwn(t, n) })
	t.Run("power cut", func(t *testing.T) { testPowerCut(t, n) })
	t.Run("a SCSI disk has a volatile cache", func(t *testing.T) { testVolatileCache(t, n) })
	t.Run("restart", func(t *testing.T) { testRestart(t, n) })
	t.Run("logs", func(t *testing.T) { testLogs(t, n) })
}

func TestANodeIsReinstalledAndItsDiskIsMoved(t *testing.T) {
	l := up(t, Options{Name: "two", Bare: true, Nodes: 2, Disks: []DiskSpec{{Size: GiB}, {Size: GiB}}})
	a := l.Nodes()[0]
	b := l.Nodes()[1]
	a.sh(t, "vgcreate v /dev/ubdb && lvcreate -L 20M -n x v && echo data >/dev/v/x && sync && touch /etc/lvm/old")
	t.Run("reinstalled", func(t *testing.T) { testReinstall(t, a) })
	t.Run("moved to a running node", func(t *testing.T) { testMovedDisk(t, a, b) })
	t.Run("moved to another lab", func(t *testing.T) { testDiskOfAnotherLab(t, b) })
}

// TestADiskThatTwoNodesSee: what one node writes, the other reads, and both have the same WWN.
func TestADiskThatTwoNodesSee(t *testing.T) {
	l := up(t, Options{Name: "shared", Bare: true, Nodes: 2, Disks: []DiskSpec{{Size: GiB, Kind: Shared}}})
	a := l.Nodes()[0]
	b := l.Nodes()[1]
	disks, err := a.Disks(testContext(t))
	if err != nil || len(disks) != 1 {
		t.Fatalf("got %v, %v", disks, err)
	}
	link := "/dev/disk/by-id/wwn-" + disks[0].WWN
	for _, n := range l.Nodes() {
		if got := n.sh(t, "lsblk -dno WWN $(realpath "+link+")"); got != disks[0].WWN {
			t.Errorf("%s sees the WWN %q, want %q", n.Name(), got, disks[0].WWN)
		}
	}
	a.sh(t, "echo data >"+link+" && sync")
	if got := b.sh(t, "head -c 4 "+link); got != "data" {
		t.Errorf("the other node reads %q", got)
	}
	again := DiskSpec{Name: disks[0].Name, Kind: Shared, Size: GiB}
	ctx := testContext(t)
	if _, err := b.GrowDisk(ctx, again.Name, 2*GiB); err == nil {
		t.Error("a shared disk has grown")
	}
	if err := b.RemoveDisk(ctx, again.Name); err != nil {
		t.Fatal(err)
	}
	added, err := b.AddDisk(ctx, again)
	if err != nil || added.WWN != disks[0].WWN {
		t.Fatalf("got %+v, %v", added, err)
	}
	if got := b.sh(t, "udevadm settle && head -c 4 "+link); got != "data" {
		t.Errorf("the node reads %q after the disk was added again", got)
	}
}

func testReinstall(t *testing.T, n *Node) {
	ctx := testContext(t)
	if err := n.Reinstall(ctx); err != nil {
		t.Fatal(err)
	}
	n.sh(t, "! test -e /etc/lvm/old")
	if got := n.sh(t, "vgchange -ay v >/dev/null && head -c 4 /dev/v/x"); got != "data" {
		t.Errorf("the disk has %q", got)
	}
	if _, err := n.AddDisk(ctx, DiskSpec{Name: "inside", Kind: SCSI, Size: 100 * MiB}); err != nil {
		t.Fatal(err)
	}
	if err := n.Reinstall(ctx); err == nil || !strings.Contains(err.Error(), "inside") {
		t.Errorf("reinstalled with a disk whose content is on the root disk: %v", err)
	}
	if err := n.RemoveDisk(ctx, "inside"); err != nil {
		t.Error(err)
	}
}

func testMovedDisk(t *testing.T, from, to *Node) {
	ctx := testContext(t)
	file := filepath.Join(from.lab.State(), "taken.img")
	if _, err := from.TakeDisk(ctx, "disk1", file); !errors.Is(err, ErrDiskBusy) {
		t.Errorf("a disk in use was taken out: %v", err)
	}
	if err := from.PowerOff(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := from.TakeDisk(ctx, "disk1", from.lab.State()); err == nil {
		t.Error("a file was overwritten")
	}
	taken, err := from.TakeDisk(ctx, "disk1", file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := to.InsertDisk(ctx, taken, file); err == nil {
		t.Error("a node has two disks of one name")
	}
	taken.Name = "moved"
	moved, err := to.InsertDisk(ctx, taken, file)
	if err != nil {
		t.Fatal(err)
	}
	if moved.Serial != taken.Serial || moved.Size != taken.Size {
		t.Errorf("got %+v, want %+v", moved, taken)
	}
	if got := to.sh(t, "lsblk -dno SERIAL "+moved.Device+" && vgchange -ay v >/dev/null && head -c 4 /dev/v/x && "+
		"vgchange -an v >/dev/null"); got != moved.Serial+"\ndata" {
		t.Errorf("the moved disk has %q", got)
	}
	if err := from.Start(ctx); err != nil {
		t.Fatal(err)
	}
	from.sh(t, "! test -e /dev/ubdb && test -e /dev/ubdc")
}

func testDiskOfAnotherLab(t *testing.T, from *Node) {
	ctx := testContext(t)
	file := filepath.Join(filepath.Dir(from.lab.State()), "taken.img")
	taken, err := from.TakeDisk(ctx, "moved", file)
	if err != nil {
		t.Fatal(err)
	}
	other := up(t, Options{Name: "other", Bare: true}).Nodes()[0]
	if err := other.PowerOff(ctx); err != nil {
		t.Fatal(err)
	}
	inserted, err := other.InsertDisk(ctx, taken, file)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if got := other.sh(t, "lsblk -dno SERIAL "+inserted.Device+" && vgchange -ay v >/dev/null && "+
		"head -c 4 /dev/v/x"); got != taken.Serial+"\ndata" {
		t.Errorf("the disk has %q in another lab", got)
	}
}

func testExec(t *testing.T, n *Node) {
	ctx := testContext(t)
	var stdout, stderr bytes.Buffer
	code, err := n.Run(ctx, Command{
		Args: []string{"sh", "-c", `echo "$X in $PWD"; cat; echo err >&2; exit 7`}, Env: []string{"X=x"}, Dir: "/tmp",
		Stdin: strings.NewReader("input"), Stdout: &stdout, Stderr: &stderr,
	})
	if err != nil || code != 7 || stdout.String() != "x in /tmp\ninput" || stderr.String() != "err\n" {
		t.Errorf("got %d, %v, %q, %q", code, err, stdout.String(), stderr.String())
	}
	var exit *ExitError
	if _, err := n.Exec(ctx, "sh", "-c", "echo why >&2; kill -9 $$"); !errors.As(err, &exit) ||
		exit.Result.ExitCode != 137 || !strings.Contains(err.Error(), "why") {
		t.Errorf("killed: %v", err)
	}
	if result, err := n.Exec(ctx, "no-such-program"); err == nil || result.ExitCode != 127 {
		t.Errorf("no such program: %+v, %v", result, err)
	}
	stdout.Reset()
	if code, err := n.Run(ctx, Command{Args: []string{"sh", "-c", "test -t 0 && stty size"}, TTY: true, Rows: 30,
		Cols: 100, Stdout: &stdout}); err != nil || code != 0 || strings.TrimSpace(stdout.String()) != "30 100" {
		t.Errorf("terminal: %d, %v, %q", code, err, stdout.String())
	}
	canceled, cancel := context.WithCancel(ctx)
	started := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	if _, err := n.Run(canceled, Command{Args: []string{"sh", "-c", "echo started; exec sleep 1234"},
		Stdout: started}); !errors.Is(err, context.Canceled) {
		t.Errorf("a command that hangs: %v", err)
	}
	limit.Wait(t, "the command ends with its caller", func() bool { return n.sh(t, "pgrep -x sleep || true") == "" })
}

// writerFunc is a Writer that is one function.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func testDisksAreSeen(t *testing.T, n *Node) {
	disks, err := n.Disks(testContext(t))
	if err != nil || len(disks) != 2 {
		t.Fatalf("%v, %v", disks, err)
	}
	for _, d := range disks {
		line := n.sh(t, "lsblk -bdno SIZE,TYPE,SERIAL "+d.Device)
		if want := fmt.Sprint(d.Size, "disk",
			d.Serial); strings.Join(strings.Fields(line), "") != strings.Join(strings.Fields(want), "") {
			t.Errorf("%s is %q, want %q", d.Name, line, want)
		}
		if links := n.sh(t, "udevadm info -q symlink "+d.Device); !strings.Contains(links, "disk/by-id/") ||
			!strings.Contains(links, d.Serial) {
			t.Errorf("links of %s: %s", d.Name, links)
		}
		n.sh(t, "pvcreate "+d.Device+" && pvremove "+d.Device)
	}
}

func testPlainDisk(t *testing.T, n *Node) {
	ctx := testContext(t)
	d, err := n.AddDisk(ctx, DiskSpec{Name: "extra", Size: 200 * MiB})
	if err != nil {
		t.Fatal(err)
	}
	n.sh(t, "pvcreate "+d.Device+" && vgcreate extra "+d.Device+
		" && lvcreate -L 20M -n x extra && mkfs.ext4 -q /dev/extra/x")
	if err := n.RemoveDisk(ctx, "extra"); !errors.Is(err, ErrDiskBusy) {
		t.Errorf("removed in use: %v", err)
	}
	if _, err := n.GrowDisk(ctx, "extra", 400*MiB); !errors.Is(err, ErrDiskBusy) {
		t.Errorf("grown in use: %v", err)
	}
	n.sh(t, "vgchange -an extra")
	if _, err := n.GrowDisk(ctx, "extra", 400*MiB); err != nil {
		t.Fatal(err)
	}
	n.sh(t, "pvresize "+d.Device)
	if size := n.sh(t, "vgs --noheadings --nosuffix --units m -o vg_size extra"); !strings.HasPrefix(size, "396") {
		t.Errorf("the group has %s after the disk grew", size)
	}
	n.sh(t, "vgchange -an extra")
	if err := n.RemoveDisk(ctx, "extra"); err != nil {
		t.Fatal(err)
	}
	n.sh(t, "! test -e "+d.Device)
	if err := n.RemoveDisk(ctx, "extra"); err == nil {
		t.Error("removed twice")
	}
}

func testSCSIDisk(t *testing.T, n *Node) {
	ctx := testContext(t)
	disks, err := n.AddSCSIDisks(ctx, 2, 200)
	if err != nil {
		t.Fatal(err)
	}
	a := disks[0]
	b := disks[1]
	n.sh(t, fmt.Sprintf("vgcreate v %s %s && lvcreate --type raid1 -m 1 -L 40M -n r v && mkfs.ext4 -q /dev/v/r && "+
		"mkdir -p /r && mount /dev/v/r /r", a.Device, b.Device))
	if _, err := n.GrowDisk(ctx, a.Name, 400*MiB); err != nil {
		t.Fatal(err)
	}
	n.sh(t, "pvresize "+a.Device+" && test $(blockdev --getsize64 "+a.Device+") = 419430400")
	if err := n.FailDisk(ctx, b.Name); err != nil {
		t.Fatal(err)
	}
	n.sh(t, "! dd if="+b.Device+" of=/dev/null bs=4096 count=1 iflag=direct 2>/dev/null")
	if err := n.HealDisk(ctx, b.Name); err != nil {
		t.Fatal(err)
	}
	n.sh(t, "dd if="+b.Device+" of=/dev/null bs=4096 count=1 iflag=direct 2>/dev/null")
	n.sh(t, "dd if=/dev/urandom of="+b.Device+" bs=1M seek=100 count=1 oflag=direct 2>/dev/null")
	const sum = " bs=1M skip=100 count=1 iflag=direct 2>/dev/null | sha256sum"
	before := n.sh(t, "dd if="+b.Device+sum)
	if err := n.PullDisk(ctx, b.Name); err != nil {
		t.Fatal(err)
	}
	n.sh(t, "! test -e "+b.Device)
	if b, err = n.PutDisk(ctx, b.Name); err != nil {
		t.Fatal(err)
	}
	if after := n.sh(t, "dd if="+b.Device+sum); after != before {
		t.Errorf("the disk had %s and has %s", before, after)
	}
	if err := n.RemoveDisk(ctx, b.Name); err != nil {
		t.Fatalf("pulled in use: %v", err)
	}
	n.sh(t, "echo still >/r/file && sync && ! test -e "+b.Device)
	if missing := n.sh(t, "vgs --noheadings -o vg_missing_pv_count v 2>/dev/null"); missing != "1" {
		t.Errorf("the group misses %q disks", missing)
	}
	n.sh(t, "umount /r && vgchange -an v && vgremove -ff -y v 2>/dev/null || dmsetup remove_all -f")
	if err := n.FailDisk(ctx, "disk1"); err == nil {
		t.Error("a plain disk failed")
	}
	if err := n.RemoveDisk(ctx, a.Name); err != nil {
		t.Error(err)
	}
}

func testRootIsOwn(t *testing.T, n *Node) {
	const file = "/usr/local/lvms-lab-test"
	n.sh(t, "echo node >"+file+"; rm -f /etc/debian_version; test \"$(hostname)\" = node1")
	if exists(file) || !exists("/etc/debian_version") {
		t.Error("the node wrote to this machine")
	}
}

func testPowerCut(t *testing.T, n *Node) {
	ctx := testContext(t)
	n.sh(t, "mkfs.ext4 -q /dev/ubdb && mkdir -p /d && mount /dev/ubdb /d && echo flushed >/d/a && sync /d/a && echo "+
		"lvm >/etc/lvm/kept && sync")
	if err := n.PowerCut(ctx); err != nil {
		t.Fatal(err)
	}
	if up, err := n.Running(ctx); err != nil || up {
		t.Errorf("runs without power (%v)", err)
	}
	if _, err := n.Exec(ctx, "true"); err == nil {
		t.Error("a node without power answered")
	}
	if err := n.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if got := n.sh(t, "mkdir -p /d && mount /dev/ubdb /d && cat /d/a /etc/lvm/kept && umount /d"); got !=
		"flushed\nlvm" {
		t.Errorf("after the power cut: %q", got)
	}
	if err := n.Start(ctx); err == nil {
		t.Error("started twice")
	}
}

// testVolatileCache checks that data that was written to a SCSI disk and not flushed is lost in a power cut, even if it
// bypassed the page cache like LVM's metadata.
func testVolatileCache(t *testing.T, n *Node) {
	ctx := testContext(t)
	const disk = "$(lsblk -dno PATH,TRAN,VENDOR | awk '/LIO-ORG/ {print $1; exit}')"
	write := func(text, flush string) {
		t.Helper()
		n.sh(t, "printf '%-4096s' "+text+" >/tmp/block; dd if=/tmp/block of="+disk+" bs=4096 oflag=direct "+flush+
			" status=none")
	}
	read := func() string {
		t.Helper()
		if err := errors.Join(n.PowerCut(ctx), n.Start(ctx)); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(n.sh(t, "head -c 4096 "+disk))
	}
	write("first", "conv=fsync")
	n.sh(t, "sync")
	write("second", "")
	if got := read(); got != "first" {
		t.Errorf("what was not flushed: got %q", got)
	}
	write("third", "conv=fsync")
	if got := read(); got != "third" {
		t.Errorf("what was flushed: got %q", got)
	}
}

func testRestart(t *testing.T, n *Node) {
	ctx := testContext(t)
	n.sh(t, "echo unsynced >/root/file; head -c 100M /dev/zero >/root/big")
	first := n.sh(t, "cat /proc/sys/kernel/random/boot_id")
	if err := n.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if n.sh(t, "cat /proc/sys/kernel/random/boot_id") == first {
		t.Error("the same boot")
	}
	if got := n.sh(t, "cat /root/file; stat -c %s /root/big"); got != "unsynced\n104857600" {
		t.Errorf("after the restart: %q", got)
	}
	disks, err := n.Disks(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range disks {
		if got := n.sh(t, "lsblk -dno SERIAL "+d.Device); got != d.Serial {
			t.Errorf("%s is now %q, want %+v", d.Device, got, d)
		}
	}
}

func testLogs(t *testing.T, n *Node) {
	dir := t.TempDir()
	if err := n.lab.CollectLogs(testContext(t), dir); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"supervisor.log", "node1/console.log", "node1/dmesg.log", "node1/lvm.log"} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || file != "supervisor.log" && info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
	logs, err := n.Logs()
	if err != nil || !strings.Contains(logs["console"], "ready") {
		t.Errorf("%v, %v", logs, err)
	}
}

func TestTwoLabsSideBySide(t *testing.T) {
	a := bare(t, DiskSpec{Size: GiB})
	b := bare(t, DiskSpec{Size: 2 * GiB})
	a.sh(t, "vgcreate same /dev/ubdb")
	b.sh(t, "vgcreate same /dev/ubdb")
	if got := a.sh(t, "vgs --noheadings -o vg_name,vg_size"); !strings.Contains(got, "1020") {
		t.Errorf("a has %q", got)
	}
}

func TestOwnersCrashLeavesNothing(t *testing.T) {
	state := filepath.Join(t.TempDir(), "lab")
	cmd := exec.Command(os.Args[0], "-test.run", "^TestOwner$")
	cmd.Env = append(os.Environ(), "LAB_TEST_OWNER="+state)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 5)
	if _, err := out.Read(line); err != nil || string(line) != "is up" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for end := time.Now().Add(time.Minute); exists(state) ||
		len(processesOf(t, state)) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			break
		}
	}
	nothingIsLeft(t, state)
}

// TestOwner is the process that TestOwnersCrashLeavesNothing kills.
func TestOwner(t *testing.T) {
	state := os.Getenv("LAB_TEST_OWNER")
	if state == "" {
		t.Skip("only as a child of another test")
	}
	if _, err := Up(context.Background(), Options{Name: "owned", Bare: true, State: state}); err != nil {
		t.Fatal(err)
	}
	fmt.Print("is up")
	time.Sleep(time.Minute)
}

func TestASupervisorsCrashIsCleanedUpByTheNext(t *testing.T) {
	ctx := testContext(t)
	o := Options{Name: "again", Bare: true, State: filepath.Join(t.TempDir(), "lab"), Detached: true}
	if _, err := Up(ctx, o); err != nil {
		t.Fatal(err)
	}
	pid, err := supervisorPID(o.State)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := Up(ctx, o); err != nil || l.State() != o.State {
		t.Errorf("up again: %v", err)
	}
	if again, _ := supervisorPID(o.State); again != pid {
		t.Error("up again made another lab")
	}
	if err := killAndWait(ctx, pid, func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	if left := processesOf(t, o.State); len(left) > 0 {
		t.Errorf("the supervisor left %v", left)
	}
	l, err := Up(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Down(ctx); err != nil {
		t.Error(err)
	}
	nothingIsLeft(t, o.State)
}

func TestStartAndStopManyTimes(t *testing.T) {
	times := 20
	if testing.Short() {
		times = 4
	}
	for i := range times {
		t.Run(fmt.Sprint(i), func(t *testing.T) { bare(t, DiskSpec{Size: GiB}).sh(t, "test -b /dev/ubdb") })
	}
}

func TestCancelledUpLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	state := filepath.Join(t.TempDir(), "lab")
	ended := make(chan error, 1)
	go func() {
		_, err := Up(ctx, Options{Name: "slow", Bare: true, State: state})
		ended <- err
	}()
	limit.Wait(t, "the node boots", func() bool {
		return strings.Contains(strings.Join(processesOf(t, state), " "), "rootfstype=")
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	nothingIsLeft(t, state)
}

func TestRunTestBinary(t *testing.T) {
	var stdout, stderr bytes.Buffer
	o := Options{Name: "binary", State: filepath.Join(t.TempDir(), "lab"), Disks: []DiskSpec{{Size: GiB}}}
	code, err := RunTestBinary(testContext(t), o, &stdout, &stderr, "/bin/sh", "-c",
		`echo $LAB_DISKS $PWD; echo e >&2; exit 3`)
	dir, _ := os.Getwd()
	if err != nil || code != 3 || stdout.String() != "/dev/ubdb "+dir+"\n" || stderr.String() != "e\n" {
		t.Errorf("got %d, %v, %q, %q", code, err, stdout.String(), stderr.String())
	}
	nothingIsLeft(t, o.State)
}

// The lab reports a lost node when its kernel ends. TCP alone would take longer than the timeout of this test.
func TestALostNodeShowsItsConsole(t *testing.T) {
	ctx, cancel := context.WithTimeout(testContext(t), 2*time.Minute)
	defer cancel()
	o := Options{Name: "panic", State: filepath.Join(t.TempDir(), "lab")}
	_, err := RunTestBinary(ctx, o, io.Discard, io.Discard, "/bin/sh", "-c", "echo c >/proc/sysrq-trigger")
	if err == nil || !errors.Is(err, wire.ErrLost) || !strings.Contains(err.Error(), "Kernel panic") {
		t.Errorf("got %v", err)
	}
	nothingIsLeft(t, o.State)
}

func TestMain(m *testing.M) {
	if unix.Geteuid() != 0 {
		fmt.Println("the lab's tests need root")
		os.Exit(1)
	}
	os.Exit(m.Run())
}
