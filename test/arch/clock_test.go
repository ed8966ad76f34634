package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// valuesOfTime are the names of the package time that do not read a clock and do not wait.
var valuesOfTime = []string{"Time", "Duration", "Second", "Minute", "Hour"}

// clocks are the functions of apimachinery that read the clock.
var clocks = map[string][]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1": {"Now", "NowMicro"},
	"k8s.io/apimachinery/pkg/api/meta":     {"SetStatusCondition"},
}

// TestThePlannerHasNoClock: the package time is allowed for its types, so the import rules do not suffice.
func TestThePlannerHasNoClock(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.go", "*/*.go"} {
		matches, err := filepath.Glob("../../vgmanager/group/volumegroup/plan/" + pattern)
		if err != nil || len(matches) == 0 {
			t.Fatalf("the planner has %d files in %s (%v)", len(matches), pattern, err)
		}
		files = append(files, matches...)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, use := range clockUses(t, name, nil) {
			t.Error(use)
		}
	}
}

// TestTheCheckOfClocksCatchesEach tests the check itself.
func TestTheCheckOfClocksCatchesEach(t *testing.T) {
	const code = `package x

import (
	wall "time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const limit = wall.Minute

func use(since wall.Time, list *[]metav1.Condition) {
	_ = wall.Since(since) > limit
	now := wall.Now
	_ = metav1.NewTime(now())
	_ = metav1.Now()
	meta.SetStatusCondition(list, metav1.Condition{})
}
`
	if got := clockUses(t, "x.go", code); len(got) != 4 {
		t.Errorf("got %q, want Since, time.Now, metav1.Now and SetStatusCondition", got)
	}
	if got := clockUses(t, "x.go", "package x\n\nimport . \"time\"\n"); len(got) != 1 {
		t.Errorf("got %q, want the import without a name", got)
	}
}

// clockUses returns the uses of a clock in a file. code is the content of the file, or nil to read it.
func clockUses(t *testing.T, name string, code any) []string {
	t.Helper()
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, code, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	imported := map[string]string{} // import paths by the name in the file
	for _, i := range file.Imports {
		of, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case i.Name == nil:
			imported[path.Base(of)] = of
		case i.Name.Name == ".":
			found = append(found, fmt.Sprintf("%s: imports %s without a name", positions.Position(i.Pos()), of))
		default:
			imported[i.Name.Name] = of
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if of, ok := selector.X.(*ast.Ident); ok && readsClock(imported[of.Name], selector.Sel.Name) {
			found = append(found, fmt.Sprintf("%s: uses %s.%s: take the time as an argument",
				positions.Position(selector.Pos()), of.Name, selector.Sel.Name))
		}
		return true
	})
	return found
}

// readsClock returns true if a name of a package reads the clock or waits.
func readsClock(of, name string) bool {
	return of == "time" && !slices.Contains(valuesOfTime, name) || slices.Contains(clocks[of], name)
}
