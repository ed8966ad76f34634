// Package nodes collects data that only nodes have: with one call for each node, of a program that changes nothing
// there.
package nodes

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/cluster/gatherindex"
	"github.com/lvm-storage/lvm-operator/must-gather/archive"
)

const (
	// Limit is the timeout for a node.
	Limit = 100 * time.Second
	// parallel is the number of nodes that are read at the same time.
	parallel = 10
	// maxTar is the maximum size of the data of a node, in bytes.
	maxTar = 64 << 20
)

// Way is a method to read a node.
type Way struct {
	// Name is the name of the method, for example "its agent".
	Name string
	// Read writes one tar with files and no directories, and returns when it is complete.
	Read func(ctx context.Context, out io.Writer) error
}

// Source returns the methods to read a node, the best one first.
type Source interface {
	Ways(node string) []Way
}

// Collect reads nodes, a limited number at a time and each within its timeout, and writes their files to nodes/NAME of
// the archive. If a node cannot be read, only its files are missing, and the archive records a failure.
func Collect(ctx context.Context, source Source, names []string, out *archive.Writer, limit time.Duration) {
	defer out.Step("nodes")()
	var group sync.WaitGroup
	room := make(chan struct{}, parallel)
	for _, name := range names {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			out.Failed("node "+name, fmt.Errorf("not reached before the time was over: %w", context.Cause(ctx)))
			continue
		}
		group.Go(func() {
			defer func() { <-room }()
			out.Failed("node "+name, read(ctx, source, name, out, limit))
		})
	}
	group.Wait()
}

// read tries one method after another within the timeout of a node. The files of a later method replace those of an
// earlier one.
func read(ctx context.Context, source Source, name string, out *archive.Writer, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var errs []error
	for _, way := range source.Ways(name) {
		err := try(ctx, way, name, out)
		if err == nil {
			out.Failed("node "+name+" the first way; another one was taken", errors.Join(errs...))
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", way.Name, err))
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) == 0 {
		return errors.New("no node agent runs on it, and the image for a Pod that reads it is unknown")
	}
	return errors.Join(errs...)
}

func try(ctx context.Context, way Way, name string, out *archive.Writer) error {
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := way.Read(ctx, writer)
		_ = writer.CloseWithError(err)
		done <- err
	}()
	files, err := unpack(io.LimitReader(reader, maxTar), path.Join("nodes", name), out)
	// Unblock the writer: nothing reads from it now.
	_ = reader.CloseWithError(errors.New("enough was read"))
	// An error of the source is the cause of an incomplete tar, but not of an invalid one.
	if sourceErr := <-done; sourceErr != nil && (err == nil || errors.Is(err, sourceErr)) {
		err = sourceErr
	}
	switch {
	case err != nil && len(files) > 0:
		return fmt.Errorf("after %d files: %w", len(files), err)
	case err == nil && !slices.Contains(files, gatherindex.IndexFile):
		return fmt.Errorf("received %d files, but not the last one, %s", len(files), gatherindex.IndexFile)
	}
	return err
}

// fileName matches valid names of files.
var fileName = regexp.MustCompile(`^[a-z0-9][a-zA-Z0-9._-]{0,100}$`)

// unpack writes the files of a tar one by one, and returns their names.
func unpack(r io.Reader, folder string, out *archive.Writer) (files []string, err error) {
	for tape := tar.NewReader(r); ; {
		header, err := tape.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return files, fmt.Errorf("its tar archive is incomplete: %w", err)
		}
		if header.Typeflag != tar.TypeReg || !fileName.MatchString(header.Name) {
			return files, fmt.Errorf("its tar archive contains the unexpected file %q", header.Name)
		}
		var content bytes.Buffer
		if _, err := io.Copy(&content, tape); err != nil {
			return files, fmt.Errorf("its tar archive ends within %s: %w", header.Name, err)
		}
		// The archive records the failure.
		_ = out.Write(path.Join(folder, header.Name), content.Bytes())
		files = append(files, header.Name)
	}
}
