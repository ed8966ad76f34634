package volumemove

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// loseB has node b lost, and known to be off. Its logical volume has a write that the one on node a lacks.
func (w *world) loseB() {
	w.Helper()
	w.lost = true
	w.edit(w.b(), func(n *corev1.Node) {
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService,
			Effect: corev1.TaintEffectNoExecute})
	})
}

// returnB has node b ready again.
func (w *world) returnB() {
	w.Helper()
	w.lost = false
	w.edit(w.b(), func(n *corev1.Node) {
		n.Status.Conditions[0].Status = corev1.ConditionTrue
		n.Spec.Taints = nil
	})
}

// requestBack requests that the volume is moved back from a node, or from none.
func (w *world) requestBack(node string) {
	w.Helper()
	w.must(w.api.Get(w.Context(), client.ObjectKeyFromObject(w.move), w.move))
	metav1.SetMetaDataAnnotation(&w.move.ObjectMeta, wellknown.MoveBackAnnotation, node)
	w.must(w.api.Update(w.Context(), w.move))
}

// steps reconciles a few times, with the agents.
func (w *world) steps() {
	w.Helper()
	for range 12 {
		_, _ = w.reconcile()
		w.agents()
	}
}

// moved returns a world whose volume is on node b, and kept on node a. Only node b has the last write.
func moved(t *testing.T, name, class string) *world {
	t.Helper()
	w := newWorldOf(t, name, class)
	w.start()
	w.until(v1alpha1.MoveKeepingSource)
	w.steps()
	w.write()
	return w
}

// wantBack checks that the volume is on node a again, with its data of the switch, and that the logical volume of node
// b is kept there until its time has passed.
func (w *world) wantBack() {
	w.Helper()
	w.written--
	w.wantOn(w.a())
	status := w.status()
	if status.SourceNode != w.b() || status.TargetNode != w.a() || status.Phase != v1alpha1.MoveKeepingSource {
		w.Errorf("got %+v", status)
	}
	if w.lost && (len(w.own()) != 1 || !strings.Contains(status.Message, w.b()+" has not given up the old logical volume")) {
		w.Errorf("got %+v, %v", status, w.own())
	}
	w.returnB()
	w.steps()
	if own := w.own(); len(own) != 1 || w.data[w.b()+"/"+string(own[0].UID)] != w.written+1 {
		w.Errorf("node b does not keep its logical volume: %v, %v", own, w.data)
	}
	w.clock = w.clock.Add(25 * time.Hour)
	w.steps()
	if own := w.own(); w.status().Phase != v1alpha1.MoveCompleted || len(own) > 0 {
		w.Errorf("got %+v, left: %v", w.status(), own)
	}
	w.wantOn(w.a())
}

// TestAVolumeIsMovedBackFromALostNode: each reason why it is blocked is named, and ends in turn.
func TestAVolumeIsMovedBackFromALostNode(t *testing.T) {
	for _, class := range []string{"thin", "thick"} {
		t.Run(class, func(t *testing.T) {
			w := moved(t, "back-"+class, class)
			pod := w.pod("p", w.b())
			wait := func(says string) {
				t.Helper()
				w.steps()
				if lv := w.theVolume(); lv.Spec.NodeName != w.b() || !strings.Contains(w.status().Message, says) {
					t.Errorf("the volume is on node %s, got %q, want %q", lv.Spec.NodeName, w.status().Message, says)
				}
			}
			w.requestBack(w.a())
			wait("is kept until")
			w.requestBack(w.b())
			wait(fmt.Sprintf("the volume is not moved back to node %s: node %s is ready", w.a(), w.b()))
			w.lost = true
			w.edit(w.b(), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
			wait("kubectl taint node " + w.b() + " node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
			w.loseB()
			wait("these Pods on other nodes use it: " + w.name + "/p.")
			w.edit(w.a(), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
			wait("node " + w.a() + " is not ready")
			w.edit(w.a(), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
			w.delete(pod)
			w.steps()
			w.wantBack()
			if events := w.events(); !strings.Contains(events, "is on node "+w.a()+", and no longer on node "+w.b()) {
				t.Errorf("got the events %s", events)
			}
		})
	}
}

// TestARequestToMoveBackIsWithdrawn: the old logical volume is removed as if it had never been requested.
func TestARequestToMoveBackIsWithdrawn(t *testing.T) {
	w := moved(t, "back-withdrawn", "thin")
	w.loseB()
	w.requestBack(w.b())
	w.spy.Fail = func(verb string, object any) error {
		if lv, is := object.(client.Object); is && isWrite(verb) && lv.GetName() == w.pv() {
			return fmt.Errorf("no answer")
		}
		return nil
	}
	w.steps()
	old := w.own()[0]
	if old.Annotations[wellknown.MoveBackAnnotation] != w.b() {
		t.Fatalf("the old logical volume can be removed: %+v", old.Annotations)
	}
	w.spy.Fail = nil
	w.requestBack("")
	w.steps()
	w.returnB()
	w.clock = w.clock.Add(25 * time.Hour)
	w.steps()
	if w.status().Phase != v1alpha1.MoveCompleted {
		t.Errorf("got %+v", w.status())
	}
	w.wantOn(w.b())
}
