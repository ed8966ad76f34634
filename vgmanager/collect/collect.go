// Package collect reads what support needs to know of a node, by programs that change nothing, and writes it as one
// tar.
//
// Each program has a time limit. One that does not end, not even at the signal to do so, is left behind and noted, and
// the others go on.
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

	"github.com/lvm-storage/lvm-operator/vgmanager/host"
)

const (
	// parallel is how many programs run at a time.
	parallel = 4
	// patience is how long a program has to end when it was told to, before it is left behind.
	patience = 2 * time.Second
	// maxDisks is how many disks are asked for their own state.
	maxDisks = 64
	// IndexFile is the last file of the tar: what was read, and what was not.
	IndexFile = "collect.json"
)

// Own runs programs of this process' own container, whose exit code is a part of their answer: host.Local does.
type Own interface {
	RunAccepting(ctx context.Context, accepted func(code int) bool, name string, args ...string) ([]byte, int, error)
}

// Options of a collection.
type Options struct {
	// Runner runs programs of the node.
	Runner host.Runner
	Own    Own
	// Since is from when on logs are wanted.
	Since time.Time
	// MaxBytes is the most that one file may have.
	MaxBytes int
}

// Result is what became of an Item.
type Result struct {
	File    string  `json:"file"`
	Command string  `json:"command"`
	Seconds float64 `json:"seconds"`
	Bytes   int     `json:"bytes"`
	// Cut is how many bytes were left out.
	Cut int `json:"cut,omitempty"`
	// Absent: the node does not have it, and may do without.
	Absent bool `json:"absent,omitempty"`
	// Error is why it could not be read.
	Error string `json:"error,omitempty"`
}

// Index is what was read, and what was not.
type Index struct {
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	Results []Result  `json:"results"`
}

// collection is one run.
type collection struct {
	Options
	mu    sync.Mutex
	tar   *tar.Writer
	index Index
	// failed is the first error of the tar itself.
	failed error
}

// Write reads the node and writes the tar, as things come. When ctx ends, what has not been read is noted as such, and
// the tar is complete.
func Write(ctx context.Context, w io.Writer, o Options) error {
	if o.MaxBytes <= 0 {
		return fmt.Errorf("size limit of a file: %d: want more than 0", o.MaxBytes)
	}
	c := &collection{Options: o, tar: tar.NewWriter(w), index: Index{Began: time.Now().UTC()}}
	c.run(ctx, Items(o.Since))
	c.run(ctx, c.further(ctx))
	c.index.Seconds = time.Since(c.index.Began).Seconds()
	index, err := json.MarshalIndent(c.index, "", "  ")
	if err != nil {
		return err
	}
	c.add(IndexFile, index)
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

// further are reads that depend on the first ones: LVM's report without locks where that with locks failed, and the
// disks' own state.
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

// disks are asked for their own state where the container has smartctl, as those of the product do.
func (c *collection) disks(ctx context.Context) []Item {
	if _, err := c.output(ctx, Item{Command: []string{smartctl, "--version"}, Limit: short,
		Accept: spoke}); err != nil {
		c.result(Result{File: "smart-*.json", Command: smartctl, Absent: absent(err), Error: unless(absent(err), err)})
		return nil
	}
	out, err := c.output(ctx, Item{Command: []string{"/usr/bin/lsblk", "--nodeps", "--noheadings", "--paths", "--raw",
		"--output", "NAME,TYPE"}, Limit: short})
	if err != nil {
		c.result(Result{File: "smart-*.json", Command: "lsblk", Error: err.Error()})
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
	r := Result{File: item.File, Command: strings.Join(item.Command, " "), Seconds: time.Since(begun).Seconds()}
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
				"%s has not ended %s after it was told to, as one that waits for a disk which does not answer: %w",
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

// missing are what programs say of files that are not there; journalctl of a journal, or of units, that are not.
var missing = regexp.MustCompile(
	`No such file or directory|No journal files were found|Failed to add filter for units: No data available`)

// absent tells whether the error says that the node does not have the program or the file.
func absent(err error) bool {
	var failure *host.Error
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if !errors.As(err, &failure) || failure.ExitCode <= 0 {
		return false
	}
	// grep says by its exit code alone that there is no file to look into.
	nothing := strings.HasPrefix(failure.Command, grep) && failure.ExitCode == 1 && failure.Stderr == ""
	return nothing || missing.MatchString(failure.Stderr)
}

// cut shortens what is too long: a log at its beginning, at a full line, and everything else at its end.
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

func (c *collection) result(r Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index.Results = append(c.index.Results, r)
}

// add writes a file. After a write that failed nothing more is written: who reads is gone.
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
