package lvmcluster

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods that a namespace's Pod Security does not let be made are only told of by the DaemonSet: who waits is told where to look.
func TestARolloutThatHangsSaysWhereToLook(t *testing.T) {
	for name, tt := range map[string]struct {
		status appsv1.DaemonSetStatus
		want   string
	}{
		"done":        {appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 2}, ""},
		"not seen":    {appsv1.DaemonSetStatus{ObservedGeneration: 1}, "was changed"},
		"none made":   {appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 2}, "0 of 2 pods are of the newest version; if it stays so, kubectl -n ns describe daemonset vg-manager says why"},
		"not running": {appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 1}, "1 of 2 pods are ready"},
	} {
		t.Run(name, func(t *testing.T) {
			err := rollout(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "vg-manager", Generation: 2}, Status: tt.status})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
