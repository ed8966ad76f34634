package engine

import (
	"context"
	"sync"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
)

// turns are the semaphores of volume groups, by name.
type turns struct {
	mu     sync.Mutex
	groups map[string]semaphore
}

func (t *turns) of(group string) semaphore {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.groups[group] == nil {
		if t.groups == nil {
			t.groups = map[string]semaphore{}
		}
		t.groups[group] = make(semaphore, 1)
	}
	return t.groups[group]
}

// semaphore is a mutex with a time limit for the caller.
type semaphore chan struct{}

// enter acquires the turn. It waits until ctx ends, at most semaphoreTimeout.
func (t semaphore) enter(ctx context.Context) error {
	defer liveness.Busy(ctx)()
	ctx, cancel := context.WithTimeout(ctx, semaphoreTimeout)
	defer cancel()
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.New(fault.ReasonOf(fault.Of(ctx.Err())),
			"waiting for another request for volumes of the volume group: %v", ctx.Err())
	}
}

func (t semaphore) leave() { <-t }
