package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// The defaults of the operator's flags.
const (
	defaultStandbys      = 1
	defaultVolumeMetrics = 500
)

// value is an entry of values.yaml.
type value struct {
	path     []string
	standard any
	// schema is the JSON schema of the value.
	schema map[string]any
	// help is the comment in values.yaml, and the text in the documentation.
	help string
}

// valuesOf returns the values of the chart, in the order of values.yaml.
func valuesOf(s *source, defaults image) ([]value, error) {
	pod, err := podOf(s)
	if err != nil {
		return nil, err
	}
	resources, affinity, err := standardsOf(pod)
	if err != nil {
		return nil, err
	}
	optional, err := extenderValues(s)
	if err != nil {
		return nil, err
	}
	return slices.Concat(imageValues(defaults), []value{
		{[]string{"resources"}, resources, ofType("object"), "Resources of the operator's container. A " +
			"memory limit is not recommended: a large cluster needs more memory."},
		{[]string{"nodeSelector"}, map[string]any{}, map[string]any{"type": "object",
			"additionalProperties": ofType("string")}, "Labels of the nodes on which the operator can run. The " +
			"LVMCluster selects the nodes of the node agents."},
		{[]string{"tolerations"}, []any{}, list(ofType("object")), "Tolerations of the operator. Those of " +
			"the node agents are in the LVMCluster."},
		{[]string{"affinity"}, affinity, ofType("object"), "Affinity of the operator. The default has the " +
			"architectures of the image."},
		{[]string{"kubeletRootDir"}, "", pattern(`^(/[^:\s]*[^:/\s])?$`), "Directory of the kubelet on all " +
			"nodes, its --root-dir. Empty for /var/lib/kubelet."},
		{[]string{"hostPath"}, "", pattern(`^(/[^\s]*)?$`), "Directories with the programs of the nodes, " +
			"separated by colons. Empty for /usr/sbin:/usr/bin:/sbin:/bin."},
		{[]string{"clusterID"}, "", pattern(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`), "Identity of " +
			"the cluster, with which its volume groups are tagged, so that a new cluster with the same value can use " +
			"them. No two clusters may have the same. Empty for the UID of the namespace kube-system. Not on " +
			"OpenShift."},
		{[]string{"standbys"}, defaultStandbys, between(0, 2), "Number of standby replicas of the operator, " +
			"each on another node; fewer if there are fewer nodes."},
		{[]string{"logLevel"}, "", map[string]any{"enum": []any{"", "error", "info", "debug"}}, "Log level of " +
			"the operator: error, info or debug. Empty for info."},
		{[]string{"smartInterval"}, "", pattern(`^(([0-9]+(\.[0-9]+)?(h|m|s))+)?$`), "Interval at which the " +
			"node agents read the SMART health of disks, at least 1m. Empty for never."},
		{[]string{"volumeMetrics"}, defaultVolumeMetrics, between(0, 100000), "Maximum number of volumes of a " +
			"node with their own metrics. 0 for none."},
		{[]string{"runbookBaseURL"}, "", pattern(`^(https?://\S+)?$`), "Prefix of runbook_url in the alerts. " +
			"Empty for the runbooks of the project."},
		{[]string{"openshift"}, false, ofType("boolean"), "Set this to true on OpenShift or MicroShift " +
			"without OLM. The service CA then issues the certificate of the webhook, and the ServiceMonitor is the " +
			"one for OpenShift's Prometheus."},
		{[]string{"monitoring", "enabled"}, false, ofType("boolean"), "Create a ServiceMonitor; the " +
			"operator then creates the alerts. Requires the CRDs of the Prometheus Operator."},
		{[]string{"monitoring", "serviceAccount", "name"}, "prometheus-k8s", pattern(dnsName), "ServiceAccount " +
			"of the Prometheus that reads the metrics. Ignored if openshift is true."},
		{[]string{"monitoring", "serviceAccount", "namespace"}, "monitoring", pattern(dnsName), "Namespace of " +
			"that ServiceAccount."},
	}, optional), nil
}

// dnsName matches the names of namespaces and ServiceAccounts.
const dnsName = `^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`

func imageValues(defaults image) []value {
	secret := map[string]any{"type": "object", "required": []any{"name"}, "additionalProperties": false,
		"properties": map[string]any{"name": pattern(dnsName)}}
	return []value{
		{[]string{"image", "repository"}, defaults.repository, pattern(`^[a-z0-9][^@\s]*$`), "Image of the operator " +
			"and the node agents, without tag and digest."},
		{[]string{"image", "tag"}, defaults.tag, pattern(`^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$`), "Tag of the " +
			"image. Empty for v and the version of the chart."},
		{[]string{"image", "digest"}, defaults.digest, pattern(`^(sha256:[0-9a-f]{64})?$`), "Digest of the image, " +
			"sha256:... If it is set, the tag is ignored."},
		{[]string{"imagePullSecrets"}, []any{}, list(secret), "Secrets in the namespace of the release with which " +
			"the operator and the node agents pull the image, for example [{name: registry}]."},
	}
}

// ofType returns the schema of a value of a type, the rest of which the API server validates.
func ofType(kind string) map[string]any { return map[string]any{"type": kind} }

func pattern(expression string) map[string]any {
	return map[string]any{"type": "string", "pattern": expression}
}

func list(items map[string]any) map[string]any {
	return map[string]any{"type": "array", "items": items}
}

func between(least, most int) map[string]any {
	return map[string]any{"type": "integer", "minimum": least, "maximum": most}
}

// podOf returns the Pod template of the operator in the manifests.
func podOf(s *source) (*corev1.PodSpec, error) {
	for _, object := range s.plain {
		if object.GetKind() == "Deployment" && object.GetName() == operator {
			return podIn(object)
		}
	}
	return nil, fmt.Errorf("config/default has no Deployment %s", operator)
}

// podIn returns the Pod template of a Deployment.
func podIn(object *unstructured.Unstructured) (*corev1.PodSpec, error) {
	deployment := &appsv1.Deployment{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, deployment, true)
	return &deployment.Spec.Template.Spec, err
}

// standardsOf returns the resources of the container of a Pod, and the affinity of the Pod.
func standardsOf(pod *corev1.PodSpec) (resources, affinity map[string]any, err error) {
	if len(pod.Containers) != 1 {
		return nil, nil, fmt.Errorf("it has %d containers, expected one: adapt hack/chart", len(pod.Containers))
	}
	resources, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&pod.Containers[0].Resources)
	if err != nil {
		return nil, nil, err
	}
	affinity, err = runtime.DefaultUnstructuredConverter.ToUnstructured(pod.Affinity)
	return resources, affinity, err
}

// commentWidth is the length at which comments in values.yaml are wrapped.
const commentWidth = 100

// valuesFile returns values.yaml.
func valuesFile(values []value) (string, error) {
	var text strings.Builder
	text.WriteString("# Generated by make chart.\n")
	var open []string
	for _, v := range values {
		for depth, name := range v.path[:len(v.path)-1] {
			if len(open) <= depth || open[depth] != name {
				fmt.Fprintf(&text, "%s%s:\n", strings.Repeat("  ", depth), name)
				open = append(open[:depth:depth], name)
			}
		}
		open = open[:len(v.path)-1]
		entry, err := entryOf(v)
		if err != nil {
			return "", err
		}
		text.WriteString(entry)
	}
	return text.String(), nil
}

// entryOf returns the lines of a value: a comment, and the default.
func entryOf(v value) (string, error) {
	data, err := yaml.Marshal(map[string]any{v.path[len(v.path)-1]: v.standard})
	if err != nil {
		return "", err
	}
	indent := strings.Repeat("  ", len(v.path)-1)
	var text strings.Builder
	for _, line := range append(wrap("# ", v.help), strings.Split(strings.TrimSpace(string(data)), "\n")...) {
		text.WriteString(indent + line + "\n")
	}
	return text.String(), nil
}

// wrap breaks a text into lines with a prefix.
func wrap(prefix, text string) []string {
	var lines []string
	line := strings.TrimSpace(prefix)
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > commentWidth {
			lines = append(lines, line)
			line = strings.TrimSpace(prefix)
		}
		line += " " + word
	}
	return append(lines, line)
}

// schemaFile returns values.schema.json. Names that the chart does not have are refused, so that a typing error is
// noticed.
func schemaFile(values []value) (string, error) {
	top := closed()
	top["$schema"] = "http://json-schema.org/draft-07/schema#"
	// Helm adds it if the chart is a part of another one.
	top["properties"].(map[string]any)["global"] = ofType("object")
	for _, v := range values {
		at := top
		for _, name := range v.path[:len(v.path)-1] {
			properties := at["properties"].(map[string]any)
			if properties[name] == nil {
				properties[name] = closed()
			}
			at = properties[name].(map[string]any)
		}
		v.schema["description"] = v.help
		at["properties"].(map[string]any)[v.path[len(v.path)-1]] = v.schema
	}
	data, err := json.MarshalIndent(top, "", "  ")
	return string(data) + "\n", err
}

// closed returns the schema of an object without other properties than those that are added.
func closed() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}
}
