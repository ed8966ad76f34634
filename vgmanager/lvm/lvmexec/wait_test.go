package lvmexec

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/output"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// stuck is a runner whose commands end when they are released, or at their time limit. deaf ones ignore the time
// limit.
type stuck struct {
	mu      sync.Mutex
	started []string
	deaf    bool
	release chan struct{}
	output  string
	// only, if set, limits the commands that hang to those with this argument.
	only string
}

func newStuck() *stuck { return &stuck{release: make(chan struct{}), output: `{"report":[]}`} }

func (s *stuck) Run(ctx context.Context, _ string, args ...string) ([]byte, error) {
	s.mu.Lock()
	s.started = append(s.started, args[0])
	deaf := s.deaf
	s.mu.Unlock()
	if !strings.Contains(strings.Join(args, " "), s.only) {
		return []byte(s.output), nil
	}
	limit := ctx.Done()
	if deaf {
		limit = nil
	}
	select {
	case <-s.release:
		return []byte(s.output), nil
	case <-limit:
		return nil, &host.Error{Command: strings.Join(args, " "), ExitCode: 5,
			Stderr: "Interrupted...\n  Giving up waiting for lock.\n  Can't get lock for vg1.", Err: ctx.Err()}
	}
}

func (s *stuck) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.started)
}

func TestChangeThatHangsEndsWithItsTimeLimitAndSaysWhereToLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(newStuck())
		begun := time.Now()
		err := l.Apply(t.Context(), lvm.LVDeactivate{VG: "vg1", Names: []string{"a"}})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != writeTimeout {
			t.Fatalf("after %s: got %v", time.Since(begun), err)
		}
		for _, word := range []string{"vg1/a", "Can't get lock for vg1",
			"another program may hold LVM's lock", "ps -eo"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("the error does not say %q: %v", word, err)
			}
		}
	})
}

func TestChangesDoNotPileUpBehindOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStuck()
		s.deaf = true
		l := New(s)
		begun := time.Now()
		first := make(chan error, 1)
		go func() { first <- l.Apply(context.Background(), lvm.LVDeactivate{VG: "vg1", Names: []string{"a"}}) }()
		synctest.Wait()

		short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := l.Apply(short, lvm.LVDeactivate{VG: "vg1", Names: []string{"b"}})
		if !errors.Is(err, lvm.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(begun) != 3*time.Second {
			t.Errorf("after %s: got %v", time.Since(begun), err)
		}
		if !strings.Contains(err.Error(), "lvchange --activate n vg1/a") {
			t.Errorf("the error does not name the command that hangs: %v", err)
		}
		canceled, giveUp := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, giveUp)
		err = l.Apply(canceled, lvm.LVDeactivate{VG: "vg1", Names: []string{"c"}})
		if !errors.Is(err, context.Canceled) || errors.Is(err, lvm.ErrBusy) {
			t.Errorf("a caller that gave up got %v", err)
		}
		if err := l.Apply(t.Context(), lvm.LVDeactivate{VG: "vg1", Names: []string{"d"}}); !errors.Is(err, lvm.ErrBusy) ||
			time.Since(begun) != 4*time.Second+writeTimeout {
			t.Errorf("a caller without limit, after %s: got %v", time.Since(begun), err)
		}
		// The first command does not end at its time limit either, but its caller returns.
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lvm.ErrBusy) {
			t.Errorf("the first: got %v", err)
		}
		if s.count() != 1 {
			t.Errorf("%d processes were started", s.count())
		}
		s.mu.Lock()
		s.deaf = false
		s.mu.Unlock()
		close(s.release)
		synctest.Wait()
		if err := l.Apply(t.Context(), lvm.LVDeactivate{VG: "vg1", Names: []string{"e"}}); err != nil {
			t.Errorf("after it ended: %v", err)
		}
	})
}

// TestALongActivationOutlivesItsCall: thin_check of a large pool takes longer than the two minutes of a call.
func TestALongActivationOutlivesItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStuck()
		l := New(s)
		begun := time.Now()
		err := l.Apply(t.Context(), lvm.VGActivate{VG: "vg1"})
		if !errors.Is(err, lvm.ErrRunning) || errors.Is(err, lvm.ErrBusy) ||
			time.Since(begun) != writeTimeout+stopTimeout {
			t.Errorf("after %s: got %v", time.Since(begun), err)
		}
		time.Sleep(6 * time.Hour)
		for _, again := range []func() error{
			func() error { return l.Apply(t.Context(), lvm.VGActivate{VG: "vg1"}) },
			func() error { return l.Apply(t.Context(), lvm.LVActivate{VG: "vg1", Name: "a"}) },
			func() error { return l.Apply(t.Context(), lvm.LVDeactivate{VG: "vg1", Names: []string{"a"}}) },
		} {
			now := time.Now()
			if err := again(); !errors.Is(err, lvm.ErrBusy) ||
				!strings.Contains(err.Error(), "vgchange --activate y vg1 has been running since") ||
				time.Since(now) != 0 {
				t.Errorf("after %s: got %v", time.Since(now), err)
			}
		}
		if s.count() != 1 {
			t.Errorf("%d processes were started", s.count())
		}
		close(s.release)
		synctest.Wait()
		if err := l.Apply(t.Context(), lvm.VGActivate{VG: "vg1"}); err != nil {
			t.Errorf("after it ended: %v", err)
		}
	})
}

func TestACommandThatHangsHoldsUpNoOtherVolumeGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStuck()
		s.deaf = true
		s.only = "vg1"
		l := New(s)
		begun := time.Now()
		first := make(chan error, 1)
		go func() { first <- l.Apply(context.Background(), lvm.LVDeactivate{VG: "vg1", Names: []string{"a"}}) }()
		synctest.Wait()
		for what, err := range map[string]error{
			"another group":  l.Apply(t.Context(), lvm.LVDeactivate{VG: "vg2", Names: []string{"a"}}),
			"the whole node": l.Apply(t.Context(), lvm.PVRemove{Device: "/dev/sdx"}),
		} {
			if err != nil || time.Since(begun) != 0 {
				t.Errorf("%s, after %s: %v", what, time.Since(begun), err)
			}
		}
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first: got %v", err)
		}
		late := time.Now()
		if err := l.Apply(t.Context(), lvm.LVDeactivate{VG: "vg1", Names: []string{"b"}}); !errors.Is(err, lvm.ErrBusy) ||
			time.Since(late) != 0 {
			t.Errorf("one that is past its limit was waited for %s: %v", time.Since(late), err)
		}
		close(s.release)
		synctest.Wait()
	})
}

// TestReportsDoNotWaitForACommandThatKeepsItsLock: LVM blocks reports while it activates a pool with a long
// thin_check.
func TestReportsDoNotWaitForACommandThatKeepsItsLock(t *testing.T) {
	for name, test := range map[string]struct {
		run   func(l *LVM) error
		after time.Duration
		want  bool
	}{
		"an activation, at first": {func(l *LVM) error { return l.Apply(context.Background(), lvm.VGActivate{VG: "vg1"}) },
			time.Second, false},
		"a long activation": {func(l *LVM) error { return l.Apply(context.Background(), lvm.VGActivate{VG: "vg1"}) },
			activationGrace, true},
		"another change": {func(l *LVM) error {
			return l.Apply(context.Background(), lvm.LVDeactivate{VG: "vg1", Names: []string{"a"}})
		},
			time.Minute, false},
		"another change that hangs": {func(l *LVM) error {
			return l.Apply(context.Background(), lvm.LVDeactivate{VG: "vg1", Names: []string{"a"}})
		},
			writeTimeout + stopTimeout + time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStuck()
				s.deaf = true
				s.only = "vg1"
				l := New(s)
				done := make(chan error, 1)
				go func() { done <- test.run(l) }()
				time.Sleep(test.after)
				synctest.Wait()
				if got := l.slots.locksAreHeld(); got != test.want {
					t.Errorf("got %t", got)
				}
				if _, err := l.Report(t.Context()); err != nil {
					t.Error(err)
				}
				close(s.release)
				<-done
				synctest.Wait()
				if l.slots.locksAreHeld() {
					t.Error("it has ended")
				}
			})
		})
	}
}

// TestAReportIsNotKeptWhileAnyChangeRuns has two overlapping changes. The end of one does not affect the other.
func TestAReportIsNotKeptWhileAnyChangeRuns(t *testing.T) {
	l := New(&confRunner{})
	l.reports.begin()
	l.reports.begin()
	l.reports.end("vg1", nil)
	if _, err := l.Report(t.Context()); err != nil || l.reports.kept(time.Hour) != nil {
		t.Errorf("a report that may show either state was kept (%v)", err)
	}
	l.reports.end("vg2", nil)
	if _, err := l.Report(t.Context()); err != nil || l.reports.kept(time.Hour) == nil {
		t.Errorf("no report was kept after both (%v)", err)
	}
}

func TestReadThatHangsIsSharedByAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStuck()
		l := New(s)
		begun := time.Now()
		errs := make(chan error, 20)
		for range 10 {
			go func() { _, err := l.Recent(context.Background(), time.Minute); errs <- err }()
		}
		synctest.Wait()
		for range 10 {
			go func() { _, err := l.Report(context.Background()); errs <- err }()
		}
		for range 20 {
			if err := <-errs; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
		// One for callers that accept a running report, and one for callers that require a new one.
		if s.count() != 2 || time.Since(begun) != 2*readTimeout {
			t.Errorf("%d processes in %s", s.count(), time.Since(begun))
		}
	})
}

func TestReadThatIgnoresItsTimeLimitHoldsUpNobodyForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStuck()
		s.deaf = true
		l := New(s)
		begun := time.Now()
		for range 3 {
			if _, err := l.Report(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Recent(short, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if s.count() != 1 || time.Since(begun) != 3*awaitTimeout+time.Second {
			t.Errorf("%d processes in %s", s.count(), time.Since(begun))
		}
		close(s.release)
	})
}

func TestReportIsNotServedFromAProcessThatBeganBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStuck()
		l := New(s)
		done := make(chan error, 2)
		go func() { _, err := l.Report(context.Background()); done <- err }()
		synctest.Wait()
		go func() { _, err := l.Report(context.Background()); done <- err }()
		synctest.Wait()
		close(s.release)
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if s.count() != 2 {
			t.Errorf("%d processes, want 2", s.count())
		}
	})
}

func TestRecentIsNotServedFromAProcessThatBeganBeforeAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStuck()
		l := New(s)
		done := make(chan error, 2)
		go func() { _, err := l.Recent(context.Background(), time.Hour); done <- err }()
		synctest.Wait()
		l.reports.begin()
		l.reports.end("", nil)
		go func() { _, err := l.Recent(context.Background(), time.Hour); done <- err }()
		synctest.Wait()
		close(s.release)
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if s.count() != 2 {
			t.Errorf("%d processes, want 2", s.count())
		}
	})
}

func TestACallerThatGivesUpDoesNotEndTheReadOfTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStuck()
		l := New(s)
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		second := make(chan error, 1)
		go func() { _, err := l.Recent(ctx, time.Hour); first <- err }()
		synctest.Wait()
		go func() { _, err := l.Recent(context.Background(), time.Hour); second <- err }()
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		close(s.release)
		if err := <-second; err != nil || s.count() != 1 {
			t.Errorf("got %v after %d processes", err, s.count())
		}
	})
}

func TestClassifyTellsAMissingProgramFromATimeLimit(t *testing.T) {
	if err := output.Classify("x", &host.Error{Err: os.ErrNotExist}); strings.Contains(err.Error(), "lock") {
		t.Errorf("got %v", err)
	}
}

// TestACommandThatEndsAtItsLimitHoldsUpNothing: a command can end at the moment at which its caller gives up. If it
// were marked late then, its volume group could never be changed again.
func TestACommandThatEndsAtItsLimitHoldsUpNothing(t *testing.T) {
	l := New(nil)
	s := l.slots.of("vg1")
	enter := func() uint64 {
		s.free <- struct{}{}
		return l.slots.occupy(s, command{Command: lvm.Command{VG: "vg1", Args: []string{"lvcreate"}}})
	}
	first := enter()
	l.slots.leave(s)
	l.slots.setLate(s, first)
	if l.slots.isLate(s) {
		t.Error("a command that has ended is late")
	}
	second := enter()
	l.slots.setLate(s, first)
	if l.slots.isLate(s) {
		t.Error("the next command is taken for the one before")
	}
	l.slots.setLate(s, second)
	if !l.slots.isLate(s) {
		t.Error("a command that runs is not late")
	}
	l.slots.leave(s)
	if l.slots.isLate(s) {
		t.Error("it has ended")
	}
}
