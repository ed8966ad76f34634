package observe

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

// counted is a client that counts the pages and objects that are read, and fails on demand.
type counted struct {
	client.WithWatch
	pages, gets int
	fail        error
}

func newCounted(objects ...client.Object) *counted {
	c := &counted{}
	c.WithWatch = interceptor.NewClient(memory.Builder().WithObjects(objects...).Build(), interceptor.Funcs{
		List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			c.pages++
			if c.fail != nil {
				return c.fail
			}
			return inner.List(ctx, list, options...)
		},
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption) error {
			c.gets++
			if c.fail != nil {
				return c.fail
			}
			return inner.Get(ctx, key, object, options...)
		},
	})
	return c
}

// reads returns the numbers of pages and objects that were read since the last call.
func (c *counted) reads() string {
	text := fmt.Sprintf("%d pages, %d objects", c.pages, c.gets)
	c.pages = 0
	c.gets = 0
	return text
}

func (c *counted) remove(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := c.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	c.reads()
}

func removedGroup() *lvmv1alpha1.LVMVolumeGroup {
	return &lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1"}}
}

// TestUseCostsOneSmallRead: while its first user exists, a removed device class costs one small read a minute, and a
// list of all users every ten minutes.
func TestUseCostsOneSmallRead(t *testing.T) {
	first, second := logicalVolumeOf("pvc-1"), logicalVolumeOf("pvc-2")
	live := newCounted(first, second)
	use := &Use{}
	start := time.Unix(1000, 0)
	for _, step := range []struct {
		after  time.Duration
		before func()
		want   string
		reads  string
	}{
		{0, nil, "2 LogicalVolumes: pvc-1 on node n1, pvc-2 on node n1", "4 pages, 0 objects"},
		{10 * time.Second, nil, "2 LogicalVolumes: pvc-1 on node n1, pvc-2 on node n1", "0 pages, 0 objects"},
		{59 * time.Second, nil, "2 LogicalVolumes: pvc-1 on node n1, pvc-2 on node n1", "0 pages, 0 objects"},
		{time.Minute, nil, "2 LogicalVolumes: pvc-1 on node n1, pvc-2 on node n1", "0 pages, 1 objects"},
		{61 * time.Second, nil, "2 LogicalVolumes: pvc-1 on node n1, pvc-2 on node n1", "0 pages, 0 objects"},
		{2 * time.Minute, func() { live.remove(t, first) }, "1 LogicalVolume: pvc-2 on node n1", "4 pages, 1 objects"},
		{2*time.Minute + 30*time.Second, nil, "1 LogicalVolume: pvc-2 on node n1", "0 pages, 0 objects"},
		{12 * time.Minute, nil, "1 LogicalVolume: pvc-2 on node n1", "4 pages, 1 objects"},
		{13 * time.Minute, func() { live.remove(t, second) }, "", "4 pages, 1 objects"},
		{13 * time.Minute, nil, "", "4 pages, 0 objects"}, // That nothing uses it is not remembered.
	} {
		if step.before != nil {
			step.before()
		}
		users, err := use.OfClass(t.Context(), live, removedGroup(), start.Add(step.after))
		if err != nil || users.String() != step.want {
			t.Errorf("after %s: got %q, %v", step.after, users, err)
		}
		if got := live.reads(); got != step.reads {
			t.Errorf("after %s: %s, want %s", step.after, got, step.reads)
		}
	}
}

// TestTheNextUserIsFoundOnOnePage: an LVMCluster is being deleted, and its volumes are deleted one after the other.
func TestTheNextUserIsFoundOnOnePage(t *testing.T) {
	first, second := logicalVolumeOf("pvc-1"), logicalVolumeOf("pvc-2")
	claim := claimOf("3")
	storageClass := wellknown.StorageClassName("vg1")
	claim.Spec.StorageClassName = &storageClass
	live := newCounted(first, second, claim)
	use := &Use{}
	now := time.Unix(1000, 0)
	look := func(begun bool) string {
		t.Helper()
		users, err := use.OfAll(t.Context(), live, now, begun)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("used %v: %s", !users.None(), live.reads())
	}
	for i, step := range []struct {
		remove client.Object
		begun  bool
		want   string
	}{
		{nil, false, "used true: 4 pages, 0 objects"},
		{nil, false, "used true: 0 pages, 1 objects"},
		{first, false, "used true: 2 pages, 1 objects"},  // StorageClasses and LogicalVolumes
		{second, false, "used true: 4 pages, 1 objects"}, // also PersistentVolumes and claims
		{nil, false, "used true: 0 pages, 1 objects"},
		{claim, false, "used false: 4 pages, 1 objects"},
		{nil, false, "used false: 4 pages, 0 objects"},
		{nil, true, "used false: 4 pages, 0 objects"},
		{nil, true, "used false: 0 pages, 0 objects"},
		{nil, false, "used false: 4 pages, 0 objects"},
	} {
		if step.remove != nil {
			live.remove(t, step.remove)
		}
		if got := look(step.begun); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
		now = now.Add(deletionLookInterval)
	}
}

// TestAFailedReadIsNotUnused: the error is returned, and the next call reads again.
func TestAFailedReadIsNotUnused(t *testing.T) {
	away := errors.New("the API server does not answer")
	now := time.Unix(1000, 0)
	live := newCounted(logicalVolumeOf("pvc-1"))
	use := &Use{}
	for _, before := range []string{"unknown", "known"} {
		live.fail = away
		for range 2 {
			users, err := use.OfClass(t.Context(), live, removedGroup(), now)
			if !errors.Is(err, away) || !users.None() {
				t.Errorf("%s: got %v, %v", before, users, err)
			}
		}
		live.fail = nil
		for range 2 {
			if users, err := use.OfClass(t.Context(), live, removedGroup(), now); err != nil || users.None() {
				t.Errorf("%s: got %v, %v", before, users, err)
			}
		}
		now = now.Add(classLookInterval)
	}
}

// TestAnotherObjectOfTheSameNameIsAnotherUser: it may be of another device class.
func TestAnotherObjectOfTheSameNameIsAnotherUser(t *testing.T) {
	lv := logicalVolumeOf("pvc-1")
	lv.UID = "1"
	live := newCounted(lv)
	use := &Use{}
	now := time.Unix(1000, 0)
	if users, err := use.OfClass(t.Context(), live, removedGroup(), now); err != nil || users.None() {
		t.Fatal(users, err)
	}
	live.remove(t, lv)
	other := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "2"},
		Spec: topolvmv1.LogicalVolumeSpec{NodeName: "n1", DeviceClass: "vg2"}}
	if err := live.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if users, err := use.OfClass(t.Context(), live, removedGroup(), now.Add(time.Minute)); err != nil || !users.None() {
		t.Errorf("got %v, %v", users, err)
	}
}

// TestLeftoversAreFoundOnce: what is necessary to name them is read once for a list of users.
func TestLeftoversAreFoundOnce(t *testing.T) {
	live := newCounted(logicalVolumeOf("pvc-1"), persistentVolumeOf("pvc-1", corev1.PersistentVolumeReclaimRetain,
		corev1.VolumeReleased))
	use := &Use{}
	now := time.Unix(1000, 0)
	for i, want := range []string{"5 pages, 0 objects", "0 pages, 0 objects"} {
		users, err := use.OfClass(t.Context(), live, removedGroup(), now)
		if err != nil {
			t.Fatal(err)
		}
		if leftovers, err := users.Leftovers(t.Context(), live, true); err != nil || len(leftovers) != 1 {
			t.Errorf("got %v, %v", leftovers, err)
		}
		if got := live.reads(); got != want {
			t.Errorf("call %d: %s, want %s", i, got, want)
		}
	}
	live.fail = errors.New("the API server does not answer")
	users, err := (&Use{}).OfClass(t.Context(), newCounted(logicalVolumeOf("pvc-1")), removedGroup(), now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := users.Leftovers(t.Context(), live, true); err == nil {
		t.Error("a failed read is no answer")
	}
	live.fail = nil
	if leftovers, err := users.Leftovers(t.Context(), live, true); err != nil || len(leftovers) != 1 {
		t.Errorf("after a failed read: got %v, %v", leftovers, err)
	}
}
