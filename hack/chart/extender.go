package main

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// The conditions of the scheduler extender and of the Pod webhook.
const (
	schedulerOn  = ".Values.scheduler.enabled"
	schedulerTLS = ".Values.scheduler.tlsSecret"
	podWebhookOn = ".Values.podWebhook.enabled"
)

// schedulerPort is the port of the extender in the manifests.
const schedulerPort = "9251"

// extender adds the scheduler extender, and the permission for the Pod webhook.
func extender(s *source, files map[string]string) error {
	for _, object := range s.scheduler {
		text, err := schedulerText(s, object)
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		appendTo(files, "templates/scheduler.yaml", "{{- if "+schedulerOn+" }}\n"+text+"{{- end }}\n")
	}
	for _, object := range s.podWebhook {
		text, err := textOf(object)
		if err != nil {
			return err
		}
		appendTo(files, "templates/pod-webhook.yaml", "{{- if "+podWebhookOn+" }}\n"+text+"{{- end }}\n")
	}
	return nil
}

// schedulerText returns the template of an object of the scheduler extender, which can serve HTTP or HTTPS.
func schedulerText(s *source, object *unstructured.Unstructured) (string, error) {
	secure := find(s.schedulerHTTPS, object)
	if secure == nil {
		return "", fmt.Errorf("is not in config/scheduler-https: adapt hack/chart/extender.go")
	}
	text, err := textOf(object)
	if err != nil {
		return "", err
	}
	with, err := textOf(secure)
	if err != nil {
		return "", err
	}
	// The options end without a line break in one of them.
	with = strings.ReplaceAll(with, "yaml: |-\n", "yaml: |\n")
	if with != text {
		text = merge(schedulerTLS, with, text)
	}
	text = strings.ReplaceAll(text, schedulerPort, "{{ int .Values.scheduler.port }}")
	changes, err := changesOfScheduler(s, object)
	if err != nil {
		return "", err
	}
	return edit(text, changes)
}

func changesOfScheduler(s *source, object *unstructured.Unstructured) ([]change, error) {
	switch object.GetKind() {
	case "ConfigMap":
		return []change{{"    default-divisor: 1\n", "    default-divisor: {{ .Values.scheduler.defaultDivisor }}\n" +
			"{{- with .Values.scheduler.divisors }}\n    divisors:\n      {{- toYaml . | nindent 6 }}\n" +
			"{{- end }}\n"}}, nil
	case "DaemonSet":
		pod, err := schedulerPod(s)
		if err != nil {
			return nil, err
		}
		changes := []change{imageChange,
			{"          secretName: lvms-scheduler-tls\n", "          secretName: {{ .Values.scheduler.tlsSecret }}\n"},
			{"    metadata:\n      labels:\n", "    metadata:\n      annotations:\n        " + checksum + ": {{ " +
				"list .Values.scheduler.port .Values.scheduler.defaultDivisor .Values.scheduler.divisors | toJson | " +
				"sha256sum }}\n      labels:\n"}}
		for _, f := range []field{{"affinity", "scheduler.affinity", pod.Affinity, 6},
			{"tolerations", "scheduler.tolerations", pod.Tolerations, 6}} {
			c, err := f.change()
			if err != nil {
				return nil, err
			}
			changes = append(changes, c)
		}
		return changes, nil
	}
	return changesOf(object)
}

// checksum is the annotation of the Pods with the digest of their options, which they read once.
const checksum = "lvm.topolvm.io/scheduler-options"

// schedulerPod returns the Pod template of the scheduler extender in the manifests.
func schedulerPod(s *source) (*corev1.PodSpec, error) {
	for _, object := range s.scheduler {
		if object.GetKind() == "DaemonSet" {
			set := &appsv1.DaemonSet{}
			err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, set, true)
			return &set.Spec.Template.Spec, err
		}
	}
	return nil, fmt.Errorf("config/scheduler has no DaemonSet")
}

// extenderValues returns the values of the scheduler extender and of the Pod webhook.
func extenderValues(s *source) ([]value, error) {
	pod, err := schedulerPod(s)
	if err != nil {
		return nil, err
	}
	affinity, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod.Affinity)
	if err != nil {
		return nil, err
	}
	var tolerations []any
	for i := range pod.Tolerations {
		toleration, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod.Tolerations[i])
		if err != nil {
			return nil, err
		}
		tolerations = append(tolerations, toleration)
	}
	divisor := map[string]any{"type": "number", "exclusiveMinimum": 0}
	return []value{
		{[]string{"scheduler", "enabled"}, false, ofType("boolean"), "Run a scheduler extender on the nodes of the " +
			"control plane. Almost no cluster needs it: see docs/how-to/scheduler-extender.md."},
		{[]string{"scheduler", "port"}, 9251, between(1, 65535), "Port of the extender on its nodes: on the loopback " +
			"address, or with tlsSecret on all addresses."},
		{[]string{"scheduler", "tlsSecret"}, "", pattern(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`), "Secret with tls.crt " +
			"and tls.key in the namespace of the release, with which the extender serves HTTPS on all addresses of " +
			"its nodes. Empty for HTTP on the loopback address."},
		{[]string{"scheduler", "defaultDivisor"}, 1, divisor, "GiB of capacity that count as one when a node is " +
			"scored."},
		{[]string{"scheduler", "divisors"}, map[string]any{}, map[string]any{"type": "object",
			"additionalProperties": map[string]any{"type": "number", "exclusiveMinimum": 0}}, "The same for single " +
			"device classes, for example {ssd: 1, hdd: 10}."},
		{[]string{"scheduler", "affinity"}, affinity, ofType("object"), "Affinity of the extender. The default has " +
			"the nodes of the control plane and the architectures of the image."},
		{[]string{"scheduler", "tolerations"}, tolerations, list(ofType("object")), "Tolerations of the extender."},
		{[]string{"podWebhook", "enabled"}, false, ofType("boolean"), "Mark Pods for a scheduler extender. Without " +
			"an extender in the configuration of kube-scheduler, marked Pods stay Pending."},
	}, nil
}
