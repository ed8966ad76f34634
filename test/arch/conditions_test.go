package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// maxTerms is the maximum number of terms of a condition after which a test reports one error. With more of them, the
// error does not say what is wrong: test/expect compares values one by one.
const maxTerms = 4

// TestConditionsOfTestsSayWhatIsWrong reads the tests with all build tags.
func TestConditionsOfTestsSayWhatIsWrong(t *testing.T) {
	read := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(name, ".") && name != ".." || name == "node_modules"):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		read++
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, at := range longConditions(file) {
			t.Errorf("%s: the condition has more than %d terms", files.Position(at), maxTerms)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if read < 100 {
		t.Errorf("read only %d files of tests", read)
	}
}

// TestTheCheckOfConditionsCatchesEach tests the check itself.
func TestTheCheckOfConditionsCatchesEach(t *testing.T) {
	for condition, want := range map[string]int{"a || b || c || d": 0, "a || b && (c || !(d || e))": 1} {
		for body, reports := range map[string]int{`t.Errorf("got %v", a)`: 1, "w.t.Fatal(a)": 1, "return": 0} {
			file, err := parser.ParseFile(token.NewFileSet(), "",
				"package p\nfunc f() { if "+condition+" { "+body+" } }", parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(longConditions(file)); got != want*reports {
				t.Errorf("if %s { %s }: found %d, want %d", condition, body, got, want*reports)
			}
		}
	}
}

// longConditions returns where the conditions with too many terms are, after which an error is reported.
func longConditions(file *ast.File) []token.Pos {
	var found []token.Pos
	ast.Inspect(file, func(n ast.Node) bool {
		if branch, ok := n.(*ast.IfStmt); ok && terms(branch.Cond) > maxTerms && reports(branch.Body) {
			found = append(found, branch.Pos())
		}
		return true
	})
	return found
}

// terms counts the operands of && and ||.
func terms(e ast.Expr) int {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return terms(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			return terms(e.X)
		}
	case *ast.BinaryExpr:
		if e.Op == token.LAND || e.Op == token.LOR {
			return terms(e.X) + terms(e.Y)
		}
	}
	return 1
}

// reports returns true if a block calls Error, Errorf, Fatal or Fatalf.
func reports(block *ast.BlockStmt) bool {
	found := false
	ast.Inspect(block, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 0 {
			if method, ok := call.Fun.(*ast.SelectorExpr); ok {
				switch method.Sel.Name {
				case "Error", "Errorf", "Fatal", "Fatalf":
					found = true
				}
			}
		}
		return true
	})
	return found
}
