package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// shownBy is a test in the last cell of a row: its file, and the name of a Go test or the text of a spec.
	shownBy = regexp.MustCompile("^`([^`]+_test\\.go)`: (?:`(Test\\w+)`|\"([^\"]+)\")$")
	// leastReason is the length of the shortest reason why there is no counterpart.
	leastReason = 30
)

// TestEachCounterpartIsShown: each row of the page names tests that exist, or a reason why there is no counterpart.
func TestEachCounterpartIsShown(t *testing.T) {
	all := rows(t, "reference/counterparts.md")
	if len(all) < 100 {
		t.Fatalf("found %d rows", len(all))
	}
	for _, cells := range all {
		if err := checkCounterpart("..", cells); err != nil {
			t.Errorf("%s: %v", strings.Join(cells, " | "), err)
		}
	}
}

func TestTheCheckOfCounterpartsFindsMistakes(t *testing.T) {
	root := t.TempDir()
	source := "package a\n\nfunc TestOne(t *testing.T) {}\n\nvar _ = It(\"does it\", nil)\nvar _ = Entry(\"a case\")\n"
	if err := os.WriteFile(filepath.Join(root, "a_test.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		cells []string
		says  string
	}{
		"a Go test":            {[]string{"x", "the same", "`a_test.go`: `TestOne`"}, ""},
		"a spec and an entry":  {[]string{"x", "y", "`a_test.go`: \"does it\"; `a_test.go`: \"a case\""}, ""},
		"a reason":             {[]string{"x", "**No**: " + strings.Repeat("r", leastReason), "–"}, ""},
		"no such file":         {[]string{"x", "y", "`b_test.go`: `TestOne`"}, "b_test.go does not exist"},
		"no such test":         {[]string{"x", "y", "`a_test.go`: `TestOn`"}, "a_test.go has no test TestOn"},
		"no such spec":         {[]string{"x", "y", "`a_test.go`: \"does\""}, `a_test.go has no spec "does"`},
		"one of two":           {[]string{"x", "y", "`a_test.go`: `TestOne`; `a_test.go`: `TestTwo`"}, "TestTwo"},
		"no test":              {[]string{"x", "the same", "–"}, "names no test and no reason"},
		"an empty reason":      {[]string{"x", "**No**: no", "–"}, "names no test and no reason"},
		"a short test with No": {[]string{"x", "**No**: no", "`a_test.go`: `TestOne`"}, "the reason is too short"},
		"not a test":           {[]string{"x", "y", "see TestOne"}, "is not a test"},
		"outside":              {[]string{"x", "y", "`../a_test.go`: `TestOne`"}, "is not in the repository"},
		"a cell too many":      {[]string{"x", "y", "z", "`a_test.go`: `TestOne`"}, "4 cells"},
	} {
		err := checkCounterpart(root, test.cells)
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, want %q", name, err, test.says)
		}
	}
}

// checkCounterpart checks a row: what somebody looks for, what is here, and the tests. root is the repository.
func checkCounterpart(root string, cells []string) error {
	if len(cells) != 3 {
		return fmt.Errorf("has %d cells, want 3", len(cells))
	}
	reason, isMissing := strings.CutPrefix(cells[1], "**No**: ")
	hasReason := isMissing && len(reason) >= leastReason
	switch {
	case cells[2] == "–" && !hasReason:
		return errors.New("names no test and no reason")
	case isMissing && !hasReason:
		return errors.New("the reason is too short")
	case cells[2] == "–":
		return nil
	}
	for _, test := range strings.Split(cells[2], "; ") {
		if err := checkShownBy(root, test); err != nil {
			return err
		}
	}
	return nil
}

// checkShownBy checks that a file of the repository has the test.
func checkShownBy(root, test string) error {
	m := shownBy.FindStringSubmatch(test)
	if m == nil {
		return fmt.Errorf("%s is not a test", test)
	}
	if !filepath.IsLocal(m[1]) {
		return fmt.Errorf("%s is not in the repository", m[1])
	}
	text, err := os.ReadFile(filepath.Join(root, m[1]))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist", m[1])
	}
	if err != nil {
		return err
	}
	if m[2] != "" && !strings.Contains(string(text), "\nfunc "+m[2]+"(t *testing.T)") {
		return fmt.Errorf("%s has no test %s", m[1], m[2])
	}
	spec := regexp.MustCompile(`\b(?:It|Entry)\("` + regexp.QuoteMeta(m[3]) + `"`)
	if m[3] != "" && !spec.Match(text) {
		return fmt.Errorf("%s has no spec %q", m[1], m[3])
	}
	return nil
}
