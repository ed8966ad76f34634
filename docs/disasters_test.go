package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	goTest = regexp.MustCompile("`(Test\\w+)`")
	// subject is a case of a test, or the list that has it, after a "/" or a comma.
	subject = regexp.MustCompile("`([^`]+)`")
	spec    = regexp.MustCompile(`"([^"]+)"`)
)

// comeback is the folder with the specs about nodes and clusters.
const comeback = "../test/e2e/comeback"

// rows returns the cells of the tables of a page, without their heads.
func rows(t *testing.T, page string) [][]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var list [][]string
	// The table of times is generated from the results of the tests.
	written, _, _ := strings.Cut(string(text), "<!-- begin of generated")
	for _, table := range strings.Split(written, "|---|\n")[1:] {
		for _, line := range strings.Split(table, "\n") {
			if !strings.HasPrefix(line, "|") {
				break
			}
			list = append(list, strings.Split(strings.Trim(line, "| "), " | "))
		}
	}
	return list
}

// testFiles returns the contents of the files below a folder whose names end in _test.go.
func testFiles(t *testing.T, root string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		list = append(list, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestEachDisasterHasItsTest: the last cell of each row names tests that exist, with their cases.
func TestEachDisasterHasItsTest(t *testing.T) {
	files := testFiles(t, "../vgmanager")
	specs := testFiles(t, comeback)
	all := rows(t, "reference/disasters.md")
	if len(all) < 30 {
		t.Fatalf("found %d rows", len(all))
	}
	for _, cells := range all {
		cell := cells[len(cells)-1]
		names := spec.FindAllStringSubmatch(cell, -1)
		for _, name := range names {
			if !contains(specs, `"`+name[1]+`"`) {
				t.Errorf("no spec in %s is called %q", comeback, name[1])
			}
		}
		if len(names) == 0 && len(goTest.FindAllString(cell, -1)) == 0 {
			t.Errorf("the row %q names no test", strings.Join(cells, " | "))
		}
		checkTests(t, files, cell)
	}
}

// checkTests checks the Go tests of a cell. A case must be a string, or an identifier, in the file of its test, or in a
// file with the list that the cell names.
func checkTests(t *testing.T, files []string, cell string) {
	t.Helper()
	for _, part := range strings.Split(cell, "; ") {
		var in []string
		for _, m := range subject.FindAllStringSubmatch(part, -1) {
			name := m[1]
			switch {
			case strings.HasPrefix(name, "Test"):
				found := having(files, "func "+name+"(t *testing.T)")
				if in = append(in, found...); len(found) == 0 {
					t.Errorf("there is no test %s", name)
				}
			case contains(files, "var "+name+" ="):
				in = having(files, "var "+name+" =")
			case !contains(in, `"`+name+`"`) && !contains(in, name+":"):
				t.Errorf("%s: there is no case %q", part, name)
			}
		}
	}
}

func contains(files []string, text string) bool { return len(having(files, text)) > 0 }

// having returns the files with a text.
func having(files []string, text string) []string {
	var list []string
	for _, f := range files {
		if strings.Contains(f, text) {
			list = append(list, f)
		}
	}
	return list
}
