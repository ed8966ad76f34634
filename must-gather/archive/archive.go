// Package archive writes the files of a must-gather below one folder, within a budget of bytes, and keeps account of
// what was written, what could not be had, and how long each part took.
package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Names of files at the top of the archive.
const (
	VersionFile  = "version"
	TimingsFile  = "timings.json"
	ErrorsFile   = "errors.json"
	SummaryFile  = "summary.md"
	FindingsFile = "summary.json"
	// RunbookFolder has a page for each alert.
	RunbookFolder = "monitoring/runbooks"
)

const (
	// reserve is kept for what Always writes, in bytes.
	reserve = 8 << 20
	// maxFailures is how many failures are kept; the others are counted.
	maxFailures = 1000
)

// ErrBudget: the file was left out since the archive would be larger than it may be.
var ErrBudget = errors.New("left out: the archive has reached its size limit")

// Failure is something that could not be had.
type Failure struct {
	// What was asked for, for example "pods of namespace a" or "node b: lsblk".
	What string `json:"what"`
	// Error is why it is not there.
	Error string `json:"error"`
}

// Failures are all of them.
type Failures struct {
	Failures []Failure `json:"failures"`
	// Omitted is how many more there were.
	Omitted int `json:"omitted,omitempty"`
}

// Step is a part of the work.
type Step struct {
	Name    string    `json:"name"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	// Unfinished: the work ended before this part did.
	Unfinished bool `json:"unfinished,omitempty"`
}

// Timings tell when the work was done, how long each part took, and how much was written.
type Timings struct {
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Seconds float64   `json:"seconds"`
	// Interrupted is why the work ended before all was done; empty if all was.
	Interrupted string `json:"interrupted,omitempty"`
	Files       int    `json:"files"`
	Bytes       int64  `json:"bytes"`
	// LimitBytes is the most that may be written.
	LimitBytes int64  `json:"limitBytes"`
	Steps      []Step `json:"steps"`
}

// Writer writes an archive. It is safe for concurrent use.
type Writer struct {
	root  string
	limit int64
	clean func([]byte) []byte
	now   func() time.Time
	began time.Time

	mu     sync.Mutex
	sizes  map[string]int64
	bytes  int64
	failed Failures
	steps  []*Step
}

// New returns a Writer below a folder, which is made if it is not there. limit is in bytes. clean takes secrets out of
// every file.
func New(root string, limit int64, clean func([]byte) []byte) (*Writer, error) {
	if limit <= reserve {
		return nil, fmt.Errorf("size limit of the archive: %d bytes: want more than %d", limit, reserve)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("folder of the archive: %w", err)
	}
	return &Writer{root: root, limit: limit, clean: clean, now: time.Now, began: time.Now(),
		sizes: map[string]int64{}}, nil
}

// Root is the folder.
func (w *Writer) Root() string { return w.root }

// Room is how many bytes may still be written.
func (w *Writer) Room() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(0, w.limit-reserve-w.bytes)
}

// Write writes a file, or replaces it. The name has slashes and is below the folder. What is not written is a failure
// as well, by the name of the file.
func (w *Writer) Write(name string, content []byte) error {
	return w.write(name, content, w.limit-reserve)
}

// Always writes a file for which room is kept: a few MiB in all.
func (w *Writer) Always(name string, content []byte) error { return w.write(name, content, w.limit) }

func (w *Writer) write(name string, content []byte, limit int64) error {
	err := w.store(name, w.clean(content), limit)
	if err != nil {
		w.Failed(name, err)
	}
	return err
}

func (w *Writer) store(name string, content []byte, limit int64) error {
	if !fs.ValidPath(name) || name == "." {
		return fmt.Errorf("%q is not a name for a file of the archive", name)
	}
	size := int64(len(content))
	if !w.take(name, size, limit) {
		return ErrBudget
	}
	path := filepath.Join(w.root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// take takes room for a file out of the budget.
func (w *Writer) take(name string, size, limit int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := w.bytes - w.sizes[name] + size
	if next > limit {
		return false
	}
	w.bytes = next
	w.sizes[name] = size
	return true
}

// Failed notes that something could not be had. It does nothing where there is no error.
func (w *Writer) Failed(what string, err error) {
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failed.Failures) == maxFailures {
		w.failed.Omitted++
		return
	}
	w.failed.Failures = append(w.failed.Failures, Failure{What: what, Error: err.Error()})
}

// Step begins a part of the work, and returns what ends it.
func (w *Writer) Step(name string) (done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	step := &Step{Name: name, Began: w.now().UTC(), Unfinished: true}
	w.steps = append(w.steps, step)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		step.Seconds = w.now().Sub(step.Began).Seconds()
		step.Unfinished = false
	}
}

// Account writes what failed and how long things took, as far as it is known. It may be called again.
func (w *Writer) Account(interrupted error) error {
	timings, failures := w.snapshot(interrupted)
	var errs []error
	for name, value := range map[string]any{TimingsFile: timings, ErrorsFile: failures} {
		content, err := json.MarshalIndent(value, "", "  ")
		errs = append(errs, err)
		if err == nil {
			errs = append(errs, w.Always(name, append(content, '\n')))
		}
	}
	return errors.Join(errs...)
}

func (w *Writer) snapshot(interrupted error) (Timings, Failures) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	t := Timings{Began: w.began.UTC(), Ended: now.UTC(), Seconds: now.Sub(w.began).Seconds(), Files: len(w.sizes),
		Bytes: w.bytes, LimitBytes: w.limit}
	if interrupted != nil {
		t.Interrupted = interrupted.Error()
	}
	for _, s := range w.steps {
		step := *s
		if step.Unfinished {
			step.Seconds = now.Sub(step.Began).Seconds()
		}
		t.Steps = append(t.Steps, step)
	}
	return t, Failures{Failures: append([]Failure{}, w.failed.Failures...), Omitted: w.failed.Omitted}
}

// Failures are those so far.
func (w *Writer) Failures() Failures {
	_, failures := w.snapshot(nil)
	return failures
}
