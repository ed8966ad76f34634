package reference

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// module is the path of the module with a trailing slash.
const module = "github.com/lvm-storage/lvm-operator/"

// Folders are the directories with code that runs in a cluster.
var Folders = []string{"api", "cmd", "console-plugin", "controllers", "internal", "must-gather", "vgmanager"}

// Source is parsed Go code, without tests.
type Source struct {
	positions *token.FileSet
	files     []file
}

// file is a Go file with its directory.
type file struct {
	folder string
	syntax *ast.File
}

// Parse reads the code below directories of a module's root.
func Parse(root string, folders ...string) (*Source, error) {
	s := &Source{positions: token.NewFileSet()}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() && entry.Name() == "node_modules" {
				return skipped(err)
			}
			if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			return s.add(root, path)
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// skipped returns err, or fs.SkipDir if it is nil.
func skipped(err error) error {
	if err != nil {
		return err
	}
	return fs.SkipDir
}

func (s *Source) add(root, path string) error {
	syntax, err := parser.ParseFile(s.positions, path, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	folder, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil {
		return err
	}
	s.files = append(s.files, file{folder: filepath.ToSlash(folder), syntax: syntax})
	return nil
}

// Declaration is a string constant, or a variable with an event of package event.
type Declaration struct {
	Folder, Name, Value string
	// Type is the type of a constant as written; empty for a string.
	Type string
	// Event is Normal or Warning for an event, and empty otherwise.
	Event string
	// Doc is the comment as one line.
	Doc string
}

// Declarations returns the declarations of all packages in the order of the code.
func (s *Source) Declarations() []Declaration {
	var found []Declaration
	for _, f := range s.files {
		for _, d := range f.syntax.Decls {
			if group, ok := d.(*ast.GenDecl); ok && (group.Tok == token.CONST || group.Tok == token.VAR) {
				found = append(found, declarationsOf(f.folder, group)...)
			}
		}
	}
	return found
}

func declarationsOf(folder string, group *ast.GenDecl) []Declaration {
	var found []Declaration
	for _, spec := range group.Specs {
		value, ok := spec.(*ast.ValueSpec)
		if !ok || len(value.Names) != 1 || len(value.Values) != 1 {
			continue
		}
		d := Declaration{Folder: folder, Name: value.Names[0].Name, Doc: docOf(group, value)}
		if kind, ok := value.Type.(*ast.Ident); ok {
			d.Type = kind.Name
		}
		if group.Tok == token.CONST {
			d.Value = text(value.Values[0])
		} else {
			d.Event, d.Value = eventOf(value.Values[0])
		}
		if d.Value != "" {
			found = append(found, d)
		}
	}
	return found
}

// docOf returns the comment of a declaration as one line. Without parentheses, the comment is before the keyword.
func docOf(group *ast.GenDecl, spec *ast.ValueSpec) string {
	doc := spec.Doc
	if doc == nil && !group.Lparen.IsValid() {
		doc = group.Doc
	}
	return strings.Join(strings.Fields(doc.Text()), " ")
}

// text returns the value of a string literal, or "".
func text(e ast.Expr) string {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return value
}

// eventOf returns the type and reason of a call of event.Normal or event.Warning, or "".
func eventOf(e ast.Expr) (kind, reason string) {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return "", ""
	}
	name := calleeOf(call)
	if !slices.Contains([]string{"Normal", "Warning"}, name) {
		return "", ""
	}
	return name, text(call.Args[0])
}

// calleeOf returns the name of the called function, without package or receiver.
func calleeOf(call *ast.CallExpr) string {
	switch callee := call.Fun.(type) {
	case *ast.Ident:
		return callee.Name
	case *ast.SelectorExpr:
		return callee.Sel.Name
	}
	return ""
}

// split returns the parts of a comment before and after a label such as "What to do:".
func split(doc, label string) (before, after string) {
	before, after, _ = strings.Cut(doc, label)
	return clause(before), clause(after)
}
