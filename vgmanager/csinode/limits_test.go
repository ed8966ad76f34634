package csinode

import (
	"errors"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/iolimits"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/limits"
)

const (
	podA = "0c4b6b6e-2f0a-4a55-9d5c-7f6a3c1d2e3f"
	podB = "1c4b6b6e-2f0a-4a55-9d5c-7f6a3c1d2e3f"
)

// fakePods are Pods with cgroups, and the limits of each.
type fakePods struct {
	limits           map[string]string
	unsupported, err error
	device           string
	// after is called after limits were written; nil for nothing.
	after func()
}

func (f *fakePods) Supported() error { return f.unsupported }

func (f *fakePods) Limit(uids []string, device string, limits iolimits.Limits) (missing []string, err error) {
	if f.after != nil {
		defer f.after()
	}
	f.device = device
	if f.err != nil {
		return nil, f.err
	}
	for _, uid := range uids {
		if _, there := f.limits[uid]; !there {
			missing = append(missing, uid)
			continue
		}
		f.limits[uid] = limits.String()
	}
	return missing, nil
}

// limits is a bench whose Pod A gets the volume.
type limitBench struct {
	*bench
	pods *fakePods
}

func newLimitBench(t *testing.T, limits string) *limitBench {
	b := &limitBench{newBench(t), &fakePods{limits: map[string]string{podA: "", podB: ""}}}
	b.server.Limits.Pods = b.pods
	b.target = t.TempDir() + "/pods/" + podA + "/volumes/kubernetes.io~csi/pv/mount"
	b.annotate(map[string]string{wellknown.IOLimitsAnnotation: limits})
	return b
}

func (b *limitBench) reconcile() (ctrl.Result, error) {
	return limits.NewReconciler(b.server.Limits, b.api).Reconcile(b.Context(),
		ctrl.Request{NamespacedName: client.ObjectKey{Name: "pvc-1"}})
}

func (b *limitBench) wantPods(a, other string) {
	b.Helper()
	if b.pods.limits[podA] != a || b.pods.limits[podB] != other {
		b.Errorf("got %q, want %q and %q", b.pods.limits, a, other)
	}
}

func (b *limitBench) wantWritten(inForce, says string) {
	b.Helper()
	lv := &topolvmv1.LogicalVolume{}
	if err := b.api.Get(b.Context(), client.ObjectKey{Name: "pvc-1"}, lv); err != nil {
		b.Fatal(err)
	}
	failed := lv.Annotations[wellknown.IOLimitsErrorAnnotation]
	if lv.Annotations[wellknown.IOLimitsInForceAnnotation] != inForce || (failed == "") != (says == "") ||
		!strings.Contains(failed, says) {
		b.Errorf("got %q, want %q in force and an error with %q", lv.Annotations, inForce, says)
	}
}

func TestAPodIsLimitedWhenItGetsAVolume(t *testing.T) {
	for _, block := range []bool{false, true} {
		b := newLimitBench(t, "readIOPS=500")
		if block {
			b.target = t.TempDir() + "/volumeDevices/publish/pvc-1/" + podA
		}
		b.wantCode(b.stage("ext4", writer), codes.OK)
		for range 2 {
			b.wantCode(b.publish(block, false), codes.OK)
			b.wantPods("readIOPS=500", "")
		}
		if b.pods.device != "254:7" {
			t.Errorf("device %s is limited", b.pods.device)
		}
		for range 2 {
			_, err := b.server.NodeUnpublishVolume(t.Context(),
				&csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: b.target})
			b.wantCode(err, codes.OK)
			b.wantPods("none", "")
		}
	}
}

func TestAVolumeWithoutLimitsNeedsNoCgroup(t *testing.T) {
	for _, limits := range []string{"", "none"} {
		b := newLimitBench(t, limits)
		b.pods.limits = nil
		b.pods.unsupported = errors.New("cgroup v1")
		b.wantCode(b.stage("ext4", writer), codes.OK)
		b.wantCode(b.publish(false, false), codes.OK)
	}
}

func TestAPodThatCannotBeLimitedDoesNotGetAVolume(t *testing.T) {
	for name, test := range map[string]struct {
		limits string
		change func(b *limitBench)
		code   codes.Code
		says   string
	}{
		"unsupported": {"readIOPS=5", func(b *limitBench) { b.pods.unsupported = errors.New("it has cgroup v1") },
			codes.FailedPrecondition, "node node1 cannot limit the I/O of Pods: it has cgroup v1"},
		"not valid": {"iops=5", func(*limitBench) {}, codes.FailedPrecondition, "iops"},
		"no cgroup yet": {"readIOPS=5", func(b *limitBench) { delete(b.pods.limits, podA) }, codes.Unavailable,
			"has not created the cgroup of Pod " + podA + " yet"},
		"the write failed": {"readIOPS=5", func(b *limitBench) { b.pods.err = errors.New("no such device") },
			codes.Internal, "no such device"},
		"a path of no Pod": {"readIOPS=5", func(b *limitBench) { b.target = b.TempDir() + "/x" },
			codes.FailedPrecondition, "does not name the Pod"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newLimitBench(t, test.limits)
			test.change(b)
			b.wantCode(b.stage("ext4", writer), codes.OK)
			for range 2 {
				b.host.did = nil
				b.wantCode(b.publish(false, false), test.code, test.says)
				b.wantDid()
			}
		})
	}
}

// publishFor mounts the volume for both Pods.
func (b *limitBench) publishFor() {
	for _, pod := range []string{podA, podB} {
		b.host.mounts["/var/lib/kubelet/pods/"+pod+"/volumes/kubernetes.io~csi/pv/mount"] = b.host.device
	}
	b.host.mounts[b.staging] = b.host.device
}

func TestAChangeReachesAllPodsOfAVolume(t *testing.T) {
	b := newLimitBench(t, "readIOPS=500")
	b.publishFor()
	for _, limits := range []string{"readIOPS=500", "readIOPS=500", "writeIOPS=5 readBytesPerSecond=4096", "none"} {
		b.annotate(map[string]string{wellknown.IOLimitsAnnotation: limits})
		want, err := iolimits.Parse(limits)
		if err != nil {
			t.Fatal(err)
		}
		if result, err := b.reconcile(); err != nil || result != (ctrl.Result{}) {
			t.Errorf("got %v, %v", result, err)
		}
		b.wantPods(want.String(), want.String())
		b.wantWritten(limits, "")
	}
	b.annotate(map[string]string{wellknown.IOLimitsAnnotation: ""})
	if _, err := b.reconcile(); err != nil {
		t.Error(err)
	}
	b.wantWritten("", "")
}

func TestAVolumeThatNoPodUses(t *testing.T) {
	b := newLimitBench(t, "readIOPS=500")
	b.volumes.lv.Attr = "-wi-------"
	if result, err := b.reconcile(); err != nil || result != (ctrl.Result{}) {
		t.Errorf("got %v, %v", result, err)
	}
	b.wantWritten("readIOPS=500", "")
	b.wantPods("", "")
}

func TestLimitsThatCannotBeApplied(t *testing.T) {
	for name, test := range map[string]struct {
		change func(b *limitBench)
		says   string
	}{
		"unsupported": {func(b *limitBench) { b.pods.unsupported = errors.New("cgroup v1") },
			"readIOPS=9: node node1 cannot limit the I/O of Pods: cgroup v1"},
		"the write failed": {func(b *limitBench) { b.pods.err = errors.New("EIO") }, "readIOPS=9: EIO"},
		"the read of the mounts failed": {func(b *limitBench) { b.host.errors["mountPoints"] = errors.New("EIO") },
			"cannot be read: EIO"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newLimitBench(t, "readIOPS=5")
			b.publishFor()
			if _, err := b.reconcile(); err != nil {
				t.Fatal(err)
			}
			test.change(b)
			b.annotate(map[string]string{wellknown.IOLimitsAnnotation: "readIOPS=9"})
			for range 2 {
				if result, err := b.reconcile(); err != nil || result.RequeueAfter != limits.Retry {
					t.Errorf("got %v, %v", result, err)
				}
				b.wantPods("readIOPS=5", "readIOPS=5")
				b.wantWritten("readIOPS=5", test.says)
			}
			// The controller reverts the request, and the reason is gone.
			b.pods.unsupported, b.pods.err = nil, nil
			b.host.errors = map[string]error{}
			b.annotate(map[string]string{wellknown.IOLimitsAnnotation: "readIOPS=5"})
			if result, err := b.reconcile(); err != nil || result != (ctrl.Result{}) {
				t.Errorf("got %v, %v", result, err)
			}
			b.wantWritten("readIOPS=5", "")
		})
	}
}

// TestLimitsThatAreNoLongerInForce checks a node that lost its controller, for example by a reboot.
func TestLimitsThatAreNoLongerInForce(t *testing.T) {
	b := newLimitBench(t, "readIOPS=5")
	if _, err := b.reconcile(); err != nil {
		t.Fatal(err)
	}
	b.pods.unsupported = errors.New("cgroup v1")
	if _, err := b.reconcile(); err != nil {
		t.Fatal(err)
	}
	b.wantWritten("", "cgroup v1")
}

// TestAChangeWhileAPodGetsAVolume changes the limits after those of the Pod were written, and before the Pod has a
// mount by which the reconciler finds it.
func TestAChangeWhileAPodGetsAVolume(t *testing.T) {
	for _, later := range []string{"readIOPS=9", ""} {
		b := newLimitBench(t, "readIOPS=5")
		b.wantCode(b.stage("ext4", writer), codes.OK)
		b.pods.after = func() {
			b.pods.after = nil
			b.annotate(map[string]string{wellknown.IOLimitsAnnotation: later})
		}
		b.wantCode(b.publish(false, false), codes.OK)
		b.wantPods(map[string]string{"": "none"}[later]+later, "")
	}
}

func TestLimitsWaitForTheVolumeAndBlockNoCall(t *testing.T) {
	b := newLimitBench(t, "readIOPS=5")
	b.wantCode(b.server.Locks.Enter(id), codes.OK) // A call, for example a check, works on the volume.
	if result, err := b.reconcile(); err != nil || result != (ctrl.Result{}) {
		t.Errorf("got %v, %v", result, err)
	}
	b.wantWritten("readIOPS=5", "")
	b = newLimitBench(t, "readIOPS=5")
	b.volumes.err = errors.New("the device class is not set up")
	if _, err := b.reconcile(); err == nil || !strings.Contains(err.Error(), "is not set up") {
		t.Errorf("got %v", err)
	}
	b.wantWritten("", "")
}
