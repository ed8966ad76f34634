package sanity

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/test/reference"
)

var update = flag.Bool("update", false, "write the table of the document")

func TestReferenceOfDifferencesIsFresh(t *testing.T) {
	const file = "../../docs/explanation/topolvm.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page, err := lane.Section(string(text), "differences", document())
	if err != nil {
		t.Fatal(err)
	}
	if err := reference.Check(file, page, *update); err != nil {
		t.Error(err)
	}
}

// document returns the differences as a table.
func document() string {
	var rows [][]string
	for _, d := range Differences {
		rows = append(rows, []string{callsOf(d), d.Text, d.Reason})
	}
	return reference.Table([]string{"call", "LVMS", "why"}, rows)
}

// callsOf returns the name of the call of a row, or the names of the procedures if there are several.
func callsOf(d Difference) string {
	switch len(d.Calls) {
	case 0:
		return "any"
	case 1:
		return d.Calls[0]
	}
	var procedures []string
	for _, call := range d.Calls {
		procedure, _, _ := strings.Cut(call, " ")
		procedures = append(procedures, procedure)
	}
	return strings.Join(slices.Compact(procedures), ", ")
}
