// Program monitoring generates files from the rules and dashboards: the PrometheusRule, the same rules as a Prometheus
// file for tests, the dashboard for the OpenShift console and for Grafana, and the texts of the alerts for the console
// plugin.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/monitoring/dashboards"
	"github.com/lvm-storage/lvm-operator/monitoring/prometheusrule"
	"github.com/lvm-storage/lvm-operator/monitoring/rules"
)

func main() {
	out := flag.String("out", "monitoring", "folder that is written to")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	rule := prometheusrule.New(rules.Namespace, rules.Runbooks)
	return errors.Join(
		write(filepath.Join(out, "prometheusrule", "prometheusrule.yaml"), rule),
		write(filepath.Join(out, "tests", "rules.yaml"), rule.Spec),
		writeDashboards(filepath.Join(out, "dashboards")),
		writeAlerts(filepath.Join(out, "..", "console-plugin", "web", "src", "model", "alerts.ts")),
	)
}

// writeAlerts writes what the console plugin has to know of the alerts: the text of each one, because a Prometheus that
// is queried for the alerts of one namespace returns only their labels; and the thresholds and the prediction, which it
// draws.
func writeAlerts(file string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "// Written by `make generate`, from monitoring/rules.\n\n/** Where the runbooks are, by the "+
		"name of the alert. */\nexport const RUNBOOKS = '%s';\n\n", rules.Runbooks)
	b.WriteString("/** What each alert says; $labels are those of the alert. */\nexport const summaries: " +
		"Record<string, string> = {\n")
	for _, g := range rules.Groups() {
		for _, a := range g.Alerts {
			if strings.ContainsAny(a.Summary, "'\\\n") {
				return fmt.Errorf("alert %s: its summary has what a text of TypeScript cannot have: %q",
					a.Name, a.Summary)
			}
			fmt.Fprintf(&b, "  %s: '%s',\n", a.Name, a.Summary)
		}
	}
	b.WriteString("};\n\n/** The usage from which on an alert fires, as a ratio of the size. */\n" +
		"export const THRESHOLDS = {")
	for i, t := range rules.Thresholds() {
		fmt.Fprintf(&b, "%s %s: %s", strings.Repeat(",", min(i, 1)), t.Name, t.Ratio)
	}
	p := rules.InDays()
	fmt.Fprintf(&b, " };\n\n/** How the alerts FillingUpInDays predict usage: linearly, from the growth of each "+
		"window. */\nexport const PREDICTION = { windows: ['%s', '%s'], days: %d } as const;\n",
		p.Windows[0], p.Windows[1], p.Days)
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(b.String()), 0o644))
}

func writeDashboards(folder string) error {
	files, err := dashboards.JSON()
	errs := []error{err, os.MkdirAll(folder, 0o755)}
	for name, data := range files {
		errs = append(errs, os.WriteFile(filepath.Join(folder, name), data, 0o644))
	}
	return errors.Join(errs...)
}

func write(file string, content any) error {
	data, err := yaml.Marshal(content)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o644))
}
