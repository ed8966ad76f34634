// Package archive writes the files of a must-gather to a directory, within a limit in bytes. It records what was
// written, what could not be read, and how long each step took.
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

// Names of files in the root of the archive.
const (
	VersionFile  = "version"
	TimingsFile  = "timings.json"
	ErrorsFile   = "errors.json"
	SummaryFile  = "summary.md"
	FindingsFile = "summary.json"
	// RunbookFolder is the directory with a page for each alert.
	RunbookFolder = "monitoring/runbooks"
)

const (
	// reserve is the space for files written by Always, in bytes.
	reserve = 8 << 20
	// maxFailures is the maximum number of recorded failures. Others are counted.
	maxFailures = 1000
)

// ErrBudget is returned if a file would exceed the size limit of the archive.
var ErrBudget = errors.New("omitted: the archive reached its size limit")

// Failure is something that could not be read.
type Failure struct {
	// What was requested, for example "pods of namespace a" or "node b: lsblk".
	What string `json:"what"`
	// Error is the reason.
	Error string `json:"error"`
}

// Failures lists all failures.
type Failures struct {
	Failures []Failure `json:"failures"`
	// Omitted is the number of failures that are not in the list.
	Omitted int `json:"omitted,omitempty"`
}

// Step is a part of the work.
type Step struct {
	Name    string    `json:"name"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	// Unfinished reports whether the collection ended before this step.
	Unfinished bool `json:"unfinished,omitempty"`
}

// Timings has the time of the collection, the duration of each step, and the number of bytes written.
type Timings struct {
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Seconds float64   `json:"seconds"`
	// Interrupted is why the collection ended early; empty if it is complete.
	Interrupted string `json:"interrupted,omitempty"`
	Files       int    `json:"files"`
	Bytes       int64  `json:"bytes"`
	// LimitBytes is the maximum number of bytes to write.
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

// New returns a Writer to a directory, which it creates if necessary. limit is in bytes. clean redacts secrets in every
// file.
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

// Root returns the directory.
func (w *Writer) Root() string { return w.root }

// Room returns how many bytes can still be written.
func (w *Writer) Room() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(0, w.limit-reserve-w.bytes)
}

// Write writes or replaces a file. The name has slashes and is relative to the directory. If it fails, it also records
// a failure with the name of the file.
func (w *Writer) Write(name string, content []byte) error {
	return w.write(name, content, w.limit-reserve)
}

// Always writes a file within the reserved space, which is a few MiB for all such files.
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

// take reserves space for a file.
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

// Failed records a failure. It does nothing if err is nil.
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

// Step starts a step, and returns a function that ends it.
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

// Account writes the present failures and timings. It can be called several times.
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

// Failures returns the failures up to now.
func (w *Writer) Failures() Failures {
	_, failures := w.snapshot(nil)
	return failures
}
