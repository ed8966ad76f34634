package groupprotocol

import (
	"testing"
	"time"
)

func TestNext(t *testing.T) {
	request := func(attempt int, phase Phase) Request { return Request{attempt, phase, time.Second} }
	for name, test := range map[string]struct {
		request Request
		states  []State
		want    Request
		outcome Outcome
	}{
		"no nodes":     {request(1, Prepare), nil, request(1, Prepare), Pending},
		"nothing yet":  {request(1, Prepare), []State{{}, {}}, request(1, Prepare), Pending},
		"one prepared": {request(1, Prepare), []State{{1, Prepared, "", 0, 0, 0}, {}}, request(1, Prepare), Pending},
		"all prepared": {request(1, Prepare), []State{{1, Prepared, "", 0, 0, 0}}, request(1, Lock), Advanced},
		"one locked": {request(1, Lock), []State{{1, Locked, "", 0, 0, 0}, {1, Prepared, "", 0, 0, 0}},
			request(1, Lock), Pending},
		"all locked":    {request(1, Lock), []State{{1, Locked, "", 0, 0, 0}}, request(1, Suspend), Advanced},
		"all held":      {request(1, Suspend), []State{{1, Held, "", 0, 0, 0}}, request(1, Release), Advanced},
		"all taken":     {request(1, Release), []State{{1, Taken, "", 0, 0, 0}}, request(1, Keep), Advanced},
		"all usable":    {request(1, Keep), []State{{1, Usable, "", 0, 0, 0}}, request(1, Keep), Complete},
		"earlier":       {request(2, Suspend), []State{{1, Held, "", 0, 0, 0}}, request(2, Suspend), Pending},
		"later":         {request(1, Suspend), []State{{2, Held, "", 0, 0, 0}}, request(1, Suspend), Pending},
		"failed before": {request(2, Suspend), []State{{1, Failed, "", 0, 0, 0}}, request(2, Suspend), Pending},
		"failed": {request(1, Suspend), []State{{1, Held, "", 0, 0, 0}, {1, Failed, "", 0, 0, 0}}, request(2, Prepare),
			Failure},
		"failed too late": {request(1, Keep), []State{{1, Usable, "", 0, 0, 0}, {1, Failed, "", 0, 0, 0}},
			request(1, Keep), Pending},
	} {
		if got, outcome := Next(test.request, test.states); got != test.want || outcome != test.outcome {
			t.Errorf("%s: got %+v, %d, want %+v, %d", name, got, outcome, test.want, test.outcome)
		}
	}
}

func TestAct(t *testing.T) {
	for name, test := range map[string]struct {
		request Request
		state   State
		holding bool
		want    Action
	}{
		"first":                {Request{1, Prepare, 0}, State{}, false, DoPrepare},
		"prepared":             {Request{1, Prepare, 0}, State{1, Prepared, "", 0, 0, 0}, false, Nothing},
		"lock":                 {Request{1, Lock, 0}, State{1, Prepared, "", 0, 0, 0}, false, DoTake},
		"locked":               {Request{1, Lock, 0}, State{1, Locked, "", 0, 0, 0}, true, Nothing},
		"suspend":              {Request{1, Suspend, 0}, State{1, Locked, "", 0, 0, 0}, true, Nothing},
		"never locked":         {Request{1, Suspend, 0}, State{1, Prepared, "", 0, 0, 0}, false, DoFail},
		"ended while locked":   {Request{1, Lock, 0}, State{1, Locked, "", 0, 0, 0}, false, DoFail},
		"holding":              {Request{1, Suspend, 0}, State{1, Held, "", 0, 0, 0}, true, Nothing},
		"was ended":            {Request{1, Suspend, 0}, State{1, Held, "", 0, 0, 0}, false, DoFail},
		"was ended, released":  {Request{1, Release, 0}, State{1, Held, "", 0, 0, 0}, false, DoFail},
		"ended while taking":   {Request{1, Prepare, 0}, State{1, Held, "", 0, 0, 0}, false, DoFail},
		"taken":                {Request{1, Release, 0}, State{1, Taken, "", 0, 0, 0}, false, Nothing},
		"keep":                 {Request{1, Keep, 0}, State{1, Taken, "", 0, 0, 0}, false, DoKeep},
		"usable":               {Request{1, Keep, 0}, State{1, Usable, "", 0, 0, 0}, false, Nothing},
		"not prepared":         {Request{1, Suspend, 0}, State{}, false, DoFail},
		"failed":               {Request{1, Suspend, 0}, State{1, Failed, "", 0, 0, 0}, false, Nothing},
		"next attempt":         {Request{2, Prepare, 0}, State{1, Failed, "", 0, 0, 0}, false, DoPrepare},
		"next while holding":   {Request{2, Prepare, 0}, State{1, Held, "", 0, 0, 0}, true, Nothing},
		"an outdated request":  {Request{1, Suspend, 0}, State{2, Prepared, "", 0, 0, 0}, false, Nothing},
		"keep without a state": {Request{1, Keep, 0}, State{}, false, DoFail},
	} {
		if got := Act(test.request, test.state, test.holding); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}

// nodes and maxAttempts are the numbers of nodes and of attempts of the model.
const (
	nodes       = 2
	maxAttempts = 2
)

// system is a state of the model: an operator and nodes, whose observations of each other can be out of date.
type system struct {
	request Request
	seen    [nodes]State   // by the operator
	asked   [nodes]Request // by the nodes
	node    [nodes]modelNode
}

type modelNode struct {
	state State
	// holding: a process has locked the volume groups, or waits for the release and does not know that the volumes were
	// resumed. suspended: they are suspended.
	holding, suspended bool
	// together: the volumes of all nodes were suspended for the same attempt at one moment of this suspension. taken is
	// its value for the snapshots.
	attempt         int
	together, taken bool
}

// rules are the functions of this package, or broken ones.
type rules struct {
	next func(Request, []State) (Request, Outcome)
	act  func(Request, State, bool) Action
	// follow is Follow.
	follow func(Request, int, Phase) (bool, bool)
	// confirm: a node asks the kernel before it reports Taken.
	confirm bool
}

// moves returns the states that can follow.
func (s system) moves(r rules) []system {
	var all []system
	add := func(change func(*system)) {
		next := s
		change(&next)
		next.mark()
		if next != s && next.request.Attempt <= maxAttempts {
			all = append(all, next)
		}
	}
	add(func(n *system) { n.request, _ = r.next(n.request, n.seen[:]) })
	add(func(n *system) { n.request = Retry(n.request) }) // a node does not answer
	for i := range nodes {
		add(func(n *system) { n.seen[i] = n.node[i].state })
		add(func(n *system) { n.asked[i] = n.request })
		add(func(n *system) { n.node[i].step(n.asked[i], r) })
		// The watchdog, or the time limit of the node, of which the process that waits does not know yet.
		add(func(n *system) { n.node[i].suspended = false })
		add(func(n *system) { n.node[i].fail() })
		// The agent is killed. What it has reported stays.
		add(func(n *system) { n.node[i].holding, n.node[i].suspended = false, false })
	}
	return all
}

// mark records that the volumes of all nodes are suspended now.
func (s *system) mark() {
	for i := range nodes {
		if !s.node[i].suspended || s.node[i].attempt != s.node[0].attempt {
			return
		}
	}
	for i := range nodes {
		s.node[i].together = true
	}
}

// fail is the time limit of a node that holds its volumes.
func (n *modelNode) fail() {
	if n.holding {
		n.holding, n.suspended = false, false
		n.state = State{Attempt: n.attempt, Phase: Failed}
	}
}

func (n *modelNode) step(request Request, r rules) {
	if n.holding {
		n.follow(request, r)
		return
	}
	switch r.act(request, n.state, false) {
	case DoPrepare:
		n.state = State{Attempt: request.Attempt, Phase: Prepared}
	case DoTake:
		n.holding, n.together, n.attempt = true, false, request.Attempt
		n.state = State{Attempt: n.attempt, Phase: Locked}
	case DoKeep:
		n.state.Phase = Usable
	case DoFail:
		n.state = State{Attempt: request.Attempt, Phase: Failed}
	}
}

// follow is a step of a node that has locked its volume groups. It reports Held in another step than it suspends.
func (n *modelNode) follow(request Request, r rules) {
	if n.state.Phase == Locked {
		switch ended, goOn := r.follow(request, n.attempt, Suspend); {
		case n.suspended:
			n.state = State{Attempt: n.attempt, Phase: Held}
		case ended && goOn:
			n.suspended = true
		case ended:
			n.fail()
		}
		return
	}
	switch ended, goOn := r.follow(request, n.attempt, Release); {
	case ended && goOn && (n.suspended || !r.confirm):
		n.state, n.taken = State{Attempt: n.attempt, Phase: Taken}, n.together
		n.holding, n.suspended = false, false
	case ended:
		n.fail()
	}
}

// torn returns whether snapshots may be kept that are not of one moment.
func (s system) torn() bool {
	for _, n := range s.node {
		usable := n.state.Attempt == s.request.Attempt && (n.state.Phase == Taken || n.state.Phase == Usable)
		if s.request.Phase == Keep && !(usable && n.taken) {
			return true
		}
		if n.state.Phase == Usable && s.request.Phase != Keep {
			return true
		}
	}
	return false
}

func (s system) complete() bool {
	var states []State
	for _, n := range s.node {
		states = append(states, n.state)
	}
	_, outcome := Next(s.request, states)
	return outcome == Complete
}

// explore visits all states that can be reached, and returns one that is torn. after has the states that can follow.
func explore(r rules) (found *system, after map[system][]system) {
	begin := system{request: Request{Attempt: 1, Phase: Prepare}}
	for i := range nodes {
		begin.asked[i] = begin.request
	}
	after = map[system][]system{}
	queue := []system{begin}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if _, visited := after[s]; visited {
			continue
		}
		if s.torn() {
			return &s, after
		}
		after[s] = s.moves(r)
		queue = append(queue, after[s]...)
	}
	return nil, after
}

// TestNoGroupIsTorn visits every order of events of two attempts of two nodes: observations that are out of date, time
// limits that expire, and agents that are killed, at any moment. It also checks that a complete group can be reached.
func TestNoGroupIsTorn(t *testing.T) {
	found, after := explore(rules{Next, Act, Follow, true})
	if found != nil {
		t.Fatalf("torn: %+v", *found)
	}
	complete := 0
	for s := range after {
		if s.complete() {
			complete++
		}
	}
	t.Logf("%d states, %d with a complete group", len(after), complete)
	if len(after) < 1000 || complete == 0 {
		t.Errorf("the model has %d states, %d with a complete group", len(after), complete)
	}
}

// TestTheModelFindsATornGroup breaks each rule on which the result depends.
func TestTheModelFindsATornGroup(t *testing.T) {
	for name, r := range map[string]rules{
		"no confirmation": {Next, Act, Follow, false},
		"kept when held": {func(r Request, states []State) (Request, Outcome) {
			next, outcome := Next(r, states)
			if next.Phase == Release {
				next.Phase = Keep
			}
			return next, outcome
		}, Act, Follow, true},
		"released by one node": {func(r Request, states []State) (Request, Outcome) {
			if next, outcome := Next(r, states[:1]); next.Phase == Release {
				return next, outcome
			}
			return Next(r, states)
		}, Act, Follow, true},
		"attempts do not count": {func(r Request, states []State) (Request, Outcome) {
			var all []State
			for _, s := range states {
				if s.Phase != Failed {
					s.Attempt = r.Attempt
				}
				all = append(all, s)
			}
			return Next(r, all)
		}, Act, func(r Request, attempt int, phase Phase) (bool, bool) {
			r.Attempt = attempt
			return Follow(r, attempt, phase)
		}, true},
	} {
		if found, after := explore(r); found == nil {
			t.Errorf("%s: no torn group in %d states", name, len(after))
		} else {
			t.Logf("%s: %+v", name, *found)
		}
	}
}

func TestRetry(t *testing.T) {
	if got := Retry(Request{1, Release, time.Second}); got != (Request{2, Prepare, time.Second}) {
		t.Errorf("got %+v", got)
	}
	if got := Retry(Request{1, Keep, time.Second}); got != (Request{1, Keep, time.Second}) {
		t.Errorf("got %+v: Keep is final", got)
	}
}

func TestFollow(t *testing.T) {
	for _, test := range []struct {
		request     Request
		phase       Phase
		ended, goOn bool
	}{
		{Request{2, Prepare, 0}, Suspend, false, false},
		{Request{2, Lock, 0}, Suspend, false, false},
		{Request{2, Suspend, 0}, Suspend, true, true},
		{Request{2, Release, 0}, Suspend, true, false},
		{Request{2, Keep, 0}, Suspend, true, false},
		{Request{1, Suspend, 0}, Suspend, false, false},
		{Request{3, Suspend, 0}, Suspend, true, false},
		{Request{2, Prepare, 0}, Release, false, false},
		{Request{2, Lock, 0}, Release, false, false},
		{Request{2, Suspend, 0}, Release, false, false},
		{Request{2, Release, 0}, Release, true, true},
		{Request{2, Keep, 0}, Release, true, false},
		{Request{1, Release, 0}, Release, false, false},
		{Request{3, Prepare, 0}, Release, true, false},
	} {
		if ended, goOn := Follow(test.request, 2, test.phase); ended != test.ended || goOn != test.goOn {
			t.Errorf("%+v for %s: got %t, %t", test.request, test.phase, ended, goOn)
		}
	}
}
