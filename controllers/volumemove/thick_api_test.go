package volumemove

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumemove/plan"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/test/env"
)

// agentOfThickTarget copies a thick volume in two calls, the data of the first one. The agent of the source sends it
// only under the fence for which the target was created.
func (w *world) agentOfThickTarget(lv *topolvmv1.LogicalVolume) {
	w.Helper()
	v := w.theVolume()
	if lv.Annotations[wellknown.CopyBaseAnnotation] != "" {
		w.Errorf("the target of a thick volume has a base: %v", lv.Annotations)
	}
	move, fence := string(w.move.UID), lv.Annotations[wellknown.FenceTimeAnnotation]
	if fence == "" || v.Annotations[wellknown.FenceAnnotation] != move ||
		v.Annotations[wellknown.FencedAnnotation] != move || v.Annotations[wellknown.FenceTimeAnnotation] != fence {
		return
	}
	old, err := view.Copied(lv)
	if err == nil && old.Finished {
		return
	}
	size := uint64(v.Status.CurrentSize.Value())
	record := view.CopyRecord{Source: lv.Spec.Source, SizeBytes: size, CopiedBytes: size, Seconds: w.seconds,
		SentBytes: 4096}
	if err == nil && old.Source == lv.Spec.Source {
		record.Finished = true
		record.ComparedBytes = size
	} else {
		w.data[w.b()+"/"+w.handle()] = w.data[w.a()+"/"+w.handle()]
	}
	text, err := json.Marshal(record)
	w.must(err)
	metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.CopiedAnnotation, string(text))
	w.must(w.api.Update(w.Context(), lv))
}

// TestAThickVolumeIsMovedWhileNoPodUsesIt: nothing is created and nothing is fenced until its Pod has ended.
func TestAThickVolumeIsMovedWhileNoPodUsesIt(t *testing.T) {
	w := newWorldOf(t, "stopped", "thick")
	pod := w.pod("writer", w.a())
	w.start()
	w.until(v1alpha1.MoveWaitingForPods)
	for range 3 {
		_, err := w.reconcile()
		w.must(err)
		w.agents()
	}
	status := w.status()
	if !status.Thick || status.Round != 0 || !slices.Equal(status.Pods, []string{"stopped/writer"}) ||
		!strings.Contains(status.Message, "a thick volume is copied only while no Pod uses it. To start the copy of 1Gi, "+
			"which takes about 20s at 100Mi for each second, end: stopped/writer") {
		t.Errorf("got the status %+v", status)
	}
	if own := w.own(); len(own) > 0 || w.theVolume().Annotations[wellknown.FenceAnnotation] != "" {
		t.Errorf("the Pod is hindered: %v", own)
	}
	if got := w.events(); !strings.Contains(got, "Normal PodsUseThickVolume") || strings.Contains(got, "PodsUseVolume") {
		t.Errorf("got the events %s", got)
	}
	w.write()
	w.delete(pod)
	w.until(v1alpha1.MoveCopying)
	w.until(v1alpha1.MoveKeepingSource)
	w.agents()
	w.wantOn(w.b())
	if got := w.status(); got.Round != 1 || got.TotalBytes != 1<<30 || got.CopiedBytes != 1<<30 {
		t.Errorf("got the status %+v", got)
	}
	w.clock = w.clock.Add(25 * time.Hour)
	w.until(v1alpha1.MoveCompleted)
	if own := w.own(); len(own) > 0 {
		t.Errorf("left: %v", own)
	}
}

// copyThick runs the move of a thick volume until it is copied in part.
func (w *world) copyThick() *topolvmv1.LogicalVolume {
	w.Helper()
	w.start()
	return w.copiedTarget()
}

// TestAPodThatStartsDuringTheCopyOfAThickVolume waits: the copy is completed, and the volume is switched when the Pod
// has ended.
func TestAPodThatStartsDuringTheCopyOfAThickVolume(t *testing.T) {
	w := newWorldOf(t, "thickpod", "thick")
	w.copyThick()
	pod := w.pod("early", w.a())
	_, err := w.reconcile()
	w.must(err)
	if got := w.status(); got.Phase != v1alpha1.MoveCopying || !strings.Contains(got.Message, "delete the VolumeMove") ||
		!strings.Contains(got.Message, "cannot start") || !strings.Contains(got.Message, "thickpod/early") {
		t.Errorf("got the status %+v", got)
	}
	w.until(v1alpha1.MoveWaitingForPods)
	for range 3 {
		_, err := w.reconcile()
		w.must(err)
		w.agents()
	}
	lv := w.theVolume()
	if got := w.status(); lv.Spec.NodeName != w.a() || lv.Annotations[wellknown.FencedAnnotation] == "" ||
		!strings.Contains(got.Message, "Delete these Pods") {
		t.Errorf("got the status %+v and %v", got, lv.Annotations)
	}
	w.delete(pod)
	w.until(v1alpha1.MoveKeepingSource)
	w.agents()
	w.wantOn(w.b())
}

// TestAPodGetsAThickVolumeWhoseCopyCannotEnd: the copy makes no progress, or a node is lost. The move returns to the
// queue, and begins again when that is repaired. The operator is restarted before each step.
func TestAPodGetsAThickVolumeWhoseCopyCannotEnd(t *testing.T) {
	ready := func(w *world, name string, status corev1.ConditionStatus) {
		w.edit(name, func(n *corev1.Node) {
			n.Status.Conditions[0].Status = status
			n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.clock.Add(-fence.LostAfter))
		})
	}
	for name, test := range map[string]struct {
		fail, repair func(w *world)
		says         string
	}{
		"stalled": {func(w *world) { w.clock = w.clock.Add(fence.ProgressLimit) }, func(*world) {},
			"has copied nothing from node"},
		"leasetarget": {func(w *world) { ready(w, w.b(), corev1.ConditionUnknown) },
			func(w *world) { ready(w, w.b(), corev1.ConditionTrue) }, "node leasetarget-b is not ready"},
		"leasesource": {func(w *world) { ready(w, w.a(), corev1.ConditionFalse) },
			func(w *world) { ready(w, w.a(), corev1.ConditionTrue) }, "node leasesource-a is not ready"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, name, "thick")
			first := w.copyThick().UID
			w.clock = time.Now().Add(time.Minute) // The copy is older.
			pod := w.pod("early", w.a())
			run := func() {
				t.Helper()
				said := w.events()
				w.restart()
				w.recorder.Events <- said
				_, err := w.reconcile()
				w.must(err)
			}
			run()
			if got := w.status(); got.ProgressTime == nil || got.ProgressBytes != 1<<30 {
				t.Fatalf("no progress is recorded: %+v", got)
			}
			test.fail(w)
			run()
			got := w.status()
			if lv := w.theVolume(); lv.Annotations[wellknown.FenceAnnotation] != "" || got.Phase != v1alpha1.MovePending ||
				!strings.Contains(got.Message, test.says) {
				t.Fatalf("got the status %+v and %v", got, lv.Annotations)
			}
			if said := w.events(); !strings.Contains(said, "Warning VolumeMoveReturnedToQueue") ||
				!strings.Contains(said, name+"/early") {
				t.Errorf("got the events %s", said)
			}
			for range 4 {
				w.agents()
				run()
			}
			w.write() // The Pod has the volume.
			if own := w.own(); len(own) > 0 || w.status().ProgressTime != nil {
				t.Errorf("left: %v, %+v", own, w.status())
			}
			test.repair(w)
			w.delete(pod)
			w.until(v1alpha1.MoveCopying)
			if target := w.copiedTarget(); target.UID == first {
				t.Error("the first copy is used")
			}
			w.until(v1alpha1.MoveKeepingSource)
			w.agents()
			w.wantOn(w.b())
		})
	}
}

// copiedTarget continues until the volume is copied in part.
func (w *world) copiedTarget() *topolvmv1.LogicalVolume {
	w.Helper()
	for range 60 {
		_, err := w.reconcile()
		w.must(err)
		if target := w.logicalVolume(plan.TargetName(w.move)); target != nil &&
			target.Annotations[wellknown.CopiedAnnotation] != "" {
			return target
		}
		w.agents()
	}
	w.Fatalf("the copy has not begun: %+v", w.status())
	return nil
}

// TestAThickVolumeWaitsForItsTurnAfterItsPods: it is not closed before two other volumes are copied.
func TestAThickVolumeWaitsForItsTurnAfterItsPods(t *testing.T) {
	w := newWorldOf(t, "thickqueue", "thick")
	pod := w.pod("writer", w.a())
	w.start()
	w.until(v1alpha1.MoveWaitingForPods)
	var others []*v1alpha1.VolumeMove
	for _, name := range []string{"thickqueue-1", "thickqueue-2"} {
		other := &v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: env.Namespace},
			Spec: v1alpha1.VolumeMoveSpec{Claim: v1alpha1.VolumeMoveClaim{Namespace: "x", Name: name}}}
		w.create(other)
		other.Status = v1alpha1.VolumeMoveStatus{Phase: v1alpha1.MoveCopying, SourceNode: w.a(), TargetNode: w.b()}
		w.must(w.api.Status().Update(t.Context(), other))
		others = append(others, other)
	}
	w.delete(pod)
	for range 4 {
		_, err := w.reconcile()
		w.must(err)
		w.agents()
	}
	if got := w.status(); got.Phase != v1alpha1.MovePending || got.QueuePosition != 1 ||
		w.theVolume().Annotations[wellknown.FenceAnnotation] != "" {
		t.Errorf("it does not wait for its turn: %+v, %v", got, w.theVolume().Annotations)
	}
	w.delete(others[0])
	w.until(v1alpha1.MoveKeepingSource)
	w.agents()
	w.wantOn(w.b())
	w.delete(others[1])
}

// TestAThickVolumeIsCopiedAgainIfItWasOpened: the copy of an earlier fence is not used, whatever its record says.
func TestAThickVolumeIsCopiedAgainIfItWasOpened(t *testing.T) {
	for name, open := range map[string]func(w *world){
		"expanded": func(w *world) {
			lv := w.theVolume()
			lv.Spec.Size = resource.MustParse("2Gi")
			w.must(w.api.Update(w.Context(), lv))
			_, err := w.reconcile()
			w.must(err)
			w.agentsOfVolume()
			lv = w.theVolume()
			lv.Status.CurrentSize = ptr.To(resource.MustParse("2Gi"))
			w.must(w.api.Status().Update(w.Context(), lv))
		},
		"opened": func(w *world) { // The operator is killed after it has fenced the volume again.
			lv := w.theVolume()
			lv.Annotations[wellknown.FenceTimeAnnotation] = "2026-01-01T00:00:00Z/1"
			w.written++
			w.data[w.a()+"/"+w.handle()] = w.written
			w.must(w.api.Update(w.Context(), lv))
		},
		"not confirmed": func(w *world) {
			lv := w.theVolume()
			delete(lv.Annotations, wellknown.FencedAnnotation)
			w.must(w.api.Update(w.Context(), lv))
			w.write()
			w.busy = true
			_, err := w.reconcile()
			w.must(err)
			w.busy = false
		},
		"the copy was deleted": func(w *world) { w.delete(w.logicalVolume(plan.TargetName(w.move))) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, "opened-"+strings.ReplaceAll(name, " ", "-"), "thick")
			first := w.copyThick().UID
			open(w)
			_, err := w.reconcile()
			w.must(err)
			w.agents()
			w.write()
			w.clock = w.clock.Add(time.Hour)
			second := false
			for range 60 {
				_, _ = w.reconcile()
				if target := w.logicalVolume(plan.TargetName(w.move)); target != nil && target.UID != first {
					second = true
				}
				if w.status().Phase == v1alpha1.MoveKeepingSource {
					break
				}
				w.agents()
				w.clock = w.clock.Add(time.Minute)
			}
			w.agents()
			w.wantOn(w.b())
			if !second {
				t.Error("the first copy was used")
			}
		})
	}
}
