//go:build lab

package volumegroup

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// restoreCommands is the largest number of the commands up to vgcfgrestore. Each of two reads of the metadata of the
// pool has two. After a command that was killed in the middle, an agent can need one more for each.
const restoreCommands = 7

// rolledBack is a class whose metadata is rolled back. The agent is killed in this mode.
type rolledBack struct {
	keptClass
	mode string
}

// TestSceneRolledBackMetadataIsRestored restores old metadata of a volume group with vgcfgrestore, as an administrator
// does by mistake. A volume that exists only in the old metadata is lost, as planned, and those that were created later
// return. The agent is killed after each command, and in the middle of it.
func TestSceneRolledBackMetadataIsRestored(t *testing.T) {
	var all []rolledBack
	for _, mode := range []string{"after", "in the middle of"} {
		for _, c := range append([]keptClass{{"thin", thinOf(60), 2, 0}}, keptClasses...) {
			all = append(all, rolledBack{c, mode})
		}
	}
	for _, r := range lane.Cases(all...) {
		t.Run(fmt.Sprintf("%s, killed %s commands", r.name, r.mode), r.run)
	}
}

func (r rolledBack) run(t *testing.T) {
	s := newScene(t, r.of)
	s.ready()
	sums := map[string]string{"a": s.fill(s.claimed("a", 32<<20), 32<<20)}
	old := s.saveMetadata()
	for _, name := range []string{"b", "c"} {
		sums[name] = s.fill(s.claimed(name, 32<<20), 32<<20)
	}
	if r.spec.RAIDConfig != nil {
		s.inSync()
	}
	before := s.ready()
	s.disaster()
	s.rollBack(old)
	lost := s.onlyInOldMetadata(r)
	if r.spec.ThinPoolConfig != nil {
		s.says(v1alpha1.ConditionThinPoolHealthy, v1alpha1.ReasonThinPoolFailed,
			string(v1alpha1.RecoveryRestoreMetadata))
	} else {
		s.says(v1alpha1.ConditionVolumesHealthy, v1alpha1.ReasonVolumesBroken,
			string(v1alpha1.RecoveryRestoreMetadata), "volumes at risk: b, c")
	}
	s.named()
	rec := s.plan(v1alpha1.RecoveryRestoreMetadata)
	p := rec.Status.Plan
	t.Logf("%s", rec.Status.Message)
	got := namesOfVolumes(p.LostVolumes)
	expect.Slice(t, "got", got, lost)
	expect.Equal(t, "len(p.DamagedVolumes)", len(p.DamagedVolumes), 0)
	expect.Equal(t, "KeptVolumeCount", p.KeptVolumeCount, 3)
	expect.Equal(t, "ReplacesMetadata", p.ReplacesMetadata, true)
	expect.Equal(t, "len(p.Devices)", len(p.Devices), r.disks)
	expect.Contains(t, "Status.Message", rec.Status.Message, "(b, c)")
	s.approve("wrong")
	for range 3 {
		s.agent.Wake()
		_, err := s.reconcile()
		s.ok(err)
	}
	if got := s.recovery(); got.Status.Phase != v1alpha1.RecoveryAwaitingApproval || got.Status.StartTime != nil {
		t.Fatalf("without an approval: %+v", got.Status)
	}
	if r.spec.RAIDConfig != nil && r.mode == "after" {
		s.sh("/usr/sbin/dmsetup", "remove", "vg1-a") // its images stay, as after a killed deactivation
	}
	s.approve(p.ID)
	killed := s.recover(r.mode, r.nextKill)
	t.Logf("killed %s %v", r.mode, killed)
	if !slices.Contains(killed, "vgcfgrestore") {
		t.Error("the agent was not killed at vgcfgrestore: this shows nothing")
	}
	if e := s.ready(); e.UUID != before.UUID {
		t.Errorf("the volume group has the UUID %s, and had %s", e.UUID, before.UUID)
	}
	for name, sum := range sums {
		s.unchanged("/dev/vg1/"+name, sum)
	}
	for _, name := range lost {
		if out, err := nodelvm.Command("/usr/sbin/lvs", "vg1/"+name).CombinedOutput(); err == nil {
			t.Errorf("volume %s is still there: %s", name, out)
		}
	}
	if out := s.output("vgck", "vg1"); strings.Contains(out, "WARNING") {
		t.Errorf("vgck: %s", out)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "replaced-vg1.vg")); err != nil {
		t.Errorf("the replaced metadata was not kept: %v", err)
	}
	s.fill(s.volume("new", 16<<20), 16<<20)
	s.discard()
}

// nextKill returns the command at which the agent after n kills is killed. A thin pool needs several commands before
// and after the metadata is restored, and each agent begins with the first. Without a thin pool, an agent continues
// with the next command.
func (r rolledBack) nextKill(n int) int {
	const tries = 4
	switch {
	case r.spec.ThinPoolConfig == nil:
		return max(1, n-tries)
	case n < 2*restoreCommands:
		return n%restoreCommands + 1
	}
	return n + 1
}

// TestSceneRolledBackMetadataHoldsChangesBack: until the metadata is restored, nothing takes, moves, overwrites or
// releases extents, and the group stays when its node is no longer selected.
func TestSceneRolledBackMetadataHoldsChangesBack(t *testing.T) {
	s := newScene(t, twoDisks)
	s.ready()
	sums := map[string]string{"a": s.fill(s.claimed("a", 32<<20), 32<<20)}
	old := s.saveMetadata()
	sums["b"] = s.fill(s.claimed("b", 32<<20), 32<<20)
	busy := busiest(s.ready())
	newest := s.saveMetadata()
	s.rollBack(old)
	s.says(v1alpha1.ConditionVolumesHealthy, v1alpha1.ReasonVolumesBroken, "volumes at risk: b")
	changes := s.output("vgs", "--noheadings", "--options", "vg_seqno", "vg1")
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.DeviceRequests = []v1alpha1.DeviceRequest{{Node: nodeName, Device: busy.UUID,
			Action: v1alpha1.DeviceActionDrain}}
	})
	const unreadable = "/etc/lvm/archive.away"
	for _, look := range []string{"replaced", "the archive cannot be read"} {
		if look != "replaced" {
			s.ok(os.Rename("/etc/lvm/archive", unreadable))
			s.boot()
		}
		for range 5 {
			s.agent.Wake()
			_, err := s.reconcile()
			s.ok(err)
		}
		s.wantUnavailable(look+": delete", s.delete("a"))
		_, err := s.engine.CreateLV(s.Context(), engine.NewVolume{Name: "new", Class: "vg1",
			Size: 4 << 20})
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s: create: got %v, want %s", look, err, codes.ResourceExhausted)
		}
	}
	s.ok(os.Rename(unreadable, "/etc/lvm/archive"))
	s.boot()
	if now := s.output("vgs", "--noheadings", "--options", "vg_seqno", "vg1"); now != changes {
		t.Errorf("the metadata was changed: it has the number %s, and had %s", now, changes)
	}
	s.rollBack(newest)
	s.converge("drained", func(e v1alpha1.VGStatus) bool {
		return stateOfPV(e, busy.UUID) == v1alpha1.PhysicalVolumeDrained
	})
	for name, sum := range sums {
		s.unchanged("/dev/vg1/"+name, sum)
	}
	s.ok(s.delete("a"))
	s.discard()
}

// TestSceneMetadataWentBack restores metadata from before changes of which no object of the cluster knows. The node has
// seen them. It also says that no other host activates the group at boot.
func TestSceneMetadataWentBack(t *testing.T) {
	s := newScene(t, twoDisks)
	s.ready()
	sum := s.fill(s.claimed("a", 32<<20), 32<<20)
	old := s.saveMetadata()
	for _, name := range []string{"x", "y"} {
		s.volume(name, 8<<20)
	}
	s.ready()
	s.rollBack(old)
	s.boot()
	s.says(v1alpha1.ConditionVolumesHealthy, v1alpha1.ReasonMetadataReplaced, string(v1alpha1.RecoveryAcceptMetadata))
	s.wantUnavailable("delete", s.delete("a"))
	s.loseFiles()
	s.boot()
	s.says(v1alpha1.ConditionVolumesHealthy, v1alpha1.ReasonMetadataReplaced, string(v1alpha1.RecoveryAcceptMetadata))
	rec := s.plan(v1alpha1.RecoveryAcceptMetadata)
	s.approve(rec.Status.Plan.ID)
	s.ready()
	s.boot()
	s.ready()
	s.unchanged("/dev/vg1/a", sum)
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "ay", "vg1")
	if out := strings.TrimSpace(s.output("lvs", "--noheadings", "--options", "lv_active", "vg1/a")); out != "" {
		t.Errorf("another host activates the volume at boot: %s", out)
	}
	s.ready()
	s.unchanged("/dev/vg1/a", sum)
	s.ok(s.delete("a"))
	s.discard()
}

// TestSceneEarlierMetadataIsNotAlwaysThere: the plan names what was overwritten since the rollback, and without
// metadata that fits, nothing is changed.
func TestSceneEarlierMetadataIsNotAlwaysThere(t *testing.T) {
	cases := map[string]func(*testing.T){"what was overwritten": nameOverwritten, "no metadata fits": restoreNothing}
	for _, name := range lane.Cases(slices.Sorted(maps.Keys(cases))...) {
		t.Run(name, cases[name])
	}
}

// nameOverwritten creates a volume after the rollback on extents of a volume that the old metadata does not have.
func nameOverwritten(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[0])}
	})
	s.ready()
	sum := s.fill(s.claimed("a", 32<<20), 32<<20)
	old := s.saveMetadata()
	s.fill(s.claimed("b", 32<<20), 32<<20)
	other := s.fill(s.claimed("c", 32<<20), 32<<20)
	s.rollBack(old)
	s.boot()
	s.says(v1alpha1.ConditionVolumesHealthy, v1alpha1.ReasonVolumesBroken, string(v1alpha1.RecoveryRestoreMetadata),
		"volumes at risk: b, c")
	s.sh("/usr/sbin/lvm", "lvcreate", "--name", "taken", "--size", "16m", "--wipesignatures", "n", "vg1")
	s.fill("/dev/vg1/taken", 16<<20)
	p := s.plan(v1alpha1.RecoveryRestoreMetadata).Status.Plan
	if !slices.Equal(namesOfVolumes(p.LostVolumes), []string{"taken"}) ||
		!slices.Equal(namesOfVolumes(p.DamagedVolumes), []string{"b"}) || p.DamagedVolumes[0].LostBytes != 16<<20 ||
		!strings.Contains(p.DamagedVolumes[0].Finding, "volume taken has extents of it now") {
		t.Fatalf("got the plan %+v", p)
	}
	s.approve(p.ID)
	s.converge("restored", func(v1alpha1.VGStatus) bool {
		return s.recovery().Status.Phase == v1alpha1.RecoverySucceeded
	})
	s.recovered(0)
	s.ready()
	s.unchanged("/dev/vg1/a", sum)
	s.unchanged("/dev/vg1/c", other)
	s.discard()
}

// restoreNothing deletes LVM's archive and backup on the node.
func restoreNothing(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(60)
		spec.DeviceSelector = byPath(s.disks[0])
		return spec
	})
	s.ready()
	s.fill(s.volume("a", 32<<20), 32<<20)
	old := s.saveMetadata()
	sum := s.fill(s.volume("b", 32<<20), 32<<20)
	current := s.saveMetadata()
	s.rollBack(old)
	s.forgetArchive()
	s.says(v1alpha1.ConditionThinPoolHealthy, v1alpha1.ReasonThinPoolFailed, string(v1alpha1.RecoveryRestoreMetadata))
	s.request(v1alpha1.RecoveryRestoreMetadata)
	s.converge("the reason", func(v1alpha1.VGStatus) bool {
		status := s.recovery().Status
		return status.Phase == v1alpha1.RecoveryNotApplicable && strings.Contains(status.Message, "no metadata in")
	})
	message := s.recovery().Status.Message
	t.Logf("%s", message)
	for _, want := range []string{"has the transaction ID 2", "has 1", "found: transaction ID 1"} {
		if !strings.Contains(message, want) {
			t.Errorf("the message should have %q", want)
		}
	}
	// A copy of the archive from elsewhere helps.
	s.sh("/usr/bin/cp", current, "/etc/lvm/archive/vg1_99999-1.vg")
	s.converge("a plan", func(v1alpha1.VGStatus) bool {
		return s.recovery().Status.Phase == v1alpha1.RecoveryAwaitingApproval
	})
	s.approve(s.recovery().Status.Plan.ID)
	s.converge("restored", func(v1alpha1.VGStatus) bool {
		return s.recovery().Status.Phase == v1alpha1.RecoverySucceeded
	})
	s.recovered(0)
	s.ready()
	s.unchanged("/dev/vg1/b", sum)
	s.discard()
}

// claimed creates a volume and its LogicalVolume.
func (s *scene) claimed(name string, size int64) string {
	s.Helper()
	s.logicalVolume(name)
	return s.volume(name, size)
}

// saveMetadata copies the metadata of the volume group, as LVM's backup has it.
func (s *scene) saveMetadata() string {
	s.Helper()
	file := filepath.Join(s.TempDir(), "metadata")
	s.sh("/usr/sbin/lvm", "vgcfgbackup", "--file", file, "vg1")
	return file
}

// rollBack restores old metadata while all volumes are inactive, as after a reboot.
func (s *scene) rollBack(file string) {
	s.Helper()
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
	s.sh("/usr/sbin/lvm", "vgcfgrestore", "--force", "--file", file, "vg1")
}

// onlyInOldMetadata creates a volume after the rollback, on extents that no other volume has, and returns its name. The
// thin pool cannot be used then.
func (s *scene) onlyInOldMetadata(r rolledBack) []string {
	s.Helper()
	if r.spec.ThinPoolConfig == nil {
		return nil
	}
	s.sh("/usr/sbin/lvm", "lvcreate", "--yes", "--wipesignatures", "n", "--zero", "n", "--name", "late", "--extents",
		"1", "vg1")
	return []string{"late"}
}

// forgetArchive deletes LVM's archive and backup of the volume group.
func (s *scene) forgetArchive() {
	s.Helper()
	files, err := filepath.Glob("/etc/lvm/archive/vg1_*")
	s.ok(err)
	for _, f := range append(files, "/etc/lvm/backup/vg1") {
		s.ok(os.RemoveAll(f))
	}
}

func namesOfVolumes(volumes []v1alpha1.RecoveryVolume) []string {
	names := map[string]bool{}
	for _, v := range volumes {
		names[v.Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}
