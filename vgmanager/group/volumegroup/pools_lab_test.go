//go:build lab

package volumegroup

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
)

// TestScenePoolGrowsByItself fills data and metadata of a pool.
func TestScenePoolGrowsByItself(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(20)
		spec.DeviceSelector = byPath(s.disks[:2]...)
		spec.ThinPoolConfig.AutoExtend = &v1alpha1.AutoExtend{ThresholdPercent: 70, StepPercent: 50}
		return spec
	})
	before := s.ready()
	volume := s.volume("a", 500<<20)
	size := before.ThinPool.Size.Value()
	for range 6 {
		s.writeSome(volume, size*8/10)
		s.agent.Wake()
		s.settle()
		size = s.entry().ThinPool.Size.Value()
	}
	e := s.converge("no space", func(e v1alpha1.VGStatus) bool {
		return falseCondition(e, v1alpha1.ConditionThinPoolHealthy, v1alpha1.ReasonThinPoolCannotGrow) != nil ||
			e.ThinPool.DataPercent < 70
	})
	if e.ThinPool.Size.Cmp(before.ThinPool.Size) <= 0 {
		t.Errorf("the pool did not grow: %+v", e.ThinPool)
	}
	s.discard()
}

// writeSome writes zeros from the beginning of a volume, until size or an error.
func (s *scene) writeSome(volume string, size int64) {
	f, err := os.OpenFile(volume, os.O_WRONLY, 0)
	s.ok(err)
	_, _ = io.CopyN(f, rand.Reader, size)
	_ = f.Sync()
	_ = f.Close()
}

// TestSceneMetadataGrowsWhenAsked: after metadataSize is added to the spec, the metadata of a pool with volumes is
// extended completely or not at all.
func TestSceneMetadataGrowsWhenAsked(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(50)
		spec.DeviceSelector = byPath(s.disks[0])
		return spec
	})
	before := s.ready().ThinPool.MetadataSize.Value()
	sum := s.fill(s.volume("a", 32<<20), 32<<20)
	ask := func(size string) {
		s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
			spec.ThinPoolConfig.MetadataSizeCalculationPolicy = v1alpha1.SizeCalculationStatic
			spec.ThinPoolConfig.MetadataSize = ptr.To(resource.MustParse(size))
		})
	}
	if before >= 13<<20 {
		t.Fatalf("the pool has %d bytes of metadata already", before)
	}
	ask("13Mi")
	s.converge("grown to whole extents", func(e v1alpha1.VGStatus) bool {
		return isReady(e) &&
			e.ThinPool.MetadataSize.Value() == 16<<20
	})
	ask("1Gi")
	s.says(v1alpha1.ConditionThinPoolHealthy, v1alpha1.ReasonThinPoolCannotGrow,
		"metadataSize requires 1008Mi more")
	ask("13Mi")
	s.converge("ready again", func(e v1alpha1.VGStatus) bool {
		return isReady(e) &&
			e.ThinPool.MetadataSize.Value() == 16<<20
	})
	s.unchanged("/dev/vg1/a", sum)
	s.discard()
}

// TestScenePoolOutOfMetadata fills the metadata of a pool. The volume group must not stay Ready, and its capacity must
// be 0.
func TestScenePoolOutOfMetadata(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(90)
		spec.DeviceSelector = byPath(s.disks[:2]...)
		spec.ThinPoolConfig.ChunkSize = ptr.To(resource.MustParse("64Ki"))
		spec.ThinPoolConfig.MetadataSizeCalculationPolicy = v1alpha1.SizeCalculationStatic
		spec.ThinPoolConfig.MetadataSize = ptr.To(resource.MustParse("2Mi"))
		spec.ThinPoolConfig.OverprovisionRatio = 100
		return spec
	})
	s.ready()
	volume := s.volume("a", 120<<20)
	sum := s.fill(volume, 120<<20)
	// LVM creates no snapshot when only a quarter of the metadata is free. The rest is filled by writes to existing
	// snapshots. Here it is filled by snapshots that LVM does not know, which is faster.
	table := strings.Fields(s.output("dmsetup", "table", "vg1-a"))
	s.disaster()
	for i := 1000; strings.Contains(s.output("dmsetup", "status", "vg1-pool-tpool"), " rw "); i++ {
		if i == 1300 {
			t.Fatalf("not full: %s", s.output("dmsetup", "status", "vg1-pool-tpool"))
		}
		name := fmt.Sprintf("extra%d", i)
		id := strconv.Itoa(i)
		s.sh("/usr/sbin/dmsetup", "suspend", "vg1-a")
		_ = nodelvm.Command("/usr/sbin/dmsetup", "message", "vg1-pool-tpool", "0", "create_snap "+id+" "+table[4]).Run()
		s.sh("/usr/sbin/dmsetup", "resume", "vg1-a")
		if nodelvm.Command("/usr/sbin/dmsetup", "create", name, "--table",
			strings.Join(append(table[:4:4], id), " ")).Run() != nil {
			break
		}
		// Each of these writes uses blocks of metadata, and almost no data.
		s.scatter("/dev/mapper/"+name, 16)
		_ = nodelvm.Command("/usr/sbin/dmsetup", "remove", "--retry", name).Run()
	}
	t.Log(s.output("dmsetup", "status", "vg1-pool-tpool"))
	s.happened()
	s.converge("a pool without metadata", func(e v1alpha1.VGStatus) bool {
		c := meta.FindStatusCondition(e.Conditions, v1alpha1.ConditionThinPoolHealthy)
		return c != nil && c.Status == metav1.ConditionFalse && slices.Contains([]string{
			v1alpha1.ReasonThinPoolOutOfMetadata, v1alpha1.ReasonThinPoolNeedsCheck, v1alpha1.ReasonThinPoolReadOnly,
			v1alpha1.ReasonThinPoolFailed,
		}, c.Reason)
	})
	s.named()
	e := s.entry()
	t.Logf("metadata %d %%, data %d %%, %s", e.ThinPool.MetadataPercent, e.ThinPool.DataPercent,
		e.Reason[:min(300, len(e.Reason))])
	if e.Status == v1alpha1.VGStatusReady || s.capacity() != 0 {
		t.Errorf("it is %s, and the scheduler is told %d bytes", e.Status, s.capacity())
	}
	s.repairFullMetadata(e)
	s.unchanged(volume, sum)
	s.fill(s.volume("new", 16<<20), 16<<20)
	s.discard()
}

// repairFullMetadata approves the repair of a pool without space for metadata. The agent is killed after each command,
// or in the middle of it.
func (s *scene) repairFullMetadata(before v1alpha1.VGStatus) {
	s.Helper()
	mode := lane.Cases("after", "in the middle of")[0]
	r := s.plan(v1alpha1.RecoveryRepairThinPool)
	s.Logf("%s", r.Status.Message)
	if p := r.Status.Plan; len(p.LostVolumes)+len(p.DamagedVolumes) > 0 || p.KeptVolumeCount != 1 {
		s.Fatalf("got the plan %+v", p)
	}
	s.approve(r.Status.Plan.ID)
	killed := s.recover(mode, func(n int) int { return n + 1 })
	s.Logf("killed %s %v", mode, killed)
	if len(killed) == 0 {
		s.Error("the agent was never killed: this shows nothing")
	}
	if e := s.ready(); e.ThinPool.MetadataSize.Cmp(before.ThinPool.MetadataSize) <= 0 {
		s.Errorf("the metadata has %s, and had %s", e.ThinPool.MetadataSize.String(), before.ThinPool.MetadataSize.String())
	}
}

func (s *scene) output(program string, args ...string) string {
	s.Helper()
	var stdout, stderr strings.Builder
	command := nodelvm.Command("/usr/sbin/"+program, args...)
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		s.Fatalf("%s %s: %v: %s%s", program, strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String()
}

// scatter writes blocks all over a volume. Writes may fail, because that is what the test checks.
func (s *scene) scatter(volume string, blocks int64) {
	s.Helper()
	f, err := os.OpenFile(volume, os.O_WRONLY, 0)
	s.ok(err)
	defer func() { _ = f.Close() }()
	for i := range blocks {
		_, _ = f.WriteAt(make([]byte, 4096), i*(120<<20)/blocks)
	}
	_ = f.Sync()
}
