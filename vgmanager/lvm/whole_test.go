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

// harmless are the changes and functions that run one of these commands in a group that can miss a physical volume, and
// why this marks none.
var harmless = map[string]string{
	"VGActivate":             "an activation does not write the metadata",
	"LVActivate":             "an activation does not write the metadata",
	"LVDeactivate":           "a deactivation does not write the metadata",
	"GroupDeactivate":        "a deactivation does not write the metadata",
	"ThinMetadataDeactivate": "a deactivation does not write the metadata",
	"ThinPoolActivate":       "an activation does not write the metadata",
	"LVRefresh":              "it loads the tables of the kernel again",
	"queuedPool":             "a deactivation does not write the metadata",
}

// TestCommandsThatMarkDevicesAsMissingNeedAWholeGroup fails if a change runs such a command without a new look at the
// physical volumes (command.whole).
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
			name := subject(function)
			found[name] = true
			if harmless[name] == "" && !looks(function) {
				t.Errorf("%s: %s runs a command that marks missing devices for good, without whole", f.Name(), name)
			}
		}
	}
	for name := range harmless {
		if !found[name] {
			t.Errorf("%s runs no such command", name)
		}
	}
	if len(found) < 15 {
		t.Errorf("only %d changes were found", len(found))
	}
}

// subject returns the name of the change that a method belongs to, or the name of another function.
func subject(f *ast.FuncDecl) string {
	if f.Recv != nil {
		if change, is := f.Recv.List[0].Type.(*ast.Ident); is {
			return change.Name
		}
	}
	return f.Name.Name
}

// runsMarking returns true if a function that has a command has a name of such a one in its text.
func runsMarking(f *ast.FuncDecl) bool {
	found, changes := false, false
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			found = found || n.Kind == token.STRING && err == nil && slices.Contains(marking, text)
		case *ast.CompositeLit:
			name, ok := n.Type.(*ast.Ident)
			changes = changes || ok && name.Name == "command"
		}
		return true
	})
	return found && changes
}

// looks returns true if a function runs its command in a whole group only.
func looks(f *ast.FuncDecl) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		if pair, ok := n.(*ast.KeyValueExpr); ok {
			key, ok := pair.Key.(*ast.Ident)
			found = found || ok && key.Name == "whole"
		}
		return true
	})
	return found
}
