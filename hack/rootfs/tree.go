package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/hack/debian"
)

const unpackLimit = 2 * time.Minute

// file is a file or link of a package, or one that is added.
type file struct {
	deb     string // path of the package; empty for an added file
	mode    fs.FileMode
	link    string // target, of a symbolic link
	content []byte
}

// tree maps paths, without a leading slash, to files. It has no entries for directories.
type tree map[string]file

// unpack reads the packages into memory, so that they cannot write to other paths.
func unpack(ctx context.Context, run debian.Command, debs []debian.Deb) (tree, error) {
	files := tree{}
	for _, d := range debs {
		content, err := run(ctx, unpackLimit, "dpkg-deb", "--fsys-tarfile", d.Path)
		if err != nil {
			return nil, fmt.Errorf("unpack %s: %w", filepath.Base(d.Path), err)
		}
		if err := files.addArchive(content, d.Path); err != nil {
			return nil, fmt.Errorf("unpack %s: %w", filepath.Base(d.Path), err)
		}
	}
	return files, nil
}

func (t tree) addArchive(content []byte, deb string) error {
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := t.add(header, r, deb); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

func (t tree) add(header *tar.Header, r io.Reader, deb string) error {
	name := merged(header.Name)
	switch header.Typeflag {
	case tar.TypeReg:
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		// No file in the image may be setuid or setgid.
		t[name] = file{deb: deb, mode: header.FileInfo().Mode().Perm(), content: content}
	case tar.TypeSymlink:
		t[name] = file{deb: deb, mode: fs.ModeSymlink, link: header.Linkname}
	case tar.TypeLink:
		target, found := t[merged(header.Linkname)]
		if !found {
			return fmt.Errorf("a hard link to %s, which was not there before", header.Linkname)
		}
		t[name] = target
	}
	return nil
}

// merged returns a path on a Debian system with merged /usr: packages of Debian 12 may still contain /bin or /lib.
func merged(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains(topLinks, first) {
		return "usr/" + name
	}
	return name
}

// resolve follows links, including those of directories, to a file.
func (t tree) resolve(name string) (string, error) {
	const tooMany = 40 // the kernel's limit
	current := merged(name)
	for range tooMany {
		at, target := t.firstLink(current)
		if at == "" {
			if _, found := t[current]; !found {
				return "", fmt.Errorf("/%s: %w", current, fs.ErrNotExist)
			}
			return current, nil
		}
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(at), target)
		}
		current = merged(path.Join(target, strings.TrimPrefix(current, at)))
	}
	return "", fmt.Errorf("/%s: too many links", merged(name))
}

// firstLink returns the first part of the path that is a link, and its target.
func (t tree) firstLink(name string) (at, target string) {
	for i, c := range name + "/" {
		if c != '/' {
			continue
		}
		if f := t[name[:i]]; f.mode&fs.ModeSymlink != 0 {
			return name[:i], f.link
		}
	}
	return "", ""
}
