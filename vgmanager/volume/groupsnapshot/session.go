package groupsnapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/volume/groupprotocol"
)

// reportLimit is the time limit of a report that is sent although the caller no longer waits.
const reportLimit = 10 * time.Second

// Taker takes the snapshots of a group on this node. It is a *Node.
type Taker interface {
	Take(ctx context.Context, r Request, others Others) (Times, error)
}

// Volumes creates pending snapshots and makes them usable. Both can be repeated.
type Volumes interface {
	Prepare(ctx context.Context, p Pair) error
	Keep(ctx context.Context, p Pair) error
}

// Link connects a node with the operator.
type Link interface {
	// Watch calls seen with the request of the operator, and again when it changes, until seen returns true. It returns
	// an error if the context ends before. The request may be out of date.
	Watch(ctx context.Context, seen func(groupprotocol.Request) bool) error
	// Report records the state of this node. After an error, it may be recorded or not.
	Report(ctx context.Context, s groupprotocol.State) error
}

// Session is the part of this node in a group snapshot.
type Session struct {
	// Name names the group in errors.
	Name    string
	Pairs   []Pair
	Taker   Taker
	Volumes Volumes
	Link    Link
}

// Act does what the protocol says about a request, and reports the result. state is what this node has reported,
// according to the API server. It must not run twice at the same time for a group. It returns an error if the same call
// must be repeated; a failure of the group is reported instead. If a report is lost after the volumes were suspended,
// the next call reports that the attempt has failed.
func (s *Session) Act(ctx context.Context, r groupprotocol.Request, state groupprotocol.State) error {
	switch groupprotocol.Act(r, state, false) {
	case groupprotocol.DoPrepare:
		return s.prepare(ctx, r)
	case groupprotocol.DoTake:
		return s.take(ctx, r)
	case groupprotocol.DoKeep:
		return s.keep(ctx, r)
	case groupprotocol.DoFail:
		return s.report(ctx, groupprotocol.State{Attempt: r.Attempt, Phase: groupprotocol.Failed,
			Reason: "the node agent has ended while the volumes were suspended, or did not see that it should prepare"})
	}
	return nil
}

// prepare creates the pending snapshots. A failure is one of the group: the operator decides about the next attempt.
func (s *Session) prepare(ctx context.Context, r groupprotocol.Request) error {
	for _, p := range s.Pairs {
		if err := s.Volumes.Prepare(ctx, p); err != nil {
			return s.report(ctx, failed(r.Attempt, Times{}, fmt.Errorf("create pending snapshot %s/%s of %s: %w", p.VG,
				p.Snapshot, p.Source, err)))
		}
	}
	return s.report(ctx, groupprotocol.State{Attempt: r.Attempt, Phase: groupprotocol.Prepared})
}

// take locks the volume groups, and suspends the volumes when the other nodes have done so, too.
func (s *Session) take(ctx context.Context, r groupprotocol.Request) error {
	request := Request{Name: s.Name, Pairs: s.Pairs, Limit: r.Limit}
	took, err := s.Taker.Take(ctx, request, Others{
		Locked: func(ctx context.Context) error {
			return s.reach(ctx, r.Attempt, groupprotocol.Locked, groupprotocol.Suspend)
		},
		Held: func(ctx context.Context) error {
			return s.reach(ctx, r.Attempt, groupprotocol.Held, groupprotocol.Release)
		},
	})
	if err != nil {
		return s.report(ctx, failed(r.Attempt, took, err))
	}
	return s.report(ctx, groupprotocol.State{Attempt: r.Attempt, Phase: groupprotocol.Taken,
		Suspended: took.Suspended, Freezing: took.Freezing, Waited: took.Waited})
}

// reach reports the phase that this node has reached, and returns nil when the operator has requested the next one of
// the attempt.
func (s *Session) reach(ctx context.Context, attempt int, reached, next groupprotocol.Phase) error {
	if err := s.Link.Report(ctx, groupprotocol.State{Attempt: attempt, Phase: reached}); err != nil {
		return fmt.Errorf("report phase %s: %w", reached, err)
	}
	goOn := false
	err := s.Link.Watch(ctx, func(r groupprotocol.Request) (ended bool) {
		ended, goOn = groupprotocol.Follow(r, attempt, next)
		return ended
	})
	if err != nil {
		return fmt.Errorf("wait for the other nodes of the group: %w", err)
	}
	if !goOn {
		return errors.New("another node of the group has failed")
	}
	return nil
}

// keep makes the snapshots usable. All nodes have taken theirs, so it is repeated until it succeeds.
func (s *Session) keep(ctx context.Context, r groupprotocol.Request) error {
	for _, p := range s.Pairs {
		if err := s.Volumes.Keep(ctx, p); err != nil {
			return fmt.Errorf("group snapshot %s: %w", s.Name, err)
		}
	}
	return s.report(ctx, groupprotocol.State{Attempt: r.Attempt, Phase: groupprotocol.Usable})
}

func failed(attempt int, took Times, err error) groupprotocol.State {
	return groupprotocol.State{Attempt: attempt, Phase: groupprotocol.Failed, Reason: err.Error(),
		Suspended: took.Suspended, Freezing: took.Freezing, Waited: took.Waited}
}

// report records a state, also if the context has ended: then an agent that stops says so before it does.
func (s *Session) report(ctx context.Context, state groupprotocol.State) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportLimit)
	defer cancel()
	if err := s.Link.Report(ctx, state); err != nil {
		return fmt.Errorf("group snapshot %s: report %s: %w", s.Name, state.Phase, err)
	}
	return nil
}
