package lvm

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// marking are the commands that LVM also runs while a physical volume is missing, which it then marks as missing for
// good when it writes the metadata (handles_missing_pvs in tools/*.c, import_vg in lib/metadata/metadata.c).
var marking = []string{"lvchange", "lvconvert", "lvremove", "vgchange", "vgextend", "vgreduce"}

// harmless are the functions that run one of these commands in a group that can miss a physical volume, and why this
// marks none.
var harmless = map[string]string{
	"VGActivate":             "an activation does not write the metadata",
	"LVActivate":             "an activation does not write the metadata",
	"LVDeactivate":           "a deactivation does not write the metadata",
	"GroupDeactivate":        "a deactivation does not write the metadata",
	"ThinMetadataDeactivate": "a deactivation does not write the metadata",
	"ThinPoolActivate":       "an activation does not write the metadata",
	"LVRefresh":              "it loads the tables of the kernel again",
}

// TestCommandsThatMarkDevicesAsMissingNeedAWholeGroup fails if a function runs such a command without a new look at the
// physical volumes (changeWhole).
func TestCommandsThatMarkDevicesAsMissingNeedAWholeGroup(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			function, ok := d.(*ast.FuncDecl)
			if !ok || !runsMarking(function) {
				continue
			}
			found[function.Name.Name] = true
			if harmless[function.Name.Name] == "" && !looks(function) {
				t.Errorf("%s: %s runs a command that marks missing devices for good, without changeWhole", f.Name(),
					function.Name.Name)
			}
		}
	}
	for name := range harmless {
		if !found[name] {
			t.Errorf("%s runs no such command", name)
		}
	}
	if len(found) < 15 {
		t.Errorf("only %d functions were found", len(found))
	}
}

// runsMarking returns true if a method of LVM that can have a command changed something has a name of one in its text.
func runsMarking(f *ast.FuncDecl) bool {
	found, changes := false, false
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			found = found || n.Kind == token.STRING && err == nil && slices.Contains(marking, text)
		case *ast.SelectorExpr:
			changes = changes || slices.Contains([]string{"change", "changeVolume", "changeWhole", "apply", "activate"}, n.Sel.Name)
		}
		return true
	})
	return found && changes
}

// looks returns true if a function runs its command in a whole group only.
func looks(f *ast.FuncDecl) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == "changeWhole"
		case *ast.KeyValueExpr:
			key, ok := n.Key.(*ast.Ident)
			found = found || ok && key.Name == "whole"
		}
		return true
	})
	return found
}
