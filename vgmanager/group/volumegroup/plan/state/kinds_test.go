package state

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"testing"
)

// TestEachChangeHasAnAnswerForDoubtfulMetadata fails if a kind of change is added and traits does not have it.
func TestEachChangeHasAnAnswerForDoubtfulMetadata(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "kinds.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []Kind
	for _, d := range file.Decls {
		general, ok := d.(*ast.GenDecl)
		if !ok || general.Tok != token.CONST {
			continue
		}
		for _, s := range general.Specs {
			value := s.(*ast.ValueSpec)
			if name, ok := value.Type.(*ast.Ident); !ok || name.Name != "Kind" {
				continue
			}
			text, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, Kind(text))
		}
	}
	if len(kinds) < 40 {
		t.Fatalf("only %d kinds of changes were found in kinds.go", len(kinds))
	}
	slices.Sort(kinds)
	if answered := slices.Sorted(maps.Keys(traits)); !slices.Equal(kinds, answered) {
		t.Errorf("traits has %s, and kinds.go has %s", answered, kinds)
	}
}

func TestFailureOfEachChangeHasAnEvent(t *testing.T) {
	for kind := range traits {
		if kind != Nothing && kind.FailureEvent() == "" {
			t.Errorf("the failure of %s has no event", kind)
		}
	}
}
