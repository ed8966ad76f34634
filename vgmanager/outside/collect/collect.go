// Package collect reads data of a node for support, with programs that change nothing, and writes it as a tar.
//
// Each program has a time limit. A program that does not end after a signal is abandoned and recorded, and the others
// continue.
package collect

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/cluster/gatherindex"
	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

const (
	// parallel is the maximum number of concurrent programs.
	parallel = 4
	// patience is how long a program may take to end after the signal, before it is abandoned.
	patience = 2 * time.Second
	// maxDisks is the maximum number of disks whose S.M.A.R.T. state is read.
	maxDisks = 64
)

// Own runs programs of this container whose exit code is part of their result. host.Local implements it.
type Own interface {
	RunAccepting(ctx context.Context, accepted func(code int) bool, name string, args ...string) ([]byte, int, error)
}

// Options configures a collection.
type Options struct {
	// Runner runs programs on the node.
	Runner host.Runner
	Own    Own
	// Layout is the layout of the node.
	Layout hostpaths.Layout
	// Since is the start time for logs.
	Since time.Time
	// MaxBytes is the maximum size of one file.
	MaxBytes int
}

// collection is one run.
type collection struct {
	Options
	mu    sync.Mutex
	tar   *tar.Writer
	index gatherindex.Index
	// failed is the first error of writing the tar.
	failed error
}

// Write reads the node and writes the tar as results arrive. When ctx ends, it records what was not read, and
// completes the tar.
func Write(ctx context.Context, w io.Writer, o Options) error {
	if o.MaxBytes <= 0 {
		return fmt.Errorf("invalid size limit of a file: %d: must be greater than 0", o.MaxBytes)
	}
	c := &collection{Options: o, tar: tar.NewWriter(w), index: gatherindex.Index{Began: time.Now().UTC()}}
	c.run(ctx, Items(o.Layout, o.Since))
	c.run(ctx, c.further(ctx))
	c.index.Seconds = time.Since(c.index.Began).Seconds()
	index, err := json.MarshalIndent(c.index, "", "  ")
	if err != nil {
		return err
	}
	c.add(gatherindex.IndexFile, index)
	return errors.Join(c.failed, c.tar.Close())
}

func (c *collection) run(ctx context.Context, items []Item) {
	var group sync.WaitGroup
	room := make(chan struct{}, parallel)
	for _, item := range items {
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			c.read(ctx, item)
		})
	}
	group.Wait()
}

// further returns the items that depend on the first ones: LVM's report without locks if the one with locks failed,
// and the S.M.A.R.T. state of the disks.
func (c *collection) further(ctx context.Context) []Item {
	var items []Item
	for _, r := range c.index.Results {
		if r.File == "lvm-fullreport.json" && r.Error != "" {
			items = append(items, fallback)
		}
	}
	return append(items, c.disks(ctx)...)
}

var diskLine = regexp.MustCompile(`^(/dev/([a-z0-9]+)) (disk|nvme)\s*$`)

// disks returns the items for the S.M.A.R.T. state of disks if the container has smartctl, as the product's
// containers do.
func (c *collection) disks(ctx context.Context) []Item {
	if _, err := c.output(ctx, Item{Command: []string{smartctl, "--version"}, Limit: short,
		Accept: spoke}); err != nil {
		c.result(gatherindex.Result{File: "smart-*.json", Command: smartctl, Absent: absent(err),
			Error: unless(absent(err), err)})
		return nil
	}
	out, err := c.output(ctx, Item{Command: []string{"/usr/bin/lsblk", "--nodeps", "--noheadings", "--paths", "--raw",
		"--output", "NAME,TYPE"}, Limit: short})
	if err != nil {
		c.result(gatherindex.Result{File: "smart-*.json", Command: "lsblk", Error: err.Error()})
		return nil
	}
	var items []Item
	for line := range strings.Lines(string(out)) {
		if m := diskLine.FindStringSubmatch(line); m != nil && len(items) < maxDisks {
			items = append(items, smart(m[1], m[2]))
		}
	}
	return items
}

func (c *collection) read(ctx context.Context, item Item) {
	begun := time.Now()
	out, err := c.output(ctx, item)
	r := gatherindex.Result{File: item.File, Command: strings.Join(item.Command, " "),
		Seconds: time.Since(begun).Seconds()}
	if err != nil {
		r.Absent = item.Optional && absent(err)
		r.Error = unless(r.Absent, err)
		c.result(r)
		return
	}
	out, r.Cut = cut(out, c.MaxBytes, item.Log)
	r.Bytes = len(out)
	c.add(item.File, out)
	c.result(r)
}

func unless(absent bool, err error) string {
	if absent {
		return ""
	}
	return err.Error()
}

// output runs a program. It returns at the program's time limit even if the program does not end.
func (c *collection) output(ctx context.Context, item Item) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("not read: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, item.Limit)
	type answer struct {
		out []byte
		err error
	}
	done := make(chan answer, 1)
	go func() {
		defer cancel()
		out, err := c.start(ctx, item)
		done <- answer{out, err}
	}()
	select {
	case a := <-done:
		return a.out, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-done:
		return a.out, a.err
	case <-time.After(patience):
		return nil,
			fmt.Errorf(
				"%s has not ended %s after the signal to end it; it may wait for a disk that does not answer: %w",
				filepath.Base(item.Command[0]), patience, ctx.Err())
	}
}

func (c *collection) start(ctx context.Context, item Item) ([]byte, error) {
	if item.Accept == nil {
		return c.Runner.Run(ctx, item.Command[0], item.Command[1:]...)
	}
	out, _, err := c.Own.RunAccepting(ctx, item.Accept, item.Command[0], item.Command[1:]...)
	return out, err
}

// missing matches the messages of programs about files that do not exist, and of journalctl about journals or units
// that do not exist.
var missing = regexp.MustCompile(
	`No such file or directory|No journal files were found|Failed to add filter for units: No data available`)

// absent returns true if the error means that the node does not have the program or the file.
func absent(err error) bool {
	var failure *host.Error
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if !errors.As(err, &failure) || failure.ExitCode <= 0 {
		return false
	}
	// grep reports a missing file only by its exit code.
	program, _, _ := strings.Cut(failure.Command, " ")
	nothing := filepath.Base(program) == filepath.Base(grep) && failure.ExitCode == 1 && failure.Stderr == ""
	return nothing || missing.MatchString(failure.Stderr)
}

// cut truncates output that is too long: a log at its beginning, at a line boundary, and other output at its end.
func cut(out []byte, limit int, log bool) ([]byte, int) {
	over := len(out) - limit
	switch {
	case over <= 0:
		return out, 0
	case !log:
		return out[:limit], over
	}
	if end := strings.IndexByte(string(out[over:]), '\n'); end >= 0 {
		over += end + 1
	}
	return out[over:], over
}

func (c *collection) result(r gatherindex.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index.Results = append(c.index.Results, r)
}

// add writes a file. After a failed write it writes nothing more, because the reader has gone.
func (c *collection) add(name string, content []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return
	}
	c.failed = c.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: time.Now(),
		Typeflag: tar.TypeReg})
	if c.failed == nil {
		_, c.failed = c.tar.Write(content)
	}
}
