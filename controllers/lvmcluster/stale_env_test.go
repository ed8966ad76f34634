//go:build env

package lvmcluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
)

// observeNode writes the node status as an agent does whose clock has the given difference to the operator's.
func (w *world) observeNode(node string, difference time.Duration) {
	w.Helper()
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	w.must(w.get(status, node))
	now := metav1.NewTime(w.controller.now().Add(difference).Truncate(time.Second))
	status.Status.LastObserved = &now
	meta.SetStatusCondition(&status.Status.Conditions, metav1.Condition{Type: lvmv1alpha1.ConditionDevicesObserved,
		Status: metav1.ConditionTrue, Reason: lvmv1alpha1.ReasonDevicesObserved})
	w.must(w.api.Status().Update(w.Context(), status))
}

func (w *world) devicesObserved(node string) metav1.Condition {
	w.Helper()
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	w.must(w.get(status, node))
	observed := meta.FindStatusCondition(status.Status.Conditions, lvmv1alpha1.ConditionDevicesObserved)
	if observed == nil {
		w.Fatalf("node status %s has no condition DevicesObserved", node)
	}
	return *observed
}

// nodeStatusWrites returns the operator's writes of node statuses since the last call.
func (w *world) nodeStatusWrites() []string {
	return slices.DeleteFunc(w.spy.Writes(),
		func(write string) bool { return !strings.Contains(write, "LVMVolumeGroupNodeStatus") })
}

// pass moves the operator's clock.
func (w *world) pass(d time.Duration) {
	at := w.controller.now().Add(d).Truncate(time.Second)
	w.controller.now = func() time.Time { return at }
}

// A node status whose agent has not observed the node for too long does not claim to be current.
func TestDevicesObservedOfASilentAgentIsUnknown(t *testing.T) {
	w := newWorld(t, fixture.Thick("vg1"))
	w.settle()
	w.pass(0)
	w.observeNode("a", 0)
	w.observeNode("b", 0)

	w.pass(lvmv1alpha1.ObservationLimit)
	w.observeNode("b", 0)
	_, err := w.reconcile()
	w.must(err)
	if got := w.devicesObserved("a"); got.Status != metav1.ConditionTrue {
		t.Fatalf("at the limit: %+v", got)
	}

	w.pass(time.Second)
	for range 2 {
		_, err := w.reconcile()
		w.must(err)
		got := w.devicesObserved("a")
		if got.Status != metav1.ConditionUnknown || got.Reason != lvmv1alpha1.ReasonObservationOutdated ||
			!strings.Contains(got.Message, "node a since") {
			t.Fatalf("past the limit: %+v", got)
		}
		if got := w.devicesObserved("b"); got.Status != metav1.ConditionTrue {
			t.Fatalf("a node whose agent observes it: %+v", got)
		}
	}
	if got := w.nodeStatusWrites(); !slices.Equal(got, []string{"patch status LVMVolumeGroupNodeStatus a"}) {
		t.Errorf("writes: %q", got)
	}

	w.observeNode("a", 0)
	_, err = w.reconcile()
	w.must(err)
	if got := w.devicesObserved("a"); got.Status != metav1.ConditionTrue {
		t.Errorf("after the agent observed the node again: %+v", got)
	}

	w.pass(2 * lvmv1alpha1.ObservationLimit)
	_, err = w.reconcile()
	w.must(err)
	if got := w.devicesObserved("a"); got.Status != metav1.ConditionUnknown {
		t.Errorf("silent for the second time: %+v", got)
	}
}

// An agent that writes although its time is old has a wrong clock. The operator does not fight with it.
func TestAnAgentWithAWrongClockIsMarkedOnce(t *testing.T) {
	w := newWorld(t, fixture.Thick("vg1"))
	w.settle()
	w.pass(0)
	w.observeNode("a", -time.Hour)
	for range 3 {
		_, err := w.reconcile()
		w.must(err)
		w.pass(time.Minute)
		w.observeNode("a", -time.Hour)
	}
	if got := w.nodeStatusWrites(); !slices.Equal(got, []string{"patch status LVMVolumeGroupNodeStatus a"}) {
		t.Errorf("writes: %q", got)
	}
	if w.cluster.Status.State != lvmv1alpha1.LVMStatusDegraded {
		t.Errorf("the state is %s", w.cluster.Status.State)
	}
}

// What an agent reported as failed stays: the agent may still be trying.
func TestAFailedObservationKeepsItsReason(t *testing.T) {
	w := newWorld(t, fixture.Thick("vg1"))
	w.settle()
	w.pass(0)
	w.observeNode("a", 0)
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	w.must(w.get(status, "a"))
	meta.SetStatusCondition(&status.Status.Conditions, metav1.Condition{Type: lvmv1alpha1.ConditionDevicesObserved,
		Status: metav1.ConditionFalse, Reason: lvmv1alpha1.ReasonObservationFailed, Message: "lsblk: no answer"})
	w.must(w.api.Status().Update(t.Context(), status))
	w.pass(2 * lvmv1alpha1.ObservationLimit)
	_, err := w.reconcile()
	w.must(err)
	if got := w.devicesObserved("a"); got.Message != "lsblk: no answer" {
		t.Errorf("got %+v", got)
	}
}

// If the agent writes at the same time, its write counts. Another error is reported, and tried again.
func TestAConflictWithTheAgentIsNoError(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "lvmvolumegroupnodestatuses"}, "a", nil)
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"conflict": {conflict, false},
		"refused":  {errors.New("no permission"), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fixture.Thick("vg1"))
			w.settle()
			w.pass(0)
			w.observeNode("a", -time.Hour)
			w.spy.Fail = func(verb string, object any) error {
				if _, ok := object.(*lvmv1alpha1.LVMVolumeGroupNodeStatus); ok && verb == "patch status" {
					return test.err
				}
				return nil
			}
			if _, err := w.reconcile(); (err != nil) != test.want {
				t.Errorf("got error %v", err)
			}
			w.spy.Fail = nil
			_, err := w.reconcile()
			w.must(err)
			if got := w.devicesObserved("a"); got.Status != metav1.ConditionUnknown {
				t.Errorf("after the retry: %+v", got)
			}
		})
	}
}
