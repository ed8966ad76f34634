// Package manifests checks that the manifests in config match each other.
package manifests

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// read returns the objects of a kind in a file of the repository.
func read[T any](t *testing.T, kind, file string) []T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		object := unstructured.Unstructured{}
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if object.GetKind() != kind {
			continue
		}
		var typed T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &typed,
			true); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, typed)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no %s", file, kind)
	}
	return all
}

// selects reports whether a policy selects a Pod with the given labels.
func selects(t *testing.T, policy networkingv1.NetworkPolicy, pod map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		t.Fatalf("%s: %v", policy.Name, err)
	}
	return selector.Matches(labels.Set(pod))
}

// TestPoliciesAreForOurPodsOnly checks that Pods of other operators in the namespace are not affected.
func TestPoliciesAreForOurPodsOnly(t *testing.T) {
	for _, policy := range read[networkingv1.NetworkPolicy](t, "NetworkPolicy",
		"controllers/networkpolicies/policies.yaml") {
		for _, pod := range []map[string]string{nil,
			{"app.kubernetes.io/name": "other", "app.kubernetes.io/part-of": "other"}} {
			if selects(t, policy, pod) {
				t.Errorf("%s is for a Pod with the labels %v too", policy.Name, pod)
			}
		}
	}
}

// checkPeers checks a rule without a Service: our Pods alone connect to a port of the Pod directly.
func checkPeers(t *testing.T, policy networkingv1.NetworkPolicy, rule networkingv1.NetworkPolicyIngressRule,
	pod corev1.PodTemplateSpec, ours []corev1.PodTemplateSpec) {
	t.Helper()
	for _, port := range rule.Ports {
		if !slices.ContainsFunc(pod.Spec.Containers[0].Ports,
			func(p corev1.ContainerPort) bool { return p.ContainerPort == port.Port.IntVal }) {
			t.Errorf("%s allows port %d, which the Pod does not have", policy.Name, port.Port.IntVal)
		}
	}
	for _, peer := range rule.From {
		selector, err := metav1.LabelSelectorAsSelector(peer.PodSelector)
		if err != nil {
			t.Fatalf("%s: %v", policy.Name, err)
		}
		isOurs := slices.ContainsFunc(ours,
			func(p corev1.PodTemplateSpec) bool { return selector.Matches(labels.Set(p.Labels)) })
		if selector.Empty() || peer.NamespaceSelector != nil || peer.IPBlock != nil || !isOurs {
			t.Errorf("%s allows ports %v for %v, which are not our Pods", policy.Name, rule.Ports, peer)
		}
	}
}

// TestServicesAreReachedAndNothingElse checks that the network policies allow the target ports of Services, and no
// other ports of a Pod, except for our own Pods.
func TestServicesAreReachedAndNothingElse(t *testing.T) {
	operator := read[appsv1.Deployment](t, "Deployment", "config/manager/deployment.yaml")[0].Spec.Template
	agent := read[appsv1.DaemonSet](t, "DaemonSet",
		"controllers/lvmcluster/operand/testdata/daemonset-openshift.yaml")[0].Spec.Template
	services := read[corev1.Service](t, "Service", "config/manager/services.yaml")
	policies := read[networkingv1.NetworkPolicy](t, "NetworkPolicy", "controllers/networkpolicies/policies.yaml")
	for _, pod := range []corev1.PodTemplateSpec{operator, agent} {
		var served, allowed []int32
		for _, service := range services {
			if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) {
				continue
			}
			for _, port := range service.Spec.Ports {
				at := slices.IndexFunc(pod.Spec.Containers[0].Ports,
					func(p corev1.ContainerPort) bool { return p.Name == port.TargetPort.StrVal })
				if at < 0 {
					t.Errorf("Service %s leads to port %s, which the Pod does not have", service.Name,
						port.TargetPort.StrVal)
					continue
				}
				served = append(served, pod.Spec.Containers[0].Ports[at].ContainerPort)
			}
		}
		covered := 0
		for _, policy := range policies {
			if !selects(t, policy, pod.Labels) {
				continue
			}
			covered++
			for _, rule := range policy.Spec.Ingress {
				if len(rule.From) > 0 {
					checkPeers(t, policy, rule, pod, []corev1.PodTemplateSpec{operator, agent})
					continue
				}
				for _, port := range rule.Ports {
					allowed = append(allowed, port.Port.IntVal)
				}
			}
		}
		slices.Sort(served)
		slices.Sort(allowed)
		if covered != 2 || !slices.Equal(served, allowed) {
			t.Errorf("Pods %v: Services lead to %v, %d policies allow %v", pod.Labels, served, covered, allowed)
		}
	}
}

// TestTheBundleHasNoNetworkPolicy checks that, because OLM of older OpenShift versions refuses a bundle with one.
func TestTheBundleHasNoNetworkPolicy(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "bundle", "manifests", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no bundle: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("\nkind: NetworkPolicy\n")) {
			t.Errorf("%s is a NetworkPolicy", filepath.Base(file))
		}
	}
}
