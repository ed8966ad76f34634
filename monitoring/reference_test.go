package main

import (
	"cmp"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/internal/reference"
	"github.com/lvm-storage/lvm-operator/monitoring/rules"
)

var update = flag.Bool("update", false, "write docs/reference/alerts.md")

const alertsFile = "../docs/reference/alerts.md"

const alertsIntroduction = `# Alerts

Written by ` + "`make references`" + ` from ` + "`monitoring/rules`" +
	`. Each alert leads to its runbook, which says what to do. "for" is how long the expression has to hold. Words in capitals stand for labels of the alert and for its value.

` + "`critical`" + `: data or the service is lost, or about to be. ` + "`warning`" + `: look at it today. ` + "`info`" +
	`: good to know. Of alerts about one fault only the most serious one fires. [How to monitor](../how-to/monitor.md) says how the alerts get into a Prometheus.
`

// alertChapters maps the groups of rules to titles.
var alertChapters = map[string]string{
	"lvms-capacity": "Capacity",
	"lvms-devices":  "Devices and volume groups",
	"lvms-service":  "Operator and node agents",
}

// `make references` writes the page.
func TestReferenceOfAlertsIsFresh(t *testing.T) {
	var page strings.Builder
	page.WriteString(alertsIntroduction)
	for _, g := range rules.Groups() {
		if len(g.Alerts) == 0 {
			continue
		}
		if alertChapters[g.Name] == "" {
			t.Errorf("group %s has no title", g.Name)
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s", alertChapters[g.Name], alertTable(g))
	}
	if err := reference.Check(alertsFile, page.String(), *update); err != nil {
		t.Error(err)
	}
}

func alertTable(g rules.Group) string {
	var rows [][]string
	for _, a := range g.Alerts {
		rows = append(rows, []string{fmt.Sprintf("[%s](../../monitoring/runbooks/%[1]s.md)", a.Name), a.Severity,
			cmp.Or(holds[a.For], "at once"), untemplated(a.Summary), untemplated(a.Description)})
	}
	return reference.Table([]string{"alert", "severity", "for", "summary", "description"}, rows)
}

var (
	labelTemplate = regexp.MustCompile(`\{\{ *\$labels\.(\w+) *\}\}`)
	valueTemplate = regexp.MustCompile(`\{\{[^}]*\$value[^}]*\}\}`)
)

// untemplated returns the text of an alert with a word in place of each template.
func untemplated(text string) string {
	text = labelTemplate.ReplaceAllStringFunc(text, func(template string) string {
		return strings.ToUpper(labelTemplate.FindStringSubmatch(template)[1])
	})
	return valueTemplate.ReplaceAllString(text, "VALUE")
}
