package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The pauses between two reads of an object that a command waits for.
const (
	FirstPause = time.Second
	maxPause   = 15 * time.Second
	// maxFailures is how often a read may fail in a row while a command waits.
	maxFailures = 5
)

// MaxConflicts is how often a change is computed again because the object was changed in the meantime. The operator and
// the node agents write its status often.
const MaxConflicts = 5

// Poll calls done, with growing pauses, until it returns true or a final error. It returns ErrTimeout after the time of
// --timeout. A read that fails for another reason than a permission is repeated a few times.
func (e *Environment) Poll(ctx context.Context, w *Writing, t *Terminal,
	done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, ErrTimeout)
	defer cancel()
	failures := 0
	for pause := FirstPause; ; pause = min(pause*3/2, maxPause) {
		isDone, err := done(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && isDone:
			return nil
		case err == nil:
			failures = 0
		case isLasting(err) || failures == maxFailures:
			return err
		default:
			failures++
			fmt.Fprintf(t.ErrOut, "warning: %v. Trying again.\n", err)
		}
		if err := e.Pause(ctx, pause); err != nil {
			return context.Cause(ctx)
		}
	}
}

// sleep waits, and returns an error if the context ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Interrupted returns the error of a wait as people read it.
func Interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	return err
}

// IsWaitOver returns true if a wait ended before its goal, because of its time or the user.
func IsWaitOver(err error) bool {
	return errors.Is(err, ErrTimeout) || errors.Is(err, context.Canceled)
}

// errFinal marks an error that another read cannot resolve.
type errFinal struct{ error }

func (e errFinal) Unwrap() error { return e.error }

// Final returns an error that another read cannot resolve.
func Final(err error) error { return errFinal{err} }

// IsFinal returns true for an error of Final.
func IsFinal(err error) bool { return errors.As(err, &errFinal{}) }

// isLasting returns true if another read is not likely to succeed.
func isLasting(err error) bool {
	return IsFinal(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// RequestState is what the status of an object says about a request.
type RequestState int

// The states of a request.
const (
	RequestPending RequestState = iota
	RequestDone
	RequestBlocked
)

// BlockedPolls is after how many reads in a row a blocked request is an error: the state can be that of an earlier one.
const BlockedPolls = 5
