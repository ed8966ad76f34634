// Command unpack writes the files of Debian packages, with all their dependencies, to a folder, so that a program of
// them runs on a lab node without being installed on this machine. It installs nothing and needs no root. The packages
// are in the cache of `make image`, and their checksums are verified.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lvm-storage/lvm-operator/hack/debian"
)

// extractLimit limits the extraction of one package.
const extractLimit = 5 * time.Minute

func main() {
	out := flag.String("out", "", "folder to write; a folder that exists is complete, and is not changed")
	cache := flag.String("cache", "", "cache folder for Debian's package lists and packages")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := unpack(ctx, *out, *cache, flag.Args(), debian.RunCommand); err != nil {
		fmt.Fprintln(os.Stderr, "unpack:", err)
		os.Exit(1)
	}
}

// unpack extracts packages next to the folder, and renames the result when it is complete.
func unpack(ctx context.Context, out, cache string, packages []string, run debian.Command) error {
	if out == "" || cache == "" || len(packages) == 0 {
		return errors.New("-out, -cache and the name of a package are required")
	}
	if _, err := os.Stat(out); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// apt needs an absolute path.
	cache, err := filepath.Abs(cache)
	if err != nil {
		return err
	}
	archive := debian.Archive{Run: run, Folder: filepath.Join(cache, "amd64"), Arch: "amd64",
		Release: debian.Bookworm}
	debs, err := archive.Fetch(ctx, packages, false)
	if err != nil {
		return fmt.Errorf("packages of Debian for %s: %w", strings.Join(packages, ", "), err)
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(out), filepath.Base(out)+".new-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	for _, d := range debs {
		if _, err := run(ctx, extractLimit, "dpkg-deb", "--extract", d.Path, tmp); err != nil {
			return fmt.Errorf("extract %s: %w", filepath.Base(d.Path), err)
		}
	}
	return os.Rename(tmp, out)
}
