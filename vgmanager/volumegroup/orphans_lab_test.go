//go:build lab

package volumegroup

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lane"
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
	for _, k := range lane.Rotate(all...) {
		t.Run(fmt.Sprintf("%s, killed %s the command", k.class, k.mode), func(t *testing.T) {
			deleteOrphans(t, k.spec, k.mode)
		})
	}
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
	killed := s.recover(mode, func(int) int { return 2 })
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
	s.fill(s.volume("a", 32<<20), 32<<20)
	s.discard()
}
