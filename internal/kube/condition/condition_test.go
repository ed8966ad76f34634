package condition

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	then = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	now  = metav1.NewTime(then.Add(time.Hour))
)

func TestMerge(t *testing.T) {
	was := func(status metav1.ConditionStatus, message string) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: status, Reason: "R", Message: message, ObservedGeneration: 1,
			LastTransitionTime: then}}
	}
	is := func(status metav1.ConditionStatus, reason, message string, since metav1.Time) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: status, Reason: reason, Message: message,
			ObservedGeneration: 2, LastTransitionTime: since}}
	}
	for name, test := range map[string]struct {
		set      func(*Accumulator)
		previous []metav1.Condition
		want     []metav1.Condition
	}{
		"nobody looked": {func(*Accumulator) {}, nil, is("Unknown", NotObserved, "", now)},
		"first time": {func(a *Accumulator) { a.True("Ready", "R", "m") }, nil,
			is("True", "R", "m", now)},
		"same status keeps its time": {func(a *Accumulator) { a.True("Ready", "Other", "new") },
			was("True", "old"), is("True", "Other", "new", then)},
		"other status has a new time": {func(a *Accumulator) { a.False("Ready", "R", "m") }, was("True", "m"),
			is("False", "R", "m", now)},
		"the last word counts, not each on its": {func(a *Accumulator) {
			a.False("Ready", "R", "m")
			a.True("Ready",
				"R", "m")
		}, was("True", "m"), is("True", "R", "m", then)},
	} {
		t.Run(name, func(t *testing.T) {
			accumulator := New(2, "Ready")
			test.set(accumulator)
			if diff := cmp.Diff(test.want, accumulator.Merge(test.previous, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConditionsOfOthersStayAndAllAreSorted(t *testing.T) {
	others := []metav1.Condition{{Type: "Zoo"}, {Type: "Ark"}}
	var types []string
	for _, condition := range New(1, "Ready", "Available").Merge(others, now) {
		types = append(types, condition.Type)
	}
	if diff := cmp.Diff([]string{"Ark", "Available", "Ready", "Zoo"}, types); diff != "" {
		t.Error(diff)
	}
}
