package lane

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of the documents")

func TestReferenceOfResultsIsFresh(t *testing.T) {
	results, err := ReadResults(filepath.Join(root, ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	for place, content := range Documents(results) {
		file := filepath.Join(root, place[0])
		text := read(t, file)
		want, err := Section(text, place[1], content)
		if err != nil {
			t.Errorf("%s: %v", place[0], err)
			continue
		}
		if want == text {
			continue
		}
		if !*update {
			t.Errorf("%s is stale: run `make references`", place[0])
			continue
		}
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADocumentSaysWhatWasMeasuredAndWhen(t *testing.T) {
	all := Results{}
	for _, r := range []Result{
		{Name: LaterTest, Commit: "new", Number: 300, Seconds: 841, Passed: true},
		{Name: FirstTest, Commit: "old", Number: 199, Seconds: 1200, Passed: true},
		{Name: LaterDemo, Commit: "new", Number: 300, Seconds: 200},
		{Name: "bare/contract/debian12", Commit: "new", Number: 300, Seconds: 60, Passed: true},
		{Name: "bare/device/debian12", Commit: "new", Number: 300, Seconds: 60},
		{Name: TimeOf("TestSceneX/thin", "reported"), Commit: "new", Number: 300, Seconds: 1.2, Passed: true},
		{Name: TimeOf("TestSceneX/thin", "recovered"), Commit: "new", Number: 300, Seconds: 5, Passed: true},
	} {
		all.Add(r)
	}
	for what, c := range map[string]struct{ got, want string }{
		"a run":                    {all.readme(), "| again | not recorded | 15 min (`new`) |"},
		"a run of long ago":        {all.readme(), "| 20 min (`old`, 101 commits before the newest result) |"},
		"a host":                   {all.hosts(), "| `debian12` | passed at `new` | failed at `new` | not recorded |"},
		"a host without a cluster": {all.hosts(), "| `multipath` | not recorded | not recorded | not recorded | not recorded | not recorded | – |"},
		"the times of a disaster":  {all.scenarios(), "| `TestSceneX/thin` | 2 s | 5 s | `new` |"},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("%s: %q is missing in:\n%s", what, c.want, c.got)
		}
	}
}

func TestASectionIsReplaced(t *testing.T) {
	const text = "# Page\n<!-- begin of generated x -->\nold\n<!-- end of generated x -->\nrest\n"
	got, err := Section(text, "x", "new\n")
	const want = "# Page\n<!-- begin of generated x -->\n\nnew\n\n<!-- end of generated x -->\nrest\n"
	if err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := Section(text, "y", "new"); err == nil {
		t.Error("a section that does not exist was replaced")
	}
}
