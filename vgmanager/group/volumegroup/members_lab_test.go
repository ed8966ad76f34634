//go:build lab

package volumegroup

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
)

// TestSceneLostDiskOfAPlainGroup checks that a group with a failed disk is not Ready.
func TestSceneLostDiskOfAPlainGroup(t *testing.T) {
	for name, spec := range map[string]v1alpha1.LVMVolumeGroupSpec{"thick": {Default: true}, "thin": thinOf(90)} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
				spec.DeviceSelector = byPath(s.disks[:2]...)
				return spec
			})
			s.ready()
			s.volume("a", 240<<20)
			s.pull(s.disks[1])
			e := s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing, "volumes at risk", "a")
			if !slices.ContainsFunc(e.Devices, func(d string) bool { return strings.Contains(d, "(missing)") }) {
				t.Errorf("got %v", e.Devices)
			}
			if s.capacity() != 0 {
				t.Errorf("the scheduler is told %d bytes of a group that LVM does not change", s.capacity())
			}
			rescan()
			e = s.converge("Ready, or a pool to be checked", func(e v1alpha1.VGStatus) bool {
				return isReady(e) || falseCondition(e, v1alpha1.ConditionThinPoolHealthy,
					v1alpha1.ReasonThinPoolNeedsCheck) != nil
			})
			if !isReady(e) {
				// The kernel could not write the metadata while the disk was missing.
				s.repaired(s.requestRepair())
			}
			s.ready()
			s.discard()
		})
	}
}

func (s *scene) capacity() uint64 {
	s.Helper()
	response, err := s.engine.FreeBytes(s.Context(), "vg1")
	s.ok(err)
	return response
}

// TestSceneDeviceIsRemovedWithItsData moves the data of each type of volume, and kills the agent during the move.
func TestSceneDeviceIsRemovedWithItsData(t *testing.T) {
	kinds := map[string]v1alpha1.LVMVolumeGroupSpec{
		"thick": {Default: true}, "thin": thinOf(50),
		"raid1": {RAIDConfig: &v1alpha1.RAIDConfig{Type: v1alpha1.RAIDType1}},
	}
	for _, name := range lane.Cases(slices.Sorted(maps.Keys(kinds))...) {
		spec := kinds[name]
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
				spec.DeviceSelector = byPath(s.disks[:3]...)
				return spec
			})
			s.ready()
			volume := s.volume("a", 80<<20)
			sum := s.fill(volume, 80<<20)
			busy := busiest(s.entry())
			s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
				spec.DeviceRequests = []v1alpha1.DeviceRequest{{Node: nodeName, Device: busy.UUID,
					Action: v1alpha1.DeviceActionRemove}}
			})
			s.converge("a move", func(e v1alpha1.VGStatus) bool {
				state := stateOfPV(e, busy.UUID)
				return state == v1alpha1.PhysicalVolumeDraining ||
					state == v1alpha1.PhysicalVolumeDrained || state == ""
			})
			// The agent and all processes that it started are killed.
			killAll("pvmove")
			killAll("lvm")
			s.boot()
			e := s.converge("removed", func(e v1alpha1.VGStatus) bool {
				return isReady(e) &&
					len(e.PhysicalVolumes) == 2
			})
			if slices.ContainsFunc(e.PhysicalVolumes,
				func(pv v1alpha1.PhysicalVolumeStatus) bool { return pv.UUID == busy.UUID }) {
				t.Errorf("got %+v", e.PhysicalVolumes)
			}
			s.unchanged(volume, sum)
			// The device is blank, and is not used again although its path is still in the selector.
			if out, err := exec.Command("/usr/sbin/wipefs", "--no-act",
				busy.Path).CombinedOutput(); err != nil || len(out) != 0 {
				t.Errorf("%s is not blank: %v: %s", busy.Path, err, out)
			}
			s.boot()
			s.ready()
			if n := len(s.entry().PhysicalVolumes); n != 2 {
				t.Errorf("there are %d devices again", n)
			}
			s.discard()
		})
	}
}

func busiest(e v1alpha1.VGStatus) v1alpha1.PhysicalVolumeStatus {
	return slices.MinFunc(e.PhysicalVolumes,
		func(a, b v1alpha1.PhysicalVolumeStatus) int { return a.Free.Cmp(*b.Free) })
}

func stateOfPV(e v1alpha1.VGStatus, uuid string) v1alpha1.PhysicalVolumeState {
	for _, pv := range e.PhysicalVolumes {
		if pv.UUID == uuid {
			return pv.State
		}
	}
	return ""
}

func killAll(name string) { _ = exec.Command("/usr/bin/pkill", "-9", "-x", name).Run() }

// TestSceneDrainIsCancelled starts to drain a device and then withdraws the request.
func TestSceneDrainIsCancelled(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[:2]...)}
	})
	s.ready()
	volume := s.volume("a", 120<<20)
	sum := s.fill(volume, 120<<20)
	busy := busiest(s.entry())
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.DeviceRequests = []v1alpha1.DeviceRequest{{Node: nodeName, Device: busy.UUID,
			Action: v1alpha1.DeviceActionDrain}}
	})
	s.converge("a move", func(e v1alpha1.VGStatus) bool {
		return stateOfPV(e, busy.UUID) == v1alpha1.PhysicalVolumeDraining ||
			stateOfPV(e, busy.UUID) == v1alpha1.PhysicalVolumeDrained
	})
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceRequests = nil })
	s.converge("as before", func(e v1alpha1.VGStatus) bool {
		return isReady(e) && stateOfPV(e, busy.UUID) == v1alpha1.PhysicalVolumeReady
	})
	s.unchanged(volume, sum)
	report, err := lvmexec.New(s.runner).Report(s.Context())
	s.ok(err)
	if vg := report.VG("vg1"); len(vg.Moves()) != 0 ||
		slices.ContainsFunc(vg.PVs, func(pv lvm.PV) bool { return !pv.Allocatable || len(pv.Tags) > 0 }) {
		t.Errorf("something is left of it: %+v", vg)
	}
	s.discard()
}

// TestSceneDeviceThatIsNeededStays requests a drain for which there is not enough free space.
func TestSceneDeviceThatIsNeededStays(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[:2]...)}
	})
	s.ready()
	volume := s.volume("a", 240<<20)
	sum := s.fill(volume, 240<<20)
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceSelector = byPath(s.disks[0]) })
	e := s.converge("a refusal", func(e v1alpha1.VGStatus) bool {
		return strings.Contains(e.Reason,
			"of it is in use, and the other devices have only")
	})
	if len(e.PhysicalVolumes) != 2 || e.Status != v1alpha1.VGStatusDegraded {
		t.Errorf("got %+v", e)
	}
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceSelector = byPath(s.disks[:2]...) })
	s.ready()
	s.unchanged(volume, sum)
	s.discard()
}

// TestSceneLinkThatIsAwayShrinksNothing checks that a healthy disk stays in the group if its udev link is missing.
func TestSceneLinkThatIsAwayShrinksNothing(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		selector := byPath(s.disks[0])
		selector.OptionalPaths = []v1alpha1.DevicePath{v1alpha1.DevicePath(s.disks[1])}
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: selector}
	})
	s.ready()
	target, err := os.Readlink(s.disks[1])
	s.ok(err)
	s.ok(os.Remove(s.disks[1]))
	for range 5 {
		s.agent.Wake()
		_, err := s.reconcile()
		s.ok(err)
	}
	if e := s.entry(); len(e.Devices) != 2 || e.Status != v1alpha1.VGStatusReady {
		t.Errorf("got %+v", e)
	}
	if err := os.Symlink(target, s.disks[1]); !errors.Is(err, os.ErrExist) { // udev may have created it again
		s.ok(err)
	}
	s.ready()
	s.discard()
}

// TestSceneDisksAreRenamed adds the disks again in another order.
func TestSceneDisksAreRenamed(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[:2]...)}
	})
	before := s.ready()
	volume := s.volume("a", 240<<20)
	sum := s.fill(volume, 240<<20)
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
	held, err := os.Open(kernelName(s.disks[0])) // prevents reuse of the name
	s.ok(err)
	defer func() { _ = held.Close() }()
	s.pull(s.disks[0])
	s.pull(s.disks[1])
	rescan()
	s.boot()
	after := s.ready()
	if slices.Equal(before.Devices, after.Devices) {
		t.Errorf("the disks kept their names %v: this shows nothing", after.Devices)
	}
	for i := range before.PhysicalVolumes {
		if before.PhysicalVolumes[i].UUID != after.PhysicalVolumes[i].UUID ||
			before.PhysicalVolumes[i].DeviceID != after.PhysicalVolumes[i].DeviceID {
			t.Errorf("got %+v, was %+v", after.PhysicalVolumes[i], before.PhysicalVolumes[i])
		}
	}
	s.unchanged(volume, sum)
	s.discard()
}

// TestSceneClonedPhysicalVolume has a LUN that a storage array cloned.
func TestSceneClonedPhysicalVolume(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[0])}
	})
	s.ready()
	volume := s.volume("a", 64<<20)
	sum := s.fill(volume, 64<<20)
	s.sh("/bin/dd", "if="+s.disks[0], "of="+s.disks[1], "bs=1M", "conv=fsync", "status=none")
	s.sh("/usr/bin/udevadm", "trigger", "--settle", kernelName(s.disks[1]))
	s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDuplicatePV, filepath.Base(kernelName(s.disks[1])), "a")
	clean(kernelName(s.disks[1]))
	s.ready()
	s.unchanged(volume, sum)
	s.discard()
}

// TestSceneGroupsOfOthers has disks with volume groups of other owners.
func TestSceneGroupsOfOthers(t *testing.T) {
	for name, tt := range map[string]struct{ tags, says []string }{
		"nobody's":        {nil, []string{"vgchange --addtag lvms vg1"}},
		"another cluster": {[]string{"lvms", "lvms.cluster=elsewhere"}, []string{"OtherClusterVG", "elsewhere"}},
		"another node":    {[]string{"lvms", "lvms.cluster=c1", "lvms.node=node9"}, []string{"VGMoved", "node9"}},
	} {
		t.Run(name, func(t *testing.T) {
			yes := true
			s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
				selector := byPath(s.disks[:2]...)
				selector.ForceWipeDevicesAndDestroyAllData = &yes
				return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: selector}
			})
			args := []string{"vgcreate"}
			for _, tag := range tt.tags {
				args = append(args, "--addtag", tag)
			}
			s.sh("/usr/sbin/lvm", append(args, "vg1", s.disks[0])...)
			s.sh("/usr/sbin/lvm", "lvcreate", "--name", "precious", "--size", "32m", "--wipesignatures", "n",
				"--zero", "n", "vg1")
			s.settleUdev()
			sum := s.hash(s.disks[0])
			for range 4 {
				s.agent.Wake()
				_, _ = s.reconcile()
			}
			s.wantState(v1alpha1.VGStatusFailed, tt.says...)
			if got := s.hash(s.disks[0]); got != sum {
				t.Error("the disk of somebody else changed")
			}
			// A removal does not change it either.
			s.remove()
			for range 4 {
				s.agent.Wake()
				_, _ = s.reconcile()
			}
			if !s.gone() || s.hash(s.disks[0]) != sum {
				t.Error("the removal waits for, or changed, what is not ours")
			}
			s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
		})
	}
}

// TestSceneMovedGroupIsAdopted adopts a group with its volumes on another node.
func TestSceneMovedGroupIsAdopted(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[0])}
	})
	s.ready()
	volume := s.volume("a", 32<<20)
	sum := s.fill(volume, 32<<20)
	s.sh("/usr/sbin/lvm", "vgchange", "--deltag", "lvms.node="+nodeName, "--addtag", "lvms.node=node9", "vg1")
	s.boot()
	s.converge("a question", func(e v1alpha1.VGStatus) bool { return strings.Contains(e.Reason, "VGMoved") })
	report, err := lvmexec.New(s.runner).Report(s.Context())
	s.ok(err)
	uuid := report.VG("vg1").UUID
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.Adopt = []v1alpha1.VolumeGroupAdoption{{Node: nodeName, VolumeGroupUUID: uuid}}
	})
	s.ready()
	s.unchanged(volume, sum)
	s.discard()
}
