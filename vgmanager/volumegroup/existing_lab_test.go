//go:build lab

package volumegroup

import (
	"strings"
	"testing"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// TestSceneExistingVolumeGroup uses a volume group that an administrator created, with a volume of the host and one of
// TopoLVM. Nothing of the group changes except the volumes of claims.
func TestSceneExistingVolumeGroup(t *testing.T) {
	const created = "66666666-2222-3333-4444-555555555555"
	s := newScene(t, func(*scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, ExistingVolumeGroup: "data"}
	})
	lvm := func(args ...string) { s.sh("/usr/sbin/lvm", args...) }
	s.settleUdev()
	s.settle()
	s.wantState(v1alpha1.VGStatusFailed, "volume group data of device class vg1 does not exist", "vgcreate data")

	disks := []string{kernelName(s.disks[0]), kernelName(s.disks[1])}
	if s.hasDevicesFile() {
		for _, disk := range disks {
			lvm("lvmdevices", "--yes", "--adddev", disk)
		}
	}
	lvm("vgcreate", "--addtag", "site", "data", disks[0], disks[1])
	lvm("lvcreate", "--yes", "--name", "host", "--size", "32m", "data")
	lvm("lvcreate", "--yes", "--name", "spare", "--size", "8m", "--activate", "n", "--zero", "n", "data")
	lvm("lvcreate", "--yes", "--name", claimedVolume, "--size", "32m", "data")
	s.settleUdev()
	sums := map[string]string{}
	for _, volume := range []string{"/dev/data/host", "/dev/data/" + claimedVolume} {
		sums[volume] = s.fill(volume, 32<<20)
	}
	look := func() string {
		return s.output("lvm", "vgs", "--noheadings", "-o", "vg_name,vg_uuid,vg_tags,pv_count,vg_extent_size") +
			s.output("lvm", "lvs", "--noheadings", "-o", "lv_name,lv_uuid,lv_tags,lv_active,lv_size", "data/host",
				"data/spare")
	}
	before := look()

	// Refused, and nothing is published.
	lvm("vgchange", "--addtag", "lvms.cluster=c2", "data")
	s.agent.Wake()
	s.settle()
	s.wantState(v1alpha1.VGStatusFailed, "OtherClusterVG", "c2")
	lvm("vgchange", "--deltag", "lvms.cluster=c2", "data")

	for range 2 {
		s.agent.Wake()
		if entry := s.ready(); entry.VolumeGroup != "data" || len(entry.Devices) != 2 {
			t.Errorf("got %+v", entry)
		}
		s.boot()
	}
	ctx := s.Context()
	request := &proto.CreateLVRequest{Name: created, DeviceClass: "vg1", SizeBytes: 16 << 20}
	for range 2 {
		_, err := s.engine.CreateLV(ctx, request)
		s.ok(err)
	}
	s.fill("/dev/data/"+created, 16<<20)
	_, err := s.engine.ResizeLV(ctx, &proto.ResizeLVRequest{Name: claimedVolume, DeviceClass: "vg1",
		SizeBytes: 48 << 20})
	s.ok(err)
	lvm("lvreduce", "--yes", "--size", "32m", "data/"+claimedVolume)
	if err := s.delete("host"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("remove the volume of the host: %v", err)
	}
	volumes, _, err := s.engine.Volumes(ctx)
	if s.ok(err); len(volumes) != 2 {
		t.Errorf("got %+v", volumes)
	}
	if after := look(); after != before {
		t.Errorf("the volume group was\n%sand is\n%s", before, after)
	}

	// The class does not end while it has volumes, and leaves the volume group.
	s.remove()
	s.settle()
	s.wantState(v1alpha1.VGStatusDegraded, claimedVolume, created)
	for volume, sum := range sums {
		s.unchanged(volume, sum)
	}
	s.ok(s.delete(created))
	s.ok(s.delete(claimedVolume))
	s.settle()
	s.settle()
	if !s.gone() {
		t.Errorf("the device class does not end: %+v", s.entry())
	}
	if after := look(); after != before || strings.Contains(after, "lvms") {
		t.Errorf("the volume group was\n%sand is\n%s", before, after)
	}
	s.unchanged("/dev/data/host", sums["/dev/data/host"])
}
