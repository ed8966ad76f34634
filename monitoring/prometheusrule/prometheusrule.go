// Package prometheusrule converts the rules of monitoring/rules to a PrometheusRule for the Prometheus Operator.
package prometheusrule

import (
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/monitoring/rules"
)

// Name is the name of the PrometheusRule.
const Name = "prometheus-lvmo-rules"

// New returns the PrometheusRule for a namespace. runbooks is the prefix of runbook_url, with a slash at its end. The
// spec is also the content of a Prometheus rule file.
func New(namespace, runbooks string) *monitoringv1.PrometheusRule {
	rule := &monitoringv1.PrometheusRule{
		TypeMeta: metav1.TypeMeta{APIVersion: monitoringv1.SchemeGroupVersion.String(),
			Kind: monitoringv1.PrometheusRuleKind},
		ObjectMeta: metav1.ObjectMeta{
			Name: Name, Namespace: namespace, Labels: map[string]string{"prometheus": "k8s", "role": "alert-rules"},
		},
	}
	for _, g := range rules.Groups() {
		rule.Spec.Groups = append(rule.Spec.Groups, group(g, namespace, runbooks))
	}
	return rule
}

func group(g rules.Group, namespace, runbooks string) monitoringv1.RuleGroup {
	written := monitoringv1.RuleGroup{Name: g.Name}
	for _, r := range g.Records {
		written.Rules = append(written.Rules, monitoringv1.Rule{Record: r.Name, Expr: intstr.FromString(r.Expr)})
	}
	for _, a := range g.Alerts {
		written.Rules = append(written.Rules, alert(a, namespace, runbooks))
	}
	return written
}

func alert(a rules.Alert, namespace, runbooks string) monitoringv1.Rule {
	written := monitoringv1.Rule{
		Alert:  a.Name,
		Expr:   intstr.FromString(a.Expr),
		Labels: map[string]string{"severity": a.Severity},
		Annotations: map[string]string{
			"summary": a.Summary, "description": a.Description, "runbook_url": runbooks + a.Name + ".md",
		},
	}
	if a.Static {
		written.Labels["namespace"] = namespace
	}
	if a.For > 0 {
		written.For = ptr.To(monitoringv1.Duration(model.Duration(a.For).String()))
	}
	return written
}
