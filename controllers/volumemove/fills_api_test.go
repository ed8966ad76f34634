package volumemove

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/env"
)

// poolOfSource has the node agent of the source report how much data can be copied to its thin pool.
func (w *world) poolOfSource(copyFree string) {
	w.Helper()
	status := &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: w.a()}}
	err := w.api.Get(w.Context(), client.ObjectKeyFromObject(status), status)
	if client.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	}
	if err != nil {
		w.create(status)
	}
	status.Status.NodeStatus = []v1alpha1.VGStatus{{Name: w.class, ThinPool: &v1alpha1.ThinPoolStatus{Name: "pool",
		Size: resource.MustParse("100Gi"), DataPercent: 91, MetadataPercent: 3,
		CopyFree: ptr.To(resource.MustParse(copyFree))}}}
	w.must(w.api.Status().Update(w.Context(), status))
	w.ctl.movesFrom(w.Context(), status)
}

// TestAMoveThatFillsItsSourceBeginsAgain: the copy and its snapshots are discarded while a Pod uses the volume, also if
// the move waits for the Pod, and the operator is restarted after each step. It begins again when there is enough room.
func TestAMoveThatFillsItsSourceBeginsAgain(t *testing.T) {
	w := newWorld(t, "fills")
	w.poolOfSource("50Gi")
	pod := w.pod("writer", w.a())
	w.start()
	w.until(v1alpha1.MoveWaitingForPods)
	w.events()
	w.poolOfSource("0")
	for range 6 {
		_, err := w.reconcile()
		w.must(err)
		w.agents()
	}
	got := w.status()
	if own := w.own(); got.Phase != v1alpha1.MovePending || len(own) > 0 ||
		!strings.Contains(got.Message, "the thin pool pool of node fills-a fills") {
		t.Fatalf("left: %v, %+v", own, got)
	}
	if said := w.events(); strings.Count(said, "Warning VolumeMoveReturnedToQueue") != 1 {
		t.Errorf("got the events %s", said)
	}
	w.write()
	for _, copyFree := range []string{"0", "4Gi"} {
		w.poolOfSource(copyFree)
		w.restart()
		w.clock = w.clock.Add(maxFenceDelay)
		w.spy.Writes()
		for range 3 {
			_, err := w.reconcile()
			w.must(err)
		}
		if own := w.own(); len(own) > 0 || w.status().Phase != v1alpha1.MovePending {
			t.Errorf("with room for %s, it begins: %v, %+v", copyFree, own, w.status())
		}
	}
	w.poolOfSource("5Gi")
	w.until(v1alpha1.MoveCopying)
	w.write()
	w.delete(pod)
	w.poolOfSource("0") // No Pod overwrites anything.
	w.move.Spec.KeepSource = &metav1.Duration{}
	w.until(v1alpha1.MoveKeepingSource)
	w.agents()
	w.wantOn(w.b())
}

// TestADiscardedCopyWaitsLonger each time, so that a pool at its limit is not copied in a loop.
func TestADiscardedCopyWaitsLonger(t *testing.T) {
	w := newWorld(t, "loops")
	w.pod("writer", w.a())
	w.start()
	delay := time.Duration(0)
	for range 3 {
		w.poolOfSource("50Gi")
		w.clock = w.clock.Add(maxFenceDelay)
		w.until(v1alpha1.MoveCopying)
		w.poolOfSource("0")
		w.until(v1alpha1.MovePending)
		w.agents()
		next := w.ctl.fenceAfter(w.move.UID).Sub(w.clock)
		if next <= delay {
			t.Errorf("the delay is %s, and was %s", next, delay)
		}
		delay = next
	}
}
