// Package prometheus runs a real Prometheus in the network of a lab, configured as the Prometheus Operator would do it:
// the ServiceMonitor that the operator has created configures what is scraped, and the product's PrometheusRule what is
// evaluated. Debian's Prometheus has no Kubernetes discovery, so the package simulates it with the permissions that the
// product grants to Prometheus.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/monitoring/access"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// ruleFile has the alerts and recording rules in the repository.
const ruleFile = "monitoring/prometheusrule/prometheusrule.yaml"

// files maps the paths in the ServiceMonitor to files on the node.
type files map[string]string

func (f files) of(path string) (string, error) {
	if there, ok := f[path]; ok {
		return there, nil
	}
	return "", fmt.Errorf("the ServiceMonitor names %s, which OpenShift's Prometheus does not have", path)
}

// readMonitor returns the ServiceMonitor of a cluster.
func readMonitor(ctx context.Context, cluster *story.Cluster) (*monitoringv1.ServiceMonitor, error) {
	out, err := cluster.Kubectl(ctx, nil, "get", "servicemonitor", access.MonitorName, "-n",
		cluster.InstallNamespace(), "-o", "yaml")
	if err != nil {
		return nil, err
	}
	return parseMonitor([]byte(out))
}

// parseMonitor decodes a ServiceMonitor. It returns an error for a field that is not simulated.
func parseMonitor(data []byte) (*monitoringv1.ServiceMonitor, error) {
	m := &monitoringv1.ServiceMonitor{}
	if err := yaml.UnmarshalStrict(data, m); err != nil {
		return nil, fmt.Errorf("ServiceMonitor: %w", err)
	}
	if diff := cmp.Diff(played(&m.Spec), m.Spec); diff != "" {
		return nil, fmt.Errorf("the ServiceMonitor has fields that are not played:\n%s", diff)
	}
	return m, nil
}

// played returns the simulated fields of a ServiceMonitor.
func played(spec *monitoringv1.ServiceMonitorSpec) monitoringv1.ServiceMonitorSpec {
	known := monitoringv1.ServiceMonitorSpec{Selector: metav1.LabelSelector{MatchLabels: spec.Selector.MatchLabels}}
	for i := range spec.Endpoints {
		known.Endpoints = append(known.Endpoints, playedEndpoint(&spec.Endpoints[i]))
	}
	return known
}

func playedEndpoint(e *monitoringv1.Endpoint) monitoringv1.Endpoint {
	known := monitoringv1.Endpoint{Port: e.Port, Path: e.Path, Scheme: e.Scheme, Interval: e.Interval,
		HonorLabels: e.HonorLabels}
	for _, r := range e.RelabelConfigs {
		relabeling := monitoringv1.RelabelConfig{SourceLabels: r.SourceLabels, TargetLabel: r.TargetLabel}
		if r.Action == "replace" { // the default of the API
			relabeling.Action = r.Action
		}
		known.RelabelConfigs = append(known.RelabelConfigs, relabeling)
	}
	if tls := e.TLSConfig; tls != nil {
		known.TLSConfig = &monitoringv1.TLSConfig{
			SafeTLSConfig: monitoringv1.SafeTLSConfig{ServerName: tls.ServerName}, TLSFilesConfig: tls.TLSFilesConfig,
		}
	}
	return known
}

// config returns a Prometheus configuration for a ServiceMonitor (scrape_configs, in the format of the Prometheus
// Operator: pkg/prometheus/promcfg.go). The discovered targets are in the file targets. speed divides the intervals of
// scrapes and evaluations.
func config(m *monitoringv1.ServiceMonitor, targets string, there files, rules string, speed int) (map[string]any,
	error) {
	var scrapes []any
	for i := range m.Spec.Endpoints {
		e := &m.Spec.Endpoints[i]
		tls, err := tlsConfig(e.TLSConfig, there)
		if err != nil {
			return nil, err
		}
		interval, err := divide(string(e.Interval), speed)
		if err != nil {
			return nil, fmt.Errorf("ServiceMonitor: %w", err)
		}
		scrapes = append(scrapes, map[string]any{
			"job_name": fmt.Sprintf("serviceMonitor/%s/%s/%d", m.Namespace, m.Name, i), "honor_labels": e.HonorLabels,
			"scrape_interval": interval, "metrics_path": e.Path, "scheme": e.Scheme, "tls_config": tls,
			"file_sd_configs": []any{map[string]any{"files": []string{targets}, "refresh_interval": "5s"}},
			"relabel_configs": relabelings(m, e),
		})
	}
	evaluation, err := divide("15s", speed)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"global":         map[string]any{"evaluation_interval": evaluation},
		"rule_files":     []string{rules},
		"scrape_configs": scrapes,
	}, nil
}

func tlsConfig(tls *monitoringv1.TLSConfig, there files) (map[string]any, error) {
	if tls == nil {
		return nil, errors.New("the ServiceMonitor has an endpoint without tlsConfig")
	}
	written := map[string]any{"server_name": tls.ServerName}
	for key, file := range map[string]string{"ca_file": tls.CAFile, "cert_file": tls.CertFile,
		"key_file": tls.KeyFile} {
		found, err := there.of(file)
		if err != nil {
			return nil, err
		}
		written[key] = found
	}
	return written, nil
}

func relabelings(m *monitoringv1.ServiceMonitor, e *monitoringv1.Endpoint) []any {
	keep := func(label, value string) any {
		return map[string]any{"action": "keep", "source_labels": []string{label}, "regex": value}
	}
	set := func(target, label string) any {
		return map[string]any{"source_labels": []string{label}, "target_label": target}
	}
	var all []any
	for label, value := range m.Spec.Selector.MatchLabels {
		all = append(all, keep("__meta_kubernetes_service_label_"+labelName(label), value))
	}
	all = append(all, keep("__meta_kubernetes_endpoint_port_name", e.Port),
		set("namespace", "__meta_kubernetes_namespace"), set("service", "__meta_kubernetes_service_name"),
		set("job", "__meta_kubernetes_service_name"),
		set("pod", "__meta_kubernetes_pod_name"), set("container", "__meta_kubernetes_pod_container_name"))
	for _, r := range e.RelabelConfigs {
		all = append(all, map[string]any{"source_labels": r.SourceLabels, "target_label": r.TargetLabel})
	}
	return all
}

// labelName returns a label's name in the format of service discovery.
func labelName(label string) string {
	name := []byte(label)
	for i, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			name[i] = '_'
		}
	}
	return string(name)
}

// rules returns the groups of the product's PrometheusRule as a Prometheus rule file. speed divides the durations for
// which a condition must hold before its alert fires.
func rules(root string, speed int) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(root, ruleFile))
	if err != nil {
		return nil, err
	}
	rule := &monitoringv1.PrometheusRule{}
	if err := yaml.UnmarshalStrict(data, rule); err != nil {
		return nil, fmt.Errorf("%s: %w", ruleFile, err)
	}
	if err := shorten(rule.Spec.Groups, speed); err != nil {
		return nil, fmt.Errorf("%s: %w", ruleFile, err)
	}
	return yaml.Marshal(rule.Spec)
}

// shorten divides the durations for which a condition must hold before its alert fires. The ranges of expressions stay:
// thresholds and predictions depend on them.
func shorten(groups []monitoringv1.RuleGroup, speed int) error {
	for i := range groups {
		for j := range groups[i].Rules {
			rule := &groups[i].Rules[j]
			if rule.For == nil {
				continue
			}
			divided, err := divide(string(*rule.For), speed)
			if err != nil {
				return fmt.Errorf("alert %s: %w", rule.Alert, err)
			}
			rule.For = &divided
		}
	}
	return nil
}

// divide returns a part of a duration of Prometheus.
func divide(duration string, by int) (monitoringv1.Duration, error) {
	if by == 1 {
		return monitoringv1.Duration(duration), nil
	}
	d, err := time.ParseDuration(duration)
	if err != nil {
		return "", err
	}
	return monitoringv1.Duration(fmt.Sprintf("%dms", d.Milliseconds()/int64(by))), nil
}
