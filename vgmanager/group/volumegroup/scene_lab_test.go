//go:build lab

package volumegroup

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
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
	_, err := s.engine.CreateLV(s.Context(), engine.NewVolume{Name: name, Class: "vg1", Size: size})
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

// discardGroup deletes the volumes with their objects, and the volume group with the agent.
func (s *scene) discardGroup() {
	s.Helper()
	report, err := lvmexec.New(s.runner).Report(s.Context())
	s.ok(err)
	if vg := report.VG("vg1"); vg != nil {
		for i := range vg.LVs {
			if lv := &vg.LVs[i]; !lv.Attr.IsThinPool() {
				err := s.engine.RemoveLV(s.Context(), "vg1", lv.Name)
				s.ok(err)
			}
		}
	}
	s.ok(s.client.DeleteAllOf(s.Context(), &topolvmv1.LogicalVolume{}))
	s.ok(s.client.DeleteAllOf(s.Context(), &corev1.PersistentVolume{}))
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
