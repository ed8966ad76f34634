package bounded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const limit = 30 * time.Second

func quick(context.Context) string { return "answer" }

// stuck returns a function that blocks until release is called, even if its context ends.
func stuck() (f func(context.Context) string, release chan struct{}) {
	release = make(chan struct{})
	return func(context.Context) string { <-release; return "late" }, release
}

func TestACallThatReturns(t *testing.T) {
	got, err := Do(t.Context(), New(limit, 1), "a", quick)
	if got != "answer" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestACallThatDoesNotReturnIsBegunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(limit, 3)
		begun := time.Now()
		f, release := stuck()
		var first *NoAnswerError
		if _, err := Do(t.Context(), c, "a", f); !errors.As(err, &first) || time.Since(begun) != limit ||
			!first.Since.Equal(begun) {
			t.Fatalf("after %s: got %v", time.Since(begun), err)
		}
		for range 3 {
			_, err := Do(t.Context(), c, "a", func(context.Context) string { t.Error("it was begun again"); return "" })
			if err == nil || err.Error() != first.Error() || time.Since(begun) != limit {
				t.Fatalf("after %s: got %v, want %v at once", time.Since(begun), err, first)
			}
		}
		if got, err := Do(t.Context(), c, "b", quick); got != "answer" || err != nil {
			t.Errorf("another key: %q, %v", got, err)
		}
		if late := c.Late(); !slices.Equal(late, []string{"a"}) {
			t.Errorf("late: %v", late)
		}
		close(release)
		synctest.Wait()
		if got, err := Do(t.Context(), c, "a", quick); got != "answer" || err != nil || len(c.Late()) != 0 {
			t.Errorf("after it returned: %q, %v, late %v", got, err, c.Late())
		}
	})
}

func TestCallsWithOneKeyComeOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(limit, 1)
		running := 0
		one := func(context.Context) string {
			if running++; running != 1 {
				t.Error("two at a time")
			}
			time.Sleep(limit * 2 / 5)
			running--
			return "answer"
		}
		errs := make(chan error, 4)
		for range cap(errs) {
			go func() { _, err := Do(t.Context(), c, "a", one); errs <- err }()
		}
		late := 0
		for range cap(errs) {
			if err := <-errs; err != nil {
				late++
			}
		}
		// The third call ends after six fifths of the time of all.
		if late != 2 {
			t.Errorf("%d of 4 had no answer, want 2", late)
		}
		time.Sleep(limit)
	})
}

func TestOnlySoManyCallsAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 5
		c := New(limit, most)
		begun := atomic.Int32{}
		release := make(chan struct{})
		for i := range most + 3 {
			_, err := Do(t.Context(), c, fmt.Sprint(i),
				func(context.Context) string { begun.Add(1); <-release; return "" })
			var tooMany *TooManyError
			if errors.As(err, &tooMany) != (i >= most) {
				t.Errorf("call %d: got %v", i, err)
			}
		}
		if begun.Load() != most {
			t.Errorf("%d were begun", begun.Load())
		}
		close(release)
		synctest.Wait()
		if _, err := Do(t.Context(), c, "x", quick); err != nil {
			t.Error(err)
		}
	})
}

func TestACallerThatGivesUpDoesNotEndTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(limit, 1)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		ended := make(chan error, 1)
		_, err := Do(ctx, c, "a", func(ctx context.Context) string {
			time.Sleep(2 * time.Second)
			ended <- ctx.Err()
			return ""
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the call saw %v", err)
		}
		time.Sleep(time.Second)
	})
}
