package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// checksum is the annotation of the Pods with the digest of their options, which they read once.
const checksum = "lvm.topolvm.io/scheduler-options"

// optional returns the objects of a release that it lacks without values, by kind and name.
func optional(t *testing.T, folder, values string) map[string]*unstructured.Unstructured {
	t.Helper()
	objects := map[string]*unstructured.Unstructured{}
	for _, object := range objectsOf(t, folder, values) {
		objects[keyOf(object)] = object
	}
	for _, object := range objectsOf(t, folder, "{}") {
		delete(objects, keyOf(object))
	}
	return objects
}

// stripped removes what the manifests do not have: the digest of the options, and a line break at their end.
func stripped(t *testing.T, object *unstructured.Unstructured) map[string]any {
	t.Helper()
	object = object.DeepCopy()
	unstructured.RemoveNestedField(object.Object, "spec", "template", "metadata", "annotations")
	if options, found, _ := unstructured.NestedString(object.Object, "data", "scheduler-options.yaml"); found {
		if err := unstructured.SetNestedField(object.Object, strings.TrimSpace(options), "data",
			"scheduler-options.yaml"); err != nil {
			t.Fatal(err)
		}
	}
	return object.Object
}

func TestTheOptionalPartsAreThoseOfTheManifests(t *testing.T) {
	folder := newChart(t)
	for name, tt := range map[string]struct{ values, folder string }{
		"scheduler extender": {"scheduler: {enabled: true}", "config/scheduler"},
		"with HTTPS":         {"scheduler: {enabled: true, tlsSecret: lvms-scheduler-tls}", "config/scheduler-https"},
		"Pod webhook":        {"podWebhook: {enabled: true}", "config/pod-webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			rendered := optional(t, folder, tt.values)
			want := deployed(t, tt.folder)
			if len(rendered) != len(want) {
				t.Errorf("%d objects, want %d", len(rendered), len(want))
			}
			for _, w := range want {
				got := rendered[keyOf(w)]
				if got == nil {
					t.Errorf("the chart has no %s", keyOf(w))
				} else if !reflect.DeepEqual(stripped(t, got), stripped(t, w)) {
					t.Errorf("%s is\n%s\nwant\n%s", keyOf(w), asYAML(t, got), asYAML(t, w))
				}
			}
		})
	}
}

// schedulerOf returns the options and the DaemonSet of the scheduler extender of a release.
func schedulerOf(t *testing.T, folder, values string) (string, *appsv1.DaemonSet) {
	t.Helper()
	objects := optional(t, folder, values)
	set, options := &appsv1.DaemonSet{}, &corev1.ConfigMap{}
	for key, into := range map[string]any{"DaemonSet elsewhere/lvms-scheduler": set,
		"ConfigMap elsewhere/lvms-scheduler": options} {
		if objects[key] == nil {
			t.Fatalf("no %s", key)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[key].Object, into,
			true); err != nil {
			t.Fatal(err)
		}
	}
	return strings.TrimSpace(options.Data["scheduler-options.yaml"]), set
}

func TestValuesOfTheScheduler(t *testing.T) {
	folder := newChart(t)
	options, set := schedulerOf(t, folder, "scheduler: {enabled: true, port: 8000, tlsSecret: mine, "+
		"defaultDivisor: 2.5, divisors: {ssd: 1, hdd: 10}, affinity: null, tolerations: [{operator: Exists}]}")
	want := "listen: \":8000\"\ndefault-divisor: 2.5\ndivisors:\n  hdd: 10\n  ssd: 1"
	if options != want {
		t.Errorf("options\n%s\nwant\n%s", options, want)
	}
	pod := set.Spec.Template.Spec
	container := pod.Containers[0]
	if pod.Affinity != nil || len(pod.Tolerations) != 1 || pod.Tolerations[0].Operator != corev1.TolerationOpExists {
		t.Errorf("affinity %v, tolerations %v", pod.Affinity, pod.Tolerations)
	}
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
		if probe.HTTPGet.Port.IntValue() != 8000 || probe.HTTPGet.Scheme != corev1.URISchemeHTTPS {
			t.Errorf("probe %v", probe.HTTPGet)
		}
	}
	if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == "mine"
	}) {
		t.Errorf("volumes %v", pod.Volumes)
	}
	_, other := schedulerOf(t, folder, "scheduler: {enabled: true, divisors: {ssd: 2}}")
	if a, b := set.Spec.Template.Annotations[checksum], other.Spec.Template.Annotations[checksum]; a == b || a == "" {
		t.Errorf("other options have the digests %q and %q", a, b)
	}
}
