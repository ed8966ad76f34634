package envtests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/test/lab"
)

func TestOnlyTestsWithTheTagAreSelected(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/env_test.go":  "//go:build env\n\npackage a\nfunc TestMain(m *testing.M) {}\nfunc TestB(t *testing.T) {}\n",
		"a/more_test.go": "// Comment.\n\n//go:build env && linux\n\npackage a\nfunc TestA(t *testing.T) {}\nfunc help() {}\n",
		"a/unit_test.go": "package a\n//go:build env\nfunc TestC(t *testing.T) {}\n",
		"a/a.go":         "//go:build env\n\npackage a\nfunc TestD(t *testing.T) {}\n",
		"b/c/x_test.go":  "//go:build env\n\npackage c\nfunc (w world) TestE() {}\nfunc TestB(t *testing.T) {}\n",
		"d/env_test.go":  "//go:build env\n\npackage d\nfunc BenchmarkX(b *testing.B) {}\n",
		"e/lab_test.go":  "//go:build lab\n\npackage e\nfunc TestF(t *testing.T) {}\n",
		"f/not_test.go":  "//go:build !env\n\npackage f\nfunc TestG(t *testing.T) {}\n",
		"g/go.mod":       "module g\n",
		"g/x_test.go":    "//go:build env\n\npackage g\nfunc TestH(t *testing.T) {}\n",
		".h/x_test.go":   "//go:build env\n\npackage h\nfunc TestI(t *testing.T) {}\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Args(root)
	if err != nil || !slices.Equal(got, []string{"-tags", "env", "-run", "^(TestA|TestB)$", "./a", "./b/c"}) {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := Args(filepath.Join(root, "e")); err == nil {
		t.Error("no error for a folder without such tests")
	}
}

// TestTheTestsOfTheRepositoryAreFound: packages and tests of each of the folders that have some.
func TestTheTestsOfTheRepositoryAreFound(t *testing.T) {
	root, err := lab.Root()
	if err != nil {
		t.Fatal(err)
	}
	found, err := find(root)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, tests := range found {
		total += len(tests)
	}
	if total < 200 {
		t.Errorf("only %d tests were found", total)
	}
	for _, folder := range []string{"cli", "controllers/lvmcluster", "internal/csi/sidecar", "must-gather/cluster", "test/env",
		"test/env/chart"} {
		if len(found[folder]) == 0 {
			t.Errorf("no tests were found in %s", folder)
		}
	}
	args, err := Args(root)
	if err != nil {
		t.Fatal(err)
	}
	if size := len(strings.Join(args, " ")); size > 100_000 {
		t.Errorf("the arguments have %d bytes, and the kernel accepts 128 KiB in one", size)
	}
}
