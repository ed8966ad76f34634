package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lane"
)

// testCommand runs `make test`.
func testCommand(ctx context.Context, w *workspace, args []string) error {
	if len(args) > 0 {
		return errors.New("test has no arguments")
	}
	r, err := w.newRunner(ctx)
	if err != nil {
		return err
	}
	r.all(ctx, lane.Longest(lane.Core(), r.results))
	r.table("make test")
	err = r.verdict(ctx, "make test")
	return errors.Join(err, r.target(lane.FirstTest, lane.LaterTest, err))
}

// target records the time of a whole target of the Makefile, under one of two names.
func (r *runner) target(first, later string, err error) error {
	if os.Getenv("LVMS_FIRST") != "yes" {
		first = later
	}
	return r.record.target(first, time.Since(r.begin), err)
}

// demoCommand runs the demo on a lab with a name.
func demoCommand(ctx context.Context, w *workspace, args []string) error {
	if len(args) != 1 {
		return errors.New("demo needs the name of the lab")
	}
	r, err := w.newRunner(ctx)
	if err != nil {
		return err
	}
	for _, need := range []string{"image", "bundle", "catalog", "bridge", "console-host", "demo", "programs/cluster",
		"programs/olm", "programs/opm"} {
		if err := w.build(ctx, need, os.Stdout); err != nil {
			return err
		}
	}
	err = w.run(
		ctx,
		process{args: []string{"${BIN}/demo", "--name", args[0], "--image", "${IMAGE}", "--version", "${VERSION}",
			"--bridge", "${BIN}/bridge", "--plugin", "${BIN}/console-plugin",
			"--host", "${ROOT}/console-plugin/web/host/dist"}},
		os.Stdout,
	)
	return errors.Join(err, r.target(lane.FirstDemo, lane.LaterDemo, err))
}

// checkCommand runs lint, verify and the race detector, and then items until the deadline.
func checkCommand(ctx context.Context, w *workspace, args []string) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	until := flags.String(
		"until",
		"",
		"when the last item has to end: a duration from now (30m), or seconds since 1970 (@1764330000)",
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	r, err := w.newRunner(ctx)
	if err != nil {
		return err
	}
	end, err := deadline(*until, r.begin)
	if err != nil {
		return err
	}
	rest := lane.Order(lane.Others(), r.results, r.record.tree)
	left := rest
	r.all(ctx, lane.Checks())
	if !r.failed() {
		if r.deadline = end; !end.IsZero() {
			left = r.all(ctx, rest)
		}
	}
	r.table("make check")
	r.notRun(left)
	return r.verdict(ctx, "make check")
}

// notRun prints which items were not run, and when they were last.
func (r *runner) notRun(items []lane.Item) {
	if len(items) == 0 {
		return
	}
	fmt.Printf("\n%d items were not run. Those that cover a change since they last passed:\n", len(items))
	unchanged := 0
	for _, i := range items {
		last := r.results[i.Name]
		if last.Passed && last.Sum == r.record.tree.Sum(i) {
			unchanged++
			continue
		}
		fmt.Printf("  %s (%s)\n", i.Name, r.lastRun(i))
	}
	fmt.Printf("and %d that have passed with the same files. Run one with: make test-long ITEMS=NAME\n", unchanged)
}

// lastRun describes the newest result of an item.
func (r *runner) lastRun(i lane.Item) string {
	last, known := r.results[i.Name]
	if !known {
		return "no result is recorded"
	}
	result := "passed"
	if !last.Passed {
		result = "failed"
	}
	return fmt.Sprintf("%s at commit %s, %d commits ago", result, last.Commit, r.record.base.Number-last.Number)
}

// longCommand runs all items that have not passed at this commit, or those that are named.
func longCommand(ctx context.Context, w *workspace, names []string) error {
	r, err := w.newRunner(ctx)
	if err != nil {
		return err
	}
	r.continues = true
	items := lane.All()
	if len(names) > 0 {
		if items, err = named(names); err != nil {
			return err
		}
	} else {
		items = slices.DeleteFunc(items, func(i lane.Item) bool {
			last := r.results[i.Name]
			return last.Passed && last.Commit != "" && last.Commit == r.record.base.Commit
		})
		fmt.Printf("%d of %d items have no result for this commit\n", len(items), len(lane.All()))
	}
	r.all(ctx, lane.Order(items, r.results, r.record.tree))
	r.table("make test-long")
	return r.verdict(ctx, "make test-long")
}

// named returns the items with names. A name that ends with a slash stands for all items below it.
func named(names []string) ([]lane.Item, error) {
	var items []lane.Item
	for _, name := range names {
		before := len(items)
		for _, i := range lane.All() {
			if i.Name == name || strings.HasSuffix(name, "/") && strings.HasPrefix(i.Name, name) {
				items = append(items, i)
			}
		}
		if len(items) == before {
			return nil, fmt.Errorf("no item is named %q: run `make items` for a list", name)
		}
	}
	return items, nil
}

// itemsCommand lists all items.
func itemsCommand(ctx context.Context, w *workspace, _ []string) error {
	r, err := w.newRunner(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%-40s %-10s %8s  %s\n", "ITEM", "SLOT", "MIN:S", "LAST RESULT")
	var sum time.Duration
	for _, i := range lane.All() {
		expected := lane.Expected(i, r.results)
		sum += expected
		fmt.Printf("%-40s %-10s %8s  %s\n", i.Name, i.Slot, clock(expected), r.lastRun(i))
	}
	fmt.Printf("%d items, %s in one slot\n", len(lane.All()), clock(sum))
	return nil
}
