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

// file is a file or a link of a package, or one that we add.
type file struct {
	deb     string // path of the package's file; empty for what is ours
	mode    fs.FileMode
	link    string // target, of a symbolic link
	content []byte
}

// tree holds files by path, without a leading slash. Folders are those that files lie in.
type tree map[string]file

// unpack reads the packages into memory: nothing of them can be written to a place of its own choosing.
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
		// Nothing in the image is to give rights to who runs it.
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

// merged is where a path leads on a Debian system with merged /usr: packages of Debian 12 may still name /bin or /lib.
func merged(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains(topLinks, first) {
		return "usr/" + name
	}
	return name
}

// resolve follows links, also those of folders, to a file.
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

// firstLink is the first part of the path that is a link, and where it leads.
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
