package jobs

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errFailed = errors.New("failed")

func TestASecondCallWaitsForTheSameJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(t.Context(), 1)
		started := 0
		work := func(context.Context) error {
			started++
			time.Sleep(time.Minute)
			return errFailed
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if ended, err := j.Do(short, "a", work); ended || err != nil || !j.Running("a") {
			t.Fatalf("%v, %v, want a job that runs", ended, err)
		}
		if ended, err := j.Do(t.Context(), "a", work); !ended || !errors.Is(err, errFailed) || started != 1 {
			t.Fatalf("%v, %v after %d starts", ended, err, started)
		}
		if j.Running("a") {
			t.Error("the job has ended and was asked for")
		}
		if ended, err := j.Do(t.Context(), "a", work); !ended || !errors.Is(err, errFailed) || started != 2 {
			t.Fatalf("%v, %v after %d starts", ended, err, started)
		}
	})
}

func TestFewJobsRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(t.Context(), 2)
		var mu sync.Mutex
		running, most := 0, 0
		count := func(change int) {
			mu.Lock()
			defer mu.Unlock()
			running += change
			most = max(most, running)
		}
		work := func(context.Context) error {
			count(1)
			defer count(-1)
			time.Sleep(time.Minute)
			return nil
		}
		now, cancel := context.WithCancel(t.Context())
		cancel()
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			_, _ = j.Do(now, key, work)
		}
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			if ended, err := j.Do(t.Context(), key, work); !ended || err != nil {
				t.Errorf("%s: %v, %v", key, ended, err)
			}
		}
		if most != 2 {
			t.Errorf("%d jobs ran at once, want 2", most)
		}
	})
}

func TestAJobIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(t.Context(), 1)
		now, cancel := context.WithCancel(t.Context())
		cancel()
		if err := j.Stop(now, "a"); err != nil {
			t.Errorf("no job: %v", err)
		}
		slow := func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Minute)
			return ctx.Err()
		}
		_, _ = j.Do(now, "a", slow)
		_, _ = j.Do(now, "waiting", slow)
		synctest.Wait()
		if err := j.Stop(now, "a"); !errors.Is(err, context.Canceled) || !j.Running("a") {
			t.Errorf("a job that does not end: %v", err)
		}
		if err := j.Stop(t.Context(), "a"); err != nil || j.Running("a") {
			t.Errorf("%v", err)
		}
		if err := j.Stop(t.Context(), "waiting"); err != nil {
			t.Errorf("a job that waits: %v", err)
		}
	})
}

func TestJobsEndWithTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		program, end := context.WithCancel(t.Context())
		j := New(program, 1)
		go func() {
			time.Sleep(time.Minute)
			end()
		}()
		ended, err := j.Do(t.Context(), "a", func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if !ended || !errors.Is(err, context.Canceled) {
			t.Errorf("%v, %v", ended, err)
		}
	})
}
