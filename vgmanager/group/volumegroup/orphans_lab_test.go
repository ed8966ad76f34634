//go:build lab

package volumegroup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/cluster/removednode"
	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
)

// TestSceneOrphansAreDeletedWithApproval deletes two of three orphans while one of them is in use at first. The agent
// is killed after the command, and in the middle of it.
func TestSceneOrphansAreDeletedWithApproval(t *testing.T) {
	type killing struct {
		class, mode string
		spec        v1alpha1.LVMVolumeGroupSpec
	}
	var all []killing
	for _, mode := range []string{"after", "in the middle of"} {
		all = append(all, killing{"thin", mode, thinOf(80)},
			killing{"thick", mode, v1alpha1.LVMVolumeGroupSpec{Default: true}})
	}
	for _, k := range lane.Cases(all...) {
		t.Run(fmt.Sprintf("%s, killed %s the command", k.class, k.mode), func(t *testing.T) {
			deleteOrphans(t, k.spec, k.mode)
		})
	}
}

// TestSceneVolumesThatOthersNeedAreNotRemoved has a thin volume that reads from a volume that nothing owns: lvremove
// would remove both, without a question.
func TestSceneVolumesThatOthersNeedAreNotRemoved(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(50)
		spec.DeviceSelector = byPath(s.disks[0])
		return spec
	})
	s.ready()
	s.sh("/usr/sbin/lvm", "lvcreate", "--yes", "--name", "data", "--size", "32M", "vg1")
	sum := s.fill("/dev/vg1/data", 32<<20)
	s.sh("/usr/sbin/lvm", "lvconvert", "--yes", "--type", "thin", "--thinpool", "vg1/pool", "--originname", "ext",
		"vg1/data")
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "y", "vg1")
	s.ready()
	err := s.engine.RemoveLV(s.Context(), "vg1", "ext")
	if err == nil || !strings.Contains(err.Error(), "vg1/ext is needed by data") {
		t.Errorf("got %v", err)
	}
	s.ok(s.client.Create(s.Context(), &v1alpha1.LVMRecovery{
		ObjectMeta: metav1.ObjectMeta{Name: "lost", Namespace: namespace},
		Spec: v1alpha1.LVMRecoverySpec{NodeName: nodeName, DeviceClassName: "vg1",
			Action: v1alpha1.RecoveryDeleteOrphans, Volumes: []string{"ext"}}}))
	s.converge("not applicable", func(v1alpha1.VGStatus) bool {
		status := s.recovery().Status
		return status.Phase == v1alpha1.RecoveryNotApplicable && strings.Contains(status.Message, "needed by data")
	})
	s.unchanged("/dev/vg1/data", sum)
	s.sh("/usr/sbin/lvm", "lvremove", "--yes", "vg1/data")
	s.sh("/usr/sbin/lvm", "lvremove", "--yes", "vg1/ext")
	s.discard()
}

func deleteOrphans(t *testing.T, spec v1alpha1.LVMVolumeGroupSpec, mode string) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec.DeviceSelector = byPath(s.disks[0])
		return spec
	})
	s.ready()
	sums := map[string]string{}
	for _, name := range []string{"a", "b", "kept"} {
		sums[name] = s.fill(s.volume(name, 32<<20), 32<<20)
	}
	free := s.ready().Free
	secret := s.firstBlock("/dev/vg1/b")
	if !s.hasOnDisk(secret) {
		t.Fatal("the data is not found on the disk before the deletion")
	}
	used, err := os.OpenFile("/dev/vg1/b", os.O_RDONLY, 0)
	s.ok(err)
	s.ok(s.client.Create(s.Context(), &v1alpha1.LVMRecovery{
		ObjectMeta: metav1.ObjectMeta{Name: "lost", Namespace: namespace},
		Spec: v1alpha1.LVMRecoverySpec{NodeName: nodeName, DeviceClassName: "vg1",
			Action: v1alpha1.RecoveryDeleteOrphans, Volumes: []string{"a", "b"}}}))
	s.converge("in use", func(v1alpha1.VGStatus) bool {
		status := s.recovery().Status
		return status.Phase == v1alpha1.RecoveryNotApplicable && strings.Contains(status.Message, "vg1/b on node")
	})
	t.Logf("%s", s.recovery().Status.Message)
	s.ok(used.Close())
	s.converge("a plan", func(v1alpha1.VGStatus) bool {
		return s.recovery().Status.Phase == v1alpha1.RecoveryAwaitingApproval
	})
	r := s.recovery()
	t.Logf("%s", r.Status.Message)
	if p := r.Status.Plan; p.LostVolumeCount != 2 || p.LostVolumes[0].Name != "a" || p.KeptVolumeCount != 1 {
		t.Fatalf("got the plan %+v", p)
	}
	s.approve(r.Status.Plan.ID)
	// The first commands record that each of two thick volumes is being erased. The second agent is killed at the
	// removal.
	killed := s.recover(mode, func(n int) int { return 3 + 97*(n-1) })
	t.Logf("killed %s %v", mode, killed)
	if len(killed) == 0 {
		t.Error("the agent was never killed: this shows nothing")
	}
	s.unchanged("/dev/vg1/kept", sums["kept"])
	for _, name := range []string{"a", "b"} {
		if err := unix.Access("/dev/vg1/"+name, unix.F_OK); err != unix.ENOENT {
			t.Errorf("volume %s: got %v, want %v", name, err, unix.ENOENT)
		}
	}
	if e := s.ready(); spec.ThinPoolConfig == nil && e.Free.Cmp(*free) <= 0 {
		t.Errorf("the volume group has %s free, and had %s", e.Free, free)
	}
	if spec.ThinPoolConfig == nil && s.hasOnDisk(secret) {
		t.Error("the data of a deleted volume is on the disk")
	}
	s.fill(s.volume("a", 32<<20), 32<<20)
	s.discard()
}

// firstBlock returns the beginning of a volume.
func (s *scene) firstBlock(volume string) []byte {
	s.Helper()
	f, err := os.Open(volume)
	s.ok(err)
	defer f.Close()
	block := make([]byte, 4096)
	_, err = io.ReadFull(f, block)
	s.ok(err)
	return block
}

// hasOnDisk returns true if the first disk has a block, as its medium has it, at a multiple of its size.
func (s *scene) hasOnDisk(block []byte) bool {
	s.Helper()
	s.sh("blockdev", "--flushbufs", s.disks[0])
	f, err := os.Open(s.disks[0])
	s.ok(err)
	defer f.Close()
	chunk := make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(f, chunk)
		for at := 0; at+len(block) <= n; at += len(block) {
			if bytes.Equal(chunk[at:at+len(block)], block) {
				return true
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return false
		}
		s.ok(err)
	}
}

// TestSceneDeletedVolumesAreRemoved: two LogicalVolumes were deleted while the node did not exist, one of them long
// ago. Only its logical volume is removed. The agent is killed in the middle of the command.
func TestSceneDeletedVolumesAreRemoved(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(80)
		spec.DeviceSelector, spec.DeletedVolumeRetention = byPath(s.disks[0]), "24h"
		return spec
	})
	s.ready()
	sums := map[string]string{}
	var orphans []v1alpha1.OrphanStatus
	records := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: removednode.DeletedVolumes,
		Namespace: namespace}, Data: map[string]string{}}
	for name, ago := range map[string]time.Duration{"long-ago": 25 * time.Hour, "recently": time.Hour} {
		sums[name] = s.fill(s.volume(name, 32<<20), 32<<20)
		s.ok(s.engine.TagLV(s.Context(), "vg1", name, []string{wellknown.VolumeUIDTagPrefix + "uid-" + name,
			wellknown.ClusterTagPrefix + "c1"}, nil))
		data, err := json.Marshal(removednode.DeletedVolume{Volume: name, UID: types.UID("uid-" + name),
			Time: time.Now().Add(-ago)})
		s.ok(err)
		records.Data[removednode.DeletedVolumeKey(name)] = string(data)
		orphans = append(orphans, v1alpha1.OrphanStatus{Kind: v1alpha1.OrphanLogicalVolume, Name: "vg1/" + name})
	}
	s.ok(s.client.Create(s.Context(), records))
	c := &crashingRunner{real: s.runner, next: 1, mode: "in the middle of"}
	s.bootOver(c)
	var killed []string
	s.converge("removed", func(v1alpha1.VGStatus) bool {
		if dead, said := c.isDead(); dead {
			killed = append(killed, said...)
			c = &crashingRunner{real: s.runner, next: 2, mode: "in the middle of"}
			s.bootOver(c)
		}
		s.agent.orphans.Orphans = func(string) []v1alpha1.OrphanStatus { return orphans }
		return unix.Access("/dev/vg1/long-ago", unix.F_OK) == unix.ENOENT &&
			nodelvm.Command("/usr/sbin/lvs", "vg1/long-ago").Run() != nil
	})
	t.Logf("killed in the middle of %v", killed)
	if len(killed) == 0 {
		t.Error("the agent was never killed: this shows nothing")
	}
	s.boot()
	s.ready()
	s.unchanged("/dev/vg1/recently", sums["recently"])
	s.fill(s.volume("new", 32<<20), 32<<20)
	s.discard()
}
