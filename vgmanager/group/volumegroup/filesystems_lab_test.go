//go:build lab

package volumegroup

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
)

// crashingPrograms ends the agent at one of its programs that use a file system: after it, or in the middle of it.
type crashingPrograms struct {
	*nodelvm.Runner
	mu   sync.Mutex
	mode string
	// next is the number of the program at which the agent is killed.
	next, count int
	dead        bool
	said        []string
}

func (c *crashingPrograms) isDead() (bool, []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead, slices.Clone(c.said)
}

// kills returns true if the agent is killed at this program.
func (c *crashingPrograms) kills(program string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if program != "/usr/sbin/blkid" {
		c.count++
	}
	return program != "/usr/sbin/blkid" && c.count == c.next
}

// crash performs a program as far as the agent lives. It does not return if the agent is killed, because a dead agent
// does not go on.
func (c *crashingPrograms) crash(program string, args []string, do func() error) error {
	if !c.kills(program) {
		return do()
	}
	if c.mode == "after" {
		_ = do()
	} else if command := exec.Command(program, args...); command.Start() == nil {
		time.Sleep(30 * time.Millisecond)
		_ = command.Process.Kill()
		_ = command.Wait()
	}
	c.mu.Lock()
	c.dead, c.said = true, append(c.said, filepath.Base(program))
	c.mu.Unlock()
	select {}
}

// Run runs commands of LVM. A dead agent runs none, so it cannot observe the node.
func (c *crashingPrograms) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	if dead, _ := c.isDead(); dead {
		return nil, errCrash
	}
	return c.Runner.Run(ctx, name, args...)
}

func (c *crashingPrograms) RunAccepting(ctx context.Context, accepted func(int) bool, name string,
	args ...string) (out []byte, code int, err error) {
	err = c.crash(name, args, func() (err error) {
		out, code, err = c.Runner.RunAccepting(ctx, accepted, name, args...)
		return err
	})
	return out, code, err
}

func (c *crashingPrograms) RunReporting(ctx context.Context, accepted func(int) bool, name string,
	args ...string) (out string, code int, err error) {
	err = c.crash(name, args, func() (err error) {
		out, code, err = c.Runner.RunReporting(ctx, accepted, name, args...)
		return err
	})
	return out, code, err
}

// fsDamage is a kind of damage of a file system.
type fsDamage struct {
	kind string
	do   func(s *scene, device, mountPoint string)
	// says is part of the finding.
	says string
}

// fsDamages do their damage to a mounted file system with some files. They unmount it.
var fsDamages = map[string]fsDamage{
	"a directory of ext4 is lost": {kind: "ext4", says: "deleted/unused inode",
		do: func(s *scene, device, at string) {
			s.sh("/usr/bin/umount", at)
			s.sh("/usr/sbin/debugfs", "-w", "-R", "clri /files", device)
		}},
	"the superblock of ext4 is lost": {kind: "ext4", says: "Superblock invalid", do: func(s *scene, device, at string) {
		s.sh("/usr/bin/umount", at)
		s.sh("/usr/sbin/lvm", "lvchange", "--addtag", wellknown.FormattedTagPrefix+"ext4", device)
		s.sh("/bin/dd", "if=/dev/zero", "of="+device, "bs=1k", "count=2", "conv=fsync", "status=none")
	}},
	"ext4 crashed and has errors": {kind: "ext4", says: "its journal has changes", do: func(s *scene, device, at string) {
		s.sh("/usr/sbin/xfs_io", "-x", "-c", "shutdown -f", at)
		s.sh("/usr/bin/umount", at)
		s.sh("/usr/sbin/debugfs", "-w", "-R", "clri /old", device)
	}},
	"a header of XFS is damaged": {kind: "xfs", says: "agf_freeblks 7", do: func(s *scene, device, at string) {
		s.sh("/usr/bin/umount", at)
		s.sh("/usr/sbin/xfs_db", "-x", "-c", "agf 1", "-c", "write -d freeblks 7", device)
	}},
	"XFS crashed and has errors": {kind: "xfs", says: "its log has changes", do: func(s *scene, device, at string) {
		var files unix.Stat_t
		s.ok(unix.Stat(filepath.Join(at, "files"), &files))
		s.sh("/usr/bin/umount", at) // the log no longer has the directory
		s.sh("/usr/bin/mount", device, at)
		s.writeFile(filepath.Join(at, "logged"), 4096)
		s.sh("/usr/sbin/xfs_io", "-x", "-c", "shutdown -f", at)
		s.sh("/usr/bin/umount", at)
		s.sh("/usr/sbin/xfs_db", "-x", "-c", fmt.Sprintf("inode %d", files.Ino), "-c", "write -d core.nlinkv2 77", device)
	}},
}

// TestSceneFileSystemsAreRepairedWithApproval damages a file system. The check must find it and change nothing, and the
// repair must change no other volume. The agent is killed after each program of the check and of the repair, and in the
// middle of it.
func TestSceneFileSystemsAreRepairedWithApproval(t *testing.T) {
	type killing struct{ damage, mode string }
	var all []killing
	for _, mode := range []string{"after", "in the middle of"} {
		for _, name := range slices.Sorted(maps.Keys(fsDamages)) {
			all = append(all, killing{name, mode})
		}
	}
	for _, k := range lane.Cases(all...) {
		t.Run(fmt.Sprintf("%s, killed %s programs", k.damage, k.mode), func(t *testing.T) {
			repairFileSystem(t, fsDamages[k.damage], k.mode)
		})
	}
}

func repairFileSystem(t *testing.T, d fsDamage, mode string) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(90)
		spec.DeviceSelector = byPath(s.disks[:3]...)
		return spec
	})
	s.ready()
	sums := map[string]string{"kept": s.fill(s.volume("kept", 16<<20), 16<<20)}
	s.sh("/usr/bin/umount", s.mountVolume("well", 64<<20, "ext4"))
	sums["well"] = s.hash("/dev/vg1/well")
	at := s.mountVolume("broken", 400<<20, d.kind)
	kept := s.writeFile(filepath.Join(at, "kept"), 1<<20)
	s.ok(os.Mkdir(filepath.Join(at, "old"), 0o700))
	s.ok(os.Mkdir(filepath.Join(at, "files"), 0o700))
	for i := range 5 {
		s.writeFile(filepath.Join(at, "files", fmt.Sprint(i)), 4096)
	}

	s.requestCheck("broken", "well")
	s.converge("in use", func(v1alpha1.VGStatus) bool {
		status := s.recovery().Status
		return status.Phase == v1alpha1.RecoveryPreparing && strings.Contains(status.Message, "volume broken")
	})
	t.Logf("%s", s.recovery().Status.Message)
	d.do(s, "/dev/vg1/broken", at)
	damaged := s.hash("/dev/vg1/broken")
	killed := s.killPrograms(mode, v1alpha1.RecoveryAwaitingApproval)
	r := s.recovery()
	t.Logf("%s: %+v", r.Status.Message, r.Status.Plan.CheckedVolumes)
	p := r.Status.Plan
	if len(p.CheckedVolumes) != 2 || !strings.Contains(p.CheckedVolumes[0].Finding, d.says) ||
		p.CheckedVolumes[0].FSType != d.kind || p.CheckedVolumes[1].Finding != "no errors" {
		t.Fatalf("got the plan %+v", p)
	}
	s.unchanged("/dev/vg1/broken", damaged)
	s.approve(p.ID)
	repairs := s.killPrograms(mode, v1alpha1.RecoverySucceeded)
	s.recovered(len(repairs))
	killed = append(killed, repairs...)
	t.Logf("killed %s %v", mode, killed)
	if len(killed) < 2 {
		t.Error("the agent was almost never killed: this shows nothing")
	}
	message := s.recovery().Status.Message
	t.Logf("%s", message)
	if !strings.Contains(message, "file systems repaired on node "+nodeName+": 1: volume broken") {
		t.Errorf("got %q", message)
	}
	for name, sum := range sums {
		s.unchanged("/dev/vg1/"+name, sum)
	}
	s.sh("/usr/sbin/"+check[d.kind][0], append(check[d.kind][1:], "/dev/vg1/broken")...)
	s.sh("/usr/bin/mount", "/dev/vg1/broken", at)
	if d.says != "Superblock invalid" {
		s.unchanged(filepath.Join(at, "kept"), kept)
	}
	s.writeFile(filepath.Join(at, "new"), 1<<20)
	s.sh("/usr/bin/umount", at)
	s.discard()
}

func (s *scene) requestCheck(volumes ...string) {
	s.Helper()
	s.ok(s.client.Create(s.Context(), &v1alpha1.LVMRecovery{
		ObjectMeta: metav1.ObjectMeta{Name: "lost", Namespace: namespace},
		Spec: v1alpha1.LVMRecoverySpec{NodeName: nodeName, DeviceClassName: "vg1",
			Action: v1alpha1.RecoveryCheckFileSystems, Volumes: volumes}}))
}

// killPrograms reconciles until the recovery has a phase. It kills the nth agent at its nth program, so that each agent
// comes one program further than the one before. It returns the programs.
func (s *scene) killPrograms(mode string, phase v1alpha1.RecoveryPhase) []string {
	s.Helper()
	var killed []string
	boot := func() *crashingPrograms {
		c := &crashingPrograms{Runner: s.runner, mode: mode, next: len(killed) + 1}
		s.programs = c
		s.bootOver(c)
		return c
	}
	c := boot()
	last := ""
	s.converge(string(phase), func(v1alpha1.VGStatus) bool {
		if dead, said := c.isDead(); dead {
			killed = append(killed, said...)
			c = boot()
		}
		status := s.recovery().Status
		if status.Message != last {
			last = status.Message
			s.Logf("%s: %s", status.Phase, last)
		}
		return status.Phase == phase
	})
	s.programs = nil
	s.boot()
	return killed
}

// TestSceneFileSystemsWithoutErrors checks file systems whose logs were not replayed after a crash.
func TestSceneFileSystemsWithoutErrors(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(90)
		spec.DeviceSelector = byPath(s.disks[:3]...)
		return spec
	})
	s.ready()
	log := s.mountVolume("xfs", 400<<20, "xfs")
	s.writeFile(filepath.Join(log, "kept"), 1<<20)
	s.sh("/usr/sbin/xfs_io", "-x", "-c", "shutdown -f", log)
	s.sh("/usr/bin/umount", log)
	at := s.mountVolume("journal", 64<<20, "ext4")
	kept := s.writeFile(filepath.Join(at, "kept"), 1<<20)
	s.sh("/usr/sbin/xfs_io", "-x", "-c", "shutdown -f", at)
	s.sh("/usr/bin/umount", at)
	sums := map[string]string{"xfs": s.hash("/dev/vg1/xfs"), "journal": s.hash("/dev/vg1/journal")}

	// The node service works on one of them.
	s.ok(s.locks.Enter("journal"))
	s.requestCheck("xfs", "journal")
	s.converge("locked", func(v1alpha1.VGStatus) bool {
		return strings.Contains(s.recovery().Status.Message, "volume journal is in use by another call")
	})
	t.Logf("%s", s.recovery().Status.Message)
	s.boot()
	s.converge("checked", func(v1alpha1.VGStatus) bool { return s.recovery().Status.CompletionTime != nil })
	got := s.recovery().Status
	t.Logf("%s", got.Message)
	expect.Equal(t, "Phase", got.Phase, v1alpha1.RecoveryNotApplicable)
	if got.Plan != nil {
		t.Errorf("got %+v", got)
	}
	expect.Contains(t, "Message", got.Message, "no errors were found in 2 file systems")
	expect.Contains(t, "Message", got.Message,
		"volume journal: its journal has changes that are replayed by the next mount")
	expect.Contains(t, "Message", got.Message, "volume xfs: its log has changes that are replayed by the next mount")
	for name, sum := range sums {
		s.unchanged("/dev/vg1/"+name, sum)
	}
	s.sh("/usr/bin/mount", "/dev/vg1/journal", at)
	s.unchanged(filepath.Join(at, "kept"), kept)
	s.sh("/usr/bin/umount", at)
	s.discard()
}

// TestSceneAPodStartsDuringARepair: a volume is staged after the approval. It is not repaired, and the volume of which
// the check runs is not staged.
func TestSceneAPodStartsDuringARepair(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[0])}
	})
	s.ready()
	at := s.mountVolume("broken", 64<<20, "ext4")
	s.ok(os.Mkdir(filepath.Join(at, "files"), 0o700))
	s.sh("/usr/bin/umount", at)
	s.sh("/usr/sbin/debugfs", "-w", "-R", "clri /files", "/dev/vg1/broken")
	slow := &slowPrograms{Runner: s.runner, begun: make(chan struct{}), end: make(chan struct{})}
	s.programs = slow
	s.boot()
	s.requestCheck("broken")
	_, err := s.reconcile()
	s.ok(err)
	<-slow.begun
	err = s.locks.Enter("broken")
	if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "e2fsck -f -n /dev/vg1/broken has been "+
		"running since") {
		t.Errorf("got %v", err)
	}
	_, err = s.reconcile()
	s.ok(err)
	t.Logf("%s", s.recovery().Status.Message)
	if m := s.recovery().Status.Message; !strings.Contains(m, "e2fsck of volume broken has been running since") {
		t.Errorf("got %q", m)
	}
	close(slow.end)
	s.converge("a plan", func(v1alpha1.VGStatus) bool {
		return s.recovery().Status.Phase == v1alpha1.RecoveryAwaitingApproval
	})
	s.sh("/usr/bin/mount", "/dev/vg1/broken", at)
	s.approve(s.recovery().Status.Plan.ID)
	s.converge("the end", func(v1alpha1.VGStatus) bool {
		return s.recovery().Status.Phase == v1alpha1.RecoverySucceeded
	})
	m := s.recovery().Status.Message
	t.Logf("%s", m)
	if !strings.Contains(m, "not repaired: 1: volume broken: the volume is in use: it is mounted at "+at) {
		t.Errorf("got %q", m)
	}
	s.sh("/usr/bin/umount", at)
	if out, err := exec.Command("/usr/sbin/e2fsck", "-f", "-n", "/dev/vg1/broken").CombinedOutput(); err == nil {
		t.Errorf("it was repaired: %s", out)
	}
	s.discard()
}

// slowPrograms holds the first e2fsck.
type slowPrograms struct {
	*nodelvm.Runner
	once       sync.Once
	begun, end chan struct{}
}

func (p *slowPrograms) RunReporting(ctx context.Context, accepted func(int) bool, name string,
	args ...string) (string, int, error) {
	p.once.Do(func() {
		close(p.begun)
		<-p.end
	})
	return p.Runner.RunReporting(ctx, accepted, name, args...)
}
