// Package olm creates releases of the operator for a lab like a publisher: bundles, their images, and a catalog.
package olm

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/test/lab"
)

// CatalogDir is the directory of the catalog in its image.
const CatalogDir = "/configs"

// toolLimit is the timeout of a tool.
const toolLimit = 2 * time.Minute

// Publisher creates releases. Its images have names at quay.io and are in the lab's registry, which is a mirror: as in
// a disconnected cluster, nothing else can be reached.
type Publisher struct {
	lab *lab.Lab
	// bundle and catalog are the programs of hack/bundle, and opm is opm.
	bundle, catalog, opm string
	// repository is the checkout, and dir the working directory.
	repository, dir string
}

// NewPublisher returns a Publisher for a lab with a working directory. The programs of hack/bundle must exist (make
// test-e2e, make demo). NewPublisher builds opm if necessary, and reports that to w.
func NewPublisher(ctx context.Context, l *lab.Lab, dir string, w io.Writer) (Publisher, error) {
	root, err := lab.Root()
	if err != nil {
		return Publisher{}, err
	}
	cache, err := lab.CacheDir()
	if err != nil {
		return Publisher{}, err
	}
	opm, err := lab.OPM(ctx, w)
	if err != nil {
		return Publisher{}, err
	}
	bin := filepath.Join(cache, "bin")
	return Publisher{lab: l, bundle: filepath.Join(bin, "bundle"), catalog: filepath.Join(bin, "catalog"),
		opm: opm, repository: root, dir: dir}, nil
}

// public returns the public name of an image in the lab's registry.
func (p Publisher) public(image string) string {
	return strings.Replace(image, p.lab.Registry(), p.lab.Mirrored(), 1)
}

func (p Publisher) name(image string) string { return p.lab.Registry() + "/lvm-storage/" + image }

func (p Publisher) push(ctx context.Context, name string, image v1.Image) (string, error) {
	pushed, err := p.lab.PushImage(ctx, p.name(name), image)
	return p.public(pushed), err
}

// PublishImage pushes the image in an archive as the operator's image of a version, and returns its public name with
// the digest.
func (p Publisher) PublishImage(ctx context.Context, archive, version string) (string, error) {
	pushed, err := p.lab.LoadImage(ctx, archive, p.name("lvms-operator:v"+version))
	return p.public(pushed), err
}

// Release describes a release.
type Release struct {
	// Version is X.Y.Z. Image is the image of the operator.
	Version, Image string
	// Change modifies the directory of the bundle before its image is created. It may be nil.
	Change func(bundle string) error
}

// Publish creates a bundle and its image, and adds it to the catalog.
func (p Publisher) Publish(ctx context.Context, r Release) error {
	bundle := filepath.Join(p.dir, "bundle-"+r.Version)
	if err := run(ctx, p.bundle, "-repository", p.repository, "-version", r.Version, "-image", r.Image, "-out",
		bundle); err != nil {
		return err
	}
	if r.Change != nil {
		if err := r.Change(bundle); err != nil {
			return err
		}
	}
	return p.PublishBundle(ctx, r.Version, bundle)
}

// PublishBundle creates the image of a bundle directory, and adds it to the catalog.
func (p Publisher) PublishBundle(ctx context.Context, version, bundle string) error {
	image, err := BundleImage(bundle)
	if err != nil {
		return err
	}
	reference, err := p.push(ctx, "lvms-operator-bundle:v"+version, image)
	if err != nil {
		return err
	}
	return run(ctx, p.catalog, "-opm", p.opm, "-bundle", bundle, "-image", reference, "-out", p.catalogDir())
}

// PublishCatalog creates an image of the current catalog, and returns its reference.
func (p Publisher) PublishCatalog(ctx context.Context) (string, error) {
	image, err := folderImage(map[string]string{CatalogDir: p.catalogDir()},
		map[string]string{"operators.operatorframework.io.index.configs.v1": CatalogDir})
	if err != nil {
		return "", err
	}
	return p.push(ctx, "lvms-catalog:latest", image)
}

func (p Publisher) catalogDir() string { return filepath.Join(p.dir, "catalog") }

func run(ctx context.Context, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(program), err, bytes.TrimSpace(out))
	}
	return nil
}

// BundleImage returns the image of a bundle (registry+v1): its files, and its annotations as labels.
func BundleImage(bundle string) (v1.Image, error) {
	data, err := os.ReadFile(filepath.Join(bundle, "metadata", "annotations.yaml"))
	if err != nil {
		return nil, err
	}
	var metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := yaml.UnmarshalStrict(data, &metadata); err != nil {
		return nil, fmt.Errorf("annotations of %s: %w", bundle, err)
	}
	return folderImage(map[string]string{"/": bundle}, metadata.Annotations)
}

// folderImage returns an image with one layer of directories (path in the image to local path), for the architecture of
// this machine.
func folderImage(folders, labels map[string]string) (v1.Image, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for at, folder := range folders {
		if err := addFolder(w, at, folder); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	content, err := tarball.LayerFromOpener(func() (io.ReadCloser,
		error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, content)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS = "linux"
	config.Architecture = "amd64"
	config.Config.Labels = labels
	return mutate.ConfigFile(image, config)
}

func addFolder(w *tar.Writer, at, folder string) error {
	return filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		name := path.Join(at, filepath.ToSlash(relative))[1:]
		if entry.IsDir() {
			if name == "" {
				return nil
			}
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644,
			Size: int64(len(data))}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
}
