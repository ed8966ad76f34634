//go:build e2e

// Package images reads the built images like an image scanner: the distribution, the packages and the Go modules must
// be those in the SBOM of the archive. It needs no cluster.
package images

import (
	"archive/tar"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	// These tests accept the flags of the other end-to-end tests.
	_ "github.com/onsi/ginkgo/v2"
)

// images maps the environment variables with the paths of archives to the Go programs in them.
var images = map[string][]string{"LVMS_IMAGE": {"lvms", "console-plugin"}, "LVMS_GATHER_IMAGE": {"usr/bin/gather"}}

func TestAScannerFindsWhatTheListOfComponentsHas(t *testing.T) {
	for variable, programs := range images {
		t.Run(variable, func(t *testing.T) {
			archive := os.Getenv(variable)
			if archive == "" {
				t.Fatalf("%s is not set: run `make test-long ITEMS=e2e/`", variable)
			}
			root := t.TempDir()
			must(t, unpack(archive, t.TempDir(), root))

			want := readComponents(t, strings.TrimSuffix(archive, ".tar")+".spdx.json")

			release := content(t, filepath.Join(root, "etc/os-release"))
			if !strings.Contains(release, "\nID=debian\n") || !strings.Contains(release, "\nVERSION_ID=\"12\"\n") {
				t.Errorf("/etc/os-release does not name Debian 12: %q", release)
			}
			if got := debianPackages(t, root); !maps.Equal(got, want.debian) || len(got) == 0 {
				t.Errorf("dpkg-query lists %v\nthe list of components has %v", got, want.debian)
			}
			if out, err := exec.CommandContext(t.Context(), "dpkg", "--root="+root,
				"--verify").CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("dpkg --verify: %v\n%s", err, out)
			}
			if got := goModules(t, root, programs); !maps.Equal(got, want.modules) || len(got) == 0 {
				t.Errorf("the programs %q have the modules %v\nthe list of components has %v", programs,
					got, want.modules)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return string(data)
}

// components maps the names of packages to versions.
type components struct{ debian, modules map[string]string }

// readComponents reads the package URLs of an SPDX document. It omits the main module, which has a version there and
// none in the program.
func readComponents(t *testing.T, path string) components {
	t.Helper()
	var document struct {
		Packages []struct {
			Name, VersionInfo string
			ExternalRefs      []struct{ ReferenceLocator string }
		}
	}
	must(t, json.Unmarshal([]byte(content(t, path)), &document))
	found := components{debian: map[string]string{}, modules: map[string]string{}}
	for _, p := range document.Packages {
		purl := p.ExternalRefs[0].ReferenceLocator
		switch {
		case strings.HasPrefix(purl, "pkg:deb/"):
			found.debian[p.Name] = p.VersionInfo
		case strings.HasPrefix(purl, "pkg:golang/") && !strings.HasPrefix(p.Name, ourModule) && p.Name != "stdlib":
			found.modules[p.Name] = p.VersionInfo
		}
	}
	return found
}

const ourModule = "github.com/lvm-storage/lvm-operator"

// debianPackages reads the packages of an extracted image with dpkg-query.
func debianPackages(t *testing.T, root string) map[string]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "dpkg-query", "--admindir="+filepath.Join(root, "var/lib/dpkg"),
		"-W", "-f", "${db:Status-Abbrev}|${Package}|${Version}\n").Output()
	must(t, err)
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(fields) != 3 || fields[0] != "ii " {
			t.Errorf("dpkg-query prints %q, which is not an installed package with its version", line)
			continue
		}
		found[fields[1]] = fields[2]
	}
	return found
}

// goModules reads the modules of the programs, like `go version -m`.
func goModules(t *testing.T, root string, programs []string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, name := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(root, name))
		must(t, err)
		if info.Main.Path != ourModule {
			t.Errorf("/%s is of module %q, want %s", name, info.Main.Path, ourModule)
		}
		// Without a module, Go writes no setting. In FIPS mode, it writes the version of the module.
		module, on := setting(info, "GOFIPS140"), strings.Contains(setting(info, "DefaultGODEBUG"), "fips140=on")
		if want := fipsModule(t) != "off"; (module != "") != want || on != want {
			t.Errorf("/%s: want FIPS mode %v, got module %q, %v", name, want, module, info.Settings)
		}
		for _, m := range info.Deps {
			found[m.Path] = m.Version
		}
	}
	return found
}

// fipsModule returns the version of Go's FIPS 140-3 module that the images were built with: certified or off.
func fipsModule(t *testing.T) string {
	t.Helper()
	module := os.Getenv("LVMS_FIPS_MODULE")
	if module == "" {
		t.Fatal("LVMS_FIPS_MODULE is not set: it says with which FIPS module the images were built, certified or off")
	}
	return module
}

// setting returns a setting of a build, or "".
func setting(info *debug.BuildInfo, key string) string {
	at := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == key })
	if at < 0 {
		return ""
	}
	return info.Settings[at].Value
}

// unpack writes the files of the image in an OCI archive to root, and the layers to another directory.
func unpack(archive, layers, root string) error {
	image, err := open(archive, layers)
	if err != nil {
		return err
	}
	files := mutate.Extract(image)
	defer files.Close()
	return extract(files, root)
}

// open returns the first image of an OCI archive, which it extracts to a directory.
func open(archive, folder string) (v1.Image, error) {
	file, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := extract(file, folder); err != nil {
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
	return index.Image(manifest.Manifests[0].Digest)
}

// extract writes the files of a tar archive below a directory.
func extract(archive io.Reader, root string) error {
	folder, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer folder.Close()
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = extractFile(folder, header, r)
		}
		if err != nil {
			return err
		}
	}
}

func extractFile(folder *os.Root, header *tar.Header, r io.Reader) error {
	name := filepath.Clean(header.Name)
	if err := folder.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return folder.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return folder.Symlink(header.Linkname, name)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return folder.WriteFile(name, data, header.FileInfo().Mode().Perm())
}
