package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lane"
)

// lab tests and clusters that are stopped need some time to remove what they have started.
const (
	// progressEvery is the time between two lines about running items.
	progressEvery = time.Minute
	// overrun is how much longer than expected a command may take before it counts as hanging: this many times the
	// expected time, and hangs in addition.
	overrun = 3
	hangs   = 15 * time.Minute
	// buildLimit is that of one artifact. The first build of the kernel or of Kubernetes takes half an hour on a slow
	// machine that builds both at the same time.
	buildLimit = 2 * time.Hour
	// tail is the number of lines of the log of a failed item that are printed.
	tail = 60
)

// outcome is how an item ended.
type outcome struct {
	item lane.Item
	// took is the whole time, and ran is that of the command, without the artifacts that were built before it.
	took, ran time.Duration
	err       error
	// noResult is set if the item was stopped: at the deadline, or with this program.
	noResult bool
	log      string
}

func (o outcome) word() string {
	switch {
	case o.noResult:
		return "stopped"
	case o.err != nil:
		return "FAIL"
	default:
		return "ok"
	}
}

// runner runs items in slots, and records their results.
type runner struct {
	*workspace
	slots   lane.Slots
	results lane.Results // of earlier runs
	// deadline is when the last item has to end; zero means never.
	deadline time.Time
	// continues is set if a failure does not keep further items from starting.
	continues bool
	// record gets the results.
	record recorder

	begin   time.Time
	ended   []outcome
	running map[string]time.Time
}

func (w *workspace) newRunner(ctx context.Context) (*runner, error) {
	results, err := w.readResults()
	if err != nil {
		return nil, err
	}
	record, err := w.newRecorder(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.setRevision(ctx); err != nil {
		return nil, err
	}
	return &runner{workspace: w, slots: lane.SlotsOf(runtime.NumCPU()), results: results, record: record,
		begin: begin(time.Now()), running: map[string]time.Time{}}, nil
}

// begin returns when make began, if this program runs in make.
func begin(now time.Time) time.Time {
	seconds, err := strconv.ParseInt(os.Getenv("LVMS_BEGIN"), 10, 64)
	if err != nil {
		return now
	}
	return time.Unix(seconds, 0)
}

// all runs items in their order, as far as slots and time allow, and returns those that were not started.
func (r *runner) all(ctx context.Context, items []lane.Item) []lane.Item {
	waiting := slices.Clone(items)
	var running []lane.Item
	ends := make(chan outcome)
	progress := time.NewTicker(progressEvery)
	defer progress.Stop()
	fits := func(i lane.Item) bool { return lane.Fits(time.Now(), r.deadline, r.expected(i)) }
	for {
		for ctx.Err() == nil && (r.continues || !r.failed()) {
			next := r.slots.Next(waiting, running, fits)
			if next < 0 {
				break
			}
			i := waiting[next]
			waiting = slices.Delete(waiting, next, next+1)
			running = append(running, i)
			r.running[i.Name] = time.Now()
			fmt.Printf("%s  start %s (about %s)\n", r.elapsed(), i.Name, clock(r.expected(i)))
			go func() { ends <- r.one(ctx, i) }()
		}
		if len(running) == 0 {
			return waiting
		}
		select {
		case end := <-ends:
			running = slices.DeleteFunc(running, func(i lane.Item) bool { return i.Name == end.item.Name })
			delete(r.running, end.item.Name)
			r.end(end)
		case <-progress.C:
			var parts []string
			for _, i := range running {
				parts = append(parts, fmt.Sprintf("%s for %s", i.Name, clock(time.Since(r.running[i.Name]))))
			}
			fmt.Printf("%s  running: %s\n", r.elapsed(), strings.Join(parts, ", "))
		}
	}
}

// expected returns how long an item takes: its command, and artifacts that were never built on this machine.
func (r *runner) expected(i lane.Item) time.Duration {
	return lane.Expected(i, r.results) + lane.Building(i, r.wasBuilt)
}

func (r *runner) elapsed() string { return clock(time.Since(r.begin)) }

func (r *runner) failed() bool {
	return slices.ContainsFunc(r.ended, func(o outcome) bool { return o.err != nil && !o.noResult })
}

// end prints and records how an item ended.
func (r *runner) end(o outcome) {
	r.ended = append(r.ended, o)
	fmt.Printf("%s  %s %s (%s)\n", r.elapsed(), o.word(), o.item.Name, clock(o.took))
	if o.noResult {
		return
	}
	if o.err != nil {
		printTail(os.Stdout, o.log)
		fmt.Printf("%s: %v; the whole log is %s\n", o.item.Name, o.err, o.log)
	}
	if err := r.record.item(o); err != nil {
		fmt.Fprintln(os.Stderr, "dev: the result of", o.item.Name, "is not recorded:", err)
	}
}

// one builds what an item needs and runs it. Its output goes to a log.
func (r *runner) one(ctx context.Context, i lane.Item) outcome {
	o := outcome{item: i, log: filepath.Join(r.cache, "lane", strings.ReplaceAll(i.Name, "/", "_")+".log")}
	begin := time.Now()
	file, err := os.Create(o.log)
	if err != nil {
		o.err = err
		return o
	}
	defer func() { _ = file.Close() }()
	limited := ctx
	if !r.deadline.IsZero() {
		var stop context.CancelFunc
		limited, stop = context.WithDeadline(ctx, r.deadline)
		defer stop()
	}
	o.ran, o.err = r.buildAndRun(limited, i, file)
	o.took = time.Since(begin)
	o.noResult = o.err != nil && (ctx.Err() != nil || !r.deadline.IsZero() && time.Now().After(r.deadline))
	return o
}

// buildAndRun builds what an item needs, runs its command, and returns how long the command ran.
func (r *runner) buildAndRun(ctx context.Context, i lane.Item, out io.Writer) (time.Duration, error) {
	for _, need := range i.Needs {
		err := within(ctx, buildLimit, func(ctx context.Context) error { return r.build(ctx, need, out) })
		if err != nil {
			return 0, fmt.Errorf("%s: %w", need, err)
		}
	}
	begin := time.Now()
	err := within(ctx, overrun*lane.Expected(i, r.results)+hangs, func(ctx context.Context) error {
		return r.run(ctx, process{dir: i.Dir, env: i.Env, args: i.Command}, out)
	})
	return time.Since(begin), err
}

// within runs do with a time limit. If do fails because of it, the error says so.
func within(ctx context.Context, limit time.Duration, do func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := do(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("it did not end in %s and was stopped: %w", clock(limit), err)
	}
	return err
}

// printTail prints the lines of a log that tell of failures, and its end.
func printTail(out io.Writer, log string) {
	file, err := os.Open(log)
	if err != nil {
		fmt.Fprintln(out, err)
		return
	}
	defer func() { _ = file.Close() }()
	var failures, last []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if len(failures) < tail && failure.MatchString(line) {
			failures = append(failures, line)
		}
		last = append(last, line)
		if len(last) > tail {
			last = last[1:]
		}
	}
	for _, line := range slices.Concat(failures, []string{"[…]"}, last) {
		fmt.Fprintln(out, "    "+line)
	}
}

var failure = regexp.MustCompile(`^\s*(--- FAIL|FAIL\b|panic:|\[FAIL|\[FAILED|not ok|✖)|_test\.go:\d+: `)

// clock prints a duration as minutes and seconds.
func clock(d time.Duration) string {
	d = d.Round(time.Second)
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// table prints the time of each item.
func (r *runner) table(title string) {
	fmt.Printf("\n%-60s %8s\n", title+": time of each item", "min:s")
	for _, o := range r.ended {
		fmt.Printf("%-60s %8s  %s\n", o.item.Name, clock(o.took), o.word())
	}
	fmt.Printf("%-60s %8s\n", "total", r.elapsed())
}

// verdict returns an error that names the failed items.
func (r *runner) verdict(ctx context.Context, target string) error {
	var failed []string
	for _, o := range r.ended {
		if o.err != nil && !o.noResult {
			failed = append(failed, o.item.Name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%s: failed: %s", target, strings.Join(failed, ", "))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", target, ctx.Err())
	}
	fmt.Printf("%s: all items passed\n", target)
	return nil
}
