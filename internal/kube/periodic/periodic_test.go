package periodic

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestRunChecksAndRetries(t *testing.T) {
	failure := errors.New("the API server does not answer")
	for name, tt := range map[string]struct {
		fails  []bool
		delays []time.Duration
	}{
		"without a failure": {[]bool{false, false, false}, []time.Duration{0, time.Minute, time.Minute}},
		"after failures the delay doubles": {[]bool{true, true, true, false, false},
			[]time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, time.Minute}},
		"the delay ends at a minute": {[]bool{true, true, true, true, true, true, true, true},
			[]time.Duration{0, 1e9, 2e9, 4e9, 8e9, 16e9, 32e9, time.Minute}},
		"a success resets the delay": {[]bool{true, true, false, true, false},
			[]time.Duration{0, time.Second, 2 * time.Second, time.Minute, time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var delays []time.Duration
				failures, last := 0, time.Now()
				Run(ctx, "test", func(context.Context) error {
					delays = append(delays, time.Since(last))
					last = time.Now()
					if len(delays) == len(tt.fails) {
						defer cancel()
					}
					if tt.fails[len(delays)-1] {
						return failure
					}
					return nil
				}, func(err error) {
					if !errors.Is(err, failure) {
						t.Errorf("got %v", err)
					}
					failures++
				})
				if !slices.Equal(delays, tt.delays) {
					t.Errorf("delays %v, want %v", delays, tt.delays)
				}
				// The context has ended before the last call returns.
				want := 0
				for _, fails := range tt.fails[:len(tt.fails)-1] {
					if fails {
						want++
					}
				}
				if failures != want {
					t.Errorf("%d failures, want %d", failures, want)
				}
			})
		})
	}
}

func TestTheEndIsNotAFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	Run(ctx, "test", func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}, func(err error) { t.Errorf("reported %v", err) })
}
