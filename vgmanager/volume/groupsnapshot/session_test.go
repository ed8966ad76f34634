package groupsnapshot

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/internal/volume/groupprotocol"
)

// operator is the other side of a session, and what the engine does for it. Calls are recorded in k.
type operator struct {
	k        *node
	requests chan groupprotocol.Request
	states   []groupprotocol.State
}

func (o *operator) Watch(ctx context.Context, seen func(groupprotocol.Request) bool) error {
	for {
		select {
		case r := <-o.requests:
			if seen(r) {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (o *operator) Report(ctx context.Context, s groupprotocol.State) error {
	if err := errors.Join(ctx.Err(), o.k.call("report "+string(s.Phase))); err != nil {
		return err
	}
	o.states = append(o.states, s)
	return nil
}

func (o *operator) Prepare(_ context.Context, p Pair) error { return o.k.call("prepare " + p.Snapshot) }
func (o *operator) Keep(_ context.Context, p Pair) error    { return o.k.call("keep " + p.Snapshot) }

// last is what the API server has of the node.
func (o *operator) last() groupprotocol.State {
	if len(o.states) == 0 {
		return groupprotocol.State{}
	}
	return o.states[len(o.states)-1]
}

func (o *operator) phases() []groupprotocol.Phase {
	var phases []groupprotocol.Phase
	for _, s := range o.states {
		phases = append(phases, s.Phase)
	}
	return phases
}

func newSession(t *testing.T) (*Session, *operator, *Node) {
	t.Helper()
	k, pairs := newNode(2)
	o := &operator{k: k, requests: make(chan groupprotocol.Request, 10)}
	n := k.start(t)
	return &Session{Name: "g", Pairs: pairs, Taker: n, Volumes: o, Link: o}, o, n
}

func asked(attempt int, phase groupprotocol.Phase) groupprotocol.Request {
	return groupprotocol.Request{Attempt: attempt, Phase: phase, Limit: time.Second}
}

func TestASessionFollowsTheOperator(t *testing.T) {
	s, o, n := newSession(t)
	o.requests <- asked(1, groupprotocol.Lock) // out of date
	o.requests <- asked(1, groupprotocol.Suspend)
	o.requests <- asked(1, groupprotocol.Suspend) // out of date
	o.requests <- asked(1, groupprotocol.Release)
	for _, phase := range []groupprotocol.Phase{groupprotocol.Prepare, groupprotocol.Lock, groupprotocol.Release,
		groupprotocol.Keep} {
		for range 2 {
			if err := s.Act(t.Context(), asked(1, phase), o.last()); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []groupprotocol.Phase{groupprotocol.Prepared, groupprotocol.Locked, groupprotocol.Held,
		groupprotocol.Taken, groupprotocol.Usable}
	if diff := cmp.Diff(want, o.phases()); diff != "" {
		t.Error(diff)
	}
	o.k.atRest(t, n)
	calls := strings.Join(o.k.recorded(), ",")
	for _, part := range []string{"watch,report Locked,state LVM-v0", "snap 102 2,report Held,state LVM-v0",
		"unwatch,report Taken", "keep s0,keep s1"} {
		if !strings.Contains(calls, part) {
			t.Errorf("got the calls %s, want %s", calls, part)
		}
	}
}

// TestASessionThatFails: the volumes are resumed, and the operator learns why.
func TestASessionThatFails(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*operator)
		want   string
	}{
		"prepare":       {func(o *operator) { o.k.fails["prepare s1"] = 1 }, "pending snapshot vg1/s1 of v1"},
		"suspend":       {func(o *operator) { o.k.fails["suspend LVM-v1"] = 1 }, "suspend the volumes: volume vg1/v1"},
		"first report":  {func(o *operator) { o.k.fails["report Locked"] = 1 }, "report phase Locked"},
		"report":        {func(o *operator) { o.k.fails["report Held"] = 1 }, "report phase Held"},
		"other node":    {func(o *operator) { o.requests <- asked(2, groupprotocol.Prepare) }, "another node"},
		"no release":    {func(*operator) {}, "wait for the other nodes"},
		"early release": {func(o *operator) { o.requests <- asked(0, groupprotocol.Release) }, "wait for the other"},
		"not locked": {func(o *operator) {
			<-o.requests
			o.requests <- asked(2, groupprotocol.Prepare)
		}, "not all nodes of the group were ready"},
		"never locked": {func(o *operator) { <-o.requests }, "not all nodes of the group were ready"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, o, n := newSession(t)
				o.requests <- asked(1, groupprotocol.Suspend)
				test.change(o)
				for _, phase := range []groupprotocol.Phase{groupprotocol.Prepare, groupprotocol.Lock} {
					if err := s.Act(t.Context(), asked(1, phase), o.last()); err != nil {
						t.Fatal(err)
					}
				}
				if got := o.last(); got.Phase != groupprotocol.Failed || got.Attempt != 1 ||
					!strings.Contains(got.Reason, test.want) {
					t.Errorf("got %+v, want %q", got, test.want)
				}
				o.k.atRest(t, n)
			})
		})
	}
}

// TestALostReportFailsTheAttempt: the API server still has Held, and the snapshots may not be kept.
func TestALostReportFailsTheAttempt(t *testing.T) {
	s, o, n := newSession(t)
	o.requests <- asked(1, groupprotocol.Suspend)
	o.requests <- asked(1, groupprotocol.Release)
	if err := s.Act(t.Context(), asked(1, groupprotocol.Prepare), o.last()); err != nil {
		t.Fatal(err)
	}
	o.k.fails["report Taken"] = 1
	if err := s.Act(t.Context(), asked(1, groupprotocol.Lock), o.last()); !errors.Is(err, errFailed) {
		t.Errorf("got %v", err)
	}
	o.k.atRest(t, n)
	for range 2 {
		if err := s.Act(t.Context(), asked(1, groupprotocol.Release), o.last()); err != nil {
			t.Fatal(err)
		}
	}
	want := []groupprotocol.Phase{groupprotocol.Prepared, groupprotocol.Locked, groupprotocol.Held,
		groupprotocol.Failed}
	if diff := cmp.Diff(want, o.phases()); diff != "" {
		t.Error(diff)
	}
}

// TestKeepIsRepeated: the decision to keep a group is final.
func TestKeepIsRepeated(t *testing.T) {
	s, o, _ := newSession(t)
	o.states = []groupprotocol.State{{Attempt: 1, Phase: groupprotocol.Taken}}
	for _, call := range []string{"keep s1", "report Usable"} {
		o.k.fails[call] = 1
		if err := s.Act(t.Context(), asked(1, groupprotocol.Keep), o.last()); !errors.Is(err, errFailed) {
			t.Errorf("%s: got %v", call, err)
		}
	}
	if err := s.Act(t.Context(), asked(1, groupprotocol.Keep), o.last()); err != nil {
		t.Error(err)
	}
	if got := o.last().Phase; got != groupprotocol.Usable {
		t.Errorf("got %s", got)
	}
}

// TestAnAgentThatStopsSaysSo: its context ends while the volumes are suspended.
func TestAnAgentThatStopsSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o, n := newSession(t)
		o.requests <- asked(1, groupprotocol.Suspend)
		o.states = []groupprotocol.State{{Attempt: 1, Phase: groupprotocol.Prepared}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.Act(ctx, asked(1, groupprotocol.Lock), o.last()); err != nil {
			t.Fatal(err)
		}
		if got := o.last(); got.Phase != groupprotocol.Failed || got.Suspended != time.Millisecond ||
			got.Waited != time.Millisecond {
			t.Errorf("got %+v", got)
		}
		o.k.atRest(t, n)
	})
}
