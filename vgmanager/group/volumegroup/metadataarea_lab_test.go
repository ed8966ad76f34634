//go:build lab

package volumegroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmarchive"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// claimTags are the tags of a volume of a claim, with names of the usual length.
func claimTags(name string) []string {
	const id = "0b6d3c6e-8f0a-4a0e-9a76-3f5d8c1f0a11"
	return []string{wellknown.VolumeUIDTagPrefix + id, wellknown.VolumeNameTagPrefix + "pvc-" + id,
		wellknown.VolumeClaimTagPrefix + "some-namespace-name/some-claim-of-usual-length-" + name,
		wellknown.ClusterTagPrefix + id, wellknown.FormattedTagPrefix + "xfs"}
}

// create creates a volume of a claim, with the name of one.
func (s *scene) create(name string) error {
	s.Helper()
	_, err := s.engine.CreateLV(s.Context(), engine.NewVolume{Name: uuidName(name), Class: "vg1",
		Size: 4 << 20, Tags: claimTags(name)})
	return err
}

// uuidName returns a name as long as that of a volume of a claim.
func uuidName(name string) string { return strings.Repeat("0", 36-len(name)) + name }

// smallArea makes a physical volume with a metadata area of 60 KiB: the data starts at 64 KiB.
func (s *scene) smallArea(disk string) {
	s.Helper()
	s.sh("/usr/sbin/lvm", "pvcreate", "--metadatasize", "32k", "--dataalignment", "64k", disk)
}

// metadataArea returns the metadata area of the volume group as LVM reports it.
func (s *scene) metadataArea() lvm.MetadataArea {
	s.Helper()
	report, err := lvmexec.New(s.runner).Report(s.Context())
	s.ok(err)
	return report.VG("vg1").MetadataArea
}

// TestLimitMetadataAreaIsFull creates volumes in a group with a small metadata area, until the device class accepts no
// more. All of them can still be deleted, also with tags that are written before, and the class accepts volumes again.
func TestLimitMetadataAreaIsFull(t *testing.T) {
	for _, name := range lane.Cases("thick", "thin") {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
				s.smallArea(s.disks[0])
				spec := v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[0])}
				if name == "thin" {
					spec.ThinPoolConfig = thinOf(60).ThinPoolConfig
				}
				return spec
			})
			before := s.ready()
			if got := before.MetadataArea; got == nil || got.Size.Value() > 64<<10 || got.Free.Value() == 0 {
				t.Fatalf("the metadata area is %+v", got)
			}
			created := 0
			var err error
			for err == nil && created < 100 {
				if err = s.create(fmt.Sprint(created)); err == nil {
					created++
				}
			}
			if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "metadata area") {
				t.Fatalf("after %d volumes: %v", created, err)
			}
			area := s.metadataArea()
			t.Logf("closed after %d volumes with %+v: %v", created, area, err)
			if created < 15 || !area.IsFull() && area.Free > area.Reserve()+2048 || area.Free < area.Reserve()/2 {
				t.Errorf("closed after %d volumes with %+v, reserve %d", created, area, area.Reserve())
			}
			e := s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonMetadataAreaFull, "metadata area")
			t.Logf("%s", e.Reason)
			for range 2 {
				if err := s.create("more"); status.Code(err) != codes.ResourceExhausted {
					t.Errorf("another volume: %v", err)
				}
			}
			if name == "thin" {
				_, err := s.engine.CreateLVSnapshot(s.Context(), engine.NewSnapshot{Name: "snap",
					Class: "vg1", Source: uuidName("0"), ReadOnly: true})
				if status.Code(err) != codes.ResourceExhausted {
					t.Errorf("a snapshot: %v", err)
				}
			}
			// What is written while all volumes are deleted at the same time fits.
			for i := range created {
				s.ok(s.engine.TagLV(s.Context(), "vg1", uuidName(fmt.Sprint(i)),
					[]string{wellknown.ErasedTagPrefix + "1234567890"}, nil))
			}
			for i := range 5 {
				s.ok(s.delete(uuidName(fmt.Sprint(i))))
			}
			s.converge("open again", func(e v1alpha1.VGStatus) bool {
				return falseCondition(e, v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonMetadataAreaFull) == nil
			})
			s.ok(s.create("again"))
			s.ready()
			s.discard()
		})
	}
}

// TestLimitLargeMetadataArea: a device that is added to a group with a large area gets as much, and LVM's default
// otherwise.
func TestLimitLargeMetadataArea(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		s.sh("/usr/sbin/lvm", "pvcreate", "--metadatasize", "4m", s.disks[0])
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[0])}
	})
	before := s.ready()
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceSelector = byPath(s.disks[:2]...) })
	after := s.converge("two devices", func(e v1alpha1.VGStatus) bool { return isReady(e) && len(e.Devices) == 2 })
	if got, want := after.MetadataArea.Size, before.MetadataArea.Size; got.Cmp(want) != 0 || want.Value() < 4<<20 {
		t.Errorf("the metadata area has %s, and had %s", got.String(), want.String())
	}
	s.discard()
}

// archives is how many files TestLimitManyArchives writes. LVM advises to prune an archive with more than 8192.
const archives = 9000

// TestLimitManyArchives has an archive so large that LVM prints advice on stdout, also in the middle of a report. The
// group is still observed, and volumes are created and deleted. Then the archive is bounded, but not the one of another
// group, and a recovery finds what it needs.
func TestLimitManyArchives(t *testing.T) {
	s := newScene(t, twoDisks)
	before := s.ready()
	sum := s.fill(s.claimed("a", 32<<20), 32<<20)
	old := s.saveMetadata()
	sumB := s.fill(s.claimed("b", 32<<20), 32<<20)
	text, err := os.ReadFile(old)
	s.ok(err)
	other := strings.Replace(strings.Replace(string(text), "\nvg1 {", "\nvg1_x {", 1), before.UUID,
		"xxxxxx-xxxx-xxxx-xxxx-xxxx-xxxx-xxxxxx", 1)
	removeArchives() // of the groups of other tests, which have this name
	s.Cleanup(removeArchives)
	start := time.Now().Add(-2 * archives * time.Second)
	for i := range archives {
		s.ok(writeAt(fmt.Sprintf("%svg1_%05d-%d.vg", lvm.ArchiveDir, i, i), text, start.Add(time.Duration(i)*time.Second)))
		if i%20 == 0 {
			s.ok(writeAt(fmt.Sprintf("%svg1_x_%05d-%d.vg", lvm.ArchiveDir, i+20000, i), []byte(other), start))
		}
	}
	// LVM writes its backup again, and archives, while it makes a report: the backup is of another time.
	s.ok(os.WriteFile(lvm.BackupDir+"vg1", text, 0o600))
	out := s.output("lvm", "fullreport", "--reportformat", "json")
	t.Logf("advice in a report: %t", strings.Contains(out, "Consider pruning"))
	s.ok(os.WriteFile(lvm.BackupDir+"vg1", text, 0o600))
	s.ready()
	s.volume("c", 8<<20)
	s.ok(s.delete("c"))
	s.ready()
	groups := func() []lvmarchive.Group { return []lvmarchive.Group{{Name: "vg1", UUID: before.UUID}} }
	pruner := &lvmarchive.Pruner{Dir: lvm.ArchiveDir, Groups: groups, Now: time.Now}
	took := time.Now()
	for pass := 1; ; pass++ {
		removed, err := pruner.Pass(s.Context())
		s.ok(err)
		t.Logf("pass %d: %d files removed", pass, removed)
		if removed == 0 || pass > 10 {
			break
		}
	}
	t.Logf("pruned in %s", time.Since(took))
	kept, err := filepath.Glob(lvm.ArchiveDir + "vg1_0*")
	s.ok(err)
	others, err := filepath.Glob(lvm.ArchiveDir + "vg1_x_*")
	s.ok(err)
	if len(kept) > lvm.MaxArchives || len(kept) < 100 || len(others) != archives/20 {
		t.Errorf("%d files are kept, and %d of the other group", len(kept), len(others))
	}
	out = s.output("lvm", "vgchange", "--addtag", "x", "vg1")
	if strings.Contains(out, "Consider pruning") {
		t.Errorf("LVM still advises: %s", out)
	}
	s.sh("/usr/sbin/lvm", "vgchange", "--deltag", "x", "vg1")
	s.rollBack(old)
	s.says(v1alpha1.ConditionVolumesHealthy, v1alpha1.ReasonVolumesBroken, string(v1alpha1.RecoveryRestoreMetadata))
	p := s.plan(v1alpha1.RecoveryRestoreMetadata)
	s.approve(p.Status.Plan.ID)
	s.ready()
	s.unchanged("/dev/vg1/a", sum)
	s.unchanged("/dev/vg1/b", sumB)
	s.discard()
}

func removeArchives() {
	files, _ := filepath.Glob(lvm.ArchiveDir + "vg1_*")
	for _, f := range files {
		_ = os.Remove(f)
	}
}

// writeAt writes a file with a time.
func writeAt(path string, text []byte, at time.Time) error {
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	return os.Chtimes(path, at, at)
}
