// Package envtests finds the tests that run with an API server: those in files with the build tag env, and those in
// files whose name ends in api_test.go, which also run in memory without this tag. Tests in files kill_test.go of these
// packages run in memory, and with an API server only as an item of their own, because that takes minutes.
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
	return args(root, func(name, text string) (bool, error) {
		if strings.HasSuffix(name, "api_test.go") {
			return true, nil
		}
		return isTagged(text)
	})
}

// KillArgs returns the arguments that select the tests in files kill_test.go of packages that have files api_test.go.
func KillArgs(root string) ([]string, error) {
	return args(root, func(name, _ string) (bool, error) {
		if filepath.Base(name) != "kill_test.go" {
			return false, nil
		}
		others, err := filepath.Glob(filepath.Join(filepath.Dir(name), "*api_test.go"))
		return len(others) > 0, err
	})
}

// selects reports whether the tests of a file are selected, given its name and its text.
type selects func(name, text string) (bool, error)

func args(root string, selected selects) ([]string, error) {
	found, err := find(root, selected)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, tests := range found {
		names = append(names, tests...)
	}
	slices.Sort(names)
	flags := []string{"-tags", "env", "-run", "^(" + strings.Join(slices.Compact(names), "|") + ")$"}
	for _, folder := range slices.Sorted(maps.Keys(found)) {
		flags = append(flags, "./"+folder)
	}
	return flags, nil
}

// find returns the names of the tests of each folder.
func find(root string, selected selects) (map[string][]string, error) {
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
		tests, err := testsOf(file, selected)
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
		err = fmt.Errorf("%s has no test for an API server", root)
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

// testsOf returns the names of the tests in a file, if it is selected.
func testsOf(name string, selected selects) ([]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if is, err := selected(name, string(text)); err != nil || !is {
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
