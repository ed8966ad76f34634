package xstate

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestAreaSizeIsAtLeastTheLegacyAreaAndTheHeader(t *testing.T) {
	size, err := AreaSize()
	if err != nil {
		t.Fatal(err)
	}
	if size < 576 || size > 1<<16-1 {
		t.Errorf("the area has %d bytes", size)
	}
	if again, err := AreaSize(); err != nil || again != size {
		t.Errorf("the second time it has %d bytes, %v", again, err)
	}
}

// The check traces itself with the library, as User Mode Linux does. It writes a short area, and the process keeps its
// registers.
func TestLibraryWidensAShortArea(t *testing.T) {
	t.Setenv(AlwaysEnv, "1")
	folder := t.TempDir()
	library, err := Preload(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Preload(t.Context(), folder); err != nil || again != library {
		t.Errorf("called twice: %q, %v", again, err)
	}
	// So that go test's cache sees what the compiler reads.
	if _, err := os.Stat("testdata/tracer.c"); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "tracer")
	if out, err := exec.Command(Compiler, "-O2", "-Wall", "-Werror", "-o", program,
		"testdata/tracer.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program)
	cmd.Env = []string{"LD_PRELOAD=" + library}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("with the library: %v\n%s", err, out)
	}
	size, err := AreaSize()
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command(program).Run(); (err != nil) != (size > umlBytes) {
		t.Errorf("without the library, on an area of %d bytes: %v", size, err)
	}
}

func TestPreloadNamesTheCompilersFault(t *testing.T) {
	t.Setenv(AlwaysEnv, "1")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if library, err := Preload(t.Context(), filepath.Join(file, "folder")); err == nil {
		t.Errorf("a folder that cannot be made: %q", library)
	}
}
