package lab

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/hack/debian"
)

func TestAnOptionThatLinuxDoesNotAcceptIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".config")
	for _, c := range []struct{ remove, want string }{
		{"", ""},
		{"CONFIG_DM_THIN_PROVISIONING=m\n", "CONFIG_DM_THIN_PROVISIONING=m"},
	} {
		text := strings.Replace(kernelConfig, c.remove, "", 1)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := checkConfig(file); err != nil {
			_, got, _ = strings.Cut(err.Error(), "accept: ")
		}
		if got != c.want {
			t.Errorf("without %q: %q is named, want %q", c.remove, got, c.want)
		}
	}
	if err := checkConfig(filepath.Join(t.TempDir(), ".config")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

func TestAPackageWithoutSourceIsAnError(t *testing.T) {
	_, err := unpackSource(t.Context(), []debian.Deb{{Path: "binutils_2.deb"}}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "0 archives") {
		t.Error(err)
	}
}

func TestCompiledFilesAreCounted(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.o", "b/c.o", "b/c.c", "b/.d.o.cmd"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if n := countObjects(dir); n != 2 {
		t.Errorf("%d files, want 2", n)
	}
	if n := countObjects(filepath.Join(dir, "none")); n != 0 {
		t.Errorf("%d files in no directory", n)
	}
	reportObjects(io.Discard, dir)()
}

func TestADirectoryIsBuiltOnceAndWhole(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "new")
	failed := errors.New("no space")
	builds := 0
	build := func(fails error) func(string) error {
		return func(dir string) error {
			builds++
			return errors.Join(os.WriteFile(filepath.Join(dir, "linux"), nil, 0o755), fails)
		}
	}
	if _, err := ensureDir(parent, "kernel", "1", build(failed)); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(parent + "/kernel-*"); err != nil || len(left) > 0 {
		t.Errorf("a failed build left %v, %v", left, err)
	}
	if err := os.Mkdir(filepath.Join(parent, "kernel.build-killed"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		dir, err := ensureDir(parent, "kernel", "1", build(nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "linux")); err != nil {
			t.Error(err)
		}
	}
	if builds != 2 {
		t.Errorf("built %d times, want one that failed and one", builds)
	}
	if left, err := filepath.Glob(parent + "/kernel.build-*"); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
