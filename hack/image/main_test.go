package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"archive/tar"
	"errors"
	"io"
	"slices"
)

func newFolder(t *testing.T) options {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "rootfs")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(root, "usr", "bin"), 0o755),
		os.WriteFile(filepath.Join(root, "usr", "bin", "mount"), []byte("mount"), 0o755),
		os.Symlink("usr/bin", filepath.Join(root, "bin")),
		os.WriteFile(filepath.Join(dir, "lvms"), []byte("program"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return options{rootfs: root, binary: filepath.Join(dir, "lvms"), out: filepath.Join(dir, "image.tar"), arch: "amd64", version: "1.2.3"}
}

func TestImageHoldsFolderAndProgram(t *testing.T) {
	o := newFolder(t)
	image, err := build(o)
	if err != nil {
		t.Fatal(err)
	}
	names := tarNames(t, mutate.Extract(image))
	if want := []string{"bin", "lvms", "usr", "usr/bin", "usr/bin/mount"}; !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || config.Config.Labels["org.opencontainers.image.version"] != "1.2.3" {
		t.Errorf("config %+v", config.Config)
	}
}

func TestArchiveIsReadableAndReproducible(t *testing.T) {
	o := newFolder(t)
	var archives [2][]byte
	for i := range archives {
		if err := run(o); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(o.out)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = content
	}
	if !slices.Equal(archives[0], archives[1]) {
		t.Error("two builds differ")
	}
	file, err := os.Open(o.out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if names := tarNames(t, file); !slices.Contains(names, "index.json") || !slices.Contains(names, "oci-layout") {
		t.Errorf("not an OCI layout: %v", names)
	}
}

func TestMissingProgramIsNamed(t *testing.T) {
	o := newFolder(t)
	o.binary += "-absent"
	if err := run(o); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if _, err := layout.FromPath(o.out); err == nil {
		t.Error("an archive was written")
	}
}

func tarNames(t *testing.T, r io.Reader) []string {
	t.Helper()
	var names []string
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
}
