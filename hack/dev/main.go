// Command dev builds what tests and releases need, and runs the items of test/lane. The Makefile calls it; `dev help`
// lists its commands.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"strings"
	"syscall"
	"time"
)

// command is a command of this program. It gets the arguments after its name.
type command struct {
	help string
	run  func(ctx context.Context, w *workspace, args []string) error
}

func commands() map[string]command {
	return map[string]command{
		"build": {"ARTIFACT...: build artifacts; without arguments, list them", buildCommand},
		"test":  {"run the items of `make test`", testCommand},
		"check": {
			"[-until TIME]: run lint, verify and the race detector, then other items until the time",
			checkCommand,
		},
		"long": {
			"[ITEM...]: run all items without a result for this commit, or the named ones",
			longCommand,
		},
		"items":     {"list all items, with their last results", itemsCommand},
		"record":    {"FILE...: add results of runs to " + "test/lane/results.tsv", recordCommand},
		"demo":      {"NAME: run the demo on a lab with a name", demoCommand},
		"env-tests": {"[kills] [-race]: run the tests that need an API server", envCommand},
		"browser":   {"STORY...: run browser tests of the console plugin", browserCommand},
		"console-units": {
			"check types, run unit tests, and check bundle and licenses of the console plugin",
			consoleCommand,
		},
		"pictures": {"take the screenshots in docs/images", picturesCommand},
		"verify":   {"check that generated files, bundle, catalog and chart are up to date", verifyCommand},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "dev:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	all := commands()
	if len(args) == 0 || args[0] == "help" {
		var names []string
		for name := range all {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			fmt.Printf("dev %s %s\n", name, all[name].help)
		}
		return nil
	}
	c, known := all[args[0]]
	if !known {
		return fmt.Errorf("%q is not a command: run `dev help`", args[0])
	}
	w, err := openWorkspace(ctx)
	if err != nil {
		return err
	}
	return c.run(ctx, w, args[1:])
}

// deadline parses a time in seconds since 1970, or a duration from now. An empty text is no deadline.
func deadline(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	var seconds int64
	if _, err := fmt.Sscanf(text, "@%d", &seconds); err != nil || strings.TrimLeft(text, "@0123456789") != "" {
		return time.Time{}, fmt.Errorf("%q is neither a duration, such as 30m, nor a time, such as @1764330000", text)
	}
	return time.Unix(seconds, 0), nil
}
