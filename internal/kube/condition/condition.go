// Package condition collects the conditions of an object during a reconcile, and merges them into its status at the end
// with apimachinery's meta.SetStatusCondition. It adds four rules: a condition that was not set is Unknown, the last
// call in a reconcile wins, a message is truncated to its limit, and the order is fixed.
package condition

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NotObserved is the reason of a condition that nothing has set yet. v1alpha1.ReasonNotObserved explains it.
const NotObserved = "NotObserved"

// maxMessage is the API's limit for the message of a condition.
const maxMessage = 32768

// Accumulator collects the conditions of one object for one generation.
type Accumulator struct {
	generation int64
	types      []string
	set        map[string]metav1.Condition
}

// New returns an accumulator for an object's generation and all its condition types.
func New(generation int64, types ...string) *Accumulator {
	return &Accumulator{generation: generation, types: types, set: map[string]metav1.Condition{}}
}

// True sets a condition to True.
func (a *Accumulator) True(conditionType, reason, message string) {
	a.put(conditionType, metav1.ConditionTrue, reason, message)
}

// False sets a condition to False.
func (a *Accumulator) False(conditionType, reason, message string) {
	a.put(conditionType, metav1.ConditionFalse, reason, message)
}

func (a *Accumulator) put(conditionType string, status metav1.ConditionStatus, reason, message string) {
	if len(message) > maxMessage {
		message = message[:maxMessage]
	}
	a.set[conditionType] = metav1.Condition{
		Type:               conditionType,
		Status:             status,
		Reason:             reason,
		Message:            message,
		ObservedGeneration: a.generation,
	}
}

// Merge returns the conditions to store, sorted by type. Conditions that were not set are Unknown. Conditions of other
// types remain unchanged, because they have another writer.
func (a *Accumulator) Merge(previous []metav1.Condition, now metav1.Time) []metav1.Condition {
	merged := slices.Clone(previous)
	for _, conditionType := range a.types {
		condition, ok := a.set[conditionType]
		if !ok {
			condition = metav1.Condition{Type: conditionType, Status: metav1.ConditionUnknown, Reason: NotObserved,
				ObservedGeneration: a.generation}
		}
		condition.LastTransitionTime = now
		meta.SetStatusCondition(&merged, condition)
	}
	slices.SortFunc(merged, func(x, y metav1.Condition) int { return strings.Compare(x.Type, y.Type) })
	return merged
}
