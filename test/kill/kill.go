// Package kill ends a process in a unit test, before, during and after each change that it makes: a write to the API
// server, a command of LVM, a mount. A complete run counts the changes, so that no new one is missed.
package kill

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// errKilled is the error of each change after the process has ended.
var errKilled = errors.New("killed")

// Points counts the changes of a process, and ends the process at one of them.
type Points struct {
	mu     sync.Mutex
	passed int
	// at is the number of the point that ends the process, from 1; 0 for none. effect is when it does so.
	at     int
	effect Effect
	dead   bool
	// total is the number of points in a run that is not ended.
	total int
}

// Effect is when a change ends the process. Midway leaves only the damage of the change.
type Effect string

// The effects.
const (
	Before Effect = "before"
	Midway Effect = "midway"
	After  Effect = "after"
)

// Pass runs do unless the process has ended. damage is what remains if the process ends during the change; nil for
// nothing.
func (p *Points) Pass(do func() error, damage func()) error {
	if p == nil {
		return do()
	}
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return errKilled
	}
	p.passed++
	ends := p.passed == p.at
	p.dead = ends
	p.mu.Unlock()
	if !ends {
		return do()
	}
	switch p.effect {
	case After:
		if err := do(); err != nil {
			return err
		}
	case Midway:
		if damage != nil {
			damage()
		}
	}
	return errKilled
}

// Restart starts a new process, which is not ended.
func (p *Points) Restart() {
	if p.total == 0 {
		p.total = p.passed
	}
	p.at = 0
	p.dead = false
}

// AtEachPoint counts the points of a run, and then runs it again for each of them. run starts from the beginning each
// time.
func AtEachPoint(t *testing.T, effects []Effect, run func(t *testing.T, p *Points)) {
	t.Helper()
	count := &Points{}
	run(t, count)
	if count.total == 0 {
		t.Fatal("nothing is changed")
	}
	for at := 1; at <= count.total; at++ {
		for _, e := range effects {
			t.Run(fmt.Sprintf("%s point %d of %d", e, at, count.total), func(t *testing.T) {
				p := &Points{at: at, effect: e}
				run(t, p)
				if p.total != at {
					t.Errorf("the process ended at point %d", p.total)
				}
			})
		}
	}
}

// Kills reports whether a point of this run ends the process.
func (p *Points) Kills() bool { return p.at != 0 }

// Dead reports whether the process has ended.
func (p *Points) Dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}
