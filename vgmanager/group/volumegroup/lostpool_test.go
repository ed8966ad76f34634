package volumegroup

import (
	"context"
	"errors"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// TestAPoolThatHadVolumesIsNotRecreated: the metadata of the volume group is from before the pool was created. A new
// pool would be on the extents of the data.
func TestAPoolThatHadVolumesIsNotRecreated(t *testing.T) {
	b := newBench(t, thinOf(50))
	b.settle()
	b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThin{VG: "vg1", Pool: "pool", Name: "a", VirtualSize: 1 << 20}))
	b.logicalVolume("a")
	b.agent.Wake()
	b.settle()
	b.ok(b.lvm.Apply(t.Context(), lvm.LVRemove{VG: "vg1", Names: []string{"a"}}))
	b.ok(b.lvm.Apply(t.Context(), lvm.LVDeactivate{VG: "vg1", Names: []string{"pool"}}))
	b.ok(b.lvm.Apply(t.Context(), lvm.ThinPoolRemove{VG: "vg1", Name: "pool"}))
	for range 3 {
		b.restart()
		b.agent.Wake()
		b.settle()
		e := b.wantState(v1alpha1.VGStatusDegraded, "no longer has the thin pool pool", "No new pool is created")
		if c := e.Conditions; e.ThinPool == nil || !strings.Contains(c[len(c)-1].Message, "vgcfgrestore") {
			t.Errorf("got the status %+v", e)
		}
	}
	if n := b.lvm.Calls()["LVCreateThinPool"]; n != 1 {
		t.Errorf("created %d pools", n)
	}
	// The objects cannot be read.
	working := b.agent.objects.Client
	b.agent.objects.Client = interceptor.NewClient(b.watching(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if _, is := list.(*topolvmv1.LogicalVolumeList); is {
				return errors.New("the cache has stopped")
			}
			return c.List(ctx, list, o...)
		}})
	b.agent.Wake()
	if _, err := b.reconcile(); err == nil || !strings.Contains(err.Error(), "the cache has stopped") {
		t.Errorf("got %v", err)
	}
	if n := b.lvm.Calls()["LVCreateThinPool"]; n != 1 {
		t.Errorf("created %d pools", n)
	}
	// The administrator deletes the claim.
	b.agent.objects.Client = working
	b.ok(b.client.Delete(t.Context(), &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-a"}}))
	b.agent.Wake()
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	if n := b.lvm.Calls()["LVCreateThinPool"]; n != 2 {
		t.Errorf("created %d pools", n)
	}
}

// TestAnEmptyPoolIsRecreated: nothing is lost with it.
func TestAnEmptyPoolIsRecreated(t *testing.T) {
	b := newBench(t, thinOf(50))
	b.settle()
	b.ok(b.lvm.Apply(t.Context(), lvm.LVDeactivate{VG: "vg1", Names: []string{"pool"}}))
	b.ok(b.lvm.Apply(t.Context(), lvm.ThinPoolRemove{VG: "vg1", Name: "pool"}))
	b.agent.Wake()
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	if n := b.lvm.Calls()["LVCreateThinPool"]; n != 2 {
		t.Errorf("created %d pools", n)
	}
}
