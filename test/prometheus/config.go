// Package prometheus runs a real Prometheus in the network of a lab, as the Prometheus Operator would set it up from what the product ships:
// its ServiceMonitor says what is scraped and how, its PrometheusRule what is evaluated. Debian's Prometheus has no discovery of Kubernetes;
// that is played here, with the rights that the product gives Prometheus.
package prometheus

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// The shipped manifests, in the repository.
const (
	monitorFile = "monitoring/manifests/servicemonitor.yaml"
	ruleFile    = "monitoring/manifests/prometheusrule.yaml"
	rbacFile    = "monitoring/access/rbac.yaml"
)

// serviceMonitor is the part of one (monitoring.coreos.com/v1) that is understood here. What is not is an error.
type serviceMonitor struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name, Namespace string
	} `json:"metadata"`
	Spec struct {
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		Endpoints []endpoint `json:"endpoints"`
	} `json:"spec"`
}

type endpoint struct {
	Port, Path, Scheme, Interval string
	HonorLabels                  bool `json:"honorLabels"`
	Relabelings                  []struct {
		SourceLabels []string `json:"sourceLabels"`
		TargetLabel  string   `json:"targetLabel"`
	} `json:"relabelings"`
	TLSConfig struct {
		ServerName, CAFile, CertFile, KeyFile string
	} `json:"tlsConfig"`
}

// files are where the files are on the node that the ServiceMonitor names.
type files map[string]string

func (f files) of(path string) (string, error) {
	if there, ok := f[path]; ok {
		return there, nil
	}
	return "", fmt.Errorf("%s names %s, which OpenShift's Prometheus does not have", monitorFile, path)
}

func readMonitor(root string) (*serviceMonitor, error) {
	data, err := os.ReadFile(filepath.Join(root, monitorFile))
	if err != nil {
		return nil, err
	}
	m := &serviceMonitor{}
	if err := yaml.UnmarshalStrict(data, m); err != nil {
		return nil, fmt.Errorf("%s: %w", monitorFile, err)
	}
	return m, nil
}

// config returns a configuration of Prometheus (scrape_configs, as the Prometheus Operator writes them: pkg/prometheus/promcfg.go) for
// a ServiceMonitor. What is discovered is in the file targets.
func (m *serviceMonitor) config(targets string, there files, rules string) (map[string]any, error) {
	var scrapes []any
	for i, e := range m.Spec.Endpoints {
		ca, err := there.of(e.TLSConfig.CAFile)
		if err != nil {
			return nil, err
		}
		certificate, err := there.of(e.TLSConfig.CertFile)
		if err != nil {
			return nil, err
		}
		key, err := there.of(e.TLSConfig.KeyFile)
		if err != nil {
			return nil, err
		}
		scrapes = append(scrapes, map[string]any{
			"job_name": fmt.Sprintf("serviceMonitor/%s/%s/%d", m.Metadata.Namespace, m.Metadata.Name, i), "honor_labels": e.HonorLabels,
			"scrape_interval": e.Interval, "metrics_path": e.Path, "scheme": e.Scheme, "file_sd_configs": []any{map[string]any{"files": []string{targets}, "refresh_interval": "5s"}},
			"tls_config":      map[string]any{"server_name": e.TLSConfig.ServerName, "ca_file": ca, "cert_file": certificate, "key_file": key},
			"relabel_configs": m.relabelings(e),
		})
	}
	return map[string]any{
		"global":         map[string]any{"evaluation_interval": "15s"},
		"rule_files":     []string{rules},
		"scrape_configs": scrapes,
	}, nil
}

func (m *serviceMonitor) relabelings(e endpoint) []any {
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
		set("namespace", "__meta_kubernetes_namespace"), set("service", "__meta_kubernetes_service_name"), set("job", "__meta_kubernetes_service_name"),
		set("pod", "__meta_kubernetes_pod_name"), set("container", "__meta_kubernetes_pod_container_name"))
	for _, r := range e.Relabelings {
		all = append(all, map[string]any{"source_labels": r.SourceLabels, "target_label": r.TargetLabel})
	}
	return all
}

// labelName is how service discovery writes a label's name.
func labelName(label string) string {
	name := []byte(label)
	for i, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			name[i] = '_'
		}
	}
	return string(name)
}

// rules returns the groups of the shipped PrometheusRule, as a file of Prometheus.
func rules(root string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(root, ruleFile))
	if err != nil {
		return nil, err
	}
	var rule struct {
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &rule); err != nil {
		return nil, fmt.Errorf("%s: %w", ruleFile, err)
	}
	return yaml.Marshal(rule.Spec)
}
