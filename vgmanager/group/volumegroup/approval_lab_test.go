//go:build lab

package volumegroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
)

// fingerprint returns the fingerprint of a disk as the agent publishes it.
func (s *scene) fingerprint(disk string) string {
	s.Helper()
	devices, err := device.New(s.runner).List(s.Context())
	s.ok(err)
	report, err := lvmexec.New(s.runner).Report(s.Context())
	s.ok(err)
	pvs := state.PhysicalVolumes(report)
	at := slices.IndexFunc(devices, func(d device.Device) bool { return slices.Contains(d.Links, disk) })
	if at < 0 {
		s.Fatalf("%s is not listed", disk)
	}
	fingerprint := device.NewFingerprints(devices, pvs).Of(devices[at], device.Explain(devices[at], pvs))
	if fingerprint == "" {
		s.Fatalf("%s has no fingerprint: %+v", disk, devices[at])
	}
	return fingerprint
}

func (s *scene) approveDisk(name, disk, fingerprint string) {
	s.Helper()
	s.ok(s.client.Create(s.Context(), &v1alpha1.LVMDeviceApproval{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.LVMDeviceApprovalSpec{NodeName: nodeName, DeviceClassName: "vg1", Device: disk,
			Fingerprint: fingerprint, ApprovedBy: "ann"}}))
}

// excludes waits until a disk is excluded with a reason.
func (s *scene) excludes(disk string, code device.Code) {
	s.Helper()
	s.converge(string(code), func(e v1alpha1.VGStatus) bool {
		return slices.ContainsFunc(e.Excluded, func(x v1alpha1.ExcludedDevice) bool {
			return x.Name == disk && slices.ContainsFunc(x.Reasons,
				func(r string) bool { return strings.HasPrefix(r, string(code)+":") })
		})
	})
}

func (s *scene) format(disk string) {
	s.Helper()
	s.sh("/usr/sbin/mkfs.ext4", ext4On(disk)...)
	s.settleUdev()
}

// TestSceneAnApprovedDeviceIsUsed approves a blank disk, and a disk with content that may be wiped. The second one gets
// other content after its review: no byte of it changes until it is approved again. The disks get other names between
// review and use.
func TestSceneAnApprovedDeviceIsUsed(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		selector := &v1alpha1.DeviceSelector{ForceWipeDevicesAndDestroyAllData: new(true)}
		for _, d := range s.disks[:2] {
			selector.OptionalPaths = append(selector.OptionalPaths, v1alpha1.DevicePath(d))
		}
		return v1alpha1.LVMVolumeGroupSpec{Default: true, Approval: v1alpha1.ApprovalRequired, DeviceSelector: selector}
	})
	blank, formatted := s.disks[0], s.disks[1]
	s.format(formatted)
	sum := s.hash(formatted)
	s.excludes(blank, device.AwaitingApproval)
	s.excludes(formatted, device.AwaitingApproval)
	s.wantState(v1alpha1.VGStatusProgressing, "before its devices are approved")

	first, second := s.fingerprint(blank), s.fingerprint(formatted)
	names := []string{kernelName(blank), kernelName(formatted)}
	held, err := os.Open(names[0]) // prevents reuse of the name
	s.ok(err)
	s.pull(blank)
	s.pull(formatted)
	rescan()
	s.boot()
	if slices.Equal(names, []string{kernelName(blank), kernelName(formatted)}) {
		t.Errorf("the disks kept their names %v: this shows nothing", names)
	}
	if a, b := s.fingerprint(blank), s.fingerprint(formatted); a != first || b != second {
		t.Errorf("with other names: got %s and %s, was %s and %s", a, b, first, second)
	}
	s.ok(held.Close())

	s.approveDisk("blank", blank, first)
	if e := s.ready(); !slices.Equal(e.Devices, []string{kernelName(blank)}) || len(e.WipedDevices) > 0 {
		t.Fatalf("got %+v", e)
	}
	if got := s.hash(formatted); got != sum {
		t.Fatal("the content of a disk changed that is not approved")
	}

	s.format(formatted) // another file system than the one that is reviewed
	sum = s.hash(formatted)
	s.approveDisk("formatted", formatted, second)
	s.excludes(formatted, device.ChangedSinceReview)
	if got := s.hash(formatted); got != sum {
		t.Fatal("the content of a disk changed that is not the reviewed one")
	}
	s.approveDisk("formatted-again", formatted, s.fingerprint(formatted))
	e := s.converge("both disks", func(e v1alpha1.VGStatus) bool { return isReady(e) && len(e.Devices) == 2 })
	if len(e.WipedDevices) != 1 || len(e.Excluded) > 0 {
		t.Errorf("got %+v", e)
	}
	records, err := filepath.Glob(filepath.Join(s.dir, "wiped", "*", "restore.sh"))
	if err != nil || len(records) != 1 {
		t.Errorf("copies of what was overwritten: %v, %v", records, err)
	}
	s.discard()
}
