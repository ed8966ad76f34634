package plan

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// TestATransitionTimeChangesWithTheStatusOnly takes a step every hour.
func TestATransitionTimeChangesWithTheStatusOnly(t *testing.T) {
	at := func(hour int) metav1.Time { return metav1.NewTime(time.Date(2026, 5, 1, hour, 0, 0, 0, time.UTC)) }
	d := testDesired(v1alpha1.LVMVolumeGroupSpec{})
	outcome := func(failing error) state.Outcome {
		s := state.NodeState{Report: report(group("b")), Devices: []device.Device{disk("b")}, Class: thickDone}
		if failing != nil {
			s.Health.Failing = map[device.Number]error{disk("b").Number: failing}
		}
		return state.Outcome{Node: s, Plan: New(d, s)}
	}
	blocked := errors.New("no answer")
	entry := v1alpha1.VGStatus{}
	steps := []struct {
		outcome          state.Outcome
		devices, volumes metav1.ConditionStatus
		since            metav1.Time // of DevicesHealthy
	}{
		{outcome(nil), metav1.ConditionTrue, metav1.ConditionTrue, at(0)},
		{outcome(errRead), metav1.ConditionFalse, metav1.ConditionTrue, at(1)},
		{outcome(blocked), metav1.ConditionFalse, metav1.ConditionTrue, at(1)},
		{state.Outcome{ObserveFailed: true, Err: blocked}, metav1.ConditionUnknown, metav1.ConditionUnknown, at(3)},
		{state.Outcome{ObserveFailed: true, Err: errRead}, metav1.ConditionUnknown, metav1.ConditionUnknown, at(3)},
	}
	for hour, step := range steps {
		entry = Entry(step.outcome, d, entry, at(hour))
		devices := meta.FindStatusCondition(entry.Conditions, v1alpha1.ConditionDevicesHealthy)
		volumes := meta.FindStatusCondition(entry.Conditions, v1alpha1.ConditionVolumesHealthy)
		if devices == nil || volumes == nil {
			t.Fatalf("at %d: got %+v", hour, entry)
		}
		if devices.Status != step.devices || volumes.Status != step.volumes ||
			!devices.LastTransitionTime.Equal(&step.since) {
			t.Errorf("at %d: got %+v and %+v, want %s since %s and %s", hour, devices, volumes, step.devices, step.since,
				step.volumes)
		}
	}
}
