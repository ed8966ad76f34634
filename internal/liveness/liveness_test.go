package liveness

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// process is a process whose end is recorded.
type process struct {
	*Monitor
	started, running, reports atomic.Uint64
	ctx                       context.Context
	// gate is held while no command may start.
	gate sync.Mutex

	mu    sync.Mutex
	used  usage
	err   error
	stuck []string
	ended time.Duration
	// hangs keeps the checks from ending until it is closed.
	hangs chan struct{}
}

// uses changes the usage of the process.
func (p *process) uses(change func(used *usage)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.used)
}

// end returns what was stuck when the process ended, and when that was.
func (p *process) end() ([]string, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stuck, p.ended
}

// run starts the checks in a bubble of simulated time.
func run(t *testing.T, test func(p *process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := &process{}
		ctx, cancel := context.WithCancel(t.Context())
		p.Monitor = New(func(error) { p.reports.Add(1) }, func(stuck []string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.stuck, p.ended = stuck, time.Since(begin)
			cancel()
		})
		p.usage = func() (usage, error) {
			p.mu.Lock()
			hangs := p.hangs
			p.mu.Unlock()
			if hangs != nil {
				<-hangs
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.used, p.err
		}
		p.ctx = p.Context(ctx)
		CountCommands(p.ctx, p)
		go func() { _ = p.Start(ctx) }()
		test(p)
		cancel()
	})
}

// Running and Hold are of Commands.
func (p *process) Running() (started, running uint64) { return p.started.Load(), p.running.Load() }

func (p *process) Hold() (release func()) {
	p.gate.Lock()
	return p.gate.Unlock
}

// command runs a command of other work.
func (p *process) command(d time.Duration) {
	p.gate.Lock()
	p.started.Add(1)
	p.running.Add(1)
	p.gate.Unlock()
	time.Sleep(d)
	p.running.Add(^uint64(0))
}

// wantStuck waits longer than the end of a stuck process takes.
func (p *process) wantStuck(t *testing.T, name string) {
	t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	if stuck, _ := p.end(); len(stuck) != 1 || !strings.Contains(stuck[0], name) {
		t.Errorf("stuck: %q, want %q", stuck, name)
	}
}

func (p *process) wantAlive(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if stuck, ended := p.end(); len(stuck) > 0 {
		t.Errorf("the process ended after %s: %q", ended, stuck)
	}
}

func TestStuckWorkEndsTheProcessWithinAMinute(t *testing.T) {
	run(t, func(p *process) {
		never := make(chan struct{})
		go func() {
			_, end := Begin(p.ctx, "pass of the audit")
			defer end()
			<-never
		}()
		p.wantStuck(t, "pass of the audit")
		close(never)
	})
}

func TestAPartThatDoesNotAnswerEndsTheProcess(t *testing.T) {
	for name, answers := range map[string]func(ctx context.Context) error{
		"a lock": func(context.Context) error {
			time.Sleep(time.Hour)
			return nil
		},
		"an error": func(context.Context) error { return errors.New("no such socket") },
		"too late": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(p *process) {
				Ask(p.ctx, "engine", answers)
				p.wantStuck(t, "engine")
				if stuck, _ := p.end(); name == "an error" && !strings.Contains(stuck[0], "no such socket") {
					t.Errorf("the last error is missing: %q", stuck)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

func TestWorkThatGoesOnIsNotStuck(t *testing.T) {
	for name, work := range map[string]func(p *process, ctx context.Context){
		"a command that takes ten minutes": func(_ *process, ctx context.Context) {
			end := Busy(ctx)
			time.Sleep(10 * time.Minute)
			end()
		},
		"many short waits": func(_ *process, ctx context.Context) {
			for range 100 {
				end := Busy(ctx)
				time.Sleep(time.Second)
				end()
				time.Sleep(Limit - 10*time.Second)
			}
		},
		"a computation": func(p *process, _ context.Context) {
			for range 600 {
				p.uses(func(used *usage) { used.cpu += time.Second })
				time.Sleep(time.Second)
			}
		},
		"a device that does not answer": func(p *process, _ context.Context) {
			p.uses(func(used *usage) { used.blocked = true })
			time.Sleep(10 * time.Minute)
			p.uses(func(used *usage) { used.blocked = false })
		},
		"the commands of other work": func(p *process, _ context.Context) {
			for range 50 {
				p.command(5 * time.Second)
				time.Sleep(5 * time.Second)
			}
		},
		"an API server that is away": func(p *process, _ context.Context) {
			for range 20 {
				end := p.Request() // of the informer for whose cache the work waits
				time.Sleep(time.Second)
				end(errors.New("connection refused"))
				time.Sleep(30 * time.Second)
			}
		},
		"an API server that does not answer": func(p *process, _ context.Context) {
			end := p.Request()
			time.Sleep(10 * time.Minute)
			end(nil)
		},
		"reads of a slow device": func(p *process, _ context.Context) {
			for range 600 {
				p.uses(func(used *usage) { used.bytes += 100 << 10 })
				time.Sleep(time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(p *process) {
				ctx, end := Begin(p.ctx, name)
				work(p, ctx)
				end()
				time.Sleep(10 * time.Minute)
				p.wantAlive(t)
			})
		})
	}
}

func TestAPartThatDoesNotAnswerWaitsForCommands(t *testing.T) {
	run(t, func(p *process) {
		Ask(p.ctx, "driver", func(context.Context) error { return errors.New("no socket") })
		p.command(3 * time.Minute)
		p.wantStuck(t, "driver")
		if _, ended := p.end(); ended < 3*time.Minute {
			t.Errorf("the process ended after %s, during a command", ended)
		}
	})
}

func TestTheProcessDoesNotEndDuringACommand(t *testing.T) {
	run(t, func(p *process) {
		_, end := Begin(p.ctx, "stuck")
		defer end()
		p.command(3 * time.Minute)
		p.wantAlive(t)
		p.wantStuck(t, "stuck")
		if p.gate.TryLock() {
			t.Error("a command can begin while the process ends")
		}
	})
}

// TestTimeWithoutTheProcessorDoesNotCount has checks that come an hour late, as after the machine was suspended.
func TestTimeWithoutTheProcessorDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(nil, nil)
		m.usage = func() (usage, error) { return usage{}, nil }
		ctx := m.Context(t.Context())
		_, end := Begin(ctx, "work")
		defer end()
		stop := Ask(ctx, "part", func(context.Context) error { return nil })
		defer stop()
		m.check(ctx)
		for range 3 {
			time.Sleep(time.Hour)
			if stuck := m.check(ctx); len(stuck) > 0 {
				t.Errorf("stuck: %q", stuck)
			}
			synctest.Wait()
		}
	})
}

func TestUsageThatCannotBeReadIsNotQuiet(t *testing.T) {
	run(t, func(p *process) {
		p.mu.Lock()
		p.err = errors.New("no /proc")
		p.mu.Unlock()
		_, end := Begin(p.ctx, "work")
		defer end()
		time.Sleep(10 * time.Minute)
		p.wantAlive(t)
		if n := p.reports.Load(); n != 1 {
			t.Errorf("%d reports of one error", n)
		}
	})
}

func TestTheProcessEndsWhenTheChecksStop(t *testing.T) {
	run(t, func(p *process) {
		p.started.Store(1)
		p.running.Store(1)
		time.Sleep(time.Minute)
		hangs := make(chan struct{})
		defer close(hangs)
		p.mu.Lock()
		p.hangs = hangs
		p.mu.Unlock()
		time.Sleep(3 * Limit)
		if stuck, _ := p.end(); len(stuck) != 0 {
			t.Errorf("the process ended during a command: %q", stuck)
		}
		p.running.Store(0)
		time.Sleep(2 * interval)
		if stuck, _ := p.end(); len(stuck) != 1 || !strings.Contains(stuck[0], "no check") {
			t.Errorf("got %q", stuck)
		}
	})
}

func TestCheckFailsWhenTheChecksStop(t *testing.T) {
	run(t, func(p *process) {
		if err := p.Check(); err != nil {
			t.Errorf("before the first check: %v", err)
		}
		time.Sleep(time.Minute)
		if err := p.Check(); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		m := New(nil, nil)
		m.check(t.Context())
		time.Sleep(2 * Limit)
		if err := m.Check(); err == nil {
			t.Error("stopped checks are healthy")
		}
	})
}

func TestWithoutAMonitorNothingHappens(t *testing.T) {
	ctx, end := Begin(t.Context(), "work")
	Busy(ctx)()
	Ask(ctx, "part", nil)()
	end()
}

func TestEndedWorkIsForgotten(t *testing.T) {
	run(t, func(p *process) {
		_, end := Begin(p.ctx, "work")
		stop := Ask(p.ctx, "part", func(context.Context) error { return errors.New("broken") })
		end()
		stop()
		time.Sleep(10 * time.Minute)
		p.wantAlive(t)
	})
}

// TestAHundredFreezesAreNoticed freezes one of many units that are at work at the same time, at a random moment.
func TestAHundredFreezesAreNoticed(t *testing.T) {
	for range 100 {
		run(t, func(p *process) {
			victim, at := rand.IntN(10), rand.IntN(60)
			names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
			begin := time.Now()
			var frozen time.Duration
			stop := make(chan struct{})
			var all sync.WaitGroup
			for i, name := range names {
				all.Go(func() {
					for second := range 300 {
						ctx, end := Begin(p.ctx, name)
						if i == victim && second == at {
							frozen = time.Since(begin)
							<-stop // a lock that is never released
							end()
							return
						}
						time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
						done := Busy(ctx)
						time.Sleep(100 * time.Millisecond)
						done()
						end()
						select {
						case <-stop:
							return
						case <-time.After(900 * time.Millisecond):
						}
					}
				})
			}
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			close(stop)
			all.Wait()
			stuck, ended := p.end()
			if len(stuck) != 1 || !strings.HasPrefix(stuck[0], names[victim]+":") || ended-frozen > time.Minute {
				t.Errorf("%s was frozen at %s; the process ended at %s: %q", names[victim], frozen, ended, stuck)
			}
		})
	}
}

func TestBlockedThread(t *testing.T) {
	tasks := t.TempDir()
	write := func(thread, stat string) {
		t.Helper()
		dir := filepath.Join(tasks, thread)
		err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	write("7", "7 (lvms) S 1 7 7 0")
	write("8", "8 (a) D (b) S 1 7 7 0")
	if err := os.Mkdir(filepath.Join(tasks, "9"), 0o755); err != nil { // it has ended
		t.Fatal(err)
	}
	if blocked, err := blockedThread(tasks); err != nil || blocked {
		t.Errorf("got %t, %v", blocked, err)
	}
	write("9", "9 (lvms) D 1 7 7 0")
	if blocked, err := blockedThread(tasks); err != nil || !blocked {
		t.Errorf("got %t, %v", blocked, err)
	}
	if err := os.Remove(filepath.Join(tasks, "9", "stat")); err != nil {
		t.Fatal(err)
	}
	write("7", "nonsense")
	if _, err := blockedThread(tasks); err == nil {
		t.Error("a file without a state was accepted")
	}
	if _, err := blockedThread(filepath.Join(tasks, "none")); err == nil {
		t.Error("a missing directory was accepted")
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	used, err := processUsage()
	if err != nil || used.cpu <= 0 {
		t.Errorf("got %+v, %v", used, err)
	}
	file := filepath.Join(t.TempDir(), "io")
	if n, err := deviceBytes(file); err != nil || n != 0 {
		t.Errorf("a kernel that does not count: %d, %v", n, err)
	}
	for content, want := range map[string]uint64{"rchar: 5\nread_bytes: 7\nwrite_bytes: 9\n": 16, "rchar: 5\n": 0} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if n, err := deviceBytes(file); n != want || (err != nil) != (want == 0) {
			t.Errorf("%q: got %d, %v", content, n, err)
		}
	}
	if _, err := deviceBytes(filepath.Dir(file)); err == nil {
		t.Error("a directory was read")
	}
}
