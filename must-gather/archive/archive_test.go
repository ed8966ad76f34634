package archive

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func newWriter(t *testing.T, limit int64) *Writer {
	t.Helper()
	w, err := New(filepath.Join(t.TempDir(), "out"), limit, func(b []byte) []byte { return b })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWriteKeepsToTheBudgetAndSaysWhatIsLeftOut(t *testing.T) {
	w := newWriter(t, reserve+100)
	if err := w.Write("a/b.yaml", make([]byte, 60)); err != nil {
		t.Fatal(err)
	}
	if err := w.Write("a/c.yaml", make([]byte, 60)); !errors.Is(err, ErrBudget) {
		t.Fatalf("got %v, want ErrBudget", err)
	}
	// A file that is written again uses only its own space.
	if err := w.Write("a/b.yaml", make([]byte, 90)); err != nil {
		t.Fatal(err)
	}
	if got := w.Room(); got != 10 {
		t.Errorf("room for %d bytes, want 10", got)
	}
	if err := w.Always(SummaryFile, make([]byte, 1000)); err != nil {
		t.Errorf("no room for the summary: %v", err)
	}
	if err := errors.Join(w.Account(nil), w.Account(errors.New("SIGTERM"))); err != nil {
		t.Fatal(err)
	}
	var failures Failures
	read(t, w, ErrorsFile, &failures)
	if len(failures.Failures) != 1 || failures.Failures[0].What != "a/c.yaml" ||
		!strings.Contains(failures.Failures[0].Error, "size limit") {
		t.Errorf("got %+v", failures)
	}
	var timings Timings
	read(t, w, TimingsFile, &timings)
	if timings.Interrupted != "SIGTERM" || timings.LimitBytes != reserve+100 || timings.Files < 2 {
		t.Errorf("got %+v", timings)
	}
}

func read(t *testing.T, w *Writer, name string, into any) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(w.Root(), name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
}

func TestWriteStaysInItsFolder(t *testing.T) {
	w := newWriter(t, 2*reserve)
	for _, name := range []string{"../x", "/etc/x", "a/../../x", ".", "", "a//b"} {
		if err := w.Write(name, nil); err == nil {
			t.Errorf("%q was written", name)
		}
	}
}

func TestFailuresAreBounded(t *testing.T) {
	w := newWriter(t, 2*reserve)
	for range maxFailures + 5 {
		w.Failed("x", errors.New("no"))
	}
	w.Failed("x", nil)
	if _, f := w.snapshot(nil); len(f.Failures) != maxFailures || f.Omitted != 5 {
		t.Errorf("kept %d, omitted %d", len(f.Failures), f.Omitted)
	}
}

func TestAStepThatDidNotEndIsSaid(t *testing.T) {
	w := newWriter(t, 2*reserve)
	w.Step("ended")()
	w.Step("running")
	timings, _ := w.snapshot(nil)
	if timings.Steps[0].Unfinished || !timings.Steps[1].Unfinished {
		t.Errorf("got %+v", timings.Steps)
	}
}

func TestNewWantsALimitAboveItsReserve(t *testing.T) {
	if _, err := New(t.TempDir(), reserve, nil); err == nil {
		t.Error("taken")
	}
}

func TestTail(t *testing.T) {
	long := strings.Repeat("line\n", 40000) + "the last\n"
	tests := map[string]struct {
		text  string
		limit int
		want  func(string) bool
	}{
		"short": {"a\nb\n", 100, func(s string) bool { return s == "a\nb\n" }},
		"exact": {"a\nb\n", 4, func(s string) bool { return s == "a\nb\n" }},
		"long": {long, 1000, func(s string) bool {
			return strings.HasSuffix(s, "line\nthe last\n") && strings.HasPrefix(s, "[199") && len(s) < 1100 &&
				!strings.Contains(s, "]\nine")
		}},
		"one line": {strings.Repeat("x", 3000), 1000,
			func(s string) bool { return strings.HasPrefix(s, "[2000 bytes") }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Tail(strings.NewReader(test.text), test.limit)
			if err != nil || !test.want(string(got)) {
				t.Errorf("got %d bytes, %.60q…, %v", len(got), got, err)
			}
		})
	}
}

func TestTailOfAReadThatFailedHasWhatCameBefore(t *testing.T) {
	got, err := Tail(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("ab"))), 10)
	if !errors.Is(err, iotest.ErrTimeout) || string(got) != "a" {
		t.Errorf("got %q, %v", got, err)
	}
}
