package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lane"
)

// recorder appends results to a file.
type recorder struct {
	path string
	// base has what all results of a run have in common. Its commit is empty if the working tree has changes: such a
	// run has no commit that somebody else could run, so it is not recorded.
	base lane.Result
	tree lane.Tree
}

// commit returns the abbreviated current commit, or nothing if the working tree has changes.
func (w *workspace) commit(ctx context.Context) (string, error) {
	changes, err := w.output(ctx, "git", "status", "--porcelain")
	if err != nil || changes != "" {
		return "", err
	}
	return w.output(ctx, "git", "rev-parse", "--short=10", "HEAD")
}

func (w *workspace) newRecorder(ctx context.Context) (recorder, error) {
	r := recorder{path: w.resultsPath()}
	var err error
	if r.tree, err = w.tree(ctx); err != nil {
		return r, err
	}
	if r.base.Commit, err = w.commit(ctx); err != nil {
		return r, err
	}
	number, err := w.output(ctx, "git", "rev-list", "--count", "HEAD")
	if err != nil {
		return r, err
	}
	if r.base.Number, err = strconv.Atoi(number); err != nil {
		return r, err
	}
	r.base.Date = time.Now().UTC()
	r.base.Processor, err = processor()
	return r, err
}

func (w *workspace) tree(ctx context.Context) (lane.Tree, error) {
	listing, err := w.output(ctx, "git", "ls-tree", "-r", "HEAD")
	if err != nil {
		return nil, err
	}
	return lane.ParseTree(listing + "\n")
}

// resultsPath is the file with the results of the runs of this machine: LVMS_RESULTS, or a file in the cache.
func (w *workspace) resultsPath() string {
	return getenv("LVMS_RESULTS", filepath.Join(w.cache, "results.tsv"))
}

// readResults reads the committed results, and those of this machine.
func (w *workspace) readResults() (lane.Results, error) {
	all, err := lane.ReadResults(filepath.Join(w.root, lane.ResultsFile))
	if err != nil {
		return nil, err
	}
	here, err := lane.ReadResults(w.resultsPath())
	if err != nil {
		return nil, err
	}
	for _, r := range here {
		all.Add(r)
	}
	return all, nil
}

// processor returns the model of the processor.
func processor() (string, error) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(info)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value), nil
		}
	}
	return "", errors.New("/proc/cpuinfo names no model")
}

// scenario is a line in the log of an item with a time of a scenario: its name, the seconds, and whether the status
// reported it then, or whether it was recovered from.
var scenario = regexp.MustCompile(`LVMS-TIME (\S+) (\d+(?:\.\d+)?) (reported|recovered)\b`)

// item records the result of an item, and the times of the scenarios in it if it passed.
func (r recorder) item(o outcome) error {
	one := r.base
	one.Name, one.Seconds = o.item.Name, o.ran.Round(time.Second).Seconds()
	one.Passed, one.Sum = o.err == nil, r.tree.Sum(o.item)
	if err := r.add(one); err != nil || o.err != nil {
		return err
	}
	file, err := os.Open(o.log)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		found := scenario.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		timed := one
		timed.Name = lane.TimeOf(found[1], found[3])
		if timed.Seconds, err = strconv.ParseFloat(found[2], 64); err != nil {
			return err
		}
		if err := r.add(timed); err != nil {
			return err
		}
	}
	return lines.Err()
}

// target records the time of a whole target of the Makefile.
func (r recorder) target(name string, took time.Duration, err error) error {
	one := r.base
	one.Name, one.Seconds, one.Passed, one.Sum = name, took.Round(time.Second).Seconds(), err == nil, "-"
	return r.add(one)
}

func (r recorder) add(one lane.Result) error {
	if one.Commit == "" {
		return nil
	}
	return lane.Append(r.path, one)
}

// recordCommand adds the results in files to the committed ones.
func recordCommand(_ context.Context, w *workspace, files []string) error {
	if len(files) == 0 {
		files = []string{w.resultsPath()}
	}
	path := filepath.Join(w.root, lane.ResultsFile)
	all, err := lane.ReadResults(path)
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			return err
		}
		more, err := lane.ReadResults(file)
		if err != nil {
			return err
		}
		for _, r := range more {
			all.Add(r)
		}
	}
	if err := all.Write(path); err != nil {
		return err
	}
	fmt.Println("run `make references`, which writes the tables of the documents from", lane.ResultsFile)
	return nil
}
