// Package cite checks that a test exists that a table names, so that a renamed or deleted test does not leave a
// permission or a command without one.
package cite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lvm-storage/lvm-operator/test/lab"
)

// Find returns an error unless a file of the repository contains a text, or one of the Go files of a folder does. The
// name of a Go test stands for its function.
func Find(path, text string) error {
	root, err := lab.Root()
	if err != nil {
		return err
	}
	return find(root, path, text)
}

func find(root, path, text string) error {
	files := []string{filepath.Join(root, path)}
	if info, err := os.Stat(files[0]); err != nil {
		return err
	} else if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(root, path, "*.go")); err != nil {
			return err
		}
	}
	wanted := text
	if strings.HasPrefix(text, "Test") && !strings.Contains(text, " ") {
		wanted = "func " + text + "("
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if text != "" && strings.Contains(string(content), wanted) {
			return nil
		}
	}
	return fmt.Errorf("%s has no %q", path, text)
}
