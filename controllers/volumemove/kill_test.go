package volumemove

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/kill"
)

// TestAMoveSurvivesTheDeathOfTheOperator: the operator is killed at each write. The volume is on node b in the end,
// with the last write.
func TestAMoveSurvivesTheDeathOfTheOperator(t *testing.T) { survivesKills(t, "thin") }

// survivesKills kills the operator at each write of a move.
func survivesKills(t *testing.T, class string) {
	t.Helper()
	eachKill(t, "kill", class, &metav1.Duration{}, func(w *world) {
		w.until(v1alpha1.MoveCompleted)
		w.agents()
		w.wantOn(w.b())
		if own := w.own(); len(own) > 0 {
			w.Errorf("left: %v", own)
		}
	})
}

// eachKill kills the operator at each write of a move, and starts it again. then gets the world of each kill.
func eachKill(t *testing.T, name, class string, keep *metav1.Duration, then func(w *world)) {
	t.Helper()
	number := 0
	kill.AtEachPoint(t, []kill.Effect{kill.Before, kill.After}, func(t *testing.T, p *kill.Points) {
		number++
		w := newWorldOf(t, fmt.Sprintf("%s-%s-%d", name, class, number), class)
		w.move.Spec.KeepSource = keep
		// The times of objects are those of the machine: whatever is created now is older, however long the test takes.
		w.clock = w.clock.Add(time.Hour)
		w.start()
		w.guard(p)
		w.untilKilled(p)
		p.Restart()
		w.restart()
		then(w)
	})
}

// TestAMoveIsUndone: the operator is killed at each write, and the VolumeMove is deleted before it runs again. The
// volume is on one of the nodes, can be used there, and nothing is left.
func TestAMoveIsUndone(t *testing.T) { isUndone(t, "thin", 8) }

// isUndone deletes a move after each of its writes. The volume is on its node after a number of them at least.
func isUndone(t *testing.T, class string, least int) {
	t.Helper()
	nodes := map[string]int{}
	eachKill(t, "undo", class, nil, func(w *world) {
		w.delete(w.move)
		w.untilGone()
		node := w.theVolume().Spec.NodeName
		w.wantOn(node)
		nodes[node[len(node)-1:]]++
	})
	if nodes["a"] < least || nodes["b"] < 2 {
		t.Errorf("the volume was on these nodes in the end: %v", nodes)
	}
}

// TestEachFailedReadChangesNothing: in each state of a move, each read fails once.
func TestEachFailedReadChangesNothing(t *testing.T) { failsToRead(t, "thin", 60) }

// failsToRead fails each read of a move in turn, of which there are at least a number. The operator returns an error,
// and changes nothing after it. The move is completed in the end.
func failsToRead(t *testing.T, class string, least int) {
	t.Helper()
	w := newWorldOf(t, "read-"+class, class)
	w.move.Spec.KeepSource = &metav1.Duration{}
	w.start()
	unavailable := errors.New("no answer")
	failed, reads, fails := 0, 0, 1
	var before []string
	w.spy.Fail = func(verb string, _ any) error {
		if isWrite(verb) {
			return nil
		}
		if reads++; reads != fails {
			return nil
		}
		before = w.spy.Writes()
		return unavailable
	}
	for w.status().Phase != v1alpha1.MoveCompleted {
		reads, before = 0, nil
		w.spy.Writes()
		_, err := w.reconcile()
		if reads < fails { // Each read of this state has failed.
			w.must(err)
			w.agents()
			w.clock = w.clock.Add(time.Second)
			fails = 1
			continue
		}
		failed++
		if err == nil || !strings.Contains(err.Error(), unavailable.Error()) {
			t.Errorf("read %d of phase %q fails: got %v", fails, w.status().Phase, err)
		}
		if after := w.spy.Writes(); len(after) > 0 {
			t.Errorf("read %d of phase %q fails, and then it writes %v", fails, w.status().Phase, after)
		}
		fails++
		if len(before) > 0 { // This is another state.
			fails = 1
		}
		if failed > 2000 {
			t.Fatalf("the move has not ended: %+v", w.status())
		}
	}
	w.agents()
	w.wantOn(w.b())
	if failed < least {
		t.Errorf("only %d reads failed", failed)
	}
}

func TestTheMoveOfAThickVolumeSurvivesTheDeathOfTheOperator(t *testing.T) {
	survivesKills(t, "thick")
}

func TestTheMoveOfAThickVolumeIsUndone(t *testing.T) { isUndone(t, "thick", 5) }

func TestEachFailedReadChangesNothingOfAThickVolume(t *testing.T) { failsToRead(t, "thick", 60) }

// moveBackKilled moves the volume back with an operator that one of its writes may end, and then with another one.
func (w *world) moveBackKilled(p *kill.Points) {
	w.Helper()
	w.requestBack(w.b())
	w.guard(p)
	w.steps()
	p.Restart()
	w.restart()
	w.steps()
}

// TestMovingBackSurvivesTheDeathOfTheOperator: it is killed at each write.
func TestMovingBackSurvivesTheDeathOfTheOperator(t *testing.T) {
	number := 0
	kill.AtEachPoint(t, []kill.Effect{kill.Before, kill.After}, func(t *testing.T, p *kill.Points) {
		number++
		w := moved(t, fmt.Sprintf("back-kill-%d", number), "thin")
		w.loseB()
		w.moveBackKilled(p)
		w.wantBack()
	})
}

// TestANodeIsLostBeforeItTakesOverTheVolume: the switch is undone. Nothing is lost.
func TestANodeIsLostBeforeItTakesOverTheVolume(t *testing.T) {
	number := 0
	kill.AtEachPoint(t, []kill.Effect{kill.Before, kill.After}, func(t *testing.T, p *kill.Points) {
		number++
		w := newWorldOf(t, fmt.Sprintf("back-early-%d", number), "thin")
		w.start()
		for w.theVolume().Spec.NodeName == w.a() {
			_, _ = w.reconcile()
			if w.theVolume().Spec.NodeName == w.a() {
				w.agents()
			}
		}
		w.loseB()
		w.steps()
		w.moveBackKilled(p)
		if status := w.status(); status.Phase != v1alpha1.MoveFailed || !strings.Contains(status.Message,
			"the volume stays on node "+w.a()+", with all its data") {
			t.Errorf("got %+v", status)
		}
		w.wantOn(w.a())
		w.returnB()
		w.steps()
		if own := w.own(); len(own) > 0 {
			t.Errorf("left: %v", own)
		}
	})
}

// TestAVolumeIsDeletedWhileItIsMovedBack: the operator is killed at each write, and the claim is deleted before it runs
// again and before the node has taken the volume back. The logical volumes of both nodes are removed, when the lost one
// has returned.
func TestAVolumeIsDeletedWhileItIsMovedBack(t *testing.T) {
	number, switched := 0, 0
	kill.AtEachPoint(t, []kill.Effect{kill.Before, kill.After}, func(t *testing.T, p *kill.Points) {
		number++
		w := moved(t, fmt.Sprintf("back-deleted-%d", number), "thin")
		w.loseB()
		w.requestBack(w.b())
		w.guard(p)
		for range 12 {
			_, _ = w.reconcile()
		}
		p.Restart()
		w.restart()
		if w.theVolume().Spec.NodeName != w.a() {
			return
		}
		switched++
		w.deleteVolume()
		w.steps()
		if own := w.own(); len(own) != 1 || own[0].Spec.NodeName != w.b() {
			t.Errorf("node b was lost, and has %v, %+v", own, w.status())
		}
		w.returnB()
		w.steps()
		if own, status := w.own(), w.status(); len(own) > 0 || status.Phase != v1alpha1.MoveFailed {
			t.Errorf("left: %v, %+v", own, status)
		}
		for disk := range w.data {
			if strings.Contains(disk, "/") {
				t.Errorf("%s is left", disk)
			}
		}
	})
	if switched < 3 {
		t.Errorf("the volume was deleted in %d states only", switched)
	}
}

// deleteVolume deletes claim, PersistentVolume and LogicalVolume, which no node has.
func (w *world) deleteVolume() {
	w.Helper()
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	for _, object := range []client.Object{&corev1.PersistentVolumeClaim{ObjectMeta: named(w.name, "data")},
		&corev1.PersistentVolume{ObjectMeta: named("", w.pv())}, w.theVolume()} {
		w.must(w.api.Patch(w.Context(), object, client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`))))
		w.delete(object)
	}
}
