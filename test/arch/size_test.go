package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// productFolders are the folders of the product's Go code.
var productFolders = []string{"api", "cli", "cmd", "console-plugin", "controllers", "internal", "monitoring",
	"must-gather", "vgmanager"}

// Limits of what a reader has to hold in mind at once.
const (
	maxMethods   = 30
	maxInterface = 5
	maxPackage   = 2500
)

// larger are the types, interfaces and packages above a limit, with their present size. They may only become smaller:
// lower the number with the code, and delete the row when the limit is met.
var larger = map[string]int{}

// sizes has the methods of each type, the methods of each interface, and the lines of each package, without tests and
// generated files.
type sizes struct {
	set                           *token.FileSet
	methods, interfaces, packages map[string]int
}

// TestSizes prints the largest of each kind with -v: `make metrics`.
func TestSizes(t *testing.T) {
	s := measure(t)
	total := 0
	for _, n := range s.packages {
		total += n
	}
	t.Logf("%d lines of product code in %d packages", total, len(s.packages))
	met := map[string]bool{}
	for _, kind := range []struct {
		name  string
		limit int
		sizes map[string]int
	}{{"methods of type", maxMethods, s.methods}, {"methods of interface", maxInterface, s.interfaces},
		{"lines of package", maxPackage, s.packages}} {
		bySize := func(a, b string) int { return kind.sizes[b] - kind.sizes[a] }
		names := slices.SortedFunc(maps.Keys(kind.sizes), bySize)
		for i, name := range names {
			n, key := kind.sizes[name], kind.name+" "+name
			if i < 5 || n > kind.limit {
				t.Logf("%6d  %s", n, key)
			}
			allowed, isLarger := larger[key]
			met[key] = true
			switch {
			case !isLarger && n > kind.limit:
				t.Errorf("%d %s, at most %d", n, key, kind.limit)
			case isLarger && n > allowed:
				t.Errorf("%d %s, which had %d: make it smaller, not larger", n, key, allowed)
			case isLarger && (n <= kind.limit || n < allowed):
				t.Errorf("%d %s: lower its number in larger, which is %d", n, key, allowed)
			}
		}
	}
	for key := range larger {
		if !met[key] {
			t.Errorf("%s no longer exists: delete it from larger", key)
		}
	}
}

func measure(t *testing.T) sizes {
	t.Helper()
	s := sizes{set: token.NewFileSet(), methods: map[string]int{}, interfaces: map[string]int{},
		packages: map[string]int{}}
	for _, folder := range productFolders {
		err := filepath.WalkDir(filepath.Join("../..", folder), func(file string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "testdata"):
				return filepath.SkipDir
			case entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") ||
				strings.HasPrefix(entry.Name(), "zz_generated"):
				return nil
			}
			return s.add(file)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s sizes) add(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(s.set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../../")
	s.packages[folder] += bytes.Count(text, []byte("\n"))
	for _, declaration := range parsed.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if name := receiver(d); name != "" {
				s.methods[folder+"."+name]++
			}
		case *ast.GenDecl:
			s.addInterfaces(folder, d)
		}
	}
	return nil
}

func (s sizes) addInterfaces(folder string, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		named, isType := spec.(*ast.TypeSpec)
		if !isType {
			continue
		}
		if i, isInterface := named.Type.(*ast.InterfaceType); isInterface {
			s.interfaces[fmt.Sprintf("%s.%s", folder, named.Name)] = len(i.Methods.List)
		}
	}
}

// receiver returns the name of the type of a method, or "".
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	kind := d.Recv.List[0].Type
	if star, is := kind.(*ast.StarExpr); is {
		kind = star.X
	}
	if generic, is := kind.(*ast.IndexExpr); is {
		kind = generic.X
	}
	name, is := kind.(*ast.Ident)
	if !is {
		return ""
	}
	return name.Name
}
