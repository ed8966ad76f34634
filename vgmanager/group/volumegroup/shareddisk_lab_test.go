//go:build lab

package volumegroup

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/clusterobjects"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// TestSceneDiskOfSeveralNodesIsNotUsed: another node lists a disk with the same WWN, and then no longer does. Later,
// the group belongs to that node, and its volume is active here.
func TestSceneDiskOfSeveralNodesIsNotUsed(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{DeviceSelector: byPath(s.disks[0])}
	})
	s.agent.Peers = func(ctx context.Context, devices []device.Device) (*state.Peers, error) {
		return clusterobjects.ReadPeers(ctx, s.client, namespace, nodeName, s.agent.now, devices)
	}
	out, err := exec.Command("/usr/bin/lsblk", "-dno", "WWN", kernelName(s.disks[0])).Output()
	s.ok(err)
	listed := v1alpha1.DeviceStatus{Name: "/dev/sdq", WWN: strings.TrimSpace(string(out))}
	s.converge("it awaits its listing", func(e v1alpha1.VGStatus) bool {
		return e.Status == v1alpha1.VGStatusProgressing && strings.Contains(e.Reason, "until the node status")
	})
	s.list(nodeName, listed)
	s.list("node2", listed)
	s.excludes(s.disks[0], device.SharedWithNode)
	s.wantBlank(s.disks[0])

	s.list("node2")
	s.ready()
	s.volume("data", 64<<20)
	s.ok(nodelvm.Command("/usr/sbin/lvm", "vgchange", "--deltag", wellknown.NodeTagPrefix+nodeName, "--addtag",
		wellknown.NodeTagPrefix+"node2", "vg1").Run())
	s.converge("VGMoved", func(e v1alpha1.VGStatus) bool {
		return strings.Contains(e.Reason, "VGMoved") && strings.Contains(e.Reason, "are active on node "+nodeName) &&
			strings.Contains(e.Reason, "vgchange -an vg1")
	})
	s.ok(nodelvm.Command("/usr/sbin/lvm", "vgchange", "-an", "vg1").Run())
	s.converge("inactive", func(e v1alpha1.VGStatus) bool {
		return strings.Contains(e.Reason, "VGMoved") && !strings.Contains(e.Reason, "are active")
	})
	if link, err := filepath.EvalSymlinks("/dev/vg1/data"); err == nil {
		t.Errorf("the agent activated %s", link)
	}
}
