package lab

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestServicesOfNewPackagesAreMaskedOnce(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "system")
	for _, want := range [][]string{{"prometheus.service"}, nil} {
		masked, err := Mask(folder, []string{"lvm2", "prometheus"})
		if err != nil || !slices.Equal(masked, want) {
			t.Errorf("got %v, %v, want %v", masked, err, want)
		}
	}
	if to, err := os.Readlink(filepath.Join(folder, "prometheus.service")); to != "/dev/null" {
		t.Errorf("leads to %q: %v", to, err)
	}
}

// Files of an administrator are not replaced, and a directory that cannot be written is reported.
func TestMaskKeepsWhatIsThere(t *testing.T) {
	folder := t.TempDir()
	own := filepath.Join(folder, "prometheus.service")
	if err := os.WriteFile(own, []byte("[Service]"), 0o644); err != nil {
		t.Fatal(err)
	}
	if masked, err := Mask(folder, []string{"prometheus"}); err != nil || len(masked) != 0 {
		t.Errorf("got %v, %v", masked, err)
	}
	if text, err := os.ReadFile(own); err != nil || string(text) != "[Service]" {
		t.Errorf("it is %q now, %v", text, err)
	}
	if _, err := Mask(filepath.Join(own, "folder"), []string{"prometheus"}); err == nil {
		t.Error("no error")
	}
}
