// Package images builds the small images of every lab, and pushes images to a lab's registry.
package images

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// BusyboxProgram is the path of Debian's static busybox.
const BusyboxProgram = "/usr/bin/busybox"

// Busybox returns an image of Debian's busybox with a link for each of its commands, and with further files (path in
// the image to path here).
func Busybox(applets []string, more map[string]string) (v1.Image, error) {
	links := map[string]string{}
	for _, applet := range applets {
		if applet != "busybox" {
			links["bin/"+applet] = "busybox"
		}
	}
	files := map[string]string{"bin/busybox": BusyboxProgram}
	maps.Copy(files, more)
	return build([]string{"/bin/sh"}, files, links)
}

// Pause returns the image of a Pod's sandbox.
func Pause(program string) (v1.Image, error) {
	return build([]string{"/pause"}, map[string]string{"pause": program}, nil)
}

// Program returns the image of one program, which is its entry point.
func Program(program string) (v1.Image, error) {
	path := "bin/" + filepath.Base(program)
	img, err := build(nil, map[string]string{path: program}, nil)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.Config.Entrypoint = []string{"/" + path}
	return mutate.ConfigFile(img, config)
}

// Unprivileged returns the image of a program in the root folder that runs as a user other than root, with further
// files (path in the image to path here).
func Unprivileged(program string, more map[string]string) (v1.Image, error) {
	name := filepath.Base(program)
	files := map[string]string{name: program}
	maps.Copy(files, more)
	img, err := build(nil, files, nil)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.Config.Entrypoint = []string{"/" + name}
	config.Config.User = "65532:65532"
	return mutate.ConfigFile(img, config)
}

// Tool returns an image of busybox with a program in the root folder that is its entry point, and the arguments with
// which it runs by default.
func Tool(applets []string, program string, arguments ...string) (v1.Image, error) {
	name := filepath.Base(program)
	img, err := Busybox(applets, map[string]string{name: program})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.Config.Entrypoint = []string{"/" + name}
	config.Config.Cmd = arguments
	return mutate.ConfigFile(img, config)
}

// build creates an image of one layer with files (path in the image to path here), links and a /tmp.
func build(command []string, files, links map[string]string) (v1.Image, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, dir := range []string{"bin/", "etc/", "root/", "var/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return nil, err
		}
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}); err != nil {
		return nil, err
	}
	for path, source := range files {
		data, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o755,
			Size: int64(len(data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	for path, target := range links {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: target,
			Mode: 0o777}); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser,
		error) {
		return io.NopCloser(bytes.NewReader(buf.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS = "linux"
	config.Architecture = "amd64"
	config.Config.Cmd = command
	config.Config.Env = []string{"PATH=/bin"}
	return mutate.ConfigFile(img, config)
}

// Load reads an image from an OCI layout (a folder or a tar archive of one) or from an archive of "docker save". It
// unpacks a tar archive of a layout into a temporary folder, which done removes.
func Load(path string) (img v1.Image, done func(), err error) {
	done = func() {}
	info, err := os.Stat(path)
	if err != nil {
		return nil, done, err
	}
	if info.IsDir() {
		img, err = loadLayout(path)
		return img, done, err
	}
	folder, err := os.MkdirTemp("", "layout-")
	if err != nil {
		return nil, done, err
	}
	done = func() { _ = os.RemoveAll(folder) }
	if err := untar(path, folder); err != nil {
		return nil, done, fmt.Errorf("unpack %s: %w", path, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "oci-layout")); err != nil {
		img, err = tarball.ImageFromPath(path, nil)
		return img, done, err
	}
	img, err = loadLayout(folder)
	return img, done, err
}

func loadLayout(path string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s: the layout holds %d images, wanted one", path, len(manifest.Manifests))
	}
	return index.Image(manifest.Manifests[0].Digest)
}

// untar unpacks the files and folders of an archive. [os.Root] prevents paths outside the folder.
func untar(archive, folder string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpack(root, header, reader); err != nil {
			return err
		}
	}
}

func unpack(root *os.Root, header *tar.Header, content io.Reader) error {
	name := filepath.Clean(header.Name)
	switch header.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeReg:
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		file, err := root.Create(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		return errors.Join(err, file.Close())
	}
	return nil // a layout has no links
}

// Pusher pushes to a lab's registry.
type Pusher struct {
	CA   []byte
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Push pushes an image and returns its reference by digest.
func (p Pusher) Push(ctx context.Context, ref string, img v1.Image) (string, error) {
	tag, err := name.ParseReference(ref)
	if err != nil {
		return "", err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.CA)
	transport := &http.Transport{DialContext: p.Dial,
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}
	defer transport.CloseIdleConnections()
	if err := remote.Write(tag, img, remote.WithContext(ctx), remote.WithTransport(transport)); err != nil {
		return "", fmt.Errorf("push %s: %w", ref, err)
	}
	digest, err := img.Digest()
	if err != nil {
		return "", err
	}
	return tag.Context().Digest(digest.String()).String(), nil
}
