package state

import (
	"fmt"
	"slices"
)

// Failure is a change that failed at its last attempt.
type Failure struct {
	Kind Kind
	// Subject is what the change is for (Action.Subject).
	Subject string
	Err     error
}

// maxFailures is the number of failures to remember for a volume group.
const maxFailures = 32

// WithFailure returns the failures after an attempt: with that of the action as the latest one, or without it if err
// is nil.
func WithFailure(list []Failure, a Action, err error) []Failure {
	list = slices.DeleteFunc(slices.Clone(list), func(f Failure) bool { return f.isOf(a) })
	if err == nil {
		return list
	}
	list = append(list, Failure{Kind: a.Kind, Subject: a.Subject(), Err: err})
	return list[max(0, len(list)-maxFailures):]
}

func (f Failure) isOf(a Action) bool { return f.Kind == a.Kind && f.Subject == a.Subject() }

// NextOf returns the first action that is due. An action that failed comes after all others, so that it does not keep
// them from being performed, unless they need it. Of several that failed, the one that was not tried for longest is
// next.
func NextOf(s NodeState, due []Action) Action {
	var failed Action
	oldest := len(s.Records.Failures)
	for _, a := range due {
		at := slices.IndexFunc(s.Records.Failures, func(f Failure) bool { return f.isOf(a) })
		switch {
		case a.Kind == Nothing:
		case at < 0 || traits[a.Kind].first:
			return a
		case at < oldest:
			failed, oldest = a, at
		}
	}
	return failed
}

// Failures returns the problems of actions that failed, are still due, and are not tried next.
func Failures(s NodeState, due []Action, next Action) []Problem {
	var problems []Problem
	for _, f := range s.Records.Failures {
		if !f.isOf(next) && slices.ContainsFunc(due, f.isOf) {
			problems = append(problems, Problem{Event: f.Kind.FailureEvent(),
				Message: fmt.Sprintf("%v; it is tried again after other changes", f.Err)})
		}
	}
	return problems
}
