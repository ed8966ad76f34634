package arch

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// ownVersions are the directories of modules with their own versions, and why.
var ownVersions = map[string]string{
	"hack/tools/golangci-lint":          "needs newer versions of golang.org/x/tools, and nothing of Kubernetes",
	"hack/tools/hugo":                   "needs nothing of Kubernetes",
	"hack/tools/vale":                   "needs nothing of Kubernetes",
	"hack/topolvm":                      "has the versions of TopoLVM's release, which CSI 1.13 does not build",
	"test/lab/programs/kubernetes-1.30": "has the versions of its release",
	"test/lab/programs/kubernetes-1.31": "has the versions of its release",
	"test/lab/programs/kubernetes-1.32": "has the versions of its release",
	"test/lab/programs/kubernetes-1.33": "has the versions of its release",
	"test/lab/programs/kubernetes-1.34": "has the versions of its release",
	"test/lab/programs/kubernetes-1.35": "has the versions of its release",
	"test/lab/programs/kubernetes-1.36": "has the versions of its release",
	"test/lab/programs/monitoring":      "has the versions of the Prometheus Operator's release",
	"test/lab/programs/networkpolicies": "has the versions of its release",
	"test/lab/programs/storagetests":    "is of Kubernetes 1.36: the module of 1.37.2 lacks a package (test/utils/format)",
	"test/lab/programs/olm":             "has the versions of OLM's release, which is for Kubernetes 1.35",
	"test/lab/programs/olmv1":           "has the versions of its release",
}

// versions are the versions of the dependencies of a module, direct and indirect.
type versions map[string]string

// TestModulesShareTheVersionsOfTheirDependencies: a package is compiled once for several modules only if its
// version and the versions of everything that it imports are the same. The product, its tools, and Kubernetes and
// containerd in the lab share more than 1,000 packages. One other version, such as of x/net, compiles most of them
// again.
func TestModulesShareTheVersionsOfTheirDependencies(t *testing.T) {
	modules := map[string]versions{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || strings.HasPrefix(entry.Name(), ".") && path != root):
			return filepath.SkipDir
		case entry.Name() != "go.mod":
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		modules[filepath.ToSlash(dir)], err = versionsIn(path, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir := range ownVersions {
		if modules[dir] == nil {
			t.Errorf("ownVersions has %s, which is not a module", dir)
		}
		delete(modules, dir)
	}
	if len(modules["."]) == 0 || len(modules) < 2 {
		t.Fatalf("found only the modules %v", slices.Collect(maps.Keys(modules)))
	}
	for _, d := range differences(modules) {
		t.Error(d)
	}
}

// TestTheCheckOfVersionsCatchesEach tests the check itself.
func TestTheCheckOfVersionsCatchesEach(t *testing.T) {
	modules := map[string]versions{}
	for dir, text := range map[string]string{
		".":     "module m\nrequire (\n\ta.b/c v1.2.0\n\ta.b/d v1.0.0\n\ta.b/only v1.0.0\n)\n",
		"x":     "module m/x\nrequire (\n\ta.b/c v1.10.0 // indirect\n\ta.b/d v1.0.0\n)\n",
		"y/kub": "module m/y\nrequire (\n\ta.b/c v1.3.0\n\ta.b/d v0.0.0\n)\nreplace a.b/d => a.b/d v1.0.1\n",
	} {
		var err error
		if modules[dir], err = versionsIn(dir, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"a.b/c has different versions: v1.2.0 in go.mod, v1.10.0 in x/go.mod, v1.3.0 in y/kub/go.mod. In each " +
			"directory with an older one, change its replace directive, or run: go get a.b/c@v1.10.0 && go mod tidy",
		"a.b/d has different versions: v1.0.0 in go.mod, v1.0.0 in x/go.mod, v1.0.1 in y/kub/go.mod. In each " +
			"directory with an older one, change its replace directive, or run: go get a.b/d@v1.0.1 && go mod tidy",
	}
	if got := differences(modules); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// versionsIn parses a go.mod.
func versionsIn(path string, data []byte) (versions, error) {
	file, err := modfile.Parse(path, data, nil)
	if err != nil {
		return nil, err
	}
	of := versions{}
	for _, r := range file.Require {
		of[r.Mod.Path] = r.Mod.Version
	}
	for _, r := range file.Replace {
		if _, required := of[r.Old.Path]; required {
			of[r.Old.Path] = r.New.Version
		}
	}
	return of, nil
}

// differences returns a message for each dependency of which the modules, by directory, have different versions.
func differences(modules map[string]versions) []string {
	users := map[string][]string{}
	for _, dir := range slices.Sorted(maps.Keys(modules)) {
		for dependency := range modules[dir] {
			users[dependency] = append(users[dependency], dir)
		}
	}
	var messages []string
	for _, dependency := range slices.Sorted(maps.Keys(users)) {
		var newest string
		var where []string
		different := false
		for i, dir := range users[dependency] {
			version := modules[dir][dependency]
			where = append(where, fmt.Sprintf("%s in %s", version, filepath.ToSlash(filepath.Join(dir, "go.mod"))))
			different = different || i > 0 && version != newest
			if newest == "" || semver.Compare(version, newest) > 0 {
				newest = version
			}
		}
		if different {
			messages = append(messages, fmt.Sprintf("%s has different versions: %s. In each directory with an older one, "+
				"change its replace directive, or run: go get %[1]s@%[3]s && go mod tidy", dependency,
				strings.Join(where, ", "), newest))
		}
	}
	return messages
}
