package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const packages = `{"distribution": "debian-12", "architecture": "amd64", "packages": [
  {"name": "libstdc++6", "version": "12.2.0-14+deb12u1", "architecture": "amd64", "source": "gcc-12", "sourceVersion": "12.2.0-14+deb12u1", "sha256": "ab"},
  {"name": "mount", "version": "2.38.1-5", "architecture": "amd64", "source": "util-linux", "sourceVersion": "2.38.1-5", "sha256": "cd"}]}`

const parts = `[{"name": "@patternfly/react-core", "version": "6.4.3", "license": "MIT", "integrity": "sha512-AAAA"}, {"name": "yaml", "version": "2.9.1", "license": "ISC", "integrity": "sha512-AAAA"}]`

// newFolder uses the test binary as the program, because it contains Go modules.
func newFolder(t *testing.T) options {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "rootfs")
	program, err := os.Executable()
	for _, err := range []error{
		err,
		os.MkdirAll(filepath.Join(root, "usr", "bin"), 0o755),
		os.WriteFile(filepath.Join(root, "usr", "bin", "mount"), []byte("mount"), 0o755),
		os.Symlink("usr/bin", filepath.Join(root, "bin")),
		os.WriteFile(filepath.Join(dir, "packages.json"), []byte(packages), 0o644),
		os.MkdirAll(filepath.Join(dir, "parts", licensesFolder, "@patternfly", "react-core"), 0o755),
		os.MkdirAll(filepath.Join(dir, "parts", licensesFolder, "yaml"), 0o755),
		os.WriteFile(filepath.Join(dir, "parts", licensesFolder, "@patternfly", "react-core", "LICENSE"),
			[]byte("MIT"), 0o644),
		os.WriteFile(filepath.Join(dir, "parts", licensesFolder, "yaml", "LICENSE"), []byte("ISC"), 0o644),
		os.WriteFile(filepath.Join(dir, "parts", partsFile), []byte(parts), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return options{image: operatorImage, rootfs: root, packages: filepath.Join(dir, "packages.json"), binary: program,
		console: program, parts: filepath.Join(dir, "parts"), out: filepath.Join(dir, "image.tar"),
		arch: runtime.GOARCH, version: "1.2.3", release: "1", title: "lvms-operator", created: time.Unix(0, 0).UTC()}
}

// withTextProgram is for tests that read only the image. It is packed much faster.
func withTextProgram(t *testing.T, o options) options {
	t.Helper()
	o.binary = filepath.Join(filepath.Dir(o.out), "lvms")
	o.console = o.binary
	if err := os.WriteFile(o.binary, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestImageHoldsFolderAndProgram(t *testing.T) {
	image, err := build(withTextProgram(t, newFolder(t)))
	if err != nil {
		t.Fatal(err)
	}
	names := tarNames(t, mutate.Extract(image))
	want := []string{"bin", "console-plugin", "licenses/npm/@patternfly", "licenses/npm/@patternfly/react-core",
		"licenses/npm/@patternfly/react-core/LICENSE",
		"licenses/npm/yaml", "licenses/npm/yaml/LICENSE", "lvms", "usr", "usr/bin", "usr/bin/mount"}
	if !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || config.Config.Labels["org.opencontainers.image.version"] != "1.2.3" ||
		config.Architecture != runtime.GOARCH {
		t.Errorf("config %+v", config)
	}
	var history []string
	for _, entry := range config.History {
		history = append(history, entry.CreatedBy)
	}
	if want := []string{"hack/rootfs -image operator -arch " + runtime.GOARCH, "go build -o /lvms",
		"go build -o /console-plugin"}; !slices.Equal(history, want) {
		t.Errorf("history %q, want %q", history, want)
	}
}

// An image of a test has more programs, and may have another user.
func TestImageOfATest(t *testing.T) {
	o := withTextProgram(t, newFolder(t))
	o.console = ""
	o.user = "0"
	o.files = filepath.Join(filepath.Dir(o.out), "files")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(o.files, "usr", "bin"), 0o755),
		os.WriteFile(filepath.Join(o.files, "usr", "bin", "sh"), []byte("shell"), 0o755),
		os.Symlink("lvms", filepath.Join(o.files, "another-name")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	image, err := build(o)
	if err != nil {
		t.Fatal(err)
	}
	names := tarNames(t, mutate.Extract(image))
	if want := []string{"another-name", "bin", "lvms", "usr", "usr/bin", "usr/bin/mount",
		"usr/bin/sh"}; !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
	if config, err := image.ConfigFile(); err != nil || config.Config.User != "0" {
		t.Errorf("config %+v, %v", config, err)
	}
	got, err := checkSize(o, sizedImage{sizes: []int64{4_000_000, 20_000_000, 50_000_000}})
	if want := "74.0 MB compressed (file system 4.0 MB, program 20.0 MB, more files 50.0 MB)"; err != nil ||
		got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

func TestEveryFileIsReproducible(t *testing.T) {
	o := newFolder(t)
	base := strings.TrimSuffix(o.out, ".tar")
	var first map[string]string
	for range 2 {
		if err := run(o); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		for _, name := range []string{o.out, base + ".spdx.json", base + ".provenance.json"} {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = string(content)
			if strings.Contains(files[name], filepath.Dir(o.out)) && name != o.out {
				t.Errorf("%s has a path of this machine in it", filepath.Base(name))
			}
			if first != nil && first[name] != files[name] {
				t.Errorf("%s: two builds differ", filepath.Base(name))
			}
		}
		first = files
	}
	if names := tarNames(t, strings.NewReader(first[o.out])); !slices.Contains(names, "index.json") ||
		!slices.Contains(names, "oci-layout") {
		t.Errorf("not an OCI layout: %v", names)
	}
}

func TestTheProgramIsWhereTheImageWantsIt(t *testing.T) {
	o := withTextProgram(t, newFolder(t))
	o.image = "must-gather"
	o.title = "lvms-must-gather"
	o.console = ""
	o.parts = ""
	image, err := build(o)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Config.Entrypoint; len(got) != 1 || got[0] != "/usr/bin/gather" ||
		!strings.Contains(config.Config.Labels["summary"], "Must-gather") {
		t.Errorf("entry point %q, labels %v", got, config.Config.Labels)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	program, err := layers[len(layers)-1].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	if names := tarNames(t, program); len(names) != 1 || names[0] != "usr/bin/gather" {
		t.Errorf("the last layer has %q", names)
	}
	o.image = "nonsense"
	if err := run(o); err == nil || !strings.Contains(err.Error(), "must-gather, operator") {
		t.Errorf("got %v", err)
	}
}

func TestWrongInputIsNamedAndNothingWritten(t *testing.T) {
	other := map[string]string{"amd64": "arm64"}[runtime.GOARCH]
	if other == "" {
		other = "amd64"
	}
	tests := map[string]struct {
		change func(*options)
		want   string
	}{
		"no program":              {func(o *options) { o.binary += "-absent" }, "-absent"},
		"program is a text":       {func(o *options) { o.binary = o.packages }, "packages.json"},
		"program of another kind": {func(o *options) { o.arch = other }, "GOARCH=" + other},
		"architecture unknown":    {func(o *options) { o.arch = "riscv64" }, "riscv64"},
		"no folder":               {func(o *options) { o.rootfs += "-absent" }, "rootfs-absent"},
		"no plugin":               {func(o *options) { o.console += "-absent" }, "-absent"},
		"a plugin without parts":  {func(o *options) { o.parts = "" }, "-parts"},
		"parts without a plugin":  {func(o *options) { o.console = "" }, "-console"},
		"parts cannot be read":    {func(o *options) { o.parts += "-absent" }, "parts-absent"},
		"parts are none": {func(o *options) {
			_ = os.WriteFile(filepath.Join(o.parts, partsFile), []byte("[]"),
				0o644)
		}, "names none"},
		"parts are of no kind": {func(o *options) {
			_ = os.WriteFile(filepath.Join(o.parts, partsFile), []byte("{"),
				0o644)
		}, "parts.json"},
		"a license is missing": {func(o *options) {
			_ = os.Remove(filepath.Join(o.parts, licensesFolder, "yaml",
				"LICENSE"))
		}, "license of npm package yaml"},
		"a sum of no kind": {func(o *options) {
			_ = os.WriteFile(filepath.Join(o.parts, partsFile),
				[]byte(strings.ReplaceAll(parts, "sha512", "md5")), 0o644)
		}, "npm package @patternfly/react-core"},
		"no packages":             {func(o *options) { o.packages = "" }, "-packages"},
		"packages cannot be read": {func(o *options) { o.packages += "-absent" }, "packages.json-absent"},
		"packages are of no kind": {func(o *options) { o.packages = o.binary }, "packages in the image"},
		"archive of another kind": {func(o *options) { o.out = strings.TrimSuffix(o.out, ".tar") }, ".tar"},
		"archive's folder missing": {func(o *options) {
			o.out = filepath.Join(filepath.Dir(o.out), "absent",
				"image.tar")
		}, "absent"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := newFolder(t)
			test.change(&o)
			if err := run(o); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if _, err := os.Stat(o.out); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("an archive: %v", err)
			}
		})
	}
}

// sizedLayer reports a large size.
type sizedLayer struct {
	v1.Layer
	size int64
}

func (l sizedLayer) Size() (int64, error) { return l.size, nil }

type sizedImage struct {
	v1.Image
	sizes []int64
}

func (i sizedImage) Layers() ([]v1.Layer, error) {
	var layers []v1.Layer
	for _, size := range i.sizes {
		layers = append(layers, sizedLayer{static.NewLayer(nil, types.OCILayer), size})
	}
	return layers, nil
}

func TestSizeIsToldWithItsPartsAndLimited(t *testing.T) {
	o := options{title: "lvms-operator", arch: "s390x", rootfs: "rootfs"}
	got, err := checkSize(o, sizedImage{sizes: []int64{4_000_000, 52_000_000, 4_000_000}})
	if want := "60.0 MB compressed (file system 4.0 MB, program 52.0 MB, console plugin 4.0 MB)"; err !=
		nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	_, err = checkSize(o, sizedImage{sizes: []int64{4_000_000, 56_000_001}})
	if err == nil || !strings.Contains(err.Error(), "lvms-operator for s390x") ||
		!strings.Contains(err.Error(), "more than 60 MB") {
		t.Errorf("error %v", err)
	}
	if got, err := checkSize(options{}, sizedImage{sizes: []int64{1_000_000}}); err != nil ||
		got != "1.0 MB compressed (program 1.0 MB)" {
		t.Errorf("%q, %v for a program alone", got, err)
	}
}

func TestCreationTime(t *testing.T) {
	tests := map[string]string{"": "1970-01-01T00:00:00Z", "1700000000": "2023-11-14T22:13:20Z", "yesterday": ""}
	for epoch, want := range tests {
		got, err := creationTime(epoch)
		if (err == nil) != (want != "") || err == nil && got.Format(time.RFC3339) != want {
			t.Errorf("%q: %s, %v, want %q", epoch, got, err, want)
		}
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
