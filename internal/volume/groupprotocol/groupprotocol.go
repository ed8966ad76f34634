// Package groupprotocol decides how the operator and the nodes of a group snapshot act together. It is pure: it reads
// and writes nothing, and has no clock.
//
// The operator has one Request for a group, and each node has one State. When the operator has seen that all nodes are
// prepared, they lock their volume groups, do everything that they can do before a suspension, and report Locked. When
// it has seen that all nodes are Locked, they suspend their volumes, take the snapshots, and report Held. When it has
// seen that all nodes are Held, it requests the release. A node that sees this request while its volumes are still
// suspended reports Taken. So the volumes of all nodes were suspended when the release was written, although each node
// resumes its volumes at its own time limit, and no two clocks are compared. Only when all nodes are Taken does the
// operator let them keep the snapshots. Up to then, any failure starts the next attempt, or ends the group; after it,
// there is none.
//
// An observation may be out of date: the number of the attempt tells the nodes' states of an earlier attempt from those
// of this one. Neither an operator nor a node has to remember anything but its request or state, except that a node
// knows whether it holds its volumes now.
package groupprotocol

import "time"

// MaxVolumes is the maximum number of volumes of a group.
const MaxVolumes = 64

// Phase is a phase of a group snapshot.
type Phase string

// The phases that the operator requests, in their order.
const (
	// Prepare: create the pending snapshots.
	Prepare Phase = "Prepare"
	// Lock: lock the volume groups, and do everything that does not need suspended volumes.
	Lock Phase = "Lock"
	// Suspend: suspend the volumes, and take the snapshots.
	Suspend Phase = "Suspend"
	// Release: confirm that the volumes are still suspended, and resume them.
	Release Phase = "Release"
	// Keep: make the snapshots usable. All nodes are Taken, so this is final.
	Keep Phase = "Keep"
)

// The phases that a node reports.
const (
	// Prepared: the pending snapshots exist.
	Prepared Phase = "Prepared"
	// Locked: the volume groups are locked, and the next thing to do is to suspend the volumes.
	Locked Phase = "Locked"
	// Held: the volumes are suspended, and the snapshots have their data.
	Held Phase = "Held"
	// Taken: the volumes were still suspended when the release was seen. They are resumed.
	Taken Phase = "Taken"
	// Usable: the snapshots are usable.
	Usable Phase = "Usable"
	// Failed: the node cannot take part in this attempt. Its volumes are not suspended, and nothing is locked.
	Failed Phase = "Failed"
)

// reached is what a node reports when it has done what the operator requests.
var reached = map[Phase]Phase{Prepare: Prepared, Lock: Locked, Suspend: Held, Release: Taken, Keep: Usable}

// following is the phase that the operator requests next.
var following = map[Phase]Phase{Prepare: Lock, Lock: Suspend, Suspend: Release, Release: Keep}

// order has the place of each requested phase.
var order = map[Phase]int{Prepare: 1, Lock: 2, Suspend: 3, Release: 4, Keep: 5}

// Request is what the operator requests of all nodes of a group.
type Request struct {
	// Attempt counts the attempts, from 1.
	Attempt int   `json:"attempt"`
	Phase   Phase `json:"phase"`
	// Limit is the maximum time for which a volume is suspended.
	Limit time.Duration `json:"limit"`
}

// State is what a node has reported. The zero value is that of a node that has reported nothing.
type State struct {
	Attempt int   `json:"attempt"`
	Phase   Phase `json:"phase"`
	// Reason says why the node has failed.
	Reason string `json:"reason,omitempty"`
	// Suspended is how long volumes were suspended, for Taken and Failed. Freezing is the part of it until all of them
	// were suspended, and Waited the part in which the node waited for the other nodes.
	Suspended time.Duration `json:"suspended,omitempty"`
	Freezing  time.Duration `json:"freezing,omitempty"`
	Waited    time.Duration `json:"waited,omitempty"`
}

// Outcome is what became of a group.
type Outcome int

// The outcomes.
const (
	// Pending: nodes have not reached the requested phase.
	Pending Outcome = iota
	// Advanced: all nodes have reached the phase, and the returned request is the next one.
	Advanced
	// Failure: a node has failed. The returned request is that of the next attempt.
	Failure
	// Complete: the snapshots of all nodes are usable.
	Complete
)

// Next returns the next request of the operator. states has one element for each node of the group, which may be out of
// date. A group without nodes stays Pending.
func Next(r Request, states []State) (Request, Outcome) {
	all := len(states) > 0
	for _, s := range states {
		if s.Attempt != r.Attempt {
			all = false
			continue
		}
		if s.Phase == Failed && r.Phase != Keep {
			return Retry(r), Failure
		}
		all = all && s.Phase == reached[r.Phase]
	}
	if !all {
		return r, Pending
	}
	if r.Phase == Keep {
		return r, Complete
	}
	return Request{Attempt: r.Attempt, Phase: following[r.Phase], Limit: r.Limit}, Advanced
}

// Retry returns the request of the next attempt. The operator can request it at any time before Keep, for example if a
// node does not answer: the nodes that hold their volumes then resume them. Keep is final, so Retry does not change it.
func Retry(r Request) Request {
	if r.Phase == Keep {
		return r
	}
	return Request{Attempt: r.Attempt + 1, Phase: Prepare, Limit: r.Limit}
}

// Action is what a node does.
type Action int

// The actions.
const (
	// Nothing: the node has done what is requested, or is doing it.
	Nothing Action = iota
	// DoPrepare: create the pending snapshots, then report Prepared.
	DoPrepare
	// DoTake: lock the volume groups, report Locked, and then follow the requests with Follow: at Suspend, suspend the
	// volumes, take the snapshots and report Held; at Release, confirm the suspension and report Taken.
	DoTake
	// DoKeep: make the snapshots usable, then report Usable.
	DoKeep
	// DoFail: report Failed for the attempt of the request.
	DoFail
)

// Act returns what a node does about a request, which may be out of date. s is what it has reported. holding: this
// process has locked the volume groups now, for s.
func Act(r Request, s State, holding bool) Action {
	switch {
	case r.Attempt < s.Attempt, holding:
		return Nothing // the request is out of date, or Follow decides
	case r.Attempt == s.Attempt:
		return actWithin(r.Phase, s.Phase)
	case r.Phase == Prepare:
		return DoPrepare
	}
	return DoFail
}

// actWithin is Act for the attempt whose phase the node has reported last.
func actWithin(request, reported Phase) Action {
	switch {
	case reported == Failed, request == Prepare && reported == Prepared:
		return Nothing
	case request == Lock && reported == Prepared:
		return DoTake
	case request == Keep && reported == Taken:
		return DoKeep
	case reported == Taken, reported == Usable:
		return Nothing // The request can be older than the state.
	}
	return DoFail // A node that is Locked or Held and holds nothing was ended since.
}

// Follow is for a node that is Locked or Held for an attempt, and waits for a phase, Suspend or Release. ended is
// whether the wait is over. goOn is whether all nodes of the group have reached the phase before it; otherwise another
// node has failed. A node reports Taken only if the kernel says that its volumes are still suspended.
func Follow(r Request, attempt int, phase Phase) (ended, goOn bool) {
	if r.Attempt < attempt || r.Attempt == attempt && order[r.Phase] < order[phase] {
		return false, false // the request is out of date
	}
	return true, r.Attempt == attempt && r.Phase == phase
}
