package fencing

import (
	"context"
	"errors"
	"slices"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

// volumeOfNode returns the object of a volume of node1.
func volumeOfNode() *topolvmv1.LogicalVolume {
	return &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"},
		Spec:       topolvmv1.LogicalVolumeSpec{NodeName: "node1", DeviceClass: "vg1"},
		Status:     topolvmv1.LogicalVolumeStatus{VolumeID: "8a6e"},
	}
}

// TestWhichEventsAreFenced: all volumes of this node at the start, then those with a fence.
func TestWhichEventsAreFenced(t *testing.T) {
	p := New(Options{Node: "node1"}).changes()
	plain := volumeOfNode()
	fenced := volumeOfNode()
	metav1.SetMetaDataAnnotation(&fenced.ObjectMeta, wellknown.FenceAnnotation, "m1")
	other := volumeOfNode()
	other.Spec.NodeName = "node2"
	for what, got := range map[string][2]bool{
		"start":           {p.Create(event.CreateEvent{Object: plain}), true},
		"another node":    {p.Create(event.CreateEvent{Object: other}), false},
		"fence requested": {p.Update(event.UpdateEvent{ObjectOld: plain, ObjectNew: fenced}), true},
		"fence ended":     {p.Update(event.UpdateEvent{ObjectOld: fenced, ObjectNew: plain}), true},
		"no fence":        {p.Update(event.UpdateEvent{ObjectOld: plain, ObjectNew: plain}), false},
		"moved":           {p.Update(event.UpdateEvent{ObjectOld: fenced, ObjectNew: other}), false},
		"deleted":         {p.Delete(event.DeleteEvent{Object: fenced}), false},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %v", what, got[0])
		}
	}
}

// TestAVolumeThatIsUnstagedIsExamined if it has a fence, and if that can be read.
func TestAVolumeThatIsUnstagedIsExamined(t *testing.T) {
	unstaged := &topolvmv1.LogicalVolume{Status: topolvmv1.LogicalVolumeStatus{VolumeID: "8a6e"}}
	fenced := volumeOfNode()
	metav1.SetMetaDataAnnotation(&fenced.ObjectMeta, wellknown.FenceAnnotation, "m1")
	api := memory.Builder().WithObjects(fenced).Build()
	r := New(Options{Node: "node1", Client: api})
	want := []ctrl.Request{{NamespacedName: client.ObjectKey{Name: "pvc-1"}}}
	for range 2 {
		if got := r.requested(t.Context(), unstaged); !slices.Equal(got, want) {
			t.Errorf("%v is examined, want %v", got, want)
		}
	}
	r = New(Options{Node: "node1", Client: memory.Builder().WithObjects(volumeOfNode()).Build()})
	if got := r.requested(t.Context(), unstaged); len(got) > 0 {
		t.Errorf("%v is examined, and has no fence", got)
	}
	r = New(Options{Node: "node1", Client: interceptor.NewClient(api, interceptor.Funcs{List: func(
		context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("timeout")
	}})})
	if got := r.requested(t.Context(), unstaged); len(got) > 0 {
		t.Errorf("%v is examined after a failed read", got)
	}
}
