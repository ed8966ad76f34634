package engine

import (
	"context"
	"testing"
	"time"
)

func TestAWatcherIsForgottenWithItsContext(t *testing.T) {
	e, _ := newEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	<-e.Notices(ctx)
	cancel()
	for range 100 {
		if e.watchers.mu.Lock(); len(e.watchers.open) == 0 {
			e.watchers.mu.Unlock()
			return
		}
		e.watchers.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	t.Error("the watcher is still known")
}
