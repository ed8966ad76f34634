package nodeprobe

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// outcome returns whether a probe is over, and why its data was not written.
func (p *Prober) outcome(found probe) (problem string, over bool) {
	if found.pod != nil && found.pod.Status.Phase == corev1.PodSucceeded {
		return "", true
	}
	isFailed := found.pod != nil && found.pod.Status.Phase == corev1.PodFailed
	if !isFailed && p.now().Sub(found.claim.CreationTimestamp.Time) < limit {
		return "", false
	}
	return stepOf(found), true
}

// stepOf returns the step at which a probe has stopped.
func stepOf(found probe) string {
	pod := found.pod
	if pod == nil {
		return "its Pod could not be created"
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "its Pod could not be scheduled: " + c.Message
		}
	}
	if found.claim.Status.Phase != corev1.ClaimBound {
		return fmt.Sprintf("the volume was not created within %s", limit)
	}
	for _, c := range pod.Status.ContainerStatuses {
		switch {
		case c.State.Terminated != nil:
			return "the data could not be written: " +
				cmp.Or(c.State.Terminated.Message, c.State.Terminated.Reason)
		case c.State.Running != nil:
			return fmt.Sprintf("the data was not written within %s", limit)
		case c.State.Waiting != nil && c.State.Waiting.Message != "":
			return "its Pod could not be started: " + c.State.Waiting.Message
		}
	}
	return cmp.Or(pod.Status.Message, fmt.Sprintf("the volume was not mounted within %s", limit))
}

// finishedAt returns when the container of a Pod ended, or a default.
func finishedAt(pod *corev1.Pod, otherwise time.Time) time.Time {
	if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
		return otherwise
	}
	if end := pod.Status.ContainerStatuses[0].State.Terminated; end != nil {
		return end.FinishedAt.Time
	}
	return otherwise
}
