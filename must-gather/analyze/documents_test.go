package analyze

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T, parts ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestEachRuleStandsInTheReference(t *testing.T) {
	text := read(t, "docs", "reference", "must-gather.md")
	for _, r := range rules {
		if !strings.Contains(text, "`"+r.name+"`") {
			t.Errorf("docs/reference/must-gather.md does not have the rule %s", r.name)
		}
	}
}

func TestEachRunbookThatIsNamedExists(t *testing.T) {
	named := regexp.MustCompile(`"(LVMS[A-Z]\w+)"`)
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob("../../internal/verdict/*.go")
	if err != nil || len(decisions) == 0 {
		t.Fatal(decisions, err)
	}
	count := 0
	for _, source := range append(sources, decisions...) {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		for _, m := range named.FindAllStringSubmatch(read(t, "must-gather", "analyze", source), -1) {
			count++
			read(t, "monitoring", "runbooks", m[1]+".md")
		}
	}
	if count < 10 {
		t.Errorf("%d runbooks are named: the rules have more", count)
	}
}
