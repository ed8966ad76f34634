package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/lvm-storage/lvm-operator/hack/debian"
)

// rootSpec is a root file system of extracted Debian packages, which are not installed.
type rootSpec struct {
	release string
	// packages are added to those that every node needs.
	packages []string
}

const (
	bookworm = debian.Bookworm
	trixie   = "trixie"
)

// rootVersion is incremented when the same packages result in a different root.
const rootVersion = "1"

// basePackages are packages that nodes need in addition to the lab's own requirements. This machine has them.
var basePackages = []string{
	"base-files", "base-passwd", "bash", "coreutils", "dash", "diffutils", "dmsetup", "fdisk", "findutils", "grep",
	"libc-bin", "lsof", "mawk", "mdadm", "mount", "parted", "procps", "psmisc", "sed", "smartmontools", "tar",
}

func debian12(packages ...string) *rootSpec { return &rootSpec{release: bookworm, packages: packages} }

func debian13(packages ...string) *rootSpec { return &rootSpec{release: trixie, packages: packages} }

// ensure returns the directory of the root in the cache, and creates it if it does not exist. An existing directory is
// complete. Its name contains a hash of the packages: cached package lists are used again.
func (r rootSpec) ensure(ctx context.Context, w io.Writer) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	parent := filepath.Join(cache, "lab", "roots")
	debs, err := r.fetch(ctx, filepath.Join(parent, "debian-"+r.release))
	if err != nil {
		return "", fmt.Errorf("packages of Debian's release %s: %w", r.release, err)
	}
	return ensureDir(parent, r.release, rootKey(debs), func(dir string) error {
		begin := time.Now()
		fmt.Fprintf(w, "        unpacking %d packages of Debian's release %s …\n", len(debs), r.release)
		if err := fillRoot(ctx, dir, debs); err != nil {
			return fmt.Errorf("root file system of Debian's release %s: %w", r.release, err)
		}
		fmt.Fprintf(w, "        unpacked (%.0fs)\n", time.Since(begin).Seconds())
		return nil
	})
}

// fetch uses the cache. If the archive no longer has a package in the cached lists, it reads the lists again.
func (r rootSpec) fetch(ctx context.Context, folder string) ([]debian.Deb, error) {
	unlock, err := lockFile(folder + ".lock")
	if err != nil {
		return nil, err
	}
	defer unlock()
	archive := debian.Archive{Run: debian.RunCommand, Folder: folder, Arch: "amd64", Release: r.release}
	debs, err := archive.Fetch(ctx, r.roots(), false)
	if err == nil {
		return debs, nil
	}
	debs, again := archive.Fetch(ctx, r.roots(), true)
	if again != nil {
		return nil, errors.Join(err, again)
	}
	return debs, nil
}

// roots returns the requested packages.
func (r rootSpec) roots() []string {
	list := slices.Concat(basePackages, r.packages)
	for _, required := range requirements {
		if required.onNodes() {
			list = append(list, required.pkg)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func rootKey(debs []debian.Deb) string {
	sum := sha256.New()
	fmt.Fprintln(sum, rootVersion)
	for _, d := range debs {
		fmt.Fprintln(sum, d.SHA256)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// fillRoot extracts packages into an empty directory.
func fillRoot(ctx context.Context, dir string, debs []debian.Deb) error {
	if err := mergeUsr(dir); err != nil {
		return err
	}
	for _, d := range debs {
		if err := unpackDeb(ctx, d, dir); err != nil {
			return fmt.Errorf("unpack %s: %w", filepath.Base(d.Path), err)
		}
	}
	return finishRoot(ctx, dir)
}

// mergeUsr creates the links that packages of Debian 12 expect.
func mergeUsr(root string) error {
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(root, "usr", name), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+name, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

// unpackDeb keeps the links of mergeUsr, into which a package may place files.
func unpackDeb(ctx context.Context, d debian.Deb, root string) error {
	from := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", d.Path)
	to := exec.CommandContext(ctx, "tar", "--extract", "--keep-directory-symlink", "--directory", root)
	pipe, err := from.StdoutPipe()
	if err != nil {
		return err
	}
	to.Stdin = pipe
	if err := from.Start(); err != nil {
		return err
	}
	out, err := to.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("tar: %w: %s", err, out)
	}
	return errors.Join(err, from.Wait())
}

// finishRoot does what the packages' scripts would do as far as the lab needs it.
func finishRoot(ctx context.Context, root string) error {
	for from, to := range map[string]string{"usr/share/base-passwd/passwd.master": "etc/passwd",
		"usr/share/base-passwd/group.master": "etc/group"} {
		if err := copyText(filepath.Join(root, from), filepath.Join(root, to)); err != nil {
			return err
		}
	}
	for link, target := range map[string]string{"usr/bin/awk": "mawk", "usr/bin/sh": "dash"} {
		if err := linkUnlessThere(target, filepath.Join(root, link)); err != nil {
			return err
		}
	}
	for _, dir := range []string{"dev", "proc", "sys", "run", "tmp", "mnt", "root", "var/tmp"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if out, err := exec.CommandContext(ctx, filepath.Join(root, "usr/sbin/ldconfig"), "-r",
		root).CombinedOutput(); err != nil {
		return fmt.Errorf("ldconfig: %w: %s", err, out)
	}
	return nil
}

func copyText(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

func linkUnlessThere(target, path string) error {
	err := os.Symlink(target, path)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}
