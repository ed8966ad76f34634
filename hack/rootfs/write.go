package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/hack/debian"
)

const describeLimit = 30 * time.Second

// packageList is written next to the directory, for the SBOM of the image.
type packageList struct {
	Distribution string        `json:"distribution"`
	Architecture string        `json:"architecture"` // Debian's name
	Packages     []packageInfo `json:"packages"`
}

type packageInfo struct {
	Name          string `json:"name"`
	Version       string `json:"version"`
	Architecture  string `json:"architecture"`
	Source        string `json:"source"`
	SourceVersion string `json:"sourceVersion"`
	SHA256        string `json:"sha256"`
}

// usedDebs returns the packages with a file in the image, in a fixed order.
func usedDebs(image tree, debs []debian.Deb) []debian.Deb {
	used := map[string]bool{}
	for _, f := range image {
		used[f.deb] = true
	}
	return slices.SortedFunc(func(yield func(debian.Deb) bool) {
		for _, d := range debs {
			if used[d.Path] && !yield(d) {
				return
			}
		}
	}, func(a, b debian.Deb) int { return strings.Compare(a.Path, b.Path) })
}

func describe(ctx context.Context, run debian.Command, arch architecture, debs []debian.Deb) (packageList, error) {
	list := packageList{Distribution: "debian-12", Architecture: arch.debian}
	for _, d := range debs {
		out, err := run(ctx, describeLimit, "dpkg-deb", "--show",
			`--showformat=${Package}\n${Version}\n${Architecture}\n${source:Package}\n${source:Version}\n`, d.Path)
		if err != nil {
			return list, fmt.Errorf("describe %s: %w", filepath.Base(d.Path), err)
		}
		fields := strings.Fields(string(out))
		if len(fields) != 5 {
			return list,
				fmt.Errorf(
					"describe %s: dpkg-deb says %q, which is not name, version, architecture, source and its version",
					filepath.Base(d.Path), out)
		}
		list.Packages = append(list.Packages,
			packageInfo{fields[0], fields[1], fields[2], fields[3], fields[4], d.SHA256})
	}
	return list, nil
}

// mayReplace returns an error if another program wrote the directory, because it would be removed.
func mayReplace(o options) error {
	entries, err := os.ReadDir(o.out)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(o.packages); err != nil {
		return fmt.Errorf("-out %s has files, and there is no %s beside it as this program writes it: name another "+
			"folder, or remove that one", o.out, o.packages)
	}
	return nil
}

// write writes the directory and then the list of packages. The directory is created atomically.
func write(o options, image tree, list packageList) error {
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(filepath.Dir(o.out), ".rootfs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	if err := writeTree(temporary, slices.Concat(folders, contents[o.image].folders), image); err != nil {
		return fmt.Errorf("write %s: %w", o.out, err)
	}
	content, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(o.out); err != nil {
		return err
	}
	if err := os.Rename(temporary, o.out); err != nil {
		return err
	}
	return os.WriteFile(o.packages, append(content, '\n'), 0o644)
}

func writeTree(root string, folders []string, image tree) error {
	for _, name := range folders {
		if err := makeFolder(root, name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(image)) {
		if err := makeFolder(root, path.Dir(name)); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(root, name), image[name]); err != nil {
			return err
		}
	}
	return os.Chmod(filepath.Join(root, "tmp"), 0o777|fs.ModeSticky)
}

// makeFolder sets the mode of each part of a path, so that the image does not depend on the umask.
func makeFolder(root, name string) error {
	if name == "." {
		return os.Chmod(root, 0o755)
	}
	if err := makeFolder(root, path.Dir(name)); err != nil {
		return err
	}
	at := filepath.Join(root, name)
	if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(at, 0o755)
}

func writeFile(at string, f file) error {
	if f.mode&fs.ModeSymlink != 0 {
		return os.Symlink(f.link, at)
	}
	if err := os.WriteFile(at, f.content, f.mode); err != nil {
		return err
	}
	return os.Chmod(at, f.mode)
}
