package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/semver"
)

// fakeRoot returns a repository with a module that pins programs.
func fakeRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	t.Setenv("LVMS_CACHE", filepath.Join(root, "cache"))
	write(t, filepath.Join(root, "go.mod"), "module "+modulePath+"\n")
	write(t, filepath.Join(root, "programs", "go.mod"), "module x\n\ngo 1.26\n")
	write(t, filepath.Join(root, "programs", "go.sum"), "")
	write(t, filepath.Join(root, "programs", "hello", "main.go"), "package main\nfunc main() {}\n")
	t.Chdir(root)
	return root
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestProgramsAreBuiltOnce(t *testing.T) {
	root := fakeRoot(t)
	s := set{name: "hello", module: "programs", programs: []program{{"hello", "x/hello"}}}
	var first, second, third strings.Builder
	dir, err := s.ensure(context.Background(), &first)
	if err != nil {
		t.Fatal(err)
	}
	if !exists(filepath.Join(dir, "hello")) || !strings.Contains(first.String(), "built hello (") {
		t.Errorf("%s\n%s", dir, first.String())
	}
	if again, err := s.ensure(context.Background(), &second); err != nil || again != dir || second.Len() > 0 {
		t.Errorf("built again: %s, %v\n%s", again, err, second.String())
	}
	write(t, filepath.Join(root, "programs", "go.sum"), "changed")
	if other, err := s.ensure(context.Background(), &third); err != nil || other == dir {
		t.Errorf("the key did not change with go.sum: %s, %v", other, err)
	}
}

func TestAFailedBuildLeavesNothing(t *testing.T) {
	root := fakeRoot(t)
	write(t, filepath.Join(root, "programs", "hello", "main.go"), "package main\nfunc main() { x }\n")
	s := set{name: "hello", module: "programs", programs: []program{{"hello", "x/hello"}}}
	if dir, err := s.ensure(context.Background(), io.Discard); err == nil ||
		!strings.Contains(err.Error(), "undefined: x") {
		t.Fatalf("%s, %v", dir, err)
	}
	left, err := filepath.Glob(filepath.Join(root, "cache", "lab", "programs", "*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "hello.lock" {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestVersionIsWhatGoModPins(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	version, err := kubernetesSet().version(root)
	if err != nil || !strings.HasPrefix(version, "v1.") {
		t.Fatalf("got %q, %v", version, err)
	}
	if flags := strings.Join(kubernetesSet().buildFlags(version),
		" "); !strings.Contains(flags, "gitVersion="+version) || !strings.Contains(flags, "gitMajor=1 ") {
		t.Errorf("flags %s", flags)
	}
}

// The releases are all from the oldest that the bundle supports to the one before that of the lab.
func TestEarlierReleasesAreThoseOfTheBundle(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	csv, err := os.ReadFile(filepath.Join(root, "bundle", "manifests", "lvms-operator.clusterserviceversion.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	minimum := regexp.MustCompile(`(?m)^  minKubeVersion: 1\.(\d+)\.0$`).FindSubmatch(csv)
	if minimum == nil {
		t.Fatal("the bundle has no minKubeVersion of the form 1.Y.0")
	}
	minor, err := strconv.Atoi(string(minimum[1]))
	if err != nil {
		t.Fatal(err)
	}
	of := func(s set) string {
		version, err := s.version(root)
		if err != nil {
			t.Fatal(err)
		}
		return semver.MajorMinor(version)
	}
	var want []string
	for ; ; minor++ {
		release := fmt.Sprintf("v1.%d", minor)
		if release == of(kubernetesSet()) {
			break
		}
		if want = append(want, release[1:]); of(earlierSet(release[1:])) != release {
			t.Errorf("%s has %s", earlierSet(release[1:]).module, of(earlierSet(release[1:])))
		}
	}
	if !slices.Equal(EarlierReleases, want) {
		t.Errorf("the releases are %q, want %q", EarlierReleases, want)
	}
}

func TestAddonCRDsAreInTheModuleCache(t *testing.T) {
	files, err := addonCRDs(context.Background(), Options{OpenShift: true, Snapshots: true, OLM: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"volumesnapshots.yaml", "volumesnapshotcontents", "securitycontextconstraints",
		"infrastructures-Default", "apiservers-Default", "clusterversions-Default", "consoleplugins", "consolequickstarts",
		"proxies", "clusterserviceversions", "catalogsources"} {
		if !strings.Contains(strings.Join(files, "\n"), want) {
			t.Errorf("no %s in %v", want, files)
		}
	}
	if _, err := moduleFiles(context.Background(), ".", openShiftAPI, "no/such/*.yaml"); err == nil {
		t.Error("a pattern without files is no error")
	}
	files, err = addonCRDs(context.Background(), Options{OpenShift: true, PrometheusOperator: true})
	if err != nil || !strings.Contains(strings.Join(files, "\n"), "_prometheuses.yaml") {
		t.Errorf("%v in %v", err, files)
	}
	manifest, err := olmV1Manifest(context.Background(), Options{OLMv1: true})
	if err != nil || !strings.HasSuffix(manifest, "manifests/standard.yaml") {
		t.Errorf("manifest of OLM v1: %s, %v", manifest, err)
	}
	files, err = addonCRDs(context.Background(), Options{OLMv1: true})
	if err != nil || !slices.Contains(files, manifest) ||
		!strings.Contains(strings.Join(files, "\n"), "servicemonitors") {
		t.Errorf("OLM v1: custom resource definitions in %v, %v", files, err)
	}
	for _, c := range []struct {
		options Options
		want    string
	}{{Options{}, ""}, {Options{NetworkPolicies: true}, "install.yaml"}} {
		if file, err := networkPolicyManifest(context.Background(), c.options); err != nil ||
			!strings.HasSuffix(file, c.want) || (file == "") != (c.want == "") {
			t.Errorf("%v: %s, %v", c.options, file, err)
		}
	}
}
