package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lane"
)

func TestEachArtifactThatIsNeededExists(t *testing.T) {
	check := func(who string, needs []string) {
		for _, need := range needs {
			if _, err := find(need); err != nil {
				t.Errorf("%s: %v", who, err)
			}
		}
	}
	for _, i := range lane.All() {
		check(i.Name, i.Needs)
	}
	for name, a := range artifacts() {
		check(name, a.needs)
	}
	if _, err := find("nothing"); err == nil {
		t.Error("an artifact that does not exist was found")
	}
}

// The commands of items are scripts and commands of this program that exist, and all variables in them are known.
func TestEachCommandOfAnItemExists(t *testing.T) {
	w := open(t)
	w.set("KUBEBUILDER_ASSETS", "/assets") // set when the programs are built
	for _, i := range lane.All() {
		switch program := i.Command[0]; {
		case program == "${DEV}":
			if _, known := commands()[i.Command[1]]; !known {
				t.Errorf("%s: no command is named %q", i.Name, i.Command[1])
			}
		case strings.HasPrefix(program, "hack/"):
			if info, err := os.Stat(filepath.Join(w.root, program)); err != nil || info.Mode()&0o111 == 0 {
				t.Errorf("%s: %s is not a program: %v", i.Name, program, err)
			}
		}
		for _, text := range slices.Concat(i.Command, i.Env) {
			if expanded := w.expand(text); strings.Contains(expanded, "${") {
				t.Errorf("%s: a variable is not known: %s", i.Name, expanded)
			}
		}
	}
}

// open opens the repository as a workspace, with a cache of its own.
func open(t *testing.T) *workspace {
	t.Helper()
	t.Chdir("../..")
	t.Setenv("LVMS_CACHE", t.TempDir())
	w, err := openWorkspace(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestADeadlineIsADurationOrATime(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for text, want := range map[string]time.Time{"": {}, "30m": now.Add(30 * time.Minute), "@1000600": time.Unix(1_000_600, 0)} {
		if got, err := deadline(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: got %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"soon", "30", "@", "@12x"} {
		if got, err := deadline(text, now); err == nil {
			t.Errorf("%q was accepted as %s", text, got)
		}
	}
}

// shell returns an item that runs a line of the shell.
func shell(name, line string) lane.Item {
	return lane.Item{Name: name, Slot: lane.Processor, Minutes: 0.01, Command: []string{"/bin/sh", "-c", line}}
}

func newTestRunner(t *testing.T) *runner {
	t.Helper()
	w := open(t)
	return &runner{workspace: w, slots: lane.SlotsOf(2), results: lane.Results{}, begin: time.Now(),
		running: map[string]time.Time{}, record: recorder{path: filepath.Join(w.cache, "results.tsv"),
			base: lane.Result{Commit: "abc", Number: 1}}}
}

func TestAfterAFailureNoItemStarts(t *testing.T) {
	for name, continues := range map[string]bool{"stops": false, "continues": true} {
		t.Run(name, func(t *testing.T) {
			r := newTestRunner(t)
			r.slots, r.continues = lane.Slots{All: 1, Clusters: 1}, continues
			left := r.all(t.Context(), []lane.Item{shell("a", "true"), shell("b", "echo reason; exit 3"), shell("c", "true")})
			if got := len(left) == 0; got != continues {
				t.Errorf("%d items were not started", len(left))
			}
			if err := r.verdict(t.Context(), "all"); err == nil || !strings.Contains(err.Error(), "failed: b") {
				t.Errorf("got %v", err)
			}
			results, err := lane.ReadResults(r.record.path)
			if err != nil {
				t.Fatal(err)
			}
			if !results["a"].Passed || results["b"].Passed || results["c"].Passed != continues {
				t.Errorf("recorded %v", results)
			}
		})
	}
}

func TestItemsThatDoNotFitAreNotStarted(t *testing.T) {
	r := newTestRunner(t)
	r.deadline = time.Now().Add(10 * time.Minute)
	long := shell("long", "true")
	long.Minutes = 10
	if left := r.all(t.Context(), []lane.Item{long, shell("short", "true")}); len(left) != 1 || left[0].Name != "long" {
		t.Errorf("not started: %v", left)
	}
	if err := r.verdict(t.Context(), "all"); err != nil {
		t.Error(err)
	}
}

// The first time, the artifacts of an item take longer than its command. Its result is the time of the command.
func TestArtifactsAreExpectedUntilTheyAreBuilt(t *testing.T) {
	r := newTestRunner(t)
	i := lane.Item{Name: "i", Minutes: 1, Needs: []string{"programs/olm"}}
	first := r.expected(i)
	if err := r.markBuilt("programs/olm"); err != nil {
		t.Fatal(err)
	}
	if later := r.expected(i); first <= later || later != time.Minute {
		t.Errorf("expected %s, and later %s", first, later)
	}
	o := outcome{item: i, took: time.Hour, ran: time.Minute, log: os.DevNull}
	if err := r.record.item(o); err != nil {
		t.Fatal(err)
	}
	results, err := lane.ReadResults(r.record.path)
	if err != nil || results["i"].Seconds != 60 {
		t.Errorf("recorded %v, %v", results, err)
	}
}

// A build that ends with the item that needed it does not fail the items that need it later.
func TestABuildThatWasStoppedIsRepeated(t *testing.T) {
	b := &building{}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.once(stopped, stopped.Err); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	broken, calls := errors.New("does not compile"), 0
	for range 2 {
		err := b.once(t.Context(), func() error { calls++; return broken })
		if !errors.Is(err, broken) || calls != 1 {
			t.Errorf("%d calls, %v", calls, err)
		}
	}
}

// An item that runs when this program is stopped has no result.
func TestAnItemIsStoppedWithTheProgram(t *testing.T) {
	r := newTestRunner(t)
	started := filepath.Join(t.TempDir(), "started")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(started); err == nil {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	r.all(ctx, []lane.Item{shell("slow", "touch "+started+"; sleep 600 & wait")})
	if len(r.ended) != 1 || !r.ended[0].noResult {
		t.Fatalf("got %+v", r.ended)
	}
	if err := r.verdict(ctx, "all"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if results, err := lane.ReadResults(r.record.path); err != nil || len(results) != 0 {
		t.Errorf("recorded %v, %v", results, err)
	}
}

// An item that runs at the deadline is stopped with all its processes. It is neither passed nor failed.
func TestAnItemIsStoppedAtTheDeadline(t *testing.T) {
	r := newTestRunner(t)
	started := filepath.Join(t.TempDir(), "started")
	i := shell("slow", "touch "+started+"; sleep 600 & wait")
	i.Minutes = 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.deadline = time.Now().Add(time.Second)
	r.all(ctx, []lane.Item{i})
	if len(r.ended) != 1 || !r.ended[0].noResult {
		t.Fatalf("got %+v", r.ended)
	}
	if err := r.verdict(ctx, "all"); err != nil {
		t.Error(err)
	}
	if results, err := lane.ReadResults(r.record.path); err != nil || len(results) != 0 {
		t.Errorf("recorded %v, %v", results, err)
	}
}

func TestTimesOfScenariosAreRecorded(t *testing.T) {
	r := newTestRunner(t)
	r.all(t.Context(), []lane.Item{shell("scenes", "echo '    x_test.go:1: LVMS-TIME TestSceneX/thin 1.5 reported'")})
	results, err := lane.ReadResults(r.record.path)
	if err != nil {
		t.Fatal(err)
	}
	if got := results[lane.TimeOf("TestSceneX/thin", "reported")]; got.Seconds != 1.5 || !got.Passed {
		t.Errorf("recorded %v", results)
	}
}

func TestAResultSaysWhereItIsFrom(t *testing.T) {
	w := open(t)
	r, err := w.newRecorder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.base.Number == 0 || r.base.Date.IsZero() || r.base.Processor == "" || len(r.tree) == 0 {
		t.Errorf("got %+v of %d files", r.base, len(r.tree))
	}
}

func TestWhatDoesNotEndIsStopped(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := within(t.Context(), time.Millisecond, hang); err == nil || !strings.Contains(err.Error(), "did not end") {
		t.Errorf("got %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := within(stopped, time.Minute, hang); !errors.Is(err, context.Canceled) ||
		strings.Contains(err.Error(), "did not end") {
		t.Errorf("stopped: got %v", err)
	}
	failure := errors.New("failed")
	fail := func(context.Context) error { return failure }
	if err := within(t.Context(), time.Minute, fail); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}
