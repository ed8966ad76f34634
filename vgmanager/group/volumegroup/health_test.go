package volumegroup

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// TestWhatIsNotKnownIsNotHealthy checks that no condition is True if the kernel does not respond.
func TestWhatIsNotKnownIsNotHealthy(t *testing.T) {
	b := newBench(t, thinOf(90))
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	b.health.unknown = errors.New("ioctl: input/output error")
	b.agent.Wake()
	b.settle()
	e := b.wantState(v1alpha1.VGStatusDegraded, "the health of volume group vg1 on node node1 is unknown",
		"input/output error")
	for _, kind := range []string{v1alpha1.ConditionDevicesHealthy, v1alpha1.ConditionVolumesHealthy,
		v1alpha1.ConditionThinPoolHealthy} {
		if c := meta.FindStatusCondition(e.Conditions, kind); c == nil || c.Status != metav1.ConditionUnknown ||
			c.Reason != v1alpha1.ReasonObservationFailed {
			t.Errorf("%s: %+v", kind, c)
		}
	}
	b.health.unknown = nil
	b.agent.Wake()
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
}
