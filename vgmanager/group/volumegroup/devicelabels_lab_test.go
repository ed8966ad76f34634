//go:build lab

package volumegroup

import (
	"os"
	"slices"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
)

// identityOf returns the identity of a disk as the agent publishes it.
func (s *scene) identityOf(disk string) string {
	s.Helper()
	devices, err := device.New(s.runner).List(s.Context())
	s.ok(err)
	at := slices.IndexFunc(devices, func(d device.Device) bool { return slices.Contains(d.Links, disk) })
	if at < 0 {
		s.Fatalf("%s is not listed", disk)
	}
	id := device.Identities(devices)[devices[at].Number]
	if id == "" {
		s.Fatalf("%s has no identity: %+v", disk, devices[at])
	}
	return id
}

// TestSceneLabeledDisksAreUsed labels a disk, which gets another name before it is used, and then another one. Disks
// that lose their labels stay in the volume group, with their data. No other disk is used.
func TestSceneLabeledDisksAreUsed(t *testing.T) {
	s := newScene(t, func(*scene) v1alpha1.LVMVolumeGroupSpec {
		spec := ofTier("fast")
		spec.Default = true
		return spec
	})
	first, second := s.disks[0], s.disks[1]
	s.converge("Ready without devices", func(e v1alpha1.VGStatus) bool {
		return e.Status == v1alpha1.VGStatusReady && len(e.Devices) == 0
	})
	ids := []string{s.identityOf(first), s.identityOf(second)}
	name := kernelName(first)
	held, err := os.Open(name) // prevents reuse of the name
	s.ok(err)
	s.pull(first)
	rescan()
	s.boot()
	if kernelName(first) == name {
		t.Fatal("the disk has the same name as before")
	}
	s.ok(held.Close())
	s.setTier("fast", ids[0])
	s.ready()
	if got := s.entry().PhysicalVolumes; len(got) != 1 || got[0].DeviceID != ids[0] {
		t.Fatalf("got %+v, want the disk %s", got, ids[0])
	}
	volume := s.volume("a", 80<<20)
	sum := s.fill(volume, 80<<20)

	s.setTier("fast", ids[1])
	s.converge("two disks", func(e v1alpha1.VGStatus) bool { return isReady(e) && len(e.PhysicalVolumes) == 2 })
	s.setTier("")
	s.boot()
	for range 3 {
		s.ready()
	}
	if got := s.entry().PhysicalVolumes; len(got) != 2 || slices.ContainsFunc(got,
		func(pv v1alpha1.PhysicalVolumeStatus) bool { return pv.State != v1alpha1.PhysicalVolumeReady }) {
		t.Errorf("the labels were removed, and the members are %+v", got)
	}
	s.unchanged(volume, sum)
	s.discard()
}
