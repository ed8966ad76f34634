package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func build(o options) (v1.Image, error) {
	layers, err := buildLayers(o)
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON),
		types.OCIManifestSchema1), layers...)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS = "linux"
	config.Architecture = o.arch
	config.Created = v1.Time{Time: o.created}
	config.Config.Entrypoint = []string{"/" + products[o.image].program}
	config.Config.User = cmp.Or(o.user, defaultUser)
	config.Config.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	config.Config.Labels = labels(products[o.image], o.title, o.version, o.release)
	return mutate.ConfigFile(image, config)
}

func buildLayers(o options) ([]mutate.Addendum, error) {
	var layers []mutate.Addendum
	if o.rootfs != "" {
		files, err := tarFolder(o.rootfs)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", o.rootfs, err)
		}
		layers = append(layers, addendum(o, files, "hack/rootfs -image "+o.image+" -arch "+o.arch,
			"programs and libraries of Debian 12, licenses"))
	}
	program, err := pack(func(w *tar.Writer) error { return addProgram(w, o.binary, products[o.image].program) })
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.binary, err)
	}
	layers = append(layers, addendum(o, program, "go build -o /"+products[o.image].program, o.title+" "+o.version))
	if o.files != "" {
		files, err := tarFolder(o.files)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", o.files, err)
		}
		layers = append(layers, addendum(o, files, "hack/image -files", "files for a test"))
	}
	if o.console == "" {
		return layers, nil
	}
	console, err := tarConsole(o)
	if err != nil {
		return nil, fmt.Errorf("read %s and %s: %w", o.console, o.parts, err)
	}
	return append(layers, addendum(o, console, "go build -o /console-plugin",
		"the server of the console's plugin, licenses of npm packages")), nil
}

// tarConsole returns a tar with the plugin's server, and the licenses of its npm packages.
func tarConsole(o options) ([]byte, error) {
	return pack(func(w *tar.Writer) error {
		return errors.Join(addProgram(w, o.console, "console-plugin"),
			addFolder(w, filepath.Join(o.parts, licensesFolder), "licenses/npm"))
	})
}

func addendum(o options, content []byte, createdBy, comment string) mutate.Addendum {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		panic(err) // a reader in memory cannot fail
	}
	history := v1.History{CreatedBy: createdBy, Comment: comment, Created: v1.Time{Time: o.created}}
	return mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: history}
}

// pack returns a tar.
func pack(fill func(*tar.Writer) error) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	if err := errors.Join(fill(w), w.Close()); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

func tarFolder(root string) ([]byte, error) {
	return pack(func(w *tar.Writer) error { return addFolder(w, root, "") })
}

// addFolder adds the content of a directory, at a path in the image.
func addFolder(w *tar.Writer, root, at string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return addFile(w, path, filepath.Join(at, name), entry)
	})
}

func addFile(w *tar.Writer, path, name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Format: tar.FormatPAX}
	switch {
	case entry.IsDir():
		header.Typeflag = tar.TypeDir
		header.Name = name + "/"
		if info.Mode()&fs.ModeSticky != 0 {
			header.Mode |= 0o1000
		}
		return w.WriteHeader(header)
	case info.Mode()&fs.ModeSymlink != 0:
		header.Typeflag = tar.TypeSymlink
		if header.Linkname, err = os.Readlink(path); err != nil {
			return err
		}
		return w.WriteHeader(header)
	case info.Mode().IsRegular():
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return writeFile(w, header, content)
	}
	return fmt.Errorf("%s: neither a file nor a folder nor a link", path)
}

func writeFile(w *tar.Writer, header *tar.Header, content []byte) error {
	header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

func addProgram(w *tar.Writer, path, name string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return writeFile(w, &tar.Header{Name: name, Mode: 0o755, Format: tar.FormatPAX}, content)
}

func appendImage(image v1.Image) func(layout.Path) error {
	return func(path layout.Path) error { return path.AppendImage(image) }
}

// writeArchive writes a tar of an OCI image layout atomically.
func writeArchive(out string, add func(layout.Path) error) error {
	folder, err := os.MkdirTemp(filepath.Dir(out), ".image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	tree := filepath.Join(folder, "layout")
	path, err := layout.Write(tree, empty.Index)
	if err != nil {
		return err
	}
	if err := add(path); err != nil {
		return err
	}
	content, err := tarFolder(tree)
	if err != nil {
		return err
	}
	temporary := filepath.Join(folder, "image.tar")
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, out)
}
