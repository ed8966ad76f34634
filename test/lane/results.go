package lane

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ResultsFile is the committed file with the newest result of each item, relative to the root of the repository.
const ResultsFile = "test/lane/results.tsv"

// Result is the result of a run of an item, of a scenario in an item, or of a whole target of the Makefile.
type Result struct {
	// Name is the name of the item. Scenarios are named `time/SCENARIO/PART`, targets `make test` or `make test, cold`.
	Name string
	// Commit is the abbreviated hash of the commit, and Number the number of commits up to it.
	Commit string
	Number int
	// Date is the day of the run.
	Date time.Time
	// Processor is the model of the processor of the machine.
	Processor string
	// Seconds is the duration.
	Seconds float64
	Passed  bool
	// Sum is the checksum of the files that the item covers.
	Sum string
}

const day = "2006-01-02"

// String returns the line of the result, without the line break.
func (r Result) String() string {
	result := "FAIL"
	if r.Passed {
		result = "ok"
	}
	return strings.Join([]string{r.Name, r.Commit, strconv.Itoa(r.Number), r.Date.Format(day), r.Processor,
		strconv.FormatFloat(r.Seconds, 'f', -1, 64), result, r.Sum}, "\t")
}

func parseResult(line string) (Result, error) {
	f := strings.Split(line, "\t")
	if len(f) != 8 {
		return Result{}, fmt.Errorf("%d columns instead of 8: %q", len(f), line)
	}
	r := Result{Name: f[0], Commit: f[1], Processor: f[4], Passed: f[6] == "ok", Sum: f[7]}
	var err error
	if r.Number, err = strconv.Atoi(f[2]); err != nil {
		return r, fmt.Errorf("number of commits in %q: %w", line, err)
	}
	if r.Date, err = time.Parse(day, f[3]); err != nil {
		return r, fmt.Errorf("date in %q: %w", line, err)
	}
	if r.Seconds, err = strconv.ParseFloat(f[5], 64); err != nil {
		return r, fmt.Errorf("seconds in %q: %w", line, err)
	}
	return r, nil
}

// Results are the newest results by name.
type Results map[string]Result

// ReadResults reads a file of results. A file that does not exist has no results.
func ReadResults(path string) (Results, error) {
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return Results{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	all, err := parseResults(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

func parseResults(r io.Reader) (Results, error) {
	all := Results{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if lines.Text() == "" {
			continue
		}
		one, err := parseResult(lines.Text())
		if err != nil {
			return nil, err
		}
		all.Add(one)
	}
	return all, lines.Err()
}

// Add adds a result, unless there is one of a later commit with the same name. Of one commit, the last one counts.
func (all Results) Add(r Result) {
	if old, exists := all[r.Name]; !exists || r.Number >= old.Number {
		all[r.Name] = r
	}
}

// Newest returns the number of commits up to the newest commit with a result.
func (all Results) Newest() int {
	newest := 0
	for _, r := range all {
		newest = max(newest, r.Number)
	}
	return newest
}

// Write writes the results, sorted by name.
func (all Results) Write(path string) error {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(all[name].String() + "\n")
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// Append appends a result to a file.
func Append(path string, r Result) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(file, r); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
