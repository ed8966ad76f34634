package lane

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/test/lab"
)

const root = "../.."

// sources returns the Go files below a folder of the repository, by the directory that has them.
func sources(t *testing.T, folder string) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	err := filepath.WalkDir(filepath.Join(root, folder), func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{"node_modules", "testdata", ".cache", ".git"}, entry.Name()) {
			return filepath.SkipDir
		}
		if path.Ext(file) == ".go" {
			dir, err := filepath.Rel(root, filepath.Dir(file))
			if err != nil {
				return err
			}
			files[dir] = append(files[dir], file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("%s has no Go files", folder)
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var testFunction = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)

// tagged returns the test functions in files with a build tag, by directory. TestMain is not a test.
func tagged(t *testing.T, tag string) map[string][]string {
	t.Helper()
	tests := map[string][]string{}
	for dir, files := range sources(t, ".") {
		for _, file := range files {
			text := read(t, file)
			if !strings.HasSuffix(file, "_test.go") || !strings.HasPrefix(text, "//go:build "+tag+"\n") {
				continue
			}
			for _, found := range testFunction.FindAllStringSubmatch(text, -1) {
				if found[1] != "TestMain" {
					tests[dir] = append(tests[dir], found[1])
				}
			}
		}
	}
	if len(tests) == 0 {
		t.Fatalf("no test has the tag %s", tag)
	}
	return tests
}

func TestTheTableHasTheFlavorsOfTheLab(t *testing.T) {
	var want []string
	for _, f := range lab.Flavors() {
		want = append(want, f.Name)
	}
	if !slices.Equal(flavors, want) {
		t.Errorf("the table has the flavors %q, the lab %q", flavors, want)
	}
}

func TestTheTableHasTheReleasesOfTheLab(t *testing.T) {
	if !slices.Equal(earlierReleases, lab.EarlierReleases) {
		t.Errorf("the table has the releases %q, the lab %q", earlierReleases, lab.EarlierReleases)
	}
}

// TestEachBareLabHasANameOfItsOwn: the lab refuses a name that is longer, and two labs with one name do not run.
func TestEachBareLabHasANameOfItsOwn(t *testing.T) {
	const longest = 32
	names := map[string]string{}
	for _, i := range bareItems() {
		at := slices.Index(i.Command, "--name")
		if at < 0 {
			continue
		}
		name := i.Command[at+1]
		if len(name) > longest || names[name] != "" {
			t.Errorf("%s: the name %q of its lab is too long, or that of %s", i.Name, name, names[name])
		}
		names[name] = i.Name
	}
	if len(names) < len(bareSuites) {
		t.Errorf("only %d items have labs", len(names))
	}
}

func TestEachEndToEndPackageIsAnItem(t *testing.T) {
	for dir := range tagged(t, "e2e") {
		if !slices.ContainsFunc(All(), func(i Item) bool { return slices.Contains(i.Command, "./"+dir) }) {
			t.Errorf("no item runs %s: add it to test/lane/endtoend.go", dir)
		}
	}
}

var label = regexp.MustCompile(`Label\("([^"]+)"\)`)

// Each label of a package selects the specs of an item, and each item that selects specs selects some, or all others
// with "!".
func TestEachChapterIsAnItem(t *testing.T) {
	const filter = "-ginkgo.label-filter="
	for dir := range tagged(t, "e2e") {
		inItems := map[string]bool{}
		for _, i := range All() {
			if !slices.Contains(i.Command, "./"+dir) {
				continue
			}
			for _, arg := range i.Command {
				if selected, is := strings.CutPrefix(arg, filter); is {
					inItems[strings.TrimPrefix(selected, "!")] = true
				}
			}
		}
		inFiles := map[string]bool{}
		for _, file := range sources(t, dir)[dir] {
			for _, found := range label.FindAllStringSubmatch(read(t, file), -1) {
				inFiles[found[1]] = true
			}
		}
		for name := range inItems {
			if !inFiles[name] {
				t.Errorf("%s has no spec with the label %q, which an item selects", dir, name)
			}
		}
		for name := range inFiles {
			if !inItems[name] {
				t.Errorf("no item selects the label %q of %s", name, dir)
			}
		}
	}
}

// Benchmarks are measured by hand: hack/bench.
var benchmark = regexp.MustCompile(`^TestBench`)

func TestEachTestOnANodeIsInASuite(t *testing.T) {
	for dir, tests := range tagged(t, "lab") {
		if dir == "test/lab" {
			continue // the item lab
		}
		for _, test := range tests {
			if benchmark.MatchString(test) {
				continue
			}
			n := 0
			for _, s := range bareSuites {
				if s.name != core.name && s.pkg == dir && s.selects(test) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%s of %s is in %d suites of test/lane/items.go, and not in one", test, dir, n)
			}
		}
	}
}

// A test without the build tag needs no node: the item unit runs it.
func TestNoOtherTestIsInASuite(t *testing.T) {
	onNodes := tagged(t, "lab")
	for _, s := range bareSuites {
		for _, file := range sources(t, s.pkg)[s.pkg] {
			if !strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, found := range testFunction.FindAllStringSubmatch(read(t, file), -1) {
				if s.selects(found[1]) && !slices.Contains(onNodes[s.pkg], found[1]) {
					t.Errorf("%s of %s is in the suite %s and does not have the build tag lab", found[1], file, s.name)
				}
			}
		}
	}
}

func (s suite) selects(test string) bool {
	return regexp.MustCompile(s.run).MatchString(test) &&
		(s.skip == "" || !regexp.MustCompile(s.skip).MatchString(test))
}

// Each alternative of a pattern matches a test, so that a test that is renamed does not silently stop running.
func TestEachPatternMatchesATest(t *testing.T) {
	tests := tagged(t, "lab")
	for _, s := range bareSuites {
		alternatives := []string{s.run}
		if inner, is := strings.CutPrefix(strings.TrimSuffix(s.run, ")$"), "^("); is {
			alternatives = nil
			for _, a := range strings.Split(inner, "|") {
				alternatives = append(alternatives, "^"+a+"$")
			}
		}
		for _, a := range alternatives {
			one := s
			one.run = a
			if !slices.ContainsFunc(tests[s.pkg], one.selects) {
				t.Errorf("%s: %s matches no test of %s", s.name, a, s.pkg)
			}
		}
	}
}

// Each package of the product is covered by an item besides the tests without a node, so that a change of it runs more
// than these. The random walk of soak covers the product as a whole.
func TestEachPackageOfTheProductIsCovered(t *testing.T) {
	for _, folder := range []string{"api", "cli", "cmd", "controllers", "internal", "monitoring", "must-gather", "vgmanager", "console-plugin"} {
		for dir, files := range sources(t, folder) {
			if !slices.ContainsFunc(files, func(f string) bool {
				return !strings.HasSuffix(f, "_test.go") && filepath.Base(f) != "doc.go"
			}) {
				continue
			}
			file := dir + "/x.go"
			if !slices.ContainsFunc(Others(), func(i Item) bool {
				return i.Name != "soak" && i.Name != "race/env" && !strings.HasPrefix(i.Name, "fuzz/") && i.Covers(file)
			}) {
				t.Errorf("no item covers %s: add it to the paths of one", dir)
			}
		}
	}
}

// A path that does not exist covers nothing.
func TestEachPathOfAnItemExists(t *testing.T) {
	for _, i := range All() {
		for _, p := range i.Paths {
			if _, err := os.Stat(filepath.Join(root, strings.TrimSuffix(p, "/*"))); err != nil {
				t.Errorf("%s: %v", i.Name, err)
			}
		}
	}
}

func TestEachFuzzTargetIsInAnItem(t *testing.T) {
	target := regexp.MustCompile(`(?m)^func Fuzz[A-Z]`)
	for dir, files := range sources(t, ".") {
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") || !target.MatchString(read(t, file)) {
				continue
			}
			if !slices.ContainsFunc(All(), func(i Item) bool {
				return strings.HasPrefix(i.Name, "fuzz/") && i.Covers(dir+"/x.go")
			}) {
				t.Errorf("no item runs the fuzz targets of %s", dir)
			}
		}
	}
}
