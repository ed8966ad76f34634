// Package envtests finds the tests that need an API server: those in files with the build tag env.
package envtests

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Args returns the arguments of `go test` that select these tests of a module, and the packages that have some. Other
// tests of these packages, which the unit tests have run already, run only if they have the name of one of these.
func Args(root string) ([]string, error) {
	found, err := find(root)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, tests := range found {
		names = append(names, tests...)
	}
	slices.Sort(names)
	args := []string{"-tags", "env", "-run", "^(" + strings.Join(slices.Compact(names), "|") + ")$"}
	for _, folder := range slices.Sorted(maps.Keys(found)) {
		args = append(args, "./"+folder)
	}
	return args, nil
}

// find returns the names of the tests of each folder.
func find(root string) (map[string][]string, error) {
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if file != root && isElsewhere(file) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		tests, err := testsOf(file)
		if err != nil || len(tests) == 0 {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		folder = path.Clean(filepath.ToSlash(folder))
		found[folder] = append(found[folder], tests...)
		return nil
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no test in %s has the build tag env", root)
	}
	return found, err
}

// isElsewhere reports whether a folder is no part of the module.
func isElsewhere(folder string) bool {
	name := filepath.Base(folder)
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "node_modules" || name == "testdata" {
		return true
	}
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// testsOf returns the names of the tests in a file, if it needs the build tag env.
func testsOf(name string) ([]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if tagged, err := isTagged(string(text)); err != nil || !tagged {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var tests []string
	for _, declaration := range file.Decls {
		f, is := declaration.(*ast.FuncDecl)
		if is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
			tests = append(tests, f.Name.Name)
		}
	}
	return tests, nil
}

func isTagged(text string) (bool, error) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "package ") {
			break
		}
		if !constraint.IsGoBuild(line) {
			continue
		}
		expression, err := constraint.Parse(line)
		if err != nil {
			return false, err
		}
		with := func(env bool) bool {
			return expression.Eval(func(tag string) bool { return tag == "linux" || env && tag == "env" })
		}
		return with(true) && !with(false), nil
	}
	return false, nil
}
