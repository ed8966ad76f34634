// Program monitoring writes what Prometheus reads: the PrometheusRule, and the same rules as a file of Prometheus for tests. And the
// dashboard, for OpenShift's console and for Grafana; and the names of the alerts for the console plugin.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/monitoring/dashboards"
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
	rule := prometheusRule()
	return errors.Join(
		write(filepath.Join(out, "manifests", "prometheusrule.yaml"), rule),
		write(filepath.Join(out, "tests", "rules.yaml"), rule.Spec),
		writeDashboards(filepath.Join(out, "dashboards")),
		writeAlerts(filepath.Join(out, "..", "console-plugin", "web", "src", "model", "alerts.ts")),
	)
}

// prometheusRule returns the rules as the Prometheus Operator takes them. Its spec is also how a file of Prometheus has them.
func prometheusRule() *monitoringv1.PrometheusRule {
	rule := &monitoringv1.PrometheusRule{
		TypeMeta: metav1.TypeMeta{APIVersion: monitoringv1.SchemeGroupVersion.String(), Kind: monitoringv1.PrometheusRuleKind},
		ObjectMeta: metav1.ObjectMeta{
			Name: "prometheus-lvmo-rules", Namespace: rules.Namespace, Labels: map[string]string{"prometheus": "k8s", "role": "alert-rules"},
		},
	}
	for _, g := range rules.Groups() {
		rule.Spec.Groups = append(rule.Spec.Groups, group(g))
	}
	return rule
}

// writeAlerts writes what each alert says, for the console plugin: a Prometheus that is asked for the alerts of one namespace has their labels
// only.
func writeAlerts(file string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "// Written by `make monitoring`, from monitoring/rules.\n\n/** Where the runbooks are, by the name of the alert. */\nexport const RUNBOOKS = '%s';\n\n", rules.Runbooks)
	b.WriteString("/** What each alert says; $labels are those of the alert. */\nexport const summaries: Record<string, string> = {\n")
	for _, g := range rules.Groups() {
		for _, a := range g.Alerts {
			if strings.ContainsAny(a.Summary, "'\\\n") {
				return fmt.Errorf("alert %s: its summary has what a text of TypeScript cannot have: %q", a.Name, a.Summary)
			}
			fmt.Fprintf(&b, "  %s: '%s',\n", a.Name, a.Summary)
		}
	}
	b.WriteString("};\n")
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

func group(g rules.Group) monitoringv1.RuleGroup {
	written := monitoringv1.RuleGroup{Name: g.Name}
	for _, r := range g.Records {
		written.Rules = append(written.Rules, monitoringv1.Rule{Record: r.Name, Expr: intstr.FromString(r.Expr)})
	}
	for _, a := range g.Alerts {
		written.Rules = append(written.Rules, alert(a))
	}
	return written
}

func alert(a rules.Alert) monitoringv1.Rule {
	written := monitoringv1.Rule{
		Alert:  a.Name,
		Expr:   intstr.FromString(a.Expr),
		Labels: map[string]string{"severity": a.Severity},
		Annotations: map[string]string{
			"summary": a.Summary, "description": a.Description, "runbook_url": rules.Runbooks + a.Name + ".md",
		},
	}
	if a.Static {
		written.Labels["namespace"] = rules.Namespace
	}
	if a.For > 0 {
		written.For = ptr.To(monitoringv1.Duration(model.Duration(a.For).String()))
	}
	return written
}
