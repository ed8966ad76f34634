package lane

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// staleAfter is the number of commits after which a document says how old a result is.
const staleAfter = 100

// The names of results of whole targets.
const (
	FirstTest = "make test, first run"
	LaterTest = "make test"
	FirstDemo = "make demo, first run"
	LaterDemo = "make demo"
)

const timePrefix = "time/"

// TimeOf returns the name of the result with a time of a scenario. kind is "reported" or "recovered".
func TimeOf(scenario, kind string) string { return timePrefix + scenario + "/" + kind }

// Documents returns the tables that are generated from results, by the file and the name of the section that has the
// table.
func Documents(all Results) map[[2]string]string {
	return map[[2]string]string{
		{"README.md", "times"}:                           all.readme(),
		{"docs/reference/support-matrix.md", "hosts"}:    all.hosts(),
		{"docs/reference/support-matrix.md", "releases"}: all.releases(),
		{"docs/reference/disasters.md", "times"}:         all.scenarios(),
	}
}

// Section returns the text with the content of a generated section replaced, or an error if the text does not have it.
func Section(text, name, content string) (string, error) {
	begin, end := "<!-- begin of generated "+name+" -->\n", "<!-- end of generated "+name+" -->"
	before, rest, found := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("the text has no section between %q and %q", strings.TrimSpace(begin), end)
	}
	return before + begin + "\n" + content + "\n" + end + after, nil
}

// at describes the commit of a result, and how many commits later others are, if these are many.
func (all Results) at(r Result) string {
	text := "`" + r.Commit + "`"
	if age := all.Newest() - r.Number; age > staleAfter {
		text += fmt.Sprintf(", %d commits before the newest result", age)
	}
	return text
}

const notRecorded = "not recorded"

func (all Results) minutes(name string) string {
	r, known := all[name]
	if !known || !r.Passed {
		return notRecorded
	}
	return fmt.Sprintf("%.0f min (%s)", math.Ceil(r.Seconds/60), all.at(r))
}

func (all Results) readme() string {
	var b strings.Builder
	b.WriteString("| on a machine with two cores | `make demo` | `make test` |\n|---|---|---|\n")
	fmt.Fprintf(&b, "| the first time | %s | %s |\n", all.minutes(FirstDemo), all.minutes(FirstTest))
	fmt.Fprintf(&b, "| again | %s | %s |\n", all.minutes(LaterDemo), all.minutes(LaterTest))
	return b.String()
}

// hosts are the columns of the support matrix: the suites of each, and the item of end-to-end tests.
func (all Results) hosts() string {
	columns := [][]string{
		{"contract"},
		{"device"},
		{"scenes-devices", "scenes-raid", "scenes-killed", "scenes-a-h", "scenes-i-s", "scenes-t-z", "core"},
		{"sanity"},
		{"agent"},
	}
	var b strings.Builder
	b.WriteString(
		"| host | contract of LVM | devices | scenes | csi-sanity | node agent | end to end |\n" +
			strings.Repeat("|---", 7) + "|\n",
	)
	for _, flavor := range flavors {
		fmt.Fprintf(&b, "| `%s` |", flavor)
		for _, suites := range columns {
			var names []string
			for _, s := range suites {
				if name := "bare/" + s + "/" + flavor; isItem(name) {
					names = append(names, name)
				}
			}
			fmt.Fprintf(&b, " %s |", all.passed(names))
		}
		story := []string{"e2e/core/" + flavor}
		switch {
		case flavor == flavors[0]:
			story = []string{"e2e/core"}
		case !slices.Contains(storyFlavors(), flavor):
			fmt.Fprintf(&b, " – |\n")
			continue
		}
		fmt.Fprintf(&b, " %s |\n", all.passed(story))
	}
	return b.String()
}

// releases are the results of the tests of controllers and admission by release of Kubernetes.
func (all Results) releases() string {
	var b strings.Builder
	b.WriteString("| Kubernetes | controllers, admission, CRDs, Helm chart |\n|---|---|\n")
	for _, release := range earlierReleases {
		fmt.Fprintf(&b, "| %s | %s |\n", release, all.passed([]string{"env/" + release}))
	}
	return b.String()
}

func isItem(name string) bool {
	return slices.ContainsFunc(bareItems(), func(i Item) bool { return i.Name == name })
}

// passed describes the results of items: the oldest one if all have passed, else the first that has not.
func (all Results) passed(names []string) string {
	var oldest Result
	for _, name := range names {
		r, known := all[name]
		switch {
		case !known:
			return notRecorded
		case !r.Passed:
			return "failed at " + all.at(r)
		case oldest.Name == "" || r.Number < oldest.Number:
			oldest = r
		}
	}
	return "passed at " + all.at(oldest)
}

// scenarios are the times of disasters.
func (all Results) scenarios() string {
	names := map[string]bool{}
	for name := range all {
		if rest, is := strings.CutPrefix(name, timePrefix); is {
			if at := strings.LastIndex(rest, "/"); at > 0 {
				names[rest[:at]] = true
			}
		}
	}
	var b strings.Builder
	b.WriteString("| test | status after | action takes | measured at |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		reported, hasReport := all[TimeOf(name, "reported")]
		recovered, hasRecovery := all[TimeOf(name, "recovered")]
		newest := reported
		if recovered.Number > newest.Number || !hasReport {
			newest = recovered
		}
		fmt.Fprintf(
			&b,
			"| `%s` | %s | %s | %s |\n",
			name,
			seconds(reported, hasReport),
			seconds(recovered, hasRecovery),
			all.at(newest),
		)
	}
	return b.String()
}

func seconds(r Result, known bool) string {
	if !known {
		return "–"
	}
	return fmt.Sprintf("%.0f s", math.Ceil(r.Seconds))
}
