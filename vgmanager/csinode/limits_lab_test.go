//go:build lab

package csinode

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/iolimits"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/limits"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/cgroup"
)

// hierarchy is the cgroup file system of the node.
const hierarchy = "/sys/fs/cgroup"

// podCgroup creates the cgroups that a kubelet creates for a Pod, and returns that of the Pod.
func podCgroup(t *testing.T, uid string) string {
	t.Helper()
	directory := hierarchy
	for _, name := range []string{"kubepods", "burstable", "pod" + uid} {
		enable := filepath.Join(directory, "cgroup.subtree_control")
		if err := os.WriteFile(enable, []byte("+io +memory"), 0o600); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(directory, name)
		if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(path) })
		directory = path
	}
	return directory
}

// inCgroup runs work in a cgroup, and then returns to that of the node.
func inCgroup(t *testing.T, directory string, work func()) {
	t.Helper()
	enter := func(directory string) {
		if err := os.WriteFile(filepath.Join(directory, "cgroup.procs"), []byte("0"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The root of the hierarchy may have processes, unlike other cgroups with controllers.
	defer enter(hierarchy)
	enter(directory)
	work()
}

// writeFor writes to a file, bypassing the page cache, and returns the time for it.
func writeFor(t *testing.T, path string, mebibytes int) time.Duration {
	t.Helper()
	buffer, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(buffer) }()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_DIRECT, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for i := range mebibytes {
		if _, err := f.WriteAt(buffer, int64(i)<<20); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return time.Since(begun)
}

// TestLabTheIOOfAPodIsLimited limits a Pod to 1 MiB a second when it gets a volume, and to more while it runs.
func TestLabTheIOOfAPodIsLimited(t *testing.T) {
	for name, volumeOf := range map[string]struct {
		kind   string
		create func(*testing.T) *bench
	}{
		"ext4": {"ext4", newVolume}, "xfs": {"xfs", newVolume}, "block": {"", newVolume},
		"encrypted xfs": {"xfs", newEncryptedVolume}, "encrypted block": {"", newEncryptedVolume},
	} {
		t.Run(name, func(t *testing.T) {
			kind := volumeOf.kind
			pod := podCgroup(t, podA)
			b := volumeOf.create(t)
			b.server.Limits.Pods = cgroup.New(hierarchy)
			b.annotate(map[string]string{wellknown.IOLimitsAnnotation: "writeBytesPerSecond=1048576"})
			b.target = filepath.Join(t.TempDir(), "pods", podA, "volumes", "mount")
			if kind == "" {
				b.target = filepath.Join(t.TempDir(), "volumeDevices", "publish", "pv", podA)
			}
			b.wantCode(b.stageEncrypted(kind, secretOf(present, ""), nil), codes.OK)
			b.wantCode(b.publishAs(kind, b.target), codes.OK)
			content := contentAt(kind, b.target)
			inCgroup(t, pod, func() {
				if took := writeFor(t, content, 3); took < 2*time.Second {
					t.Errorf("3 MiB at 1 MiB/s took only %s", took)
				}
			})
			v, err := b.server.volumes.Find(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			number := v.Number().String()
			reconciler := limits.NewReconciler(b.server.Limits, b.api)
			for limits, want := range map[string]string{
				"writeBytesPerSecond=67108864": number + " rbps=max wbps=67108864 riops=max wiops=max\n", "none": ""} {
				b.annotate(map[string]string{wellknown.IOLimitsAnnotation: limits})
				for range 2 {
					if _, err := reconciler.Reconcile(t.Context(),
						ctrl.Request{NamespacedName: client.ObjectKey{Name: "pvc-1"}}); err != nil {
						t.Fatal(err)
					}
				}
				if got, err := os.ReadFile(filepath.Join(pod, "io.max")); err != nil || string(got) != want {
					t.Errorf("%s: io.max has %q, want %q, %v", limits, got, want, err)
				}
			}
			b.unpublish(b.target)
			b.unstage()
		})
	}
}

// TestLabADeviceThatDoesNotExistHasNoLimits checks that the error of the kernel is reported.
func TestLabADeviceThatDoesNotExistHasNoLimits(t *testing.T) {
	podCgroup(t, podA)
	pods := cgroup.New(hierarchy)
	if err := pods.Supported(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := pods.Limit([]string{podA}, "253:9999", iolimits.Limits{ReadIOPS: 5})
		if !errors.Is(err, unix.ENODEV) {
			t.Errorf("got %v", err)
		}
	}
}
