package main

import (
	"errors"
	"io/fs"
	"path"

	"github.com/lvm-storage/lvm-operator/docs"
	"github.com/lvm-storage/lvm-operator/monitoring/runbooks"
	"github.com/lvm-storage/lvm-operator/must-gather/archive"
)

// writeRunbooks writes the runbooks and the documentation into the archive. They have the same paths as in the sources,
// so that the links among them work.
func writeRunbooks(out *archive.Writer) error {
	return errors.Join(writePages(out, archive.RunbookFolder, runbooks.Files), writePages(out, "docs", docs.Files))
}

func writePages(out *archive.Writer, folder string, pages fs.FS) error {
	return fs.WalkDir(pages, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(pages, name)
		if err != nil {
			return err
		}
		return out.Always(path.Join(folder, name), content)
	})
}
