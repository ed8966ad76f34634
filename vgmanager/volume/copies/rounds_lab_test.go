//go:build lab

package copies

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"github.com/topolvm/topolvm/pkg/lvmd/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/memory"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/blockdevice"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
)

// move is a move of the volume "origin" of the class "from" to the class "thin". Both have the same logical volume name
// on nodes of a cluster; here, the target is "moved", because names of mapped devices are those of one node.
type move struct {
	*testing.T
	runner *nodelvm.Runner
	engine *engine.Engine
	api    client.Client
	source Source
	random *rand.Rand
	// size is that of the volume in MiB, and round the number of the last snapshot.
	size, round int
	attempts    int
}

const movedName = "moved"

// newMove creates the volume groups. zeroes is whether the pool of the target sets new chunks to zero.
func newMove(t *testing.T, zeroes string) *move {
	t.Helper()
	disks := strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")
	if len(disks) < 2 {
		t.Fatal("LVMS_TEST_DISKS must name two blank disks of a lab node")
	}
	for i, group := range []string{"copyfrom", "copyto"} {
		runLVM(t, "vgcreate", "-qq", group, disks[i])
		t.Cleanup(func() { runLVM(t, "vgremove", "-qq", "--force", "--yes", group) })
	}
	runLVM(t, "lvcreate", "-qq", "-L", "256M", "--chunksize", "64k", "--poolmetadatasize", "4M", "-T", "copyfrom/pool")
	// The free space has random data: what a copy does not write is not zero by itself.
	runLVM(t, "lvcreate", "-qq", "--wipesignatures", "n", "-l", "100%FREE", "-n", "garbage", "copyto")
	dd(t, "/dev/urandom", "/dev/copyto/garbage", "bs=4M", "count=70", "oflag=direct")
	runLVM(t, "lvremove", "-qq", "--yes", "copyto/garbage")
	runLVM(t, "lvcreate", "-qq", "-L", "256M", "--chunksize", "256k", "--zero", zeroes, "--poolmetadatasize", "4M",
		"-T", "copyto/pool")
	m := &move{T: t, runner: nodelvm.New(), random: rand.New(rand.NewPCG(1, 1))}
	volumes := lvmexec.New(m.runner)
	m.engine = labEngine(t, volumes)
	for class, group := range map[string]string{"from": "copyfrom", "thin": "copyto"} {
		m.must(m.engine.Publish(deviceclass.Class{Name: class, VolumeGroup: group, Type: types.TypeThin,
			ThinPoolConfig: &deviceclass.ThinPool{Name: "pool", OverprovisionRatio: 1000}}))
	}
	target := logicalVolume("target", "node2", "s1", "rw", "")
	target.UID = "uid-t"
	target.Annotations = map[string]string{wellknown.MoveVolumeAnnotation: movedName}
	m.api = memory.Builder().WithObjects(target).Build()
	m.source = serveOf(t, &Sender{Live: m.api, Node: "node1", Volumes: m.engine,
		Allocations: Remember(changedblocks.New(volumes, devicemapper.New(), changedblocks.OpenSnapshot))})
	return m
}

func (m *move) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// origin creates the volume, of a size in MiB.
func (m *move) origin(size int) {
	m.Helper()
	m.size = size
	_, err := m.engine.CreateLV(m.Context(), engine.NewVolume{Name: "origin", Class: "from",
		Size: int64(size) << 20, Tags: []string{"lvms.uid=uid-v", "lvms.pv=pvc-1", "lvms.pvc=ns/a",
			"lvms.cluster=c", "lvms.formatted=xfs"}})
	m.must(err)
}

// change writes random data and zeros to the volume, and discards parts of it.
func (m *move) change(writes int) {
	m.Helper()
	for range writes {
		block := fmt.Sprint(m.random.IntN(m.size * 16))
		dd(m.T, "/dev/urandom", "/dev/copyfrom/origin", "bs=64k", "count=1", "seek="+block, "oflag=direct")
	}
	dd(m.T, "/dev/zero", "/dev/copyfrom/origin", "bs=64k", "count=3", fmt.Sprint("seek=", m.random.IntN(m.size*16-3)),
		"oflag=direct")
	for range 2 {
		runCommand(m.T, exec.Command("/usr/sbin/blkdiscard", "--offset", fmt.Sprint(m.random.IntN(m.size-2)<<20), "--length",
			"1048576", "/dev/copyfrom/origin"))
	}
}

// snapshot creates the next snapshot and lets the target have it as its source.
func (m *move) snapshot() {
	m.Helper()
	m.round++
	name := fmt.Sprintf("s%d", m.round)
	_, err := m.engine.CreateLVSnapshot(m.Context(), engine.NewSnapshot{Name: name, Class: "from",
		Source: "origin", ReadOnly: true, Size: int64(m.size) << 20,
		Tags: []string{"lvms.uid=uid-" + name}})
	m.must(err)
	s := logicalVolume(name, "node1", "pvc-1", "ro", name)
	s.UID = k8stypes.UID("uid-" + name)
	s.Spec.DeviceClass = "from"
	m.must(m.api.Create(m.Context(), s))
	target := &topolvmv1.LogicalVolume{}
	m.must(m.api.Get(m.Context(), client.ObjectKey{Name: "target"}, target))
	if target.Spec.Source != name {
		metav1.SetMetaDataAnnotation(&target.ObjectMeta, wellknown.CopyBaseAnnotation, target.Spec.Source)
		target.Spec.Source = name
		m.must(m.api.Update(m.Context(), target))
	}
}

// receive copies the round to the target, and ends the work again and again while it runs, unless undisturbed is set.
// It returns the last progress.
func (m *move) receive(undisturbed bool) Progress {
	m.Helper()
	return m.receiveFrom(fmt.Sprintf("s%d", m.round), "thin", undisturbed)
}

// receiveFrom copies a source to the target in a class.
func (m *move) receiveFrom(name, class string, undisturbed bool) Progress {
	m.Helper()
	m.must(m.engine.EnsureTarget(m.Context(), engine.CopyTarget{Class: class, Name: movedName, UID: "uid-t",
		Size: int64(m.size) << 20, Source: name, Tags: []string{"lvms.uid=uid-t", "lvms.pv=target", "lvms.cluster=c"}}))
	deadline := time.Now().Add(5 * time.Minute)
	for attempt := 1; ; attempt++ {
		d, err := m.engine.Device(m.Context(), class, movedName)
		m.must(err)
		round, err := lvtag.RoundOf(d.Tags)
		m.must(err)
		if round.Source == "" {
			m.must(m.engine.BeginRound(m.Context(), class, movedName, "uid-t", name))
			round.Source = name
		}
		limit := time.Duration(attempt*attempt) * 60 * time.Millisecond
		if undisturbed {
			limit = time.Minute
		}
		process, kill := context.WithTimeout(m.Context(), limit)
		copier := New(process)
		if !undisturbed {
			copier.recordEvery = 4 << 20
		}
		got, err := copier.Copy(process, m.source, Target{Key: movedName, Name: movedName, Object: "target",
			Device: blockdevice.Identity{Path: d.Path, Number: d.Number, Size: uint64(d.Size)}, Chunk: uint64(d.Chunk),
			Done:  uint64(round.Copied),
			Round: Round{Source: round.Source, Base: round.Base, Sparse: round.Sparse, KeepChunks: d.IgnoresDiscards}},
			func(ctx context.Context, done uint64) error {
				return m.engine.CopiedInRound(ctx, class, movedName, "uid-t", int64(done))
			})
		ended := process.Err() != nil
		m.must(copier.Stop(m.Context(), movedName)) // as the end of the process does
		kill()
		if err == nil && got.Finished {
			m.attempts = attempt
			m.must(m.engine.CompleteRound(m.Context(), class, movedName, "uid-t", name, got.Content))
			return got
		}
		// A program that starts has the open device of the attempt before, until it is executed. The source sends the
		// stream of the attempt before until it notices that its end is gone.
		closing := err != nil && (strings.Contains(err.Error(), "is in use") ||
			strings.Contains(err.Error(), "already sends"))
		if !ended && !closing || time.Now().After(deadline) {
			m.Fatalf("round %s, attempt %d, from %d: %+v, %v", name, attempt, round.Copied, got, err)
		}
	}
}

// compare compares the target with the last snapshot, byte for byte.
func (m *move) compare() {
	m.Helper()
	runCommand(m.T, exec.Command("/usr/bin/cmp", "--bytes", fmt.Sprint(m.size<<20),
		fmt.Sprintf("/dev/copyfrom/s%d", m.round),
		"/dev/copyto/"+movedName))
}

// counted returns which processes of LVM a step starts.
func (m *move) counted(step func()) string {
	before := m.runner.ByCommand()
	step()
	var list []string
	for command, n := range m.runner.ByCommand() {
		if more := n - before[command]; more > 0 {
			list = append(list, fmt.Sprintf("%s: %d", command, more))
		}
	}
	return strings.Join(list, ", ")
}

// TestLabAVolumeIsMovedInRounds copies a volume while it is written to, in a full round and three with the differences,
// in a pool that sets new chunks to zero and in another one. The volume is extended meanwhile, and the work is ended
// again and again. Then the target is adopted, and the earlier logical volume is retired and removed.
func TestLabAVolumeIsMovedInRounds(t *testing.T) {
	for _, zeroes := range []string{"y", "n"} {
		t.Run("zero "+zeroes, func(t *testing.T) {
			m := newMove(t, zeroes)
			m.origin(96)
			m.change(20)
			dd(t, "/dev/urandom", "/dev/copyfrom/origin", "bs=1M", "count=24", "seek=30", "oflag=direct")
			for round := 1; round <= 4; round++ {
				m.snapshot()
				writing := make(chan struct{})
				go func() { // The workload writes while the round is copied.
					defer close(writing)
					for range 10 {
						_ = exec.Command("/usr/bin/dd", "if=/dev/urandom", "of=/dev/copyfrom/origin", "bs=64k",
							"count=1", fmt.Sprint("seek=", round*90), "conv=notrunc,fsync", "oflag=direct").Run()
					}
				}()
				var got Progress
				processes := m.counted(func() { got = m.receive(false) })
				<-writing
				t.Logf("round %d: %d attempts, %d KiB sent, processes in all attempts: %s", round, m.attempts,
					got.Sent>>10, processes)
				m.compare()
				if round == 2 {
					_, err := m.engine.ResizeLV(t.Context(), "from", "origin", 116<<20)
					m.must(err)
					m.size = 116
				}
				m.change(12)
			}
			m.switchOver()
		})
	}
}

// switchOver copies the last differences, adopts the target, and retires and removes the origin.
func (m *move) switchOver() {
	m.Helper()
	m.must(m.engine.TagLV(m.Context(), "from", "origin", []string{wellknown.FencedTagPrefix + "m"}, nil))
	m.Logf("last snapshot: %s", m.counted(m.snapshot))
	m.Logf("last round, undisturbed: %s", m.counted(func() { m.receive(true) }))
	m.compare()
	runCommand(m.T, exec.Command("/usr/bin/cmp", "--bytes", fmt.Sprint(m.size<<20), "/dev/copyfrom/origin",
		"/dev/copyto/"+movedName))
	owner := []string{"lvms.uid=uid-v", "lvms.pv=pvc-1", "lvms.pvc=ns/a", "lvms.cluster=c"}
	m.Logf("adopt: %s", m.counted(func() {
		_, err := m.engine.Adopt(m.Context(), "thin", movedName, "uid-t", owner)
		m.must(err)
	}))
	m.tags("copyto/"+movedName, "lvms.cluster=c,lvms.formatted=xfs,lvms.pv=pvc-1,lvms.pvc=ns/a,lvms.uid=uid-v")
	if err := m.engine.RemoveTarget(m.Context(), "thin", movedName, "uid-t"); !errors.Is(err, engine.ErrNotTarget) {
		m.Errorf("removal of an adopted target: %v", err)
	}
	retirement := engine.Retirement{Class: "from", Name: "origin", NewName: "uid-k", Move: "m",
		Tags: []string{"lvms.uid=uid-k", "lvms.pv=moved-m", "lvms.cluster=c"}}
	for _, what := range []string{"retire", "retire again"} {
		m.Logf("%s: %s", what, m.counted(func() {
			size, err := m.engine.Retire(m.Context(), retirement)
			m.must(err)
			if size != int64(m.size)<<20 {
				m.Errorf("%d bytes", size)
			}
		}))
	}
	m.tags("copyfrom/uid-k", "lvms.cluster=c,lvms.formatted=xfs,lvms.pv=moved-m,lvms.uid=uid-k")
	runCommand(m.T, exec.Command("/usr/bin/cmp", "--bytes", fmt.Sprint(m.size<<20), "/dev/copyfrom/uid-k",
		"/dev/copyto/"+movedName))
	m.Logf("removal of the retired volume: %s", m.counted(func() {
		err := m.engine.RemoveLV(m.Context(), "from", "uid-k")
		m.must(err)
	}))
	m.compare() // The snapshots stay until they are removed.
}

func (m *move) tags(name, want string) {
	m.Helper()
	if got := strings.TrimSpace(runLVM(m.T, "lvs", "--noheadings", "-o", "lv_tags", name)); got != want {
		m.Errorf("%s: tags %s, want %s", name, got, want)
	}
}
