// Command image writes an OCI image archive without a container engine: one layer with the files of a folder, one with
// the program. The same input gives the same digest: files are sorted and carry no time.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

type options struct {
	rootfs, binary, out, arch, version, title string
}

func main() {
	var o options
	flag.StringVar(&o.rootfs, "rootfs", "", "folder with the files of the first layer")
	flag.StringVar(&o.binary, "binary", "", "program, which becomes /lvms and the entry point")
	flag.StringVar(&o.out, "out", "", "archive to write (OCI image layout, tar)")
	flag.StringVar(&o.arch, "arch", "amd64", "architecture of the files")
	flag.StringVar(&o.version, "version", "", "version label")
	flag.StringVar(&o.title, "title", "lvms-operator", "title label")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	if o.binary == "" || o.out == "" {
		return errors.New("-binary and -out are needed")
	}
	image, err := build(o)
	if err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	size, err := compressedSize(image)
	if err != nil {
		return err
	}
	if err := writeArchive(image, o.out); err != nil {
		return fmt.Errorf("write %s: %w", o.out, err)
	}
	fmt.Printf("%s %s, %.1f MB compressed\n", o.out, digest, float64(size)/1e6)
	return nil
}

func build(o options) (v1.Image, error) {
	var layers []mutate.Addendum
	if o.rootfs != "" {
		files, err := tarFolder(o.rootfs)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", o.rootfs, err)
		}
		layers = append(layers, addendum(files, "hack/rootfs.sh"))
	}
	program, err := tarProgram(o.binary)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.binary, err)
	}
	layers = append(layers, addendum(program, "cmd/lvms"))

	image, err := mutate.Append(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), layers...)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", o.arch
	config.Config.Entrypoint = []string{"/lvms"}
	config.Config.User = "65532:65532"
	config.Config.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	config.Config.Labels = map[string]string{
		"org.opencontainers.image.title":    o.title,
		"org.opencontainers.image.version":  o.version,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	return mutate.ConfigFile(image, config)
}

func addendum(content []byte, createdBy string) mutate.Addendum {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		panic(err) // a reader over memory cannot fail
	}
	return mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{CreatedBy: createdBy}}
}

func tarFolder(root string) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return addFile(w, path, name, entry)
	})
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

func addFile(w *tar.Writer, path, name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Format: tar.FormatPAX}
	switch {
	case entry.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, name+"/"
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

func tarProgram(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	if err := writeFile(w, &tar.Header{Name: "lvms", Mode: 0o755, Format: tar.FormatPAX}, content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

func compressedSize(image v1.Image) (int64, error) {
	layers, err := image.Layers()
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, layer := range layers {
		size, err := layer.Size()
		if err != nil {
			return 0, err
		}
		sum += size
	}
	return sum, nil
}

// writeArchive writes the image as a tar of an OCI image layout, complete or not at all.
func writeArchive(image v1.Image, out string) error {
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
	if err := path.AppendImage(image); err != nil {
		return err
	}
	content, err := tarFolder(tree)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(out, ".tar") {
		return fmt.Errorf("the archive's name must end with .tar")
	}
	temporary := filepath.Join(folder, "image.tar")
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, out)
}
