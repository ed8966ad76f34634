package lvmexec

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestStepsKnowsEachChangeThatHasSome reads the source: a change that Apply does not know fails on the node only.
func TestStepsKnowsEachChangeThatHasSome(t *testing.T) {
	var want []string
	files, _ := filepath.Glob("../*.go")
	for _, file := range files {
		want = append(want, matches(t, file, `func \(c (\w+)\) Command\(\) Command \{(?:[^\n]|\n\t)*Steps: true`)...)
	}
	got := matches(t, "steps.go", `case lvm\.(\w+):`)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || len(want) < 10 {
		t.Errorf("steps makes %v, and the changes with steps are %v", got, want)
	}
}

// matches returns what the first group of an expression matches in a file.
func matches(t *testing.T, file, expression string) []string {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, match := range regexp.MustCompile(expression).FindAllStringSubmatch(string(source), -1) {
		found = append(found, match[1])
	}
	return found
}
