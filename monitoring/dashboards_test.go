package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/monitoring/dashboards"
)

// shown has the fields of a panel in both formats.
type shown struct {
	ID          int
	Type, Title string
	Description string
	Span        int
	Targets     []struct{ Expr, LegendFormat, RefID string }
	Styles      []struct{ Pattern, Alias, Type, Unit string }
	Format      string
	YAxes       []struct{ Format string }
	GridPos     struct{ H, W, X, Y int }
}

type board struct {
	Title, UID    string
	SchemaVersion int
	Rows          []struct {
		Title     string
		ShowTitle bool
		Panels    []shown
	}
	Panels     []shown
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
}

// all returns all panels, including those in rows.
func (b board) all() []shown {
	list := slices.Clone(b.Panels)
	for _, r := range b.Rows {
		list = append(list, r.Panels...)
	}
	return list
}

func boards(t *testing.T) map[string]board {
	t.Helper()
	files, err := dashboards.JSON()
	if err != nil || len(files) != 2 {
		t.Fatal(len(files), err)
	}
	parsed := map[string]board{}
	for name, data := range files {
		var b board
		if err := json.Unmarshal(data, &b); err != nil {
			t.Fatal(name, err)
		}
		if len(b.all()) < 30 {
			t.Fatalf("%s has %d panels", name, len(b.all()))
		}
		parsed[name] = b
	}
	return parsed
}

func TestWhatIsWrittenIsFresh(t *testing.T) {
	out := filepath.Join(t.TempDir(), "monitoring")
	if err := run(out); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dashboards/console.json", "dashboards/grafana.json",
		"prometheusrule/prometheusrule.yaml", "tests/rules.yaml", "../console-plugin/web/src/model/alerts.ts"} {
		if read(t, filepath.Join(out, name)) != read(t, name) {
			t.Errorf("%s is stale. Run: go run ./monitoring", name)
		}
	}
	if committed, err := os.ReadFile("dashboards/console.json"); err != nil ||
		string(dashboards.Console) != string(committed) {
		t.Errorf("dashboards.Console is not console.json: %v", err)
	}
}

// The console shows nothing for other types, and numbers without a unit for other units.
func TestTheConsoleKnowsWhatIsInItsDashboard(t *testing.T) {
	types := []string{"graph", "singlestat", "table"}
	units := []string{"short", "bytes", "percentunit"}
	b := boards(t)["console.json"]
	if b.SchemaVersion != 14 || len(b.Panels) > 0 {
		t.Errorf("schema %d with %d panels outside of rows", b.SchemaVersion, len(b.Panels))
	}
	for _, r := range b.Rows {
		if r.Title == "" || !r.ShowTitle {
			t.Errorf("a row without a title: %q", r.Title)
		}
	}
	for _, p := range b.all() {
		used := []string{p.Format}
		for _, s := range p.Styles {
			used = append(used, s.Unit)
		}
		for _, y := range p.YAxes {
			used = append(used, y.Format)
		}
		for _, u := range used {
			if u != "" && !slices.Contains(units, u) {
				t.Errorf("%s: unit %s", p.Title, u)
			}
		}
		// The console supports only these widths, and uses only the first query of a singlestat.
		if !slices.Contains(types, p.Type) || !slices.Contains([]int{3, 4, 6, 12}, p.Span) ||
			(p.Type == "singlestat" && len(p.Targets) != 1) {
			t.Errorf("%s: type %s, span %d, %d queries", p.Title, p.Type, p.Span, len(p.Targets))
		}
		if p.Type == "table" && len(p.Styles) < 2 {
			t.Errorf("%s: a table without columns", p.Title)
		}
	}
	for _, v := range b.Templating.List {
		// The console creates a query from it with this pattern.
		if query, ok := v.Query.(string); !ok || v.Type != "query" ||
			!regexp.MustCompile(`^label_values\(\w+, \w+\)$`).MatchString(query) {
			t.Errorf("variable %s: %v", v.Name, v.Query)
		}
	}
}

func TestGrafanaKnowsWhatIsInItsDashboard(t *testing.T) {
	b := boards(t)["grafana.json"]
	if b.SchemaVersion != 39 || len(b.Rows) > 0 || b.Templating.List[0].Type != "datasource" {
		t.Errorf("schema %d, %d rows, first variable %s", b.SchemaVersion, len(b.Rows), b.Templating.List[0].Type)
	}
	taken := map[string]string{}
	for _, p := range b.all() {
		if !slices.Contains([]string{"timeseries", "stat", "table", "row"}, p.Type) {
			t.Errorf("%s: type %s", p.Title, p.Type)
		}
		g := p.GridPos
		if g.H < 1 || g.W < 1 || g.X+g.W > 24 {
			t.Errorf("%s lies at %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				at := fmt.Sprint(x, " ", y)
				if taken[at] != "" {
					t.Fatalf("%s lies on %s", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
	}
}

var (
	legendLabel = regexp.MustCompile(`{{(\w+)}}`)
	replaced    = regexp.MustCompile(`label_replace\(.*, "(\w+)", "\$1", "\w+", "[^"]*"\)`)
)

func TestEachPanelAsksForWhatThereIs(t *testing.T) {
	known := knownMetrics(t)
	expressions := map[string]string{}
	for name, b := range boards(t) {
		ids := map[int]bool{}
		titles := map[string]bool{}
		for _, p := range b.all() {
			if ids[p.ID] || p.ID < 1 {
				t.Errorf("%s: id %d of %s is not its own", name, p.ID, p.Title)
			}
			ids[p.ID] = true
			if p.Type == "row" {
				continue
			}
			if titles[p.Title] || p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
				t.Errorf("%s: %q needs a title of its own, a description and a query", name, p.Title)
			}
			titles[p.Title] = true
			for i, q := range p.Targets {
				expr := strings.NewReplacer("$node", "a|b", "$device_class", "a|b").Replace(q.Expr)
				expressions[fmt.Sprintf("%s: %s %d", name, p.Title, i)] = expr
				if wrong := unknown(expr, known); len(wrong) > 0 {
					t.Errorf("%s: %s: %v in %s", name, p.Title, wrong, q.Expr)
				}
				labels := []string{}
				for _, m := range legendLabel.FindAllStringSubmatch(q.LegendFormat, -1) {
					labels = append(labels, m[1])
				}
				// The console uses these as the names of a table's rows.
				for _, s := range p.Styles {
					if s.Type == "string" {
						labels = append(labels, s.Pattern)
					}
				}
				for _, l := range labels {
					if !has(q.Expr, l) {
						t.Errorf("%s: %s: %s has no label %s", name, p.Title, q.Expr, l)
					}
				}
			}
		}
	}
	mustParse(t, expressions)
}

// has reports whether each part of an expression keeps a label.
func has(expr, label string) bool {
	for _, m := range replaced.FindAllStringSubmatch(expr, -1) {
		if m[1] == label {
			return true
		}
	}
	groups := grouping.FindAllStringSubmatch(expr, -1)
	for _, g := range groups {
		if g[1] == "by" && !slices.Contains(strings.FieldsFunc(g[2],
			func(r rune) bool { return r == ',' || r == ' ' }), label) {
			return false
		}
	}
	return len(groups) > 0
}
