package memory

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A program that is built like the operator has less resident memory afterwards, and still works.
func TestAProgramGivesItsPagesBackAndGoesOn(t *testing.T) {
	// So that go test's cache sees what the child process reads.
	if _, err := os.Stat("testdata/program/main.go"); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var kib struct{ Before, After int }
	if err := json.Unmarshal(out, &kib); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if kib.Before == 0 || kib.After >= kib.Before {
		t.Errorf("%d KiB of files were resident, and %d are", kib.Before, kib.After)
	}
}

func TestOnlyWhatNobodyWritesToIsGivenBack(t *testing.T) {
	const maps = `00400000-02339000 r-xp 00000000 fe:00 131 /lvms
02339000-043f0000 r--p 01f39000 fe:00 131 /lvms
043f0000-0446b000 rw-p 03ff0000 fe:00 131 /lvms
0446b000-064c0000 rw-p 00000000 00:00 0
7ff000000000-7ff000001000 r-xp 00000000 fe:00 131 /lvms-other
7ffe1545d000-7ffe1545f000 r-xp 00000000 00:00 0 [vdso]
`
	got, err := readOnly(strings.NewReader(maps), "/lvms")
	if err != nil || !slices.Equal(got, []mapping{{0x400000, 0x2339000}, {0x2339000, 0x43f0000}}) {
		t.Errorf("got %x, %v", got, err)
	}
	for _, broken := range []string{"zz-02339000 r-xp 0 fe:00 131 /lvms\n",
		"02339000-00400000 r-xp 0 fe:00 131 /lvms\n"} {
		if got, err := readOnly(strings.NewReader(broken), "/lvms"); err == nil {
			t.Errorf("%s: got %v", broken, got)
		}
	}
}

// A program whose pages may differ from its file is not changed.
func TestARelocatedProgramIsLeftAlone(t *testing.T) {
	if err := unchanged("/bin/sh"); err == nil {
		t.Error("a position-independent program is said to be as in its file")
	}
	if err := unchanged("/proc/version"); err == nil {
		t.Error("what is no program is said to be one")
	}
	if err := unchanged("/no/such/file"); err == nil {
		t.Error("a file that cannot be read is said to be a program")
	}
}
