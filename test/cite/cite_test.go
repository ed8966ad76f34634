package cite

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheTestIsFound(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a_test.go"), []byte("// see TestOther\nfunc TestIt(t *testing.T) {}\n"+
		"It(\"works\")"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, text string
		found      bool
	}{
		{"a_test.go", "TestIt", true},
		{".", "TestIt", true},
		{".", "works", true},
		{".", "TestI", false},
		{".", "TestOther", false},
		{".", "fails", false},
		{".", "", false},
		{"b_test.go", "TestIt", false},
	} {
		if err := find(root, c.path, c.text); (err == nil) != c.found {
			t.Errorf("%q in %s: got %v", c.text, c.path, err)
		}
	}
}
