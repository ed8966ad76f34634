package engine

import (
	"context"
	"sync"
)

// Watchers are told of each change of capacity by this engine, and once a minute while Start runs.
type Watchers struct {
	mu          sync.Mutex
	open        map[chan struct{}]struct{}
	subscribers []func()
}

// Subscribe adds a function that is called after each change. The function must not block.
func (w *Watchers) Subscribe(changed func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.subscribers = append(w.subscribers, changed)
}

// Notices returns a channel with a notice at once, and one after each change until ctx ends. It buffers one notice,
// with which further ones are merged.
func (w *Watchers) Notices(ctx context.Context) <-chan struct{} {
	notices := make(chan struct{}, 1)
	notices <- struct{}{}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[chan struct{}]struct{}{}
	}
	w.open[notices] = struct{}{}
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.open, notices)
	})
	return notices
}

// Changed notifies the watchers that something else changed the capacity. It never blocks.
func (w *Watchers) Changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for notices := range w.open {
		select {
		case notices <- struct{}{}:
		default:
		}
	}
	for _, changed := range w.subscribers {
		changed()
	}
}
