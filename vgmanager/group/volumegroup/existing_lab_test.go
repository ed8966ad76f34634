//go:build lab

package volumegroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
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
	request := engine.NewVolume{Name: created, Class: "vg1", Size: 16 << 20}
	for range 2 {
		_, err := s.engine.CreateLV(ctx, request)
		s.ok(err)
	}
	s.fill("/dev/data/"+created, 16<<20)
	_, err := s.engine.ResizeLV(ctx, "vg1", claimedVolume, 48<<20)
	s.ok(err)
	reduce := []string{"lvreduce", "--yes", "--size", "32m", "data/" + claimedVolume}
	if strings.Contains(s.output("lvreduce", "--help"), "--fs ") { // LVM 2.03.17
		reduce = append(reduce, "--fs", "ignore")
	}
	lvm(reduce...)
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

// dataGroup creates the volume group data of an administrator on two disks.
func (s *scene) dataGroup() {
	s.Helper()
	disks := []string{kernelName(s.disks[0]), kernelName(s.disks[1])}
	if s.hasDevicesFile() {
		for _, disk := range disks {
			s.sh("/usr/sbin/lvm", "lvmdevices", "--yes", "--adddev", disk)
		}
	}
	s.sh("/usr/sbin/lvm", "vgcreate", "data", disks[0], disks[1])
	s.settleUdev()
}

// TestSceneSettingsOfAnExistingVolumeGroup: settings of TopoLVM's lvmd.yaml are kept, which new volumes would lose, and
// the LVMCluster can have them.
func TestSceneSettingsOfAnExistingVolumeGroup(t *testing.T) {
	two, size := int32(2), resource.MustParse("16Ki")
	const created = "66666666-2222-3333-4444-555555555555"
	tests := map[string]struct {
		left     string
		config   v1alpha1.ExistingVolumeGroupConfig
		segments string
	}{
		"redundancy": {"lvcreate-options: [--type=raid1]",
			v1alpha1.ExistingVolumeGroupConfig{LVCreateOptions: []string{"--type=raid1", "--nosync"}}, "raid1 2"},
		"stripes": {"stripe: 2\n  stripe-size: 16k",
			v1alpha1.ExistingVolumeGroupConfig{Stripes: &two, StripeSize: &size}, "striped 2 16.00k"},
	}
	for _, name := range lane.Cases("redundancy", "stripes") {
		tt := tests[name]
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(*scene) v1alpha1.LVMVolumeGroupSpec {
				return v1alpha1.LVMVolumeGroupSpec{Default: true, ExistingVolumeGroup: "data"}
			})
			s.dataGroup()
			// What TopoLVM's lvmd has left.
			file := filepath.Join(s.dir, "lvmd.yaml")
			left := "device-classes:\n- name: vg1\n  volume-group: data\n  default: true\n  spare-gb: 1\n  " + tt.left + "\n"
			s.ok(os.WriteFile(file, []byte(left), 0o600))
			s.boot()
			s.settle()
			s.wantState(v1alpha1.VGStatusFailed, "which new volumes would lose", "existingVolumeGroupConfig")
			if now, err := os.ReadFile(file); err != nil || string(now) != left {
				t.Errorf("the file of TopoLVM changed: %s, %v", now, err)
			}

			s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.ExistingVolumeGroupConfig = &tt.config })
			s.ready()
			request := engine.NewVolume{Name: created, Class: "vg1", Size: 16 << 20}
			for range 2 {
				_, err := s.engine.CreateLV(s.Context(), request)
				s.ok(err)
			}
			fields := "segtype,stripes"
			if tt.config.StripeSize != nil {
				fields += ",stripesize"
			}
			lvs := func() string {
				return strings.Join(strings.Fields(s.output("lvm", "lvs", "--noheadings", "--segments", "-o", fields,
					"data/"+created)), " ")
			}
			if got := lvs(); got != tt.segments {
				t.Errorf("got %s, want %s", got, tt.segments)
			}
			sum := s.fill("/dev/data/"+created, 16<<20)
			_, err := s.engine.ResizeLV(s.Context(), "vg1", created, 32<<20)
			s.ok(err)
			if got := lvs(); !strings.HasPrefix(got, tt.segments) {
				t.Errorf("after the expansion: got %s, want %s", got, tt.segments)
			}
			if got := s.hashOf("/dev/data/"+created, 16<<20); got != sum {
				t.Error("the expansion changed the data")
			}

			// The file has spare space, which the scheduler does not see.
			capacity := s.capacity()
			s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.ExistingVolumeGroupConfig.SpareGiB = 1 })
			s.ready()
			if spare := s.capacity(); capacity == 0 || spare != 0 {
				t.Errorf("the capacity is %d, and %d with 1 GiB of spare space on smaller disks", capacity, spare)
			}
			s.ok(s.delete(created))
		})
	}
}

// TestSceneExistingThinPool uses a thin pool that an administrator created, beside a thin volume of the host.
func TestSceneExistingThinPool(t *testing.T) {
	const created, snapshot = "66666666-2222-3333-4444-555555555555", "77777777-2222-3333-4444-555555555555"
	s := newScene(t, func(*scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, ExistingVolumeGroup: "data",
			ThinPoolConfig: &v1alpha1.ThinPoolConfig{Name: "pool", OverprovisionRatio: 2}}
	})
	lvm := func(args ...string) { s.sh("/usr/sbin/lvm", args...) }
	s.dataGroup()
	s.settle()
	s.wantState(v1alpha1.VGStatusFailed, "has no thin pool pool", "lvcreate --type thin-pool")
	lvm("lvcreate", "--yes", "--type", "thin-pool", "--extents", "50%FREE", "--name", "pool", "data")
	lvm("lvcreate", "--yes", "--type", "thin", "--virtualsize", "32m", "--name", "host", "--thinpool", "data/pool")
	s.settleUdev()
	host := s.fill("/dev/data/host", 32<<20)
	look := func() string {
		return s.output("lvm", "vgs", "--noheadings", "-o", "vg_name,vg_uuid,vg_tags,pv_count", "data") +
			s.output("lvm", "lvs", "--noheadings", "-o", "lv_name,lv_uuid,lv_tags,lv_active,lv_size,metadata_lv",
				"data/host", "data/pool")
	}
	before := look()
	s.ready()

	ctx := s.Context()
	for range 2 {
		_, err := s.engine.CreateLV(ctx, engine.NewVolume{Name: created, Class: "vg1", Size: 32 << 20})
		s.ok(err)
	}
	sum := s.fill("/dev/data/"+created, 32<<20)
	for range 2 {
		_, err := s.engine.CreateLVSnapshot(ctx, engine.NewSnapshot{Name: snapshot, Class: "vg1",
			Source: created, Size: 32 << 20, ReadOnly: true})
		s.ok(err)
	}
	_, err := s.engine.CreateLVSnapshot(ctx, engine.NewSnapshot{Name: snapshot + "0", Class: "vg1",
		Source: "host", Size: 32 << 20, ReadOnly: true})
	if status.Code(err) != codes.NotFound {
		t.Errorf("a snapshot of the volume of the host: %v", err)
	}
	_, err = s.engine.ResizeLV(ctx, "vg1", created, 48<<20)
	s.ok(err)
	if got := s.hashOf("/dev/data/"+created, 32<<20); got != sum {
		t.Error("the expansion changed the data")
	}
	lvm("lvchange", "--activate", "y", "--ignoreactivationskip", "data/"+snapshot)
	s.unchanged("/dev/data/"+snapshot, sum)

	// The status of a pool that was not activated says what to do, and the agent does not activate it.
	for _, volume := range []string{created, snapshot, "host", "pool"} {
		lvm("lvchange", "--activate", "n", "data/"+volume)
	}
	s.converge("ThinPoolFailed", func(e v1alpha1.VGStatus) bool {
		c := falseCondition(e, v1alpha1.ConditionThinPoolHealthy, v1alpha1.ReasonThinPoolFailed)
		return c != nil && strings.Contains(c.Message, "lvchange -ay data/pool")
	})
	for _, volume := range []string{"pool", "host"} {
		lvm("lvchange", "--activate", "y", "data/"+volume)
	}
	s.ready()

	s.remove()
	s.settle()
	s.wantState(v1alpha1.VGStatusDegraded, created, snapshot)
	s.ok(s.delete(snapshot))
	s.ok(s.delete(created))
	s.settle()
	s.settle()
	if !s.gone() {
		t.Errorf("the device class does not end: %+v", s.entry())
	}
	if after := look(); after != before || strings.Contains(after, "lvms") {
		t.Errorf("the volume group was\n%sand is\n%s", before, after)
	}
	s.unchanged("/dev/data/host", host)
}
