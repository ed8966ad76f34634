//go:build lab

package volumegroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
)

// crashingRunner ends the agent at the nth changing command: before, during, or right after the command.
type crashingRunner struct {
	real interface {
		Run(context.Context, string, ...string) ([]byte, error)
	}
	mu sync.Mutex
	// next is the number of the changing command at which the agent is killed.
	next int
	mode string
	// passes is a command at which the agent is not killed.
	passes string
	count  int
	dead   bool
	said   []string
}

var errCrash = fmt.Errorf("the agent was killed")

// kills returns whether the agent is dead, and whether it is killed at this command.
func (c *crashingRunner) kills(args []string) (dead, now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || len(args) == 0 || !changes(args[0]) || args[0] == c.passes || slices.Contains(args, "--dump") {
		return c.dead, false
	}
	c.count++
	if c.count != c.next {
		return false, false
	}
	c.dead, c.next, c.said = true, c.next+killedEvery, append(c.said, args[0])
	return false, true
}

// isDead returns whether the agent was killed, and the commands.
func (c *crashingRunner) isDead() (dead bool, said []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead, slices.Clone(c.said)
}

// revive starts another agent.
func (c *crashingRunner) revive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = false
}

func (c *crashingRunner) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	subject := args
	if filepath.Base(name) == "wipefs" && slices.Contains(args, "--all") {
		subject = []string{"wipefs"}
	}
	dead, now := c.kills(subject)
	if dead {
		return nil, errCrash
	}
	if !now {
		return c.real.Run(ctx, name, args...)
	}
	switch c.mode {
	case "after":
		_, _ = c.real.Run(context.WithoutCancel(ctx), name, args...)
	case "in the middle of":
		command := nodelvm.Command(name, args...)
		if command.Start() == nil {
			time.Sleep(time.Duration(20+13*c.count%60) * time.Millisecond)
			_ = command.Process.Kill()
			_ = command.Wait()
		}
	}
	return nil, errCrash
}

func changes(command string) bool {
	return slices.Contains([]string{
		"vgcreate", "vgextend", "vgchange", "vgreduce", "vgremove", "pvremove", "pvchange", "pvmove", "lvcreate",
		"lvextend", "lvremove", "lvchange", "lvconvert", "pvck", "vgcfgrestore", "wipefs",
	}, command)
}

// killedEvery is the number of commands between two kills in one run. As many runs kill the agent at each command,
// and also show what an undisturbed agent does after a restart.
const killedEvery = 4

// firstKills are the commands of the first kill, one for each run.
var firstKills = []int{1, 2, 3, 4}

// TestKilledAtEveryCommand runs the life cycle of a thin class repeatedly, and kills the agent at every fourth
// changing LVM command, starting with the first, the second, the third and the fourth. A new agent must always reach
// the same result.
func TestKilledAtEveryCommand(t *testing.T) {
	// A kill before a command is the same as a kill after the previous one.
	for _, mode := range []string{"after", "in the middle of"} {
		var all []string
		lives := lane.Cases(firstKills...)
		for _, first := range lives {
			t.Run(fmt.Sprintf("%s %d", strings.Fields(mode)[0], first), func(t *testing.T) {
				said := lifeWithCrashes(t, first, mode)
				t.Logf("%s %v", mode, said)
				all = append(all, said...)
			})
		}
		if kinds := slices.Compact(slices.Sorted(slices.Values(all))); !t.Failed() &&
			(len(all) < 10*len(lives)/killedEvery || len(kinds) < 6*len(lives)/killedEvery) {
			t.Errorf("killed %s %d commands, %v: this shows nothing", mode, len(all), kinds)
		}
	}
}

// lifeWithCrashes creates, extends, shrinks and removes a device class. It returns where the agent was killed.
func lifeWithCrashes(t *testing.T, first int, mode string) []string {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(60)
		spec.DeviceSelector = byPath(s.disks[:1]...)
		return spec
	})
	c := &crashingRunner{real: s.runner, next: first, mode: mode}
	boot := func() {
		c.revive()
		s.bootOver(c)
	}
	boot()
	step := func(what string, done func(v1alpha1.VGStatus) bool) {
		t.Helper()
		s.converge(what, func(e v1alpha1.VGStatus) bool {
			if dead, _ := c.isDead(); dead {
				boot()
			}
			return done(e)
		})
	}
	step("the group", func(e v1alpha1.VGStatus) bool { return isReady(e) && e.ThinPool != nil })
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceSelector = byPath(s.disks[:2]...) })
	step("the second device", func(e v1alpha1.VGStatus) bool { return isReady(e) && len(e.Devices) == 2 })
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceSelector = byPath(s.disks[:3]...) })
	step("the third device", func(e v1alpha1.VGStatus) bool { return isReady(e) && len(e.Devices) == 3 })
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.DeviceRequests = []v1alpha1.DeviceRequest{{Node: nodeName, Device: s.disks[2],
			Action: v1alpha1.DeviceActionRemove}}
	})
	// The pool uses 60 % of three devices, so its extents on the third fit on the others.
	step("two devices", func(e v1alpha1.VGStatus) bool { return isReady(e) && len(e.Devices) == 2 })
	s.remove()
	deadline := time.Now().Add(3 * time.Minute)
	for !s.gone() && time.Now().Before(deadline) {
		s.agent.Wake()
		_, _ = s.reconcile()
		if dead, _ := c.isDead(); dead {
			boot()
		}
	}
	if !s.gone() {
		t.Fatalf("%s %s: still there: %+v", mode, c.said, s.entry())
	}
	for _, d := range s.disks[:3] {
		if out, err := exec.Command("/usr/sbin/wipefs", "--no-act", d).CombinedOutput(); err != nil || len(out) != 0 {
			t.Errorf("%s: %s is not blank: %v: %s", c.said, d, err, out)
		}
	}
	if files, err := os.ReadDir(s.dir); err != nil || len(files) != 0 {
		t.Errorf("%s: files are left: %v, %v", c.said, files, err)
	}
	return c.said
}
