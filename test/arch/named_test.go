package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the directory of the repository.
const root = "../.."

// namedFile is a Go file of the node agent in a comment, a document, or a test of the console. Other projects have no
// directory of this name.
var namedFile = regexp.MustCompile(`\bvgmanager/[A-Za-z0-9_/-]+\.go\b`)

// TestNamedFilesExist: files that comments and documents name were not moved.
func TestNamedFilesExist(t *testing.T) {
	read := 0
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		skipped := []string{"node_modules", ".git", ".cache", "testdata", "dist"}
		if err != nil || entry.IsDir() && slices.Contains(skipped, entry.Name()) {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if !slices.Contains([]string{".go", ".md", ".ts", ".tsx"}, filepath.Ext(file)) || !entry.Type().IsRegular() ||
			entry.Name() == "CHANGELOG.md" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		read++
		for _, named := range slices.Compact(namedFile.FindAllString(string(text), -1)) {
			if _, err := os.Stat(filepath.Join(root, named)); err != nil {
				t.Errorf("%s names %s, which does not exist", strings.TrimPrefix(file, root), named)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if read < 1000 {
		t.Errorf("read only %d files", read)
	}
}
