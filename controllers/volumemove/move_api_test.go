package volumemove

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumemove/plan"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

// TestAVolumeIsMovedWhilePodsUseIt: it is copied while a Pod writes, the Pod ends, and the volume is switched with the
// last write. The old logical volume is kept for the time, and then removed.
func TestAVolumeIsMovedWhilePodsUseIt(t *testing.T) {
	w := newWorld(t, "used")
	pod := w.pod("writer", w.a())
	w.move.Spec.KeepSource = &metav1.Duration{Duration: time.Hour}
	w.start()
	w.until(v1alpha1.MoveWaitingForPods)
	status := w.status()
	expect.Slice(t, "Pods", status.Pods, []string{"used/writer"})
	expect.Equal(t, "PodCount", status.PodCount, 1)
	expect.Equal(t, "SourceNode", status.SourceNode, w.a())
	expect.Equal(t, "TargetNode", status.TargetNode, w.b())
	expect.Equal(t, "DeviceClass", status.DeviceClass, "thin")
	expect.Equal(t, "PersistentVolume", status.PersistentVolume, w.pv())
	expect.Equal(t, "TotalBytes", status.TotalBytes, 1<<30)
	expect.NotZero(t, "StartTime", status.StartTime)
	if got := w.events(); !strings.Contains(got, "Normal PodsUseVolume") || !strings.Contains(got, "used/writer") ||
		strings.Contains(got, "Warning") {
		t.Errorf("got the events %s", got)
	}
	w.write()
	for range 3 {
		_, err := w.reconcile()
		w.must(err)
		w.agents()
	}
	if w.theVolume().Annotations[wellknown.FenceAnnotation] != "" {
		t.Error("the volume is fenced while a Pod uses it")
	}
	// The changes are copied again after a while.
	w.clock = w.clock.Add(plan.RefreshFirst + time.Second)
	for range 4 {
		_, err := w.reconcile()
		w.must(err)
		w.agents()
	}
	if got := w.status().Round; got != 2 {
		t.Errorf("got round %d after the delay, want 2", got)
	}
	w.write()
	w.delete(pod)
	w.until(v1alpha1.MoveKeepingSource)
	w.agents()
	w.wantOn(w.b())
	if got := w.events(); !strings.Contains(got, "Normal VolumeSwitched") {
		t.Errorf("got the events %s", got)
	}
	_, err := w.reconcile()
	w.must(err)
	status = w.status()
	own := w.own()
	if len(own) != 1 {
		t.Fatalf("got the objects %v and the status %+v", own, status)
	}
	expect.Equal(t, "own[0].Name", own[0].Name, plan.OldName(w.move))
	expect.NotZero(t, "SwitchTime", status.SwitchTime)
	expect.NotZero(t, "SourceRemovalTime", status.SourceRemovalTime)
	expect.Equal(t, "IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionMoved)",
		meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionMoved), true)
	w.pod("on-b", w.b()) // It does not hinder the rest.
	w.clock = w.clock.Add(time.Hour + time.Minute)
	w.until(v1alpha1.MoveCompleted)
	_, err = w.reconcile()
	w.must(err)
	if own := w.own(); len(own) > 0 {
		t.Errorf("left: %v", own)
	}
	w.wantOn(w.b())
	w.spy.Writes()
	_, err = w.reconcile()
	w.must(err)
	if writes := w.spy.Writes(); len(writes) > 0 {
		t.Errorf("a move that has ended writes %v", writes)
	}
}

// TestAVolumeInUseIsOpenedAgain: the node agent cannot close it. The operator withdraws the fence, and tries again
// later.
func TestAVolumeInUseIsOpenedAgain(t *testing.T) {
	w := newWorld(t, "busy")
	w.busy = true
	w.start()
	w.until(v1alpha1.MoveSwitching)
	w.agents()
	_, err := w.reconcile()
	w.must(err)
	if got := w.status().Message; !strings.Contains(got, "it is mounted at /x") {
		t.Errorf("got the message %q", got)
	}
	w.clock = w.clock.Add(plan.FenceTimeout)
	_, err = w.reconcile()
	w.must(err)
	if lv := w.theVolume(); lv.Annotations[wellknown.FenceAnnotation] != "" || lv.Spec.NodeName != w.a() {
		t.Errorf("the volume is still fenced: %v", lv.Annotations)
	}
	w.agents()
	_, err = w.reconcile()
	w.must(err)
	if w.theVolume().Annotations[wellknown.FenceAnnotation] != "" {
		t.Error("the volume is fenced again at once")
	}
	w.write()
	w.busy = false
	w.clock = w.clock.Add(firstFenceDelay)
	w.until(v1alpha1.MoveKeepingSource)
	w.agents()
	w.wantOn(w.b())
}

// TestAPodThatStartsDuringTheSwitchGetsTheVolume: the fence is withdrawn, and a snapshot under an earlier fence is not
// taken for the last one.
func TestAPodThatStartsDuringTheSwitchGetsTheVolume(t *testing.T) {
	w := newWorld(t, "again")
	w.start()
	for range 60 {
		_, err := w.reconcile()
		w.must(err)
		if w.theVolume().Annotations[wellknown.FencedAnnotation] != "" {
			break
		}
		w.agents()
	}
	snapshots := len(w.own())
	pod := w.pod("early", w.a())
	for range 3 {
		_, err := w.reconcile()
		w.must(err)
		w.agents()
	}
	if lv := w.theVolume(); lv.Annotations[wellknown.FenceAnnotation] != "" || lv.Spec.NodeName != w.a() || snapshots < 2 {
		t.Errorf("the Pod does not get the volume: %v, %d objects", lv.Annotations, snapshots)
	}
	w.write()
	w.delete(pod)
	w.until(v1alpha1.MoveKeepingSource)
	w.agents()
	w.wantOn(w.b())
}

// TestPodsWithoutANodeDoNotHinderTheSwitch: nor do those that have ended.
func TestPodsWithoutANodeDoNotHinderTheSwitch(t *testing.T) {
	w := newWorld(t, "unbound")
	w.pod("pending", "")
	ended := w.pod("ended", w.a())
	ended.Status.Phase = corev1.PodSucceeded
	w.must(w.api.Status().Update(t.Context(), ended))
	w.start()
	w.until(v1alpha1.MoveKeepingSource)
	w.agents()
	w.wantOn(w.b())
}

// TestTheChangesAreCopiedUntilTheyAreFew: a round that takes longer than maxPause is followed by another one.
func TestTheChangesAreCopiedUntilTheyAreFew(t *testing.T) {
	w := newWorld(t, "slow")
	pod := w.pod("writer", w.a())
	w.seconds = 60
	w.start()
	for range 12 {
		_, err := w.reconcile()
		w.must(err)
		w.write()
		w.agents()
	}
	if got := w.status(); got.Phase != v1alpha1.MoveCopying || got.Round < 3 || got.LastDeltaSeconds != 60 {
		t.Errorf("got the status %+v", got)
	}
	w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(w.move), w.move))
	w.move.Spec.MaxPause = &metav1.Duration{Duration: 2 * time.Minute}
	w.must(w.api.Update(t.Context(), w.move))
	w.until(v1alpha1.MoveWaitingForPods)
	w.delete(pod)
	w.until(v1alpha1.MoveKeepingSource)
	w.agents()
	w.wantOn(w.b())
}

// TestAVolumeThatIsExpandedIsMoved: the target gets the new size before the switch.
func TestAVolumeThatIsExpandedIsMoved(t *testing.T) {
	w := newWorld(t, "expanded")
	pod := w.pod("writer", w.a())
	w.start()
	w.until(v1alpha1.MoveWaitingForPods)
	lv := w.theVolume()
	lv.Spec.Size = resource.MustParse("2Gi")
	w.must(w.api.Update(t.Context(), lv))
	lv.Status.CurrentSize = ptr.To(resource.MustParse("2Gi"))
	w.must(w.api.Status().Update(t.Context(), lv))
	_, err := w.reconcile()
	w.must(err)
	if target := w.logicalVolume(plan.TargetName(w.move)); target.Spec.Size.Value() != 2<<30 {
		t.Errorf("the target has %s", target.Spec.Size.String())
	}
	w.delete(pod)
	w.until(v1alpha1.MoveKeepingSource)
	w.agents()
	w.wantOn(w.b())
}

// TestMovesThatDoNotBegin: nothing is created, and the message says why and what to do.
func TestMovesThatDoNotBegin(t *testing.T) {
	for name, test := range map[string]struct {
		do    func(*world)
		phase v1alpha1.VolumeMovePhase
		says  string
	}{
		"same": {do: func(w *world) { w.move.Spec.NodeName = w.a() }, phase: v1alpha1.MoveFailed,
			says: "is on node same-a already"},
		"noclaim": {do: func(w *world) { w.move.Spec.Claim.Name = "other" }, phase: v1alpha1.MovePending,
			says: "claim noclaim/other does not exist"},
		"nonode": {do: func(w *world) { w.move.Spec.NodeName = "none" }, phase: v1alpha1.MovePending,
			says: "node none does not exist"},
		"small": {do: func(w *world) { w.annotate(w.b(), "1000") }, phase: v1alpha1.MovePending,
			says: "no node for a volume of 1Gi in device class thin: node small-b has 1k free"},
		"cordoned": {do: func(w *world) {
			w.edit(w.b(), func(n *corev1.Node) { n.Spec.Unschedulable = true })
		}, phase: v1alpha1.MovePending, says: "node cordoned-b is cordoned"},
		"lostsource": {do: func(w *world) {
			w.edit(w.a(), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
		}, phase: v1alpha1.MovePending, says: "node lostsource-a, which has volume lostsource-pv, is not ready"},
		"fenced": {do: func(w *world) {
			lv := w.theVolume()
			lv.Annotations[wellknown.FenceAnnotation] = "other"
			w.must(w.api.Update(w.Context(), lv))
		}, phase: v1alpha1.MovePending, says: "another move of volume fenced-pv"},
		"cloned": {do: func(w *world) {
			lv := w.theVolume()
			lv.Annotations[wellknown.FenceAnnotation] = "clone-x"
			lv.Annotations[wellknown.FenceForAnnotation] = "pvc-2"
			w.must(w.api.Update(w.Context(), lv))
		}, phase: v1alpha1.MovePending, says: "volume cloned-pv of claim cloned/data is being copied to LogicalVolume pvc-2"},
		"topology": {do: func(w *world) {
			w.create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Provisioner: "topolvm.io",
				AllowedTopologies: []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.
					TopologySelectorLabelRequirement{{Key: "zone", Values: []string{w.a()}}}}}})
		}, phase: v1alpha1.MovePending, says: "node topology-b is not in allowedTopologies of StorageClass topology"},
		"recovered": {do: func(w *world) {
			r := &v1alpha1.LVMRecovery{ObjectMeta: metav1.ObjectMeta{Name: w.name, Namespace: env.Namespace},
				Spec: v1alpha1.LVMRecoverySpec{NodeName: w.b(), DeviceClassName: "thin",
					Action: v1alpha1.RecoveryRepairThinPool}}
			w.create(r)
			r.Status.Phase = v1alpha1.RecoveryRunning
			w.must(w.api.Status().Update(w.Context(), r))
		}, phase: v1alpha1.MovePending, says: "node recovered-b is being recovered by LVMRecovery recovered"},
		"older": {do: func(w *world) {
			other := &v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{Name: "a-" + w.name, Namespace: env.Namespace},
				Spec: w.move.Spec}
			w.create(other)
		}, phase: v1alpha1.MovePending, says: "VolumeMove a-older moves the volume of claim older/data"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, name)
			if test.do != nil {
				test.do(w)
			}
			w.start()
			for range 2 {
				_, err := w.reconcile()
				w.must(err)
			}
			if got := w.status(); got.Phase != test.phase || !strings.Contains(got.Message, test.says) {
				t.Errorf("got the phase %s with %q, want %s with %q", got.Phase, got.Message, test.phase, test.says)
			}
			if own := w.own(); len(own) > 0 || w.theVolume().Spec.NodeName != w.a() {
				t.Errorf("something has changed: %v", own)
			}
			w.delete(w.move)
			w.untilGone()
		})
	}
}

func (w *world) annotate(node, room string) {
	w.Helper()
	w.edit(node, func(n *corev1.Node) { n.Annotations[wellknown.CapacityAnnotationPrefix+w.class] = room })
}

// edit changes a Node and its status.
func (w *world) edit(name string, change func(*corev1.Node)) {
	w.Helper()
	node := &corev1.Node{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: name}, node))
	change(node)
	status := node.Status
	w.must(w.api.Update(w.Context(), node))
	node.Status = status
	w.must(w.api.Status().Update(w.Context(), node))
}

// TestTheOperatorSelectsTheNodeWithMostCapacity: without those that cannot have the volume.
func TestTheOperatorSelectsTheNodeWithMostCapacity(t *testing.T) {
	w := newWorldOf(t, "choice", "select")
	w.node("choice-small", "10Gi", true)
	w.node("choice-large", "500Gi", true)
	w.node("choice-no-agent", "900Gi", false)
	w.move.Spec.NodeName = ""
	w.start()
	_, err := w.reconcile()
	w.must(err)
	if got := w.status().TargetNode; got != "choice-large" {
		t.Errorf("got node %q", got)
	}
}

// TestCopiesWaitForTheirTurn: two volumes are copied from a node at once.
func TestCopiesWaitForTheirTurn(t *testing.T) {
	w := newWorld(t, "queue")
	w.node("queue-elsewhere", "100Gi", true)
	for _, name := range []string{"queue-other-1", "queue-other-2"} {
		other := &v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: env.Namespace},
			Spec: v1alpha1.VolumeMoveSpec{Claim: v1alpha1.VolumeMoveClaim{Namespace: "x", Name: name}}}
		w.create(other)
		other.Status = v1alpha1.VolumeMoveStatus{Phase: v1alpha1.MoveCopying, SourceNode: w.a(), TargetNode: "queue-elsewhere"}
		w.must(w.api.Status().Update(t.Context(), other))
	}
	w.start()
	_, err := w.reconcile()
	w.must(err)
	if got := w.status(); got.Phase != v1alpha1.MovePending || got.QueuePosition != 1 ||
		!strings.Contains(got.Message, "place 1 in the queue") {
		t.Errorf("got the status %+v", got)
	}
	w.delete(&v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{Name: "queue-other-1", Namespace: env.Namespace}})
	_, err = w.reconcile()
	w.must(err)
	if got := w.status(); got.Phase != v1alpha1.MoveCopying || got.QueuePosition != 0 {
		t.Errorf("got the status %+v", got)
	}
}

// TestARefusedCopyIsUndone: the node agent of the target cannot create it.
func TestARefusedCopyIsUndone(t *testing.T) {
	w := newWorld(t, "refused")
	w.pod("writer", w.a())
	w.start()
	w.refuse(codes.InvalidArgument, "its options are not supported")
	if got := w.status(); got.Phase != v1alpha1.MoveFailed || !strings.Contains(got.Message, "options are not supported") {
		t.Errorf("got the status %+v", got)
	}
	w.agents()
	if own := w.own(); len(own) > 0 {
		t.Errorf("left: %v", own)
	}
	if got := w.events(); !strings.Contains(got, "Warning VolumeMoveFailed") {
		t.Errorf("got the events %s", got)
	}
	w.wantOn(w.a())
}

// refuse has the node agent of the target refuse the copy, until the operator has removed it.
func (w *world) refuse(code codes.Code, message string) {
	w.Helper()
	for range 15 {
		_, err := w.reconcile()
		w.must(err)
		target := w.logicalVolume(plan.TargetName(w.move))
		if target != nil && target.DeletionTimestamp.IsZero() && target.Status.Code == codes.OK {
			target.Status.Code = code
			target.Status.Message = message
			w.must(w.api.Status().Update(w.Context(), target))
			continue
		}
		w.agents()
	}
}

// TestACopyWithoutRoomWaits: the node agent of the target finds that the data does not fit. What was created is
// deleted, and the move begins again, each time after a longer delay.
func TestACopyWithoutRoomWaits(t *testing.T) {
	w := newWorld(t, "roomless")
	w.pod("writer", w.a())
	w.start()
	delay := time.Duration(0)
	for range 3 {
		w.refuse(codes.ResourceExhausted, "no space left")
		if own := w.own(); len(own) > 0 {
			t.Errorf("left: %v", own)
		}
		got := w.status()
		if got.Phase != v1alpha1.MovePending || !strings.Contains(got.Message, "has no room for the copy: no space left") {
			t.Errorf("got the status %+v", got)
		}
		next := w.ctl.fenceAfter(w.move.UID).Sub(w.clock)
		if next <= delay {
			t.Errorf("the delay is %s, and was %s", next, delay)
		}
		delay = next
		w.wantOn(w.a())
		w.clock = w.clock.Add(maxFenceDelay)
	}
	w.until(v1alpha1.MoveCopying)
}

// TestADeletedClaimEndsItsMove: before the switch, what was created for the move is deleted.
func TestADeletedClaimEndsItsMove(t *testing.T) {
	w := newWorld(t, "deleted")
	w.pod("writer", w.a())
	w.start()
	w.until(v1alpha1.MoveWaitingForPods)
	w.delete(w.theVolume())
	for range 6 {
		_, err := w.reconcile()
		w.must(err)
		for _, lv := range w.own() {
			lv.Finalizers = nil
			w.must(client.IgnoreNotFound(w.api.Update(t.Context(), &lv)))
		}
	}
	if got := w.status(); got.Phase != v1alpha1.MoveFailed || !strings.Contains(got.Message, "is being deleted") {
		t.Errorf("got the status %+v", got)
	}
	if own := w.own(); len(own) > 0 {
		t.Errorf("left: %v", own)
	}
}

// TestTheOldVolumeIsKeptWhileTheNewNodeIsLost: neither the time nor the deletion of the VolumeMove removes it. It is
// removed when the node is ready again, or when somebody allows it.
func TestTheOldVolumeIsKeptWhileTheNewNodeIsLost(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"returns": func(w *world) {
			w.edit(w.b(), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
		},
		"allowed": func(w *world) {
			w.must(w.api.Get(w.Context(), client.ObjectKeyFromObject(w.move), w.move))
			metav1.SetMetaDataAnnotation(&w.move.ObjectMeta, wellknown.AllowSourceRemovalAnnotation, "true")
			w.must(w.api.Update(w.Context(), w.move))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "kept-"+name)
			w.start()
			w.until(v1alpha1.MoveKeepingSource)
			for range 3 {
				w.agents()
				_, err := w.reconcile()
				w.must(err)
			}
			w.edit(w.b(), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
			wantKept := func() {
				t.Helper()
				for range 3 {
					_, err := w.reconcile()
					w.must(err)
					w.agents()
				}
				if own := w.own(); len(own) != 1 || !own[0].DeletionTimestamp.IsZero() ||
					!strings.Contains(w.status().Message, "may have the last copy of the data: node kept-"+name+"-b is not ready") {
					t.Errorf("got %v and %+v", own, w.status())
				}
			}
			w.clock = w.clock.Add(25 * time.Hour)
			wantKept()
			w.delete(w.move)
			wantKept()
			end(w)
			w.untilGone()
			w.wantOn(w.b())
		})
	}
}

// TestAPodThatWasBoundToTheOldNodeIsNamed until it is deleted. Pods on the new node, without a node, and that have
// ended are not.
func TestAPodThatWasBoundToTheOldNodeIsNamed(t *testing.T) {
	w := newWorld(t, "oldnode")
	w.move.Spec.KeepSource = &metav1.Duration{}
	w.start()
	w.until(v1alpha1.MoveSwitching)
	for range 60 {
		if w.theVolume().Spec.NodeName == w.b() {
			break
		}
		w.agents()
		_, err := w.reconcile()
		w.must(err)
	}
	late := w.pod("late", w.a())
	w.pod("on-b", w.b())
	w.pod("pending", "")
	ended := w.pod("ended", w.a())
	ended.Status.Phase = corev1.PodFailed
	w.must(w.api.Status().Update(t.Context(), ended))
	// The controller's cache can be behind.
	for range 60 {
		_, err := w.reconcile()
		w.must(err)
		w.agents()
		if len(w.own()) == 0 && len(w.status().Pods) > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	got := w.status()
	expect.Slice(t, "Pods", got.Pods, []string{"oldnode/late"})
	expect.Equal(t, "PodCount", got.PodCount, 1)
	expect.Equal(t, "Phase", got.Phase, v1alpha1.MoveKeepingSource)
	if own := w.own(); len(own) > 0 {
		t.Errorf("the Pod hinders the end of the move: %v", own)
	}
	if said := w.events(); strings.Count(said, "Warning PodsOnOldNode") != 1 || !strings.Contains(said, "oldnode/late") {
		t.Errorf("got the events %s", said)
	}
	w.delete(late)
	w.until(v1alpha1.MoveCompleted)
	if got := w.status(); len(got.Pods) > 0 || got.PodCount > 0 {
		t.Errorf("got the status %+v", got)
	}
	w.wantOn(w.b())
}
