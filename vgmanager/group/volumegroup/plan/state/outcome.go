package state

import (
	"math"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Outcome is the result of a step: an observation, its plan, and the error of the plan's action.
type Outcome struct {
	Node NodeState
	Plan Plan
	// ObserveFailed: the node could not be observed, so Node and Plan are empty.
	ObserveFailed bool
	// Err is the error of the observation or of the action, or nil.
	Err error
}

// Failed returns the state for a problem. A volume group that exists still provides its volumes.
func Failed(exists bool) v1alpha1.VGState {
	if exists {
		return v1alpha1.VGStatusDegraded
	}
	return v1alpha1.VGStatusFailed
}

// HealthConditions returns the condition types of a device class' volume group.
func HealthConditions(d Desired) []string {
	types := []string{v1alpha1.ConditionDevicesHealthy, v1alpha1.ConditionVolumesHealthy}
	if d.Spec.ThinPoolConfig != nil {
		types = append(types, v1alpha1.ConditionThinPoolHealthy)
	}
	if d.Spec.RAIDConfig != nil {
		types = append(types, v1alpha1.ConditionRAIDHealthy)
	}
	return types
}

// WithTransition returns a condition with its transition time: that of the previous condition if the status is the
// same, or now. meta.SetStatusCondition would read the clock.
func WithTransition(c metav1.Condition, before []metav1.Condition, now metav1.Time) metav1.Condition {
	c.LastTransitionTime = now
	if old := meta.FindStatusCondition(before, c.Type); old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c
}

// MaxConditionMessage is below the limit of a condition (metav1.Condition, 32,768 bytes), to keep messages readable.
const MaxConditionMessage = 4096

// Quantity returns a size as it is in a status.
func Quantity(b lvm.Bytes) *resource.Quantity {
	return resource.NewQuantity(int64(b), resource.BinarySI)
}

// WholePercent rounds up, so that a usage of 99.2 is reported as 100.
func WholePercent(p *float64) int32 {
	if p == nil {
		return 0
	}
	return int32(math.Ceil(*p))
}
