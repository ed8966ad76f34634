package lvm

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
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
}

// TestCommandsThatMarkDevicesAsMissingNeedAWholeGroup fails if a change runs such a command without a new look at the
// physical volumes (Command.Whole). Package lvmexec runs no other commands of this kind.
func TestCommandsThatMarkDevicesAsMissingNeedAWholeGroup(t *testing.T) {
	here, _ := filepath.Glob("*.go")
	exec, _ := filepath.Glob("lvmexec/*.go")
	found := map[string]bool{}
	for _, name := range append(here, exec...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			function, ok := d.(*ast.FuncDecl)
			if !ok || !runsMarking(function) {
				continue
			}
			change := subject(function)
			found[change] = true
			if harmless[change] == "" && !looks(function) {
				t.Errorf("%s: %s runs a command that marks missing devices for good, without Whole", name, change)
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
	found := false
	changes := false
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			found = found || n.Kind == token.STRING && err == nil && slices.Contains(marking, text)
		case *ast.CompositeLit:
			changes = changes || isCommand(n.Type)
		}
		return true
	})
	return found && changes
}

// isCommand returns true for Command, lvm.Command and command of package lvmexec.
func isCommand(kind ast.Expr) bool {
	if selector, is := kind.(*ast.SelectorExpr); is {
		kind = selector.Sel
	}
	name, is := kind.(*ast.Ident)
	return is && strings.EqualFold(name.Name, "Command")
}

// looks returns true if a function runs its command in a whole group only.
func looks(f *ast.FuncDecl) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		if pair, ok := n.(*ast.KeyValueExpr); ok {
			key, ok := pair.Key.(*ast.Ident)
			found = found || ok && key.Name == "Whole"
		}
		return true
	})
	return found
}
