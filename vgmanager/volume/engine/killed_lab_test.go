//go:build lab

package engine

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

const killedGroup = "killed"

// killedBench has a thin pool with a volume on the first disk of the lab.
type killedBench struct {
	*testing.T
	lvm    *lvmexec.LVM
	kernel *devicemapper.Reader
}

// TestLabKilledInsideCommands kills LVM commands at any moment, as the end of the agent's container does. The repeated
// request must have the same result as if nothing had happened: the volume can be activated, has the requested size and
// can be written, and nothing is suspended.
func TestLabKilledInsideCommands(t *testing.T) {
	disk, _, _ := strings.Cut(os.Getenv("LVMS_TEST_DISKS"), ",")
	if disk == "" {
		t.Fatal("LVMS_TEST_DISKS must name a blank disk of a lab node")
	}
	b := &killedBench{T: t, kernel: devicemapper.New()}
	b.lvm = b.run(host.NewLocal())
	must(t, b.lvm.Apply(t.Context(), lvm.VGCreate{Name: killedGroup, Devices: []string{disk}}))
	t.Cleanup(b.clean)
	must(t, b.lvm.Apply(t.Context(), lvm.LVCreateThinPool{VG: killedGroup, Name: "pool", PercentFree: 50}))
	requests := map[string]func(e *Engine, i int) (string, error){
		"create": func(e *Engine, i int) (string, error) {
			name := fmt.Sprint("volume", i)
			_, err := e.CreateLV(t.Context(), NewVolume{Name: name, Class: killedGroup,
				Size: 16 * mib, Tags: []string{wellknown.NewTag}})
			return name, err
		},
		"snapshot": func(e *Engine, i int) (string, error) {
			name := fmt.Sprint("copy", i)
			_, err := e.CreateLVSnapshot(t.Context(), NewSnapshot{Name: name,
				Class: killedGroup, Source: "source"})
			return name, err
		},
		"extend": func(e *Engine, i int) (string, error) {
			_, err := e.ResizeLV(t.Context(), killedGroup, "source", int64(16+4*(i+1))*mib)
			return "source", err
		},
	}
	if _, err := b.engine(b.lvm).CreateLV(t.Context(), NewVolume{Name: "source",
		Class: killedGroup, Size: 16 * mib}); err != nil {
		t.Fatal(err)
	}
	rounds := 25
	if testing.Short() {
		rounds = 6
	}
	unfinished := map[string]int{}
	for what, request := range requests {
		begin := time.Now()
		if _, err := request(b.engine(b.lvm), 0); err != nil {
			t.Fatal(err)
		}
		usual := time.Since(begin)
		for i := 1; i <= rounds; i++ {
			b.fill()
			name, killed := request(b.engine(b.run(killingRunner{host.NewLocal(), usual/10 + rand.N(usual)})), i)
			if states := b.states(name); killed != nil && states != "" {
				unfinished[what+": "+states]++
			}
			b.remove("filled")
			name, err := request(b.engine(b.lvm), i)
			if err != nil {
				t.Fatalf("%s %d: the repeated request: %v", what, i, err)
			}
			b.settle(name)
			if states := b.states(name); states != "" {
				t.Fatalf("%s %d: %s", what, i, states)
			}
			if what == "create" {
				b.mustBeEmpty(name, 16*mib)
			}
			b.write(name)
			if name != "source" {
				b.remove(name)
			}
		}
	}
	t.Logf("what killed commands left: %v", unfinished)
}

// run returns an LVM as a new process has it.
func (b *killedBench) run(runner host.Runner) *lvmexec.LVM {
	l := lvmexec.New(runner)
	l.PoolsWith(PoolsOf(b.kernel))
	return l
}

// fill creates a volume with data. No later volume may have this data.
func (b *killedBench) fill() {
	b.Helper()
	_, err := b.engine(b.lvm).CreateLV(b.Context(), NewVolume{Name: "filled", Class: killedGroup,
		Size: 16 * mib})
	must(b.T, err)
	b.fillDevice("/dev/"+killedGroup+"/filled", 16)
}

// fillDevice writes a number of MiB that are not zero.
func (b *killedBench) fillDevice(path string, count int) {
	b.Helper()
	if out, err := exec.Command("/usr/bin/dd", "if=/dev/urandom", "of="+path, "bs=1M", fmt.Sprint("count=", count),
		"oflag=direct").CombinedOutput(); err != nil {
		b.Fatalf("write to %s: %v: %s", path, err, out)
	}
}

func (b *killedBench) remove(name string) {
	b.Helper()
	if err := b.engine(b.lvm).RemoveLV(b.Context(), killedGroup, name); err != nil {
		b.Fatalf("remove %s: %v", name, err)
	}
}

// mustBeEmpty checks that a new volume of a size has only zeros.
func (b *killedBench) mustBeEmpty(name string, size int64) {
	b.Helper()
	content, err := os.ReadFile("/dev/" + killedGroup + "/" + name)
	must(b.T, err)
	if data := len(bytes.Trim(content, "\x00")); int64(len(content)) != size || data > 0 {
		b.Fatalf("the new volume %s has %d bytes, of which %d can have data", name, len(content), data)
	}
}

// engine returns an engine as a new process has it.
func (b *killedBench) engine(l LVM) *Engine {
	b.Helper()
	e, err := New(l, b.kernel, "")
	must(b.T, err)
	setClasses(b.T, e, thinClass(killedGroup, 10))
	return e
}

// killingRunner kills each command that changes something after a time.
type killingRunner struct {
	*host.Local
	after time.Duration
}

func (r killingRunner) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	if len(args) > 0 && slices.Contains([]string{"lvcreate", "lvextend"}, args[0]) {
		args = append([]string{"--foreground", "--signal=KILL", fmt.Sprintf("%.3f", r.after.Seconds()), name}, args...)
		name = "/usr/bin/timeout"
	}
	return r.Local.Run(ctx, name, args...)
}

// states describes how the device of a volume differs from its metadata, and what is suspended.
func (b *killedBench) states(name string) string {
	b.Helper()
	report, err := b.lvm.Report(b.Context())
	must(b.T, err)
	var all []string
	devices, err := b.kernel.List(b.Context())
	must(b.T, err)
	for _, d := range devices {
		if d.Suspended && strings.HasPrefix(d.Name, killedGroup) {
			all = append(all, "suspended")
		}
	}
	if lv := report.VG(killedGroup).LV(name); lv != nil {
		device, err := b.kernel.Volume(b.Context(), killedGroup, name)
		if err != nil {
			all = append(all, "not active")
		} else if size, err := b.kernel.Size(device.Number); err != nil || size != int64(lv.Size) {
			all = append(all, "another size")
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// settle does what the other parts of the agent do: the reconciler of volume groups resumes volumes that stay
// suspended, and the node service activates a volume before it mounts it.
func (b *killedBench) settle(name string) {
	b.Helper()
	if strings.Contains(b.states("source"), "suspended") {
		must(b.T, b.lvm.Apply(b.Context(), lvm.LVRefresh{VG: killedGroup, Name: "source"}))
	}
	must(b.T, b.lvm.Apply(b.Context(), lvm.LVActivate{VG: killedGroup, Name: name}))
}

func (b *killedBench) write(name string) {
	b.Helper()
	if out, err := exec.Command("/usr/bin/timeout", "20", "/usr/bin/dd", "if=/dev/zero", "of=/dev/"+killedGroup+"/"+name,
		"bs=1M", "count=1", "oflag=direct").CombinedOutput(); err != nil {
		b.Fatalf("write to %s: %v: %s", name, err, out)
	}
}

func (b *killedBench) clean() {
	for _, args := range [][]string{{"vgremove", "--force", "--yes", killedGroup}} {
		if out, err := exec.Command("/usr/sbin/lvm", args...).CombinedOutput(); err != nil {
			b.Errorf("lvm %v: %v: %s", args, err, out)
		}
	}
}
