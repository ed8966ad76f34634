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
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// manyVolumes is how many thin volumes TestLimitManyVolumesOnASmallArea has. Every second one is a snapshot of the one
// before. LVM would need half an hour in the lab to create them, so they are written to the metadata (vgcfgrestore),
// and created in the thin pool with messages. They are not activated, which would take ten minutes.
const manyVolumes = 1500

// TestLimitManyVolumesOnASmallArea has 1,500 volumes and snapshots in one group, on a metadata area for about as many.
// The next ones are created until the device class accepts no more. Volumes and snapshots can be deleted then, and the
// device class accepts volumes again.
func TestLimitManyVolumesOnASmallArea(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		s.sh("/usr/sbin/lvm", "pvcreate", "--metadatasize", "2064k", "--dataalignment", "64k", s.disks[0])
		spec := thinOf(60)
		spec.Default, spec.DeviceSelector = true, byPath(s.disks[0])
		spec.ThinPoolConfig.OverprovisionRatio = 100
		size := resource.MustParse("12Mi")
		spec.ThinPoolConfig.MetadataSizeCalculationPolicy = v1alpha1.SizeCalculationStatic
		spec.ThinPoolConfig.MetadataSize = &size
		return spec
	})
	s.ready()
	s.ok(s.create("0"))
	s.manyVolumes()
	s.look() // The engine knows changes by others only after a report.
	began := time.Now()
	area := s.metadataArea()
	t.Logf("a report of %d volumes took %s: %+v, reserve %d", manyVolumes, time.Since(began), area, area.Reserve())
	created := 0
	var err error
	for created < 300 {
		if err = s.create(fmt.Sprint(manyVolumes + created)); err != nil {
			break
		}
		created++
	}
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "metadata area") || created == 0 {
		t.Fatalf("after %d more volumes: %v", created, err)
	}
	t.Logf("closed after %d more volumes: %+v", created, s.metadataArea())
	s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonMetadataAreaFull, "metadata area")
	_, err = s.engine.CreateLVSnapshot(s.Context(), engine.NewSnapshot{Name: "snap", Class: "vg1",
		Source: uuidName("0"), ReadOnly: true})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a snapshot: %v", err)
	}
	// Sources, snapshots, and volumes that LVM created.
	for _, i := range []int{2, 3, 5, 4, 7, manyVolumes, manyVolumes - 1} {
		began := time.Now()
		s.ok(s.delete(uuidName(fmt.Sprint(i))))
		t.Logf("deleted %d in %s", i, time.Since(began))
	}
	s.converge("open again", func(e v1alpha1.VGStatus) bool {
		return falseCondition(e, v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonMetadataAreaFull) == nil
	})
	s.ok(s.create("again"))
}

// manyVolumes adds volumes to the metadata of the group, and to its thin pool. The group has one volume.
func (s *scene) manyVolumes() {
	s.Helper()
	file := s.saveMetadata()
	text, err := os.ReadFile(file)
	s.ok(err)
	first := uuidName("0")
	start := strings.Index(string(text), "\t\t"+first+" {")
	if start < 0 {
		s.Fatalf("%s is not in the metadata:\n%s", first, text)
	}
	end := start + strings.Index(string(text[start:]), "\n\t\t}\n") + len("\n\t\t}\n")
	one := string(text[start:end])
	uuid := between(one, "id = \"", "\"")
	device := between(one, "device_id = ", "\n")
	var all strings.Builder
	for i := 1; i < manyVolumes; i++ {
		volume := strings.ReplaceAll(one, first+" {", uuidName(fmt.Sprint(i))+" {")
		volume = strings.Replace(volume, uuid, fmt.Sprintf("%s%06d", uuid[:len(uuid)-6], i), 1)
		volume = strings.Replace(volume, "device_id = "+device, fmt.Sprintf("device_id = %d", 1000+i), 1)
		volume = strings.Replace(volume, "flags = []", `flags = ["ACTIVATION_SKIP"]`, 1)
		if i%2 == 1 {
			volume = strings.Replace(volume, "\t\t\t\tdevice_id", fmt.Sprintf("\t\t\t\torigin = %q\n\t\t\t\tdevice_id",
				uuidName(fmt.Sprint(i-1))), 1)
		}
		all.WriteString("\n" + volume)
	}
	file = filepath.Join(s.TempDir(), "many")
	s.ok(os.WriteFile(file, []byte(string(text[:end])+all.String()+string(text[end:])), 0o600))
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
	s.sh("/usr/sbin/lvm", "vgcfgrestore", "--force", "--file", file, "vg1")
	s.sh("/usr/sbin/lvm", "lvchange", "--activate", "y", "vg1/pool")
	began := time.Now()
	for i := 1; i < manyVolumes; i++ {
		message := fmt.Sprintf("create_thin %d", 1000+i)
		if i%2 == 1 && i > 1 {
			message = fmt.Sprintf("create_snap %d %d", 1000+i, 1000+i-1)
		}
		s.sh("/usr/sbin/dmsetup", "message", "vg1-pool-tpool", "0", message)
	}
	s.Logf("created %d volumes in the thin pool in %s", manyVolumes-1, time.Since(began))
	report, err := lvmexec.New(s.runner).Report(s.Context())
	s.ok(err)
	if n := len(report.VG("vg1").LVs); n < manyVolumes {
		s.Fatalf("the group has %d volumes", n)
	}
}

func between(text, before, after string) string {
	_, rest, _ := strings.Cut(text, before)
	value, _, _ := strings.Cut(rest, after)
	return value
}
