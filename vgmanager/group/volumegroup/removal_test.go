package volumegroup

import (
	"context"
	"errors"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

func TestRemovalLeavesBlankDisks(t *testing.T) {
	b := newBench(t, thinOf(90))
	b.settle()
	b.remove()
	b.settle()
	if !b.gone() {
		t.Errorf("the LVMVolumeGroup is still there: %+v", b.entry())
	}
	if entry := b.entry(); entry.Status != "" {
		t.Errorf("the status entry is still there: %+v", entry)
	}
	b.wantBlankDisks()
}

func TestRemovalContinuesAfterACrashAtAnyPoint(t *testing.T) {
	for steps := range 8 {
		b := newBench(t, thinOf(90))
		b.settle()
		b.remove()
		for range steps {
			if _, err := b.reconcile(); err != nil {
				t.Fatal(err)
			}
		}
		b.restart()
		b.settle()
		if !b.gone() {
			t.Errorf("after %d steps: the LVMVolumeGroup is still there", steps)
		}
		b.wantBlankDisks()
	}
}

func TestRemovalContinuesWhenACommandFailed(t *testing.T) {
	for _, command := range []string{"LVDeactivate", "ThinPoolRemove", "VGRemove", "PVRemove", "DevicesFileRemove"} {
		b := newBench(t, thinOf(90))
		b.settle()
		b.remove()
		b.lvm.Fail(command, errors.New("exit status 5"))
		failed := false
		for range 10 {
			if _, err := b.reconcile(); err != nil {
				failed = true
			}
		}
		if !failed || b.gone() && command != "DevicesFileRemove" {
			t.Errorf("%s: the failure was passed over", command)
		}
		b.lvm.Fail(command, nil)
		if !b.gone() {
			b.settle()
		}
		b.wantBlankDisks()
	}
}

func TestRemovalWaitsForVolumes(t *testing.T) {
	b := newBench(t, thinOf(90))
	b.settle()
	b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThin{VG: "vg1", Pool: "pool", Name: "pvc-1", VirtualSize: 1 << 20}))
	b.remove()
	if result := b.settle(); result.RequeueAfter != whileWaiting {
		t.Errorf("got %v", result)
	}
	b.wantState(v1alpha1.VGStatusProgressing, "pvc-1")
	if _, ok := b.engine.Class("vg1"); !ok {
		t.Error("the class is gone, so nobody can delete the volume")
	}
	b.ok(b.lvm.Apply(t.Context(), lvm.LVRemove{VG: "vg1", Names: []string{"pvc-1"}}))
	b.settle()
	if !b.gone() {
		t.Error("the LVMVolumeGroup is still there")
	}
	b.wantBlankDisks()
}

func TestRemovalOnANodeThatIsNotSelectedAnyMore(t *testing.T) {
	b := newBench(t, selecting("disks", "yes"))
	b.settle()
	node := &corev1.Node{}
	b.ok(b.client.Get(t.Context(), client.ObjectKey{Name: nodeName}, node))
	node.Labels = nil
	b.ok(b.client.Update(t.Context(), node))
	b.remove()
	b.settle()
	if !b.gone() {
		t.Error("the LVMVolumeGroup is still there")
	}
	b.wantBlankDisks()
}

func TestRemovalWithoutNodeStatus(t *testing.T) {
	b := newBench(t, thinOf(90))
	b.settle()
	b.ok(b.client.Delete(t.Context(), &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: nodeName,
		Namespace: namespace}}))
	b.remove()
	b.settle()
	if !b.gone() {
		t.Error("the LVMVolumeGroup is still there")
	}
	b.wantBlankDisks()
}

// label sets or removes a label of the node.
func (b *bench) label(value string) {
	b.Helper()
	node := &corev1.Node{}
	b.ok(b.client.Get(b.Context(), client.ObjectKey{Name: nodeName}, node))
	node.Labels = nil
	if value != "" {
		node.Labels = map[string]string{"disks": value}
	}
	b.ok(b.client.Update(b.Context(), node))
}

// taint sets one taint of the node, or none.
func (b *bench) taint(key string) {
	b.Helper()
	node := &corev1.Node{}
	b.ok(b.client.Get(b.Context(), client.ObjectKey{Name: nodeName}, node))
	node.Spec.Taints = nil
	if key != "" {
		node.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoExecute}}
	}
	b.ok(b.client.Update(b.Context(), node))
}

// TestATaintKeepsNewVolumeGroupsAway: the agent runs on tainted nodes. Existing volume groups are managed, and no new
// ones are created.
func TestATaintKeepsNewVolumeGroupsAway(t *testing.T) {
	spec := thinOf(90)
	spec.Tolerations = []corev1.Toleration{{Key: "storage", Operator: corev1.TolerationOpExists}}
	b := newBench(t, spec)
	b.taint("maintenance")
	b.settle()
	if b.isMember() || b.lvm.Calls()["VGCreate"] != 0 {
		t.Fatalf("the node has a taint that is not tolerated, and says %+v, %v", b.entry(), b.lvm.Calls())
	}
	b.taint("storage")
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	b.ok(b.make("pvc-1"))

	// A taint on a node with volumes does not affect them.
	b.taint("maintenance")
	b.restart()
	b.settle()
	if reason := b.wantState(v1alpha1.VGStatusReady).Reason; reason != "" || b.lvm.Calls()["VGRemove"] != 0 {
		t.Errorf("got %q, %v", reason, b.lvm.Calls())
	}
	b.ok(b.make("pvc-2"))
}

func (b *bench) make(name string) error {
	_, err := b.engine.CreateLV(b.Context(), engine.NewVolume{Name: name, Class: "vg1", Size: 1 << 20})
	return err
}

func TestANodeThatIsNotSelectedAnyMoreKeepsItsVolumes(t *testing.T) {
	b := newBench(t, withSelector(thinOf(90)))
	b.settle()
	b.ok(b.make("pvc-1"))
	b.label("")
	b.addDisk("/dev/sdz", 200)
	for range 2 {
		b.settle()
		b.wantState(v1alpha1.VGStatusReady, "no longer selects node", "pvc-1")
	}
	if err := b.make("pvc-2"); status.Code(err) != codes.ResourceExhausted ||
		!strings.Contains(err.Error(), "no longer selects node") {
		t.Errorf("a new volume: %v", err)
	}
	b.restart()
	b.settle()
	if err := b.make("pvc-2"); err == nil || b.lvm.Calls()["VGRemove"]+b.lvm.Calls()["VGExtend"] != 0 {
		t.Errorf("got %v, %v", err, b.lvm.Calls())
	}
	b.label("yes")
	b.settle()
	if reason := b.wantState(v1alpha1.VGStatusReady).Reason; reason != "" || b.make("pvc-2") != nil {
		t.Errorf("the node is selected again, and says %q", reason)
	}

	b.label("")
	b.settle()
	for _, name := range []string{"pvc-1", "pvc-2"} {
		b.ok(b.lvm.Apply(t.Context(), lvm.LVRemove{VG: "vg1", Names: []string{name}}))
	}
	b.settle()
	if b.isMember() {
		t.Errorf("nothing is left there, and the node says %+v", b.entry())
	}
	b.wantBlankDisks()
	b.label("yes")
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	b.ok(b.make("pvc-3"))
}

func TestLeavingContinuesAfterACrashAtAnyPoint(t *testing.T) {
	for steps := range 8 {
		b := newBench(t, withSelector(thinOf(90)))
		b.settle()
		b.label("")
		for range steps {
			if _, err := b.reconcile(); err != nil {
				t.Fatal(err)
			}
		}
		b.restart()
		b.settle()
		if b.isMember() {
			t.Errorf("after %d steps: %+v", steps, b.entry())
		}
		b.wantBlankDisks()
	}
}

// TestLeavingContinuesWhenTheStatusCannotBeWritten: the API server is unreachable while the last records and the
// entry are removed.
func TestLeavingContinuesWhenTheStatusCannotBeWritten(t *testing.T) {
	for steps := range 8 {
		b := newBench(t, withSelector(thinOf(90)))
		b.settle()
		b.label("")
		for range steps {
			if _, err := b.reconcile(); err != nil {
				t.Fatal(err)
			}
		}
		works := b.agent.objects.Client
		api, ok := b.client.(client.WithWatch)
		if !ok {
			t.Fatal("another client")
		}
		b.agent.objects.Client = interceptor.NewClient(api, interceptor.Funcs{
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
				...client.SubResourcePatchOption) error {
				return errors.New("the API server is away")
			},
		})
		for range 6 {
			_, _ = b.reconcile()
		}
		b.agent.objects.Client = works
		b.settle()
		if b.isMember() {
			t.Errorf("after %d steps: %+v", steps, b.entry())
		}
		b.wantBlankDisks()
	}
}

func withSelector(spec v1alpha1.LVMVolumeGroupSpec) v1alpha1.LVMVolumeGroupSpec {
	spec.NodeSelector = selecting("disks", "yes").NodeSelector
	return spec
}

// TestAGroupWithVolumesOfTheClusterIsNotRemoved: metadata from an earlier time lists no volumes, and a label was
// removed or the device class deleted. Nothing of the group is removed while the cluster has objects with volumes in
// it.
func TestAGroupWithVolumesOfTheClusterIsNotRemoved(t *testing.T) {
	for name, remove := range map[string]func(*bench){
		"the node leaves":             func(b *bench) { b.label("") },
		"the device class is deleted": func(b *bench) { b.remove() },
	} {
		b := newBench(t, withSelector(thinOf(90)))
		b.settle()
		object := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "pvc-1"},
			Spec: topolvmv1.LogicalVolumeSpec{NodeName: nodeName, DeviceClass: "vg1"}}
		b.ok(b.client.Create(t.Context(), object))
		object.Status.VolumeID = "pvc-1"
		b.ok(b.client.Status().Update(t.Context(), object))
		remove(b)
		for range 3 {
			b.settle()
		}
		b.wantState(v1alpha1.VGStatusDegraded, "LogicalVolume pvc-1", "is not removed")
		calls := b.lvm.Calls()
		if n := calls["ThinPoolRemove"] + calls["VGRemove"] + calls["PVRemove"] + calls["LVRemove"]; n != 0 {
			t.Errorf("%s: %v", name, calls)
		}
		b.ok(b.client.Delete(t.Context(), object))
		b.settle()
		b.settle()
		b.wantBlankDisks()
	}
}
