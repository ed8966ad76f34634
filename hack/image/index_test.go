package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// newArchives writes an archive for each architecture.
func newArchives(t *testing.T, dir string, arches ...string) []string {
	t.Helper()
	var archives []string
	for i, arch := range arches {
		o := withTextProgram(t, newFolder(t))
		o.arch = arch
		image, err := build(o)
		if err != nil {
			t.Fatal(err)
		}
		archive := filepath.Join(dir, string(rune('a'+i))+".tar")
		if err := writeArchive(archive, appendImage(image)); err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
	}
	return archives
}

func TestIndexHasAnImageForEachArchitecture(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "index.tar")
	archives := newArchives(t, dir, "amd64", "arm64", "ppc64le", "s390x")
	var contents [2][]byte
	for i := range contents {
		if err := runIndex(out, archives); err != nil {
			t.Fatal(err)
		}
		var err error
		if contents[i], err = os.ReadFile(out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(contents[0], contents[1]) {
		t.Error("two builds differ")
	}
	if got, want := platformsOf(t, out), []string{"linux/amd64", "linux/arm64", "linux/ppc64le",
		"linux/s390x"}; !slices.Equal(got, want) {
		t.Errorf("platforms %v, want %v", got, want)
	}
}

// platformsOf reads an archive whose only entry is an index, and the image of each entry of the index.
func platformsOf(t *testing.T, archive string) []string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "layout")
	if err := unpackArchive(archive, folder); err != nil {
		t.Fatal(err)
	}
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || !manifest.Manifests[0].MediaType.IsIndex() {
		t.Fatalf("%+v, %v", manifest, err)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, entry := range entries.Manifests {
		image, err := index.Image(entry.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := image.ConfigFile(); err != nil {
			t.Error(err)
		}
		platforms = append(platforms, entry.Platform.String())
	}
	return platforms
}

func TestIndexOfWhatDoesNotFitIsRefused(t *testing.T) {
	dir := t.TempDir()
	archives := newArchives(t, dir, "amd64", "amd64")
	text := filepath.Join(dir, "text.tar")
	if err := os.WriteFile(text, []byte("no archive, although it has the name of one"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "index.tar")
	tests := map[string]struct {
		out      string
		archives []string
		want     string
	}{
		"one architecture twice": {out, archives, "both for linux/amd64"},
		"no archives":            {out, nil, "arguments"},
		"name of another kind":   {filepath.Join(dir, "index"), archives[:1], ".tar"},
		"archive is absent":      {out, []string{filepath.Join(dir, "absent.tar")}, "absent.tar"},
		"archive is a text":      {out, []string{text}, "text.tar"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := runIndex(test.out, test.archives); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if _, err := os.Stat(test.out); err == nil {
				t.Error("an index was written")
			}
		})
	}
}
