package reference

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the pages of docs/reference")

const (
	root  = "../.."
	pages = root + "/docs/reference/"
)

func parse(t *testing.T) *Source {
	t.Helper()
	s, err := Parse(root, Folders...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestReferenceOfConditionsIsFresh(t *testing.T) {
	c, err := NewConditions(parse(t))
	if err != nil {
		t.Fatal(err)
	}
	check(t, "conditions.md", c.Page)
}

func TestReferenceOfEventsIsFresh(t *testing.T) {
	e, err := NewEvents(parse(t))
	if err != nil {
		t.Fatal(err)
	}
	check(t, "events.md", e.Page)
}

func TestReferenceOfTheAPIIsFresh(t *testing.T) {
	check(t, "api.md", func() (string, error) { return APIPage(filepath.Join(root, "config", "crd")) })
}

func check(t *testing.T, name string, write func() (string, error)) {
	t.Helper()
	page, err := write()
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(pages+name, page, *update); err != nil {
		t.Error(err)
	}
}

func TestEveryReasonIsDocumented(t *testing.T) {
	s := parse(t)
	for _, found := range s.UndocumentedReasons(documented(t, s)) {
		t.Errorf("%s: give it a constant with a comment like those in api/v1alpha1/conditions.go", found)
	}
}

func documented(t *testing.T, s *Source) map[string]bool {
	t.Helper()
	conditions, err := NewConditions(s)
	if err != nil {
		t.Fatal(err)
	}
	events, err := NewEvents(s)
	if err != nil {
		t.Fatal(err)
	}
	known := conditions.Names()
	maps.Copy(known, events.Names())
	if len(known) < 90 {
		t.Errorf("%d conditions, reasons and events are documented: there are more", len(known))
	}
	return known
}

func TestEveryEnvironmentVariableIsDocumented(t *testing.T) {
	s := parse(t)
	known := map[string]bool{}
	for _, v := range Variables(s) {
		known[v.Name] = true
	}
	if len(known) < 9 {
		t.Errorf("%d environment variables are documented: there are more", len(known))
	}
	for _, found := range s.UndocumentedVariables(known) {
		t.Errorf("%s: give it a constant with a comment like those in cmd/lvms/metrics.go", found)
	}
}

func TestEveryRunbookThatIsNamedExists(t *testing.T) {
	for _, name := range []string{"conditions.md", "events.md"} {
		page, err := os.ReadFile(pages + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, runbook := range runbookName.FindAllString(string(page), -1) {
			if _, err := os.Stat(filepath.Join(root, "monitoring", "runbooks", runbook+".md")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestTheScanFindsWhatIsNotDocumented tests the scan itself: each line of the code sets a reason in another way.
func TestTheScanFindsWhatIsNotDocumented(t *testing.T) {
	const code = `package x

import "github.com/lvm-storage/lvm-operator/api/v1alpha1"

const reasonConstant = "Constant"
const ReasonKnown = "Known"
const other = "Other"
const kind EventReason = "Kind"

var broken = event.Warning("Broken", "Act", "text")

func set(reason, message string) {}

func use(c *Condition) {
	set("Argument", "Not a reason: a message")
	set(other, "")
	set("Known", "")
	conditions.WithReason("Option")
	recorder.Eventf(c, nil, "Warning", "Recorded", "Act", "text")
	recorder.Eventf(c, nil, "Warning", string(kind), "Act", "text")
	reason := "Variable"
	c.Reason = "Field"
	c.Reason = "a sentence"
	*c = Condition{Reason: "Literal"}
	rules := []struct{ matches bool; reason string }{{true, "Row"}}
	c.Reason = v1alpha1.Imported
}
`
	const api = "package v1alpha1\n\nconst Imported = \"FromTheAPI\"\n"
	s := parsed(t, map[string]string{"internal/x/x.go": code, "api/v1alpha1/api.go": api})
	got := strings.Join(s.UndocumentedReasons(map[string]bool{"Known": true}), "\n")
	for _, want := range []string{"Constant", "Kind", "Broken", "Argument", "Other", "Option", "Recorded", "Variable",
		"Field", "Literal", "Row", "FromTheAPI"} {
		if !strings.Contains(got, `"`+want+`"`) {
			t.Errorf("%s is not found", want)
		}
	}
	if strings.Contains(got, "Known") || strings.Contains(got, "sentence") {
		t.Errorf("found what is documented, or is no reason:\n%s", got)
	}
}

func TestTheScanFindsVariablesThatAreNotDocumented(t *testing.T) {
	const code = "package x\n\nconst name = \"NAME\"\n\nvar a, b = os.Getenv(\"LITERAL\"), os.Getenv(name)\n"
	s := parsed(t, map[string]string{"internal/x/x.go": code})
	if got := s.UndocumentedVariables(map[string]bool{}); len(got) != 2 {
		t.Errorf("found %q, want LITERAL and NAME", got)
	}
	if got := s.UndocumentedVariables(map[string]bool{"LITERAL": true, "NAME": true}); len(got) != 0 {
		t.Errorf("found %q, which are documented", got)
	}
}

// parsed returns the source of files, by name.
func parsed(t *testing.T, files map[string]string) *Source {
	t.Helper()
	folder := t.TempDir()
	for name, code := range files {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(code), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Parse(folder, ".")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestACommentThatLacksAPartIsAnError(t *testing.T) {
	const condition = "// ConditionX is a condition of an LVMCluster: fine.\nconst ConditionX = \"X\"\n\n"
	tests := map[string]string{
		"no remedy":         condition + "// ReasonA sets X to False: bad.\nconst ReasonA = \"A\"\n",
		"no such condition": condition + "// ReasonA sets Y to True: fine.\nconst ReasonA = \"A\"\n",
		"no reason":         condition,
		"no by name":        "// Big means: it is big. What to do: nothing.\nconst Big Code = \"Big\"\n",
	}
	for name, code := range tests {
		t.Run(name, func(t *testing.T) {
			s := parsed(t, map[string]string{"internal/x/x.go": "package x\n\n" + code})
			if c, err := NewConditions(s); err == nil {
				t.Errorf("no error: %+v", c)
			}
		})
	}
}

func TestAnEventWhoseCommentHasAnotherTypeIsAnError(t *testing.T) {
	const (
		comment = "package x\n\n// Done is a Normal event on the Node: done.\n"
		other   = "package y\n\nimport \"" + module + "internal/x\"\n\n" +
			"func act() { Eventf(nil, nil, corev1.EventTypeWarning, string(x.Done)) }\n"
	)
	for name, files := range map[string]map[string]string{
		"a variable": {"internal/x/x.go": comment + "var Done = event.Warning(\"Done\", \"Do\", \"\")\n"},
		"a constant": {"internal/x/x.go": comment + "const Done = \"Done\"\n\n" +
			"func act() { Eventf(nil, nil, corev1.EventTypeWarning, string(Done)) }\n"},
		"of another package": {"internal/x/x.go": comment + "const Done = \"Done\"\n", "internal/y/y.go": other},
	} {
		if e, err := NewEvents(parsed(t, files)); err == nil {
			t.Errorf("%s: no error: %+v", name, e)
		}
	}
}

func TestACellIsOneLineWithoutBars(t *testing.T) {
	got := Table([]string{"a", "b"}, [][]string{{"x | y", "one\n two"}})
	const want = "| a | b |\n|---|---|\n| x \\| y | one two |\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAReasonMayBelongToSeveralConditions(t *testing.T) {
	const code = `package x

const (
	// ConditionX is a condition of an LVMCluster: fine.
	ConditionX = "X"
	// ConditionY is a condition of an LVMCluster: fine.
	ConditionY = "Y"
	// ReasonA sets X to False and X, Y to Unknown: nobody
	// knows.
	// What to do: wait.
	ReasonA = "A"
)
`
	c, err := NewConditions(parsed(t, map[string]string{"internal/x/x.go": code}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range c.conditions {
		for _, r := range o.reasons {
			got = append(got, o.name+" "+r.status+" "+r.name+" "+r.means+" "+r.whatToDo)
		}
	}
	want := []string{"X True X fine ", "X False A nobody knows wait", "X Unknown A nobody knows wait",
		"Y True Y fine ", "Y Unknown A nobody knows wait"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
