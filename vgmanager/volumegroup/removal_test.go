package volumegroup

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
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
	b.ok(b.lvm.LVCreateThin(t.Context(), lvm.ThinOptions{VG: "vg1", Pool: "pool", Name: "pvc-1", VirtualSize: 1 << 20}))
	b.remove()
	if result := b.settle(); result.RequeueAfter != whileWaiting {
		t.Errorf("got %v", result)
	}
	b.wantState(v1alpha1.VGStatusProgressing, "pvc-1")
	if _, ok := b.engine.Class("vg1"); !ok {
		t.Error("the class is gone, so nobody can delete the volume")
	}
	b.ok(b.lvm.LVRemove(t.Context(), "vg1", "pvc-1"))
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
	b.settle()
	if b.lvm.Calls()["VGRemove"] != 0 {
		t.Fatal("a label took the volume group away")
	}
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
	b.ok(b.client.Delete(t.Context(), &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Namespace: namespace}}))
	b.remove()
	b.settle()
	if !b.gone() {
		t.Error("the LVMVolumeGroup is still there")
	}
	b.wantBlankDisks()
}
