package limit

import (
	"context"
	"fmt"
	"sync"
)

// Shares limit what is in progress at the same time: in all, and for each key, for example a peer or a user. They
// remember only keys with something in progress. They are safe for concurrent use.
type Shares struct {
	all  chan struct{}
	each int
	mu   sync.Mutex
	keys map[string]*share
}

// share has the slots of a key. users are those that have one or wait for one.
type share struct {
	slots chan struct{}
	users int
}

// NewShares returns Shares with a maximum for all keys together, and for each.
func NewShares(all, each int) *Shares {
	return &Shares{all: make(chan struct{}, all), each: each, keys: map[string]*share{}}
}

// Try takes a slot. The caller gives it back with leave. The error wraps ErrTooMany if there is none.
func (s *Shares) Try(key string) (leave func(), err error) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return s.Wait(ended, key)
}

// Wait is Try, but waits for a slot until ctx ends. A key that has all its slots does not keep others waiting.
func (s *Shares) Wait(ctx context.Context, key string) (leave func(), err error) {
	own := s.enter(key)
	if !take(ctx, own.slots) {
		s.leave(key, own)
		return nil, fmt.Errorf("%w: more than %d at the same time", ErrTooMany, s.each)
	}
	if !take(ctx, s.all) {
		<-own.slots
		s.leave(key, own)
		return nil, fmt.Errorf("%w: more than %d at the same time of all clients", ErrTooMany, cap(s.all))
	}
	return sync.OnceFunc(func() {
		<-s.all
		<-own.slots
		s.leave(key, own)
	}), nil
}

// take takes a slot. If there is one, it does so even if ctx has ended.
func take(ctx context.Context, slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	default:
	}
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Shares) enter(key string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.keys[key]
	if own == nil {
		own = &share{slots: make(chan struct{}, s.each)}
		s.keys[key] = own
	}
	own.users++
	return own
}

func (s *Shares) leave(key string, own *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(s.keys, key)
	}
}
