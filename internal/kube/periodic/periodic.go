// Package periodic repeats the work that keeps an object as it should be although others can change it.
package periodic

import (
	"context"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
)

const (
	// Interval is the time between two checks.
	Interval = time.Minute
	// retryMin and retryMax limit the time between two attempts after a failure. It doubles with each.
	retryMin = time.Second
	retryMax = time.Minute
)

// Run calls keep now and once each Interval until the context ends. After a failure, it calls failed with the error,
// and then keep again earlier, with a delay from one second to one minute. An error after the end of the context is not
// a failure. Each call is a unit of work of liveness with a name.
func Run(ctx context.Context, name string, keep func(context.Context) error, failed func(error)) {
	retry := retryMin
	for {
		wait := Interval
		if err := call(ctx, name, keep); err == nil {
			retry = retryMin
		} else if ctx.Err() == nil {
			failed(err)
			wait = retry
			retry = min(retry*2, retryMax)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func call(ctx context.Context, name string, keep func(context.Context) error) error {
	ctx, end := liveness.Begin(ctx, name)
	defer end()
	return keep(ctx)
}
