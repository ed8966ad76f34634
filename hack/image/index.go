package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// runIndex writes an archive with an image index, from which a node selects the image of its architecture.
func runIndex(out string, archives []string) error {
	if !strings.HasSuffix(out, ".tar") || len(archives) == 0 {
		return errors.New(
			"-index needs -out, whose name ends with .tar, and the archives of the architectures as arguments")
	}
	folder, err := os.MkdirTemp(filepath.Dir(out), ".index-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	index, platforms, err := newIndex(folder, archives)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := writeArchive(out, func(path layout.Path) error { return path.AppendIndex(index) }); err != nil {
		return fmt.Errorf("write %s: %w", out, err)
	}
	fmt.Printf("%s %s, for %s\n", out, digest, strings.Join(platforms, ", "))
	return nil
}

func newIndex(folder string, archives []string) (v1.ImageIndex, []string, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var platforms []string
	seen := map[string]string{}
	for i, archive := range archives {
		image, err := readArchive(archive, filepath.Join(folder, fmt.Sprint(i)))
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", archive, err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", archive, err)
		}
		platform := config.Platform()
		if other, twice := seen[platform.String()]; twice {
			return nil, nil, fmt.Errorf("%s and %s are both for %s: an index has one image for each architecture",
				other, archive, platform)
		}
		seen[platform.String()] = archive
		platforms = append(platforms, platform.String())
		index = mutate.AppendManifests(index,
			mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return index, platforms, nil
}

// readArchive extracts an archive that run wrote, and returns its image.
func readArchive(archive, folder string) (v1.Image, error) {
	if err := unpackArchive(archive, folder); err != nil {
		return nil, err
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("it has %d images, and not one", len(manifest.Manifests))
	}
	return index.Image(manifest.Manifests[0].Digest)
}

func unpackArchive(archive, folder string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	// os.Root refuses names outside of the directory.
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackEntry(root, header, r); err != nil {
			return err
		}
	}
}

func unpackEntry(root *os.Root, header *tar.Header, r io.Reader) error {
	switch header.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(filepath.Clean(header.Name), 0o755)
	case tar.TypeReg:
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return root.WriteFile(header.Name, content, 0o644)
	}
	return fmt.Errorf("%s: neither a file nor a folder", header.Name)
}
