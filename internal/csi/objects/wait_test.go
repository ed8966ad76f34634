package objects

import (
	"context"
	"errors"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

// An object that leaves the cache has settled or was deleted. If the watch does not tell which, the API server is read.
func TestWhatLeavesTheCacheIsNotTakenForGone(t *testing.T) {
	now := metav1.Now()
	object := func(change func(*topolvmv1.LogicalVolume)) *topolvmv1.LogicalVolume {
		lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "uid-1",
			Finalizers: []string{wellknown.LogicalVolumeFinalizer}}}
		lv.Status.VolumeID = "watched"
		if change != nil {
			change(lv)
		}
		return lv
	}
	deleted := object(func(lv *topolvmv1.LogicalVolume) { lv.DeletionTimestamp = &now })
	free := object(func(lv *topolvmv1.LogicalVolume) { lv.Finalizers = nil })
	another := object(func(lv *topolvmv1.LogicalVolume) { lv.UID = "uid-2" })
	for name, tt := range map[string]struct {
		tell    func(*waiters)
		present bool   // in the API server
		want    string // the volume ID of the result, - for deleted
	}{
		"it changes":                        {func(w *waiters) { w.wake(object(nil)) }, true, "watched"},
		"it comes to rest":                  {func(w *waiters) { w.remove(object(nil)) }, true, "watched"},
		"it is deleted":                     {func(w *waiters) { w.remove(deleted) }, true, "-"},
		"nothing keeps it, and it is there": {func(w *waiters) { w.remove(free) }, true, "live"},
		"nothing keeps it, and it is gone":  {func(w *waiters) { w.remove(free) }, false, "-"},
		"the watch missed the end, and it rests": {
			func(w *waiters) { w.remove(cache.DeletedFinalStateUnknown{Obj: deleted}) }, true, "live"},
		"the watch missed the end, and it is gone": {
			func(w *waiters) { w.remove(cache.DeletedFinalStateUnknown{Obj: object(nil)}) }, false, "-"},
		"another one of its name is there":  {func(w *waiters) { w.wake(another) }, false, "-"},
		"another one of its name was there": {func(w *waiters) { w.remove(another) }, true, "live"},
	} {
		t.Run(name, func(t *testing.T) {
			api := memory.Builder().Build()
			v := New(Options{Client: api, Live: api})
			known := object(func(lv *topolvmv1.LogicalVolume) { lv.Status.VolumeID = "" })
			err := api.Create(t.Context(), known)
			if err == nil {
				known.Status.VolumeID = "live"
				err = api.Status().Update(t.Context(), known)
			}
			if err == nil && !tt.present {
				known.Finalizers = nil
				err = errors.Join(api.Update(t.Context(), known), api.Delete(t.Context(), known))
			}
			if err != nil {
				t.Fatal(err)
			}
			joined := v.Join("v")
			defer joined.Leave()
			tt.tell(&v.waiters)
			calls := 0
			lv, err := v.Await(t.Context(), joined, known,
				func(*topolvmv1.LogicalVolume) (bool, error) { calls++; return calls > 1, nil })
			got := "-"
			if lv != nil {
				got = lv.Status.VolumeID
			}
			if err != nil || got != tt.want {
				t.Errorf("got %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

// A waiting call receives the latest event, and a slow reader blocks nobody.
func TestTheLastNewsCount(t *testing.T) {
	w := &waiters{}
	joined := w.join("v")
	for _, id := range []string{"1", "2", "3"} {
		w.wake(&topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"},
			Status: topolvmv1.LogicalVolumeStatus{VolumeID: id}})
	}
	if n := <-joined.C; n.lv.Status.VolumeID != "3" {
		t.Errorf("got %s", n.lv.Status.VolumeID)
	}
	joined.Leave()
	if len(w.open) != 0 {
		t.Errorf("%d are still open", len(w.open))
	}
}

type failingReads struct{ client.Reader }

func (failingReads) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("timeout")
}

// After a failed read, it is unknown whether the object exists.
func TestAReadThatFailsWhileWaiting(t *testing.T) {
	v := New(Options{Client: memory.Builder().Build()})
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "uid-1"}}
	joined := v.Join("v")
	defer joined.Leave()
	v.waiters.remove(lv)
	v.Live = failingReads{}
	seen, err := v.Await(t.Context(), joined, lv,
		func(now *topolvmv1.LogicalVolume) (bool, error) { return now == nil, nil })
	if err == nil || seen == nil {
		t.Errorf("got %v, %v", seen, err)
	}
}

// If an object is deleted at the moment when the deadline of a call is over, the call returns an error and does not
// panic.
func TestDeletedWhenTheTimeIsOver(t *testing.T) {
	v := New(Options{Client: memory.Builder().Build()})
	now := metav1.Now()
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "uid-1", DeletionTimestamp: &now}}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 { // Which of the two is selected first is random.
		joined := v.Join("v")
		v.waiters.remove(lv)
		if made, err := v.awaitCreation(t.Context(), over, joined,
			&topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "v",
				UID: "uid-1"}}); made != nil || err == nil {
			t.Fatalf("got %v, %v", made, err)
		}
		joined.Leave()
	}
}
