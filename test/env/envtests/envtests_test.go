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
		"a/env_test.go":   "//go:build env\n\npackage a\nfunc TestMain(m *testing.M) {}\nfunc TestB(t *testing.T) {}\n",
		"a/more_test.go":  "// Comment.\n\n//go:build env && linux\n\npackage a\nfunc TestA(t *testing.T) {}\nfunc help() {}\n",
		"a/unit_test.go":  "package a\n//go:build env\nfunc TestC(t *testing.T) {}\n",
		"a/a.go":          "//go:build env\n\npackage a\nfunc TestD(t *testing.T) {}\n",
		"b/c/x_test.go":   "//go:build env\n\npackage c\nfunc (w world) TestE() {}\nfunc TestB(t *testing.T) {}\n",
		"d/env_test.go":   "//go:build env\n\npackage d\nfunc BenchmarkX(b *testing.B) {}\n",
		"e/lab_test.go":   "//go:build lab\n\npackage e\nfunc TestF(t *testing.T) {}\n",
		"f/not_test.go":   "//go:build !env\n\npackage f\nfunc TestG(t *testing.T) {}\n",
		"g/go.mod":        "module g\n",
		"g/x_test.go":     "//go:build env\n\npackage g\nfunc TestH(t *testing.T) {}\n",
		"i/x_api_test.go": "package i\nfunc TestJ(t *testing.T) {}\n",
		"i/kill_test.go":  "package i\nfunc TestK(t *testing.T) {}\n",
		"j/kill_test.go":  "package j\nfunc TestL(t *testing.T) {}\n",
		".h/x_test.go":    "//go:build env\n\npackage h\nfunc TestI(t *testing.T) {}\n",
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
	if err != nil ||
		!slices.Equal(got, []string{"-tags", "env", "-run", "^(TestA|TestB|TestJ)$", "./a", "./b/c", "./i"}) {
		t.Errorf("got %q, %v", got, err)
	}
	got, err = KillArgs(root)
	if err != nil || !slices.Equal(got, []string{"-tags", "env", "-run", "^(TestK)$", "./i"}) {
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
	args, err := Args(root)
	if err != nil {
		t.Fatal(err)
	}
	if total := strings.Count(args[3], "|"); total < 200 {
		t.Errorf("only %d tests were found", total)
	}
	for _, folder := range []string{"./cli", "./controllers/lvmcluster", "./controllers/volumeimport",
		"./internal/csi/sidecar", "./must-gather/cluster", "./test/env", "./test/env/chart"} {
		if !slices.Contains(args, folder) {
			t.Errorf("no tests were found in %s", folder)
		}
	}
	kills, err := KillArgs(root)
	if err != nil || !slices.Equal(kills[4:], []string{"./controllers/volumeimport", "./controllers/volumemove"}) {
		t.Errorf("got %q, %v", kills, err)
	}
	if size := len(strings.Join(args, " ")); size > 100_000 {
		t.Errorf("the arguments have %d bytes, and the kernel accepts 128 KiB in one", size)
	}
}

// TestKillsAreAnItemOfTheirOwn: tests of each point at which a process can be killed take minutes with an API server.
func TestKillsAreAnItemOfTheirOwn(t *testing.T) {
	root, err := lab.Root()
	if err != nil {
		t.Fatal(err)
	}
	_, err = find(root, func(name, text string) (bool, error) {
		tagged, err := isTagged(text)
		if (tagged || strings.HasSuffix(name, "api_test.go")) && strings.Contains(text, "kill.AtEachPoint(") {
			t.Errorf("%s has tests of each point: move them to kill_test.go", name)
		}
		return tagged, err
	})
	if err != nil {
		t.Fatal(err)
	}
}
