package mounter

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestTheMountPointsOfAFileSystem reads the mount table of this process.
func TestTheMountPointsOfAFileSystem(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	if err := os.Symlink("/", root); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"/proc": true, root + "/proc": true, "/proc/1": false, t.TempDir(): false,
		"/no/such/folder": false} {
		points, err := Mounter{}.SameFileSystem(path)
		if err != nil || slices.Contains(points, "/proc") != want || !want && len(points) > 0 {
			t.Errorf("%s: got %v, %v", path, points, err)
		}
	}
}
