package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// layoutFolders are the folders of the programs that run in a cluster.
var layoutFolders = []string{"api", "cmd", "console-plugin", "controllers", "internal", "must-gather", "vgmanager"}

const layoutPackage = "internal/cluster/hostpaths"

// TestOnlyOnePackageKnowsTheDirectoryOfTheKubelet finds code for which the option has no effect.
func TestOnlyOnePackageKnowsTheDirectoryOfTheKubelet(t *testing.T) {
	found := 0
	for _, folder := range layoutFolders {
		for _, literal := range literalsWith(t, filepath.Join("..", "..", folder), "/var/lib/kubelet") {
			if strings.HasPrefix(filepath.ToSlash(literal.Filename), "../../"+layoutPackage+"/") {
				found++
				continue
			}
			t.Errorf("%s: use %s instead of a fixed directory of the kubelet", literal, layoutPackage)
		}
	}
	if found != 1 {
		t.Errorf("%s has the directory %d times, want once, or the scan misses it", layoutPackage, found)
	}
}

// literalsWith returns the positions of strings in code, without tests, that contain a text.
func literalsWith(t *testing.T, folder, text string) []token.Position {
	t.Helper()
	var found []token.Position
	set := token.NewFileSet()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "node_modules":
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			literal, isLiteral := node.(*ast.BasicLit)
			if !isLiteral || literal.Kind != token.STRING {
				return true
			}
			if value, err := strconv.Unquote(literal.Value); err == nil && strings.Contains(value, text) {
				found = append(found, set.Position(literal.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
