package main

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheClockWaitsForContainers(t *testing.T) {
	booted := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	pod := func(phase corev1.PodPhase, ready bool, started ...time.Time) corev1.Pod {
		p := corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		for _, at := range started {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Ready: ready,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}}})
		}
		return p
	}
	waiting := pod(corev1.PodRunning, true, booted)
	waiting.Status.ContainerStatuses[0].State = corev1.ContainerState{}
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"started":                      {pod(corev1.PodRunning, true, booted), false},
		"not ready":                    {pod(corev1.PodRunning, false, booted), true},
		"a status before a power cut":  {pod(corev1.PodRunning, true, booted.Add(-time.Second)), true},
		"one of two is of before":      {pod(corev1.PodRunning, true, booted, booted.Add(-time.Second)), true},
		"no container":                 {pod(corev1.PodPending, false), true},
		"a container that waits":       {waiting, true},
		"a Pod that ended is left out": {pod(corev1.PodFailed, false, booted.Add(-time.Hour)), false},
	} {
		if err := starting([]corev1.Pod{test.pod}, booted); (err != nil) != test.want {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
