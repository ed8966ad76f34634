//go:build lab

package volumegroup

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/test/layers"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// scene is a node with seven SCSI disks that can be removed and added. The last one is not named and has content.
// Each scene checks at its end that no byte of it changed.
type scene struct {
	*labBench
	bystander string
	sum       string
	incident  incident
}

const sceneDisks = 7

// newScene starts with blank disks. A selector names them by their links under /dev/disk/by-id.
func newScene(t *testing.T, spec func(s *scene) v1alpha1.LVMVolumeGroupSpec) *scene {
	t.Helper()
	s := &scene{labBench: &labBench{disks: scsiDisks(t)}}
	s.bench = &bench{T: t}
	s.clearDisks()
	s.bystander = s.disks[sceneDisks-1]
	s.disks = s.disks[:sceneDisks-1]
	s.writeRandom(s.bystander)
	s.sum = s.hash(s.bystander)
	s.labBench.bench = newBench(t, spec(s))
	s.runner = nodelvm.New()
	s.boot()
	t.Cleanup(func() {
		if s.hash(s.bystander) != s.sum {
			t.Errorf("the content of %s changed, which nobody named", s.bystander)
		}
		s.clearDisks()
	})
	return s
}

// sceneSize is the size of a disk in MiB. The disks are in the node's memory.
const sceneSize = 160

// scsiDisks returns the disks by stable links. They are simulated by the kernel, each with its own host adapter. They
// can be removed and added again with another name while something still holds the previous device.
func scsiDisks(t *testing.T) []string {
	t.Helper()
	if _, err := os.Stat("/sys/module/scsi_debug"); err != nil {
		out, err := exec.Command("/usr/sbin/modprobe", "scsi_debug", fmt.Sprintf("dev_size_mb=%d", sceneSize),
			fmt.Sprintf("add_host=%d", sceneDisks), "per_host_store=1", "delay=0").CombinedOutput()
		if err != nil {
			t.Fatalf("modprobe scsi_debug: %v: %s", err, out)
		}
		_ = exec.Command("/usr/bin/udevadm", "settle").Run()
	}
	links, err := filepath.Glob("/dev/disk/by-id/wwn-*")
	if err != nil || len(links) < sceneDisks {
		t.Fatalf("found the disks %v (%v), want %d with a WWN", links, err, sceneDisks)
	}
	slices.Sort(links)
	return links[:sceneDisks]
}

// clearDisks removes everything from all disks. It does not use the product.
func (s *scene) clearDisks() {
	s.Helper()
	rescan()
	_ = nodelvm.Command("/usr/sbin/lvm", "pvmove", "--abort").Run()
	for range 3 {
		removeMappings()
	}
	// udev removes the links to logical volumes, unless the host has no LVM: then LVM created them. With them, LVM does
	// not create a volume group of this name.
	for _, group := range []string{"vg1", "data"} {
		s.ok(os.RemoveAll("/dev/" + group))
	}
	for _, link := range scsiDisks(s.T) {
		disk := kernelName(link)
		clean(disk)
	}
	_ = exec.Command("/usr/bin/udevadm", "settle").Run()
}

// removeMappings removes all mapped devices except those of the host: its own volume group, and the multipath
// devices.
func removeMappings() {
	list, _ := nodelvm.Command("/usr/sbin/dmsetup", "info", "--columns", "--noheadings", "--separator", " ", "--options",
		"name,uuid").Output()
	for line := range strings.Lines(string(list)) {
		name, uuid, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || strings.HasPrefix(name, "host-") || strings.HasPrefix(uuid, "mpath-") {
			continue
		}
		_ = nodelvm.Command("/usr/sbin/dmsetup", "remove", "--force", name).Run()
	}
}

func clean(disk string) {
	_ = exec.Command("/usr/sbin/wipefs", "--quiet", "--all", "--force", disk).Run()
	f, err := os.OpenFile(disk, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.Write(make([]byte, 4<<20))
	if end, err := f.Seek(-4<<20, io.SeekEnd); err == nil {
		_, _ = f.WriteAt(make([]byte, 4<<20), end)
	}
	_ = f.Sync()
	_ = f.Close()
	_ = exec.Command("/usr/bin/udevadm", "trigger", "--settle", disk).Run()
}

// rescan adds all removed disks again. The kernel adds one only after the last user of the previous device has closed
// it.
func rescan() {
	for range 40 {
		hosts, _ := filepath.Glob("/sys/class/scsi_host/host*/scan")
		for _, h := range hosts {
			_ = os.WriteFile(h, []byte("- - -"), 0o600)
		}
		_ = exec.Command("/usr/bin/udevadm", "settle").Run()
		if links, _ := filepath.Glob("/dev/disk/by-id/wwn-*"); len(links) >= sceneDisks {
			return
		}
		time.Sleep(250 * time.Millisecond)
	}
}

func kernelName(link string) string {
	path, err := filepath.EvalSymlinks(link)
	if err != nil {
		return link
	}
	return path
}

// pull removes a disk, as if it were unplugged.
func (s *scene) pull(link string) {
	s.Helper()
	s.ok(os.WriteFile("/sys/block/"+filepath.Base(kernelName(link))+"/device/delete", []byte("1"), 0o600))
	s.settleUdev()
}

func (s *scene) writeRandom(disk string) {
	s.Helper()
	f, err := os.OpenFile(disk, os.O_WRONLY, 0)
	s.ok(err)
	_, err = io.CopyN(f, rand.Reader, 8<<20)
	s.ok(err)
	s.ok(f.Sync())
	s.ok(f.Close())
	s.settleUdev()
}

// hash returns a hash of a whole disk, read past the page cache.
func (s *scene) hash(disk string) string {
	s.Helper()
	return s.hashOf(disk, math.MaxInt64)
}

// hashOf returns a hash of the first bytes of a disk, up to limit.
func (s *scene) hashOf(disk string, limit int64) string {
	s.Helper()
	f, err := os.Open(disk)
	s.ok(err)
	defer func() { _ = f.Close() }()
	h := sha256.New()
	_, err = io.Copy(h, io.LimitReader(f, limit))
	s.ok(err)
	return hex.EncodeToString(h.Sum(nil))
}

func byPath(disks ...string) *v1alpha1.DeviceSelector {
	selector := &v1alpha1.DeviceSelector{}
	for _, d := range disks {
		selector.Paths = append(selector.Paths, v1alpha1.DevicePath(d))
	}
	return selector
}

// change changes the spec like the operator.
func (s *scene) change(edit func(*v1alpha1.LVMVolumeGroupSpec)) {
	s.Helper()
	object := s.object()
	edit(&object.Spec)
	object.Generation++
	s.ok(s.client.Update(s.Context(), object))
}

// converge reconciles until done returns true for the status.
func (s *scene) converge(what string, done func(v1alpha1.VGStatus) bool) v1alpha1.VGStatus {
	s.Helper()
	return s.convergeIn(5*time.Minute, what, done)
}

// convergeIn is converge with a time limit.
func (s *scene) convergeIn(limit time.Duration, what string, done func(v1alpha1.VGStatus) bool) v1alpha1.VGStatus {
	s.Helper()
	deadline := time.Now().Add(limit)
	var result ctrl.Result
	var last error
	if s.incident.measured {
		if entry := s.entry(); done(entry) {
			return entry
		}
		s.pause(ctrl.Result{RequeueAfter: resync + resync/10}, nil)
	} else {
		s.agent.Wake()
	}
	for time.Now().Before(deadline) {
		result, last = s.reconcile()
		if entry := s.entry(); done(entry) {
			return entry
		}
		s.pause(result, last)
	}
	s.Fatalf("%s does not come: %+v, last error %v", what, s.entry(), last)
	return v1alpha1.VGStatus{}
}

func isReady(e v1alpha1.VGStatus) bool { return e.Status == v1alpha1.VGStatusReady && e.Size != nil }

func (s *scene) ready() v1alpha1.VGStatus {
	s.Helper()
	return s.converge("Ready", isReady)
}

// falseCondition returns the condition if it is False.
func falseCondition(e v1alpha1.VGStatus, kind, reason string) *metav1.Condition {
	c := meta.FindStatusCondition(e.Conditions, kind)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason {
		return nil
	}
	return c
}

// says waits until a condition is False with a reason, and until its message contains the names.
func (s *scene) says(kind, reason string, names ...string) v1alpha1.VGStatus {
	s.Helper()
	e := s.converge(kind+" "+reason, func(e v1alpha1.VGStatus) bool { return falseCondition(e, kind, reason) != nil })
	message := falseCondition(e, kind, reason).Message
	for _, n := range append(names, nodeName, "vg1") {
		if !strings.Contains(message, n) {
			s.Errorf("the message %q should name %q", message, n)
		}
	}
	if e.Status == v1alpha1.VGStatusReady {
		s.Errorf("it is Ready while %s is False", kind)
	}
	return e
}

func (s *scene) volume(name string, size int64) string {
	s.Helper()
	_, err := s.engine.CreateLV(s.Context(), &proto.CreateLVRequest{Name: name, DeviceClass: "vg1", SizeBytes: size})
	s.ok(err)
	return "/dev/vg1/" + name
}

// fill writes a pattern to a volume and returns its hash.
func (s *scene) fill(volume string, size int64) string {
	s.Helper()
	f, err := os.OpenFile(volume, os.O_WRONLY, 0)
	s.ok(err)
	_, err = io.CopyN(f, rand.Reader, size)
	s.ok(err)
	s.ok(f.Sync())
	s.ok(f.Close())
	return s.hash(volume)
}

func (s *scene) unchanged(volume, sum string) {
	s.Helper()
	if got := s.hash(volume); got != sum {
		s.Errorf("the data of %s changed", volume)
	}
}

// writer writes to a volume until it is stopped. It yields the node's only CPU between two writes.
type writer struct {
	stop chan struct{}
	done chan error
}

func (s *scene) startWriting(volume string) *writer {
	s.Helper()
	f, err := os.OpenFile(volume, os.O_WRONLY|os.O_SYNC, 0)
	s.ok(err)
	w := &writer{stop: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		defer func() { _ = f.Close() }()
		block := bytes.Repeat([]byte{0xa5}, 64<<10)
		for {
			select {
			case <-w.stop:
				w.done <- nil
				return
			case <-time.After(5 * time.Millisecond):
			}
			if _, err := f.WriteAt(block, 0); err != nil {
				w.done <- err
				return
			}
		}
	}()
	return w
}

func (w *writer) finish() error {
	close(w.stop)
	return <-w.done
}

// discard deletes everything with the agent.
func (s *scene) discard() {
	s.Helper()
	s.discardGroup()
	s.wantBlank(s.disks...)
}

// discardGroup deletes the volumes and the volume group with the agent.
func (s *scene) discardGroup() {
	s.Helper()
	report, err := lvm.New(s.runner).Report(s.Context())
	s.ok(err)
	if vg := report.VG("vg1"); vg != nil {
		for i := range vg.LVs {
			if lv := &vg.LVs[i]; !lv.Attr.IsThinPool() {
				_, err := s.engine.RemoveLV(s.Context(), &proto.RemoveLVRequest{Name: lv.Name, DeviceClass: "vg1"})
				s.ok(err)
			}
		}
	}
	s.remove()
	deadline := time.Now().Add(3 * time.Minute)
	for !s.gone() && time.Now().Before(deadline) {
		s.agent.Wake()
		_, _ = s.reconcile()
	}
	if !s.gone() {
		s.Fatalf("still there: %+v", s.entry())
	}
}

// wantBlank checks that devices have no signature. It ignores devices that were removed.
func (s *scene) wantBlank(devices ...string) {
	s.Helper()
	for _, d := range devices {
		if _, err := os.Stat(d); err != nil {
			continue // it was removed
		}
		if out, err := exec.Command("/usr/sbin/wipefs", "--no-act", d).CombinedOutput(); err != nil || len(out) != 0 {
			s.Errorf("%s is not blank: %v: %s", d, err, out)
		}
	}
}

func raidScene(kind v1alpha1.RAIDType, disks int) func(*scene) v1alpha1.LVMVolumeGroupSpec {
	return func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[:disks]...),
			RAIDConfig: &v1alpha1.RAIDConfig{Type: kind}}
	}
}

// raidDisks is the minimum number of disks of each level.
var raidDisks = map[v1alpha1.RAIDType]int{
	v1alpha1.RAIDType1: 2, v1alpha1.RAIDType4: 3, v1alpha1.RAIDType5: 3, v1alpha1.RAIDType6: 5, v1alpha1.RAIDType10: 4,
}

// TestSceneRAIDSurvivesAPulledDisk removes a disk of each level during writes, and replaces it.
func TestSceneRAIDSurvivesAPulledDisk(t *testing.T) {
	for _, kind := range lane.Rotate(slices.Sorted(maps.Keys(raidDisks))...) {
		disks := raidDisks[kind]
		t.Run(string(kind), func(t *testing.T) {
			s := newScene(t, raidScene(kind, disks))
			s.ready()
			volume := s.volume("a", 48<<20)
			other := s.volume("b", 16<<20)
			sum := s.fill(other, 16<<20)
			s.converge("in sync", func(e v1alpha1.VGStatus) bool {
				return e.RAIDStatus != nil && e.RAIDStatus.MinSyncPercent != nil && *e.RAIDStatus.MinSyncPercent == 100
			})
			writing := s.startWriting(volume)
			lost := s.disks[disks-1]
			s.disaster()
			s.pull(lost)
			e := s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing, "volumes at risk", "a", "b")
			s.says(v1alpha1.ConditionRAIDHealthy, v1alpha1.ReasonRAIDDegraded, "a")
			s.named()
			if e.RAIDStatus == nil || e.RAIDStatus.Status != v1alpha1.RAIDDegraded ||
				e.RAIDStatus.DegradedMemberCount != 1 {
				t.Errorf("got %+v", e.RAIDStatus)
			}
			var uuid string
			for _, pv := range s.entry().PhysicalVolumes {
				if pv.State == v1alpha1.PhysicalVolumeMissing {
					uuid = pv.UUID
				}
			}
			s.unchanged(other, sum)
			// A new disk replaces the old one, whose removal is requested.
			s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
				spec.DeviceSelector = byPath(append(slices.Clone(s.disks[:disks-1]), s.disks[disks])...)
				spec.DeviceRequests = []v1alpha1.DeviceRequest{{Node: nodeName, Device: uuid,
					Action: v1alpha1.DeviceActionRemove}}
			})
			s.incident.approved = time.Now()
			s.converge("repaired", func(e v1alpha1.VGStatus) bool {
				return isReady(e) && len(e.Devices) == disks && e.RAIDStatus.Status == v1alpha1.RAIDHealthy
			})
			s.recovered(0)
			if err := writing.finish(); err != nil {
				t.Errorf("a write failed: %v", err)
			}
			s.unchanged(other, sum)
			s.discard()
		})
	}
}

// TestSceneRAIDDeviceComesBack simulates a loose cable.
func TestSceneRAIDDeviceComesBack(t *testing.T) {
	s := newScene(t, raidScene(v1alpha1.RAIDType1, 2))
	s.ready()
	volume := s.volume("a", 32<<20)
	s.converge("in sync", func(e v1alpha1.VGStatus) bool {
		return e.RAIDStatus.MinSyncPercent != nil && *e.RAIDStatus.MinSyncPercent == 100
	})
	writing := s.startWriting(volume)
	s.pull(s.disks[1])
	s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing)
	s.ok(writing.finish())
	sum := s.hash(volume)
	rescan()
	s.converge("whole again", func(e v1alpha1.VGStatus) bool {
		return isReady(e) && e.RAIDStatus.Status == v1alpha1.RAIDHealthy && len(e.Devices) == 2
	})
	s.unchanged(volume, sum)
	// Now the other disk is removed, so data is read from the disk that returned.
	s.pull(s.disks[0])
	s.unchanged(volume, sum)
	rescan()
	s.converge("whole again", func(e v1alpha1.VGStatus) bool {
		return isReady(e) &&
			e.RAIDStatus.Status == v1alpha1.RAIDHealthy
	})
	s.discard()
}

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
	response, err := s.engine.GetFreeBytes(s.Context(), &proto.GetFreeBytesRequest{DeviceClass: "vg1"})
	s.ok(err)
	return response.FreeBytes
}

// TestSceneDeviceIsRemovedWithItsData moves the data of each type of volume, and kills the agent during the move.
func TestSceneDeviceIsRemovedWithItsData(t *testing.T) {
	kinds := map[string]v1alpha1.LVMVolumeGroupSpec{
		"thick": {Default: true}, "thin": thinOf(50),
		"raid1": {RAIDConfig: &v1alpha1.RAIDConfig{Type: v1alpha1.RAIDType1}},
	}
	for _, name := range lane.Rotate(slices.Sorted(maps.Keys(kinds))...) {
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
	report, err := lvm.New(s.runner).Report(s.Context())
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
	report, err := lvm.New(s.runner).Report(s.Context())
	s.ok(err)
	uuid := report.VG("vg1").UUID
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.Adopt = []v1alpha1.VolumeGroupAdoption{{Node: nodeName, VolumeGroupUUID: uuid}}
	})
	s.ready()
	s.unchanged(volume, sum)
	s.discard()
}

// TestScenePoolGrowsByItself fills data and metadata of a pool.
func TestScenePoolGrowsByItself(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(20)
		spec.DeviceSelector = byPath(s.disks[:2]...)
		spec.ThinPoolConfig.AutoExtend = &v1alpha1.AutoExtend{ThresholdPercent: 70, StepPercent: 50}
		return spec
	})
	before := s.ready()
	volume := s.volume("a", 500<<20)
	size := before.ThinPool.Size.Value()
	for range 6 {
		s.writeSome(volume, size*8/10)
		s.agent.Wake()
		s.settle()
		size = s.entry().ThinPool.Size.Value()
	}
	e := s.converge("no space", func(e v1alpha1.VGStatus) bool {
		return falseCondition(e, v1alpha1.ConditionThinPoolHealthy, v1alpha1.ReasonThinPoolCannotGrow) != nil ||
			e.ThinPool.DataPercent < 70
	})
	if e.ThinPool.Size.Cmp(before.ThinPool.Size) <= 0 {
		t.Errorf("the pool did not grow: %+v", e.ThinPool)
	}
	s.discard()
}

// writeSome writes zeros from the beginning of a volume, until size or an error.
func (s *scene) writeSome(volume string, size int64) {
	f, err := os.OpenFile(volume, os.O_WRONLY, 0)
	s.ok(err)
	_, _ = io.CopyN(f, rand.Reader, size)
	_ = f.Sync()
	_ = f.Close()
}

// TestSceneMetadataGrowsWhenAsked: after metadataSize is added to the spec, the metadata of a pool with volumes is
// extended completely or not at all.
func TestSceneMetadataGrowsWhenAsked(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(50)
		spec.DeviceSelector = byPath(s.disks[0])
		return spec
	})
	before := s.ready().ThinPool.MetadataSize.Value()
	sum := s.fill(s.volume("a", 32<<20), 32<<20)
	ask := func(size string) {
		s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
			spec.ThinPoolConfig.MetadataSizeCalculationPolicy = v1alpha1.SizeCalculationStatic
			spec.ThinPoolConfig.MetadataSize = ptr.To(resource.MustParse(size))
		})
	}
	if before >= 13<<20 {
		t.Fatalf("the pool has %d bytes of metadata already", before)
	}
	ask("13Mi")
	s.converge("grown to whole extents", func(e v1alpha1.VGStatus) bool {
		return isReady(e) &&
			e.ThinPool.MetadataSize.Value() == 16<<20
	})
	ask("1Gi")
	s.says(v1alpha1.ConditionThinPoolHealthy, v1alpha1.ReasonThinPoolCannotGrow,
		"metadataSize requires 1008Mi more")
	ask("13Mi")
	s.converge("ready again", func(e v1alpha1.VGStatus) bool {
		return isReady(e) &&
			e.ThinPool.MetadataSize.Value() == 16<<20
	})
	s.unchanged("/dev/vg1/a", sum)
	s.discard()
}

// TestScenePoolOutOfMetadata fills the metadata of a pool. The volume group must not stay Ready, and its capacity must
// be 0.
func TestScenePoolOutOfMetadata(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(90)
		spec.DeviceSelector = byPath(s.disks[:2]...)
		spec.ThinPoolConfig.ChunkSize = ptr.To(resource.MustParse("64Ki"))
		spec.ThinPoolConfig.MetadataSizeCalculationPolicy = v1alpha1.SizeCalculationStatic
		spec.ThinPoolConfig.MetadataSize = ptr.To(resource.MustParse("2Mi"))
		spec.ThinPoolConfig.OverprovisionRatio = 100
		return spec
	})
	s.ready()
	volume := s.volume("a", 120<<20)
	sum := s.fill(volume, 120<<20)
	// LVM creates no snapshot when only a quarter of the metadata is free. The rest is filled by writes to existing
	// snapshots. Here it is filled by snapshots that LVM does not know, which is faster.
	table := strings.Fields(s.output("dmsetup", "table", "vg1-a"))
	s.disaster()
	for i := 1000; strings.Contains(s.output("dmsetup", "status", "vg1-pool-tpool"), " rw "); i++ {
		if i == 1300 {
			t.Fatalf("not full: %s", s.output("dmsetup", "status", "vg1-pool-tpool"))
		}
		name := fmt.Sprintf("extra%d", i)
		id := strconv.Itoa(i)
		s.sh("/usr/sbin/dmsetup", "suspend", "vg1-a")
		_ = nodelvm.Command("/usr/sbin/dmsetup", "message", "vg1-pool-tpool", "0", "create_snap "+id+" "+table[4]).Run()
		s.sh("/usr/sbin/dmsetup", "resume", "vg1-a")
		if nodelvm.Command("/usr/sbin/dmsetup", "create", name, "--table",
			strings.Join(append(table[:4:4], id), " ")).Run() != nil {
			break
		}
		// Each of these writes uses blocks of metadata, and almost no data.
		s.scatter("/dev/mapper/"+name, 16)
		_ = nodelvm.Command("/usr/sbin/dmsetup", "remove", "--retry", name).Run()
	}
	t.Log(s.output("dmsetup", "status", "vg1-pool-tpool"))
	s.happened()
	s.converge("a pool without metadata", func(e v1alpha1.VGStatus) bool {
		c := meta.FindStatusCondition(e.Conditions, v1alpha1.ConditionThinPoolHealthy)
		return c != nil && c.Status == metav1.ConditionFalse && slices.Contains([]string{
			v1alpha1.ReasonThinPoolOutOfMetadata, v1alpha1.ReasonThinPoolNeedsCheck, v1alpha1.ReasonThinPoolReadOnly,
			v1alpha1.ReasonThinPoolFailed,
		}, c.Reason)
	})
	s.named()
	e := s.entry()
	t.Logf("metadata %d %%, data %d %%, %s", e.ThinPool.MetadataPercent, e.ThinPool.DataPercent,
		e.Reason[:min(300, len(e.Reason))])
	if e.Status == v1alpha1.VGStatusReady || s.capacity() != 0 {
		t.Errorf("it is %s, and the scheduler is told %d bytes", e.Status, s.capacity())
	}
	s.repairFullMetadata(e)
	s.unchanged(volume, sum)
	s.fill(s.volume("new", 16<<20), 16<<20)
	s.discard()
}

// repairFullMetadata approves the repair of a pool without space for metadata. The agent is killed after each command,
// or in the middle of it.
func (s *scene) repairFullMetadata(before v1alpha1.VGStatus) {
	s.Helper()
	mode := lane.Rotate("after", "in the middle of")[0]
	r := s.plan(v1alpha1.RecoveryRepairThinPool)
	s.Logf("%s", r.Status.Message)
	if p := r.Status.Plan; len(p.LostVolumes)+len(p.DamagedVolumes) > 0 || p.KeptVolumeCount != 1 {
		s.Fatalf("got the plan %+v", p)
	}
	s.approve(r.Status.Plan.ID)
	killed := s.recover(mode, func(n int) int { return n + 1 })
	s.Logf("killed %s %v", mode, killed)
	if len(killed) == 0 {
		s.Error("the agent was never killed: this shows nothing")
	}
	if e := s.ready(); e.ThinPool.MetadataSize.Cmp(before.ThinPool.MetadataSize) <= 0 {
		s.Errorf("the metadata has %s, and had %s", e.ThinPool.MetadataSize.String(), before.ThinPool.MetadataSize.String())
	}
}

func (s *scene) output(program string, args ...string) string {
	s.Helper()
	out, err := nodelvm.Command("/usr/sbin/"+program, args...).CombinedOutput()
	s.ok(err)
	return string(out)
}

// scatter writes blocks all over a volume. Writes may fail, because that is what the test checks.
func (s *scene) scatter(volume string, blocks int64) {
	s.Helper()
	f, err := os.OpenFile(volume, os.O_WRONLY, 0)
	s.ok(err)
	defer func() { _ = f.Close() }()
	for i := range blocks {
		_, _ = f.WriteAt(make([]byte, 4096), i*(120<<20)/blocks)
	}
	_ = f.Sync()
}

// crashingRunner ends the agent at the nth changing command: before, during, or right after the command.
type crashingRunner struct {
	real interface {
		Run(context.Context, string, ...string) ([]byte, error)
	}
	mu sync.Mutex
	// next is the number of the changing command at which the agent is killed.
	next  int
	mode  string
	count int
	dead  bool
	said  []string
}

var errCrash = fmt.Errorf("the agent was killed")

// kills returns whether the agent is dead, and whether it is killed at this command.
func (c *crashingRunner) kills(args []string) (dead, now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || len(args) == 0 || !changes(args[0]) || slices.Contains(args, "--dump") {
		return c.dead, false
	}
	c.count++
	if c.count != c.next {
		return false, false
	}
	c.dead, c.next, c.said = true, c.next+killedEvery, append(c.said, args[0])
	return false, true
}

// isDead returns whether the agent was killed, and the commands.
func (c *crashingRunner) isDead() (dead bool, said []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead, slices.Clone(c.said)
}

// revive starts another agent.
func (c *crashingRunner) revive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = false
}

func (c *crashingRunner) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	subject := args
	if filepath.Base(name) == "wipefs" && slices.Contains(args, "--all") {
		subject = []string{"wipefs"}
	}
	dead, now := c.kills(subject)
	if dead {
		return nil, errCrash
	}
	if !now {
		return c.real.Run(ctx, name, args...)
	}
	switch c.mode {
	case "after":
		_, _ = c.real.Run(context.WithoutCancel(ctx), name, args...)
	case "in the middle of":
		command := nodelvm.Command(name, args...)
		if command.Start() == nil {
			time.Sleep(time.Duration(20+13*c.count%60) * time.Millisecond)
			_ = command.Process.Kill()
			_ = command.Wait()
		}
	}
	return nil, errCrash
}

func changes(command string) bool {
	return slices.Contains([]string{
		"vgcreate", "vgextend", "vgchange", "vgreduce", "vgremove", "pvremove", "pvchange", "pvmove", "lvcreate",
		"lvextend", "lvremove", "lvchange", "lvconvert", "pvck", "vgcfgrestore", "wipefs",
	}, command)
}

// killedEvery is the number of commands between two kills in one run. As many runs kill the agent at each command,
// and also show what an undisturbed agent does after a restart.
const killedEvery = 4

// firstKills are the commands of the first kill, one for each run.
var firstKills = []int{1, 2, 3, 4}

// TestKilledAtEveryCommand runs the life cycle of a thin class repeatedly, and kills the agent at every fourth
// changing LVM command, starting with the first, the second, the third and the fourth. A new agent must always reach
// the same result.
func TestKilledAtEveryCommand(t *testing.T) {
	// A kill before a command is the same as a kill after the previous one.
	for _, mode := range []string{"after", "in the middle of"} {
		var all []string
		lives := lane.Rotate(firstKills...)
		for _, first := range lives {
			t.Run(fmt.Sprintf("%s %d", strings.Fields(mode)[0], first), func(t *testing.T) {
				said := lifeWithCrashes(t, first, mode)
				t.Logf("%s %v", mode, said)
				all = append(all, said...)
			})
		}
		if kinds := slices.Compact(slices.Sorted(slices.Values(all))); !t.Failed() &&
			(len(all) < 10*len(lives)/killedEvery || len(kinds) < 6*len(lives)/killedEvery) {
			t.Errorf("killed %s %d commands, %v: this shows nothing", mode, len(all), kinds)
		}
	}
}

// lifeWithCrashes creates, extends, shrinks and removes a device class. It returns where the agent was killed.
func lifeWithCrashes(t *testing.T, first int, mode string) []string {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(60)
		spec.DeviceSelector = byPath(s.disks[:1]...)
		return spec
	})
	c := &crashingRunner{real: s.runner, next: first, mode: mode}
	boot := func() {
		c.revive()
		s.bootOver(c)
	}
	boot()
	step := func(what string, done func(v1alpha1.VGStatus) bool) {
		t.Helper()
		s.converge(what, func(e v1alpha1.VGStatus) bool {
			if dead, _ := c.isDead(); dead {
				boot()
			}
			return done(e)
		})
	}
	step("the group", func(e v1alpha1.VGStatus) bool { return isReady(e) && e.ThinPool != nil })
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceSelector = byPath(s.disks[:2]...) })
	step("the second device", func(e v1alpha1.VGStatus) bool { return isReady(e) && len(e.Devices) == 2 })
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceSelector = byPath(s.disks[:3]...) })
	step("the third device", func(e v1alpha1.VGStatus) bool { return isReady(e) && len(e.Devices) == 3 })
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.DeviceRequests = []v1alpha1.DeviceRequest{{Node: nodeName, Device: s.disks[2],
			Action: v1alpha1.DeviceActionRemove}}
	})
	// The pool uses 60 % of three devices, so its extents on the third fit on the others.
	step("two devices", func(e v1alpha1.VGStatus) bool { return isReady(e) && len(e.Devices) == 2 })
	s.remove()
	deadline := time.Now().Add(3 * time.Minute)
	for !s.gone() && time.Now().Before(deadline) {
		s.agent.Wake()
		_, _ = s.reconcile()
		if dead, _ := c.isDead(); dead {
			boot()
		}
	}
	if !s.gone() {
		t.Fatalf("%s %s: still there: %+v", mode, c.said, s.entry())
	}
	for _, d := range s.disks[:3] {
		if out, err := exec.Command("/usr/sbin/wipefs", "--no-act", d).CombinedOutput(); err != nil || len(out) != 0 {
			t.Errorf("%s: %s is not blank: %v: %s", c.said, d, err, out)
		}
	}
	if files, err := os.ReadDir(s.dir); err != nil || len(files) != 0 {
		t.Errorf("%s: files are left: %v, %v", c.said, files, err)
	}
	return c.said
}

// contents are types of content of a disk, each created by a program of the node or by its first bytes.
var contents = map[string]func(s *scene, disk string){
	"ext4":        func(s *scene, disk string) { s.sh("/usr/sbin/mkfs.ext4", ext4On(disk)...) },
	"swap":        func(s *scene, disk string) { s.sh("/usr/sbin/mkswap", disk) },
	"crypto_LUKS": func(s *scene, disk string) { s.writeAt(disk, 0, layers.LUKSHeader(2)) },
	"linux_raid_member": func(s *scene, disk string) {
		s.writeAt(disk, layers.MemberOffset, layers.MemberSuperblock())
	},
	"ceph_bluestore": func(s *scene, disk string) {
		s.writeAt(disk, 0, []byte("bluestore block device\n00000000-0000-0000-0000-000000000000\n"))
	},
	"a DOS table": func(s *scene, disk string) {
		table := make([]byte, 512)
		copy(table[446:], []byte{0, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0x80, 0, 0})
		table[510] = 0x55
		table[511] = 0xaa
		s.writeAt(disk, 0, table)
	},
}

func (s *scene) writeAt(disk string, offset int64, data []byte) {
	s.Helper()
	f, err := os.OpenFile(disk, os.O_WRONLY, 0)
	s.ok(err)
	_, err = f.WriteAt(data, offset)
	s.ok(err)
	s.ok(f.Sync())
	s.ok(f.Close())
	s.sh("/usr/bin/udevadm", "trigger", "--settle", kernelName(disk))
}

// TestSceneDiskWithContent names a disk with content. Without consent, no byte changes. With consent, the disk is
// backed up, wiped once and used. Content that is written later is not wiped.
func TestSceneDiskWithContent(t *testing.T) {
	for _, name := range lane.Rotate(slices.Sorted(maps.Keys(contents))...) {
		put := contents[name]
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
				return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[0])}
			})
			disk := s.disks[0]
			put(s, disk)
			s.settleUdev()
			sum := s.hash(disk)
			for range 3 {
				s.agent.Wake()
				_, err := s.reconcile()
				s.ok(err)
			}
			e := s.wantState(v1alpha1.VGStatusFailed, disk, nodeName)
			if len(e.Excluded) != 1 || s.hash(disk) != sum {
				t.Errorf("the disk changed, or no reason reported it is not used: %+v", e.Excluded)
			}
			t.Log(e.Reason)

			yes := true
			s.change(
				func(
					spec *v1alpha1.LVMVolumeGroupSpec) {
					spec.DeviceSelector.ForceWipeDevicesAndDestroyAllData = &yes
				})
			e = s.ready()
			if len(e.WipedDevices) != 1 || !strings.HasPrefix(e.WipedDevices[0].ID, "wwn:") ||
				len(e.WipedDevices[0].Found) == 0 {
				t.Fatalf("the record is %+v", e.WipedDevices)
			}
			saved, err := filepath.Glob(filepath.Join(e.WipedDevices[0].Backup, "*.bin"))
			if err != nil || len(saved) == 0 {
				t.Errorf("nothing was saved in %s: %v", e.WipedDevices[0].Backup, err)
			}

			// The disk is used for something else, and the agent restarts.
			s.sh("/usr/sbin/lvm", "vgremove", "--yes", "vg1")
			s.sh("/usr/sbin/lvm", "pvremove", disk)
			s.sh("/usr/sbin/mkfs.ext4", ext4On(disk)...)
			s.sh("/usr/bin/udevadm", "trigger", "--settle", kernelName(disk))
			sum = s.hash(disk)
			s.boot()
			for range 4 {
				s.agent.Wake()
				_, _ = s.reconcile()
			}
			s.wantState(v1alpha1.VGStatusDegraded, "nothing is wiped a second time")
			if s.hash(disk) != sum {
				t.Error("it was wiped a second time")
			}
		})
	}
}

// TestSceneNodeIsRegisteredAnew recreates the node status and deletes the agent's files, as after a reinstallation of
// the node. The volume group on the disk must not be wiped, although no record of the first wipe is left.
func TestSceneNodeIsRegisteredAnew(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		yes := true
		selector := byPath(s.disks[0])
		selector.ForceWipeDevicesAndDestroyAllData = &yes
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: selector}
	})
	s.sh("/usr/sbin/mkfs.ext4", ext4On(s.disks[0])...)
	s.settleUdev()
	s.ready()
	volume := s.volume("a", 32<<20)
	sum := s.fill(volume, 32<<20)
	status := &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Namespace: namespace}}
	s.ok(s.client.Delete(s.Context(), status))
	status.ResourceVersion = ""
	s.ok(s.client.Create(s.Context(), status))
	// The node is reinstalled, so the agent's files are lost too.
	files, err := os.ReadDir(s.dir)
	s.ok(err)
	for _, f := range files {
		s.ok(os.RemoveAll(filepath.Join(s.dir, f.Name())))
	}
	s.boot()
	s.ready()
	s.unchanged(volume, sum)
	if n := len(s.entry().WipedDevices); n != 0 {
		t.Errorf("%d devices were wiped", n)
	}
	s.discard()
}
