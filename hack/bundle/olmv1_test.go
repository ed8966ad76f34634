package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// OLM v1 installs registry+v1 bundles for all namespaces without dependencies on other packages or kinds
// (operator-controller, "Limitations"; OpenShift, "Supported extensions"). It creates no OperatorCondition, so nothing
// may depend on one.
func TestOLMv1InstallsTheBundle(t *testing.T) {
	dir, bundle := newBundle(t)
	for _, problem := range olmV1Problems(t, dir, bundle) {
		t.Error(problem)
	}
}

// The check finds what it must find.
func TestWhatOLMv1DoesNotInstallIsFound(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(dir string, bundle *manifests.Bundle)
		says   string
	}{
		"one namespace": {func(_ string, b *manifests.Bundle) {
			for i := range b.CSV.Spec.InstallModes {
				b.CSV.Spec.InstallModes[i].Supported = b.CSV.Spec.InstallModes[i].Type ==
					v1alpha1.InstallModeTypeOwnNamespace
			}
		}, "AllNamespaces"},
		"a required kind": {func(_ string, b *manifests.Bundle) {
			b.CSV.Spec.CustomResourceDefinitions.Required = []v1alpha1.CRDDescription{{Name: "others.example.com"}}
		}, "others.example.com"},
		"an API service": {func(_ string, b *manifests.Bundle) {
			b.CSV.Spec.APIServiceDefinitions.Owned = []v1alpha1.APIServiceDescription{{Name: "v1.example.com"}}
		}, "v1.example.com"},
		"a dependency": {func(dir string, _ *manifests.Bundle) {
			writeFile(t, filepath.Join(dir, "metadata", "dependencies.yaml"),
				"dependencies: [{type: olm.package, value: {packageName: other}}]")
		}, "dependencies.yaml"},
		"a constraint": {func(dir string, _ *manifests.Bundle) {
			writeFile(t, filepath.Join(dir, "metadata", "properties.yaml"),
				"properties: [{type: olm.constraint, value: {cel: {rule: 'true'}}}]")
		}, "olm.constraint"},
		"a condition that is waited for": {func(_ string, b *manifests.Bundle) {
			container := &b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0]
			container.Args = append(container.Args, "--condition=$(OPERATOR_CONDITION_NAME)")
		}, "OPERATOR_CONDITION_NAME"},
		"a kind that no bundle may have": {func(_ string, b *manifests.Bundle) {
			object := &unstructured.Unstructured{}
			object.SetAPIVersion("storage.k8s.io/v1")
			object.SetKind("StorageClass")
			b.Objects = append(b.Objects, object)
		}, "StorageClass"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, bundle := newBundle(t)
			tt.change(dir, bundle)
			if problems := olmV1Problems(t, dir, bundle); len(problems) != 1 ||
				!strings.Contains(problems[0], tt.says) {
				t.Errorf("got %q, want one with %q", problems, tt.says)
			}
		})
	}
}

// bundleKinds are the kinds that a registry+v1 bundle may contain and that OLM v1 installs, limited to those that this
// operator may use.
var bundleKinds = []string{
	"ClusterServiceVersion", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
	"ServiceAccount", "Service", "Secret", "ConfigMap",
	"PrometheusRule", "ServiceMonitor", "PodMonitor", "PodDisruptionBudget", "PriorityClass", "VerticalPodAutoscaler",
	"ConsoleYAMLSample", "ConsoleQuickStart",
	"ConsoleCLIDownload", "ConsoleLink", "ConsolePlugin", "NetworkPolicy",
}

func olmV1Problems(t *testing.T, dir string, bundle *manifests.Bundle) []string {
	t.Helper()
	var problems []string
	csv := bundle.CSV
	if !slices.Contains(csv.Spec.InstallModes,
		v1alpha1.InstallMode{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}) {
		problems = append(problems, "AllNamespaces is not among the install modes")
	}
	for _, required := range csv.Spec.CustomResourceDefinitions.Required {
		problems = append(problems, "requires the kind "+required.Name)
	}
	for _, service := range slices.Concat(csv.Spec.APIServiceDefinitions.Owned,
		csv.Spec.APIServiceDefinitions.Required) {
		problems = append(problems, "has to do with the API service "+service.Name)
	}
	for _, object := range bundle.Objects {
		if !slices.Contains(bundleKinds, object.GetKind()) {
			problems = append(problems, "has a "+object.GetKind())
		}
	}
	deployments, err := sigsyaml.Marshal(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(deployments, []byte("OPERATOR_CONDITION_NAME")) {
		problems = append(problems, "a Deployment wants OPERATOR_CONDITION_NAME, which OLM v1 does not set")
	}
	return append(problems, metadataProblems(t, filepath.Join(dir, "metadata"))...)
}

func metadataProblems(t *testing.T, dir string) []string {
	t.Helper()
	var problems []string
	var annotations struct{ Annotations map[string]string }
	if err := sigsyaml.Unmarshal(contentOf(t, filepath.Join(dir, "annotations.yaml")), &annotations); err != nil {
		t.Fatal(err)
	}
	if format := annotations.Annotations["operators.operatorframework.io.bundle.mediatype.v1"]; format !=
		"registry+v1" {
		problems = append(problems, "the format is "+format)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() == "dependencies.yaml" {
			problems = append(problems, "has dependencies.yaml")
		}
		for _, property := range []string{"olm.gvk.required", "olm.package.required", "olm.constraint"} {
			if bytes.Contains(contentOf(t, filepath.Join(dir, entry.Name())), []byte(property)) {
				problems = append(problems, entry.Name()+" has "+property)
			}
		}
	}
	return problems
}

// OLM v1 reads the catalog entry of the bundle first.
func TestTheCatalogHasNoDependencies(t *testing.T) {
	files, err := filepath.Glob("../../catalog/lvms-operator/bundles/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		entry := contentOf(t, file)
		if !bytes.Contains(entry, []byte("olm.package")) {
			t.Errorf("%s is no entry of a bundle", file)
		}
		for _, property := range []string{"olm.gvk.required", "olm.package.required", "olm.constraint"} {
			if bytes.Contains(entry, []byte(property)) {
				t.Errorf("%s has %s", file, property)
			}
		}
	}
}

// OLM v1 installs with the permissions of a ServiceAccount that an administrator creates. The documented permissions
// are sufficient for everything in the bundle, and for what OLM creates from it.
func TestTheDocumentedPermissionsInstallTheBundle(t *testing.T) {
	_, bundle := newBundle(t)
	rules := documentedRules(t)
	if problem := notCovered(rules[1:], bundle); len(rules) < 2 || problem == "" {
		t.Error("the check finds nothing where a rule is missing")
	}
	if problem := notCovered(rules, bundle); problem != "" {
		t.Error("docs/how-to/install.md: the ClusterRole for OLM v1 has no right to " + problem)
	}
}

// resourceOfKind maps the kinds in a bundle, and those that OLM creates from its ClusterServiceVersion, to their
// resources.
var resourceOfKind = map[string]struct{ group, resource string }{
	"ClusterServiceVersion":    {"apps", "deployments"},
	"CustomResourceDefinition": {"apiextensions.k8s.io", "customresourcedefinitions"},
	"ClusterRole":              {"rbac.authorization.k8s.io", "clusterroles"},
	"ClusterRoleBinding":       {"rbac.authorization.k8s.io", "clusterrolebindings"},
	"Role":                     {"rbac.authorization.k8s.io", "roles"},
	"RoleBinding":              {"rbac.authorization.k8s.io", "rolebindings"},
	"ServiceAccount":           {"", "serviceaccounts"}, "Service": {"", "services"},
	"NetworkPolicy":                  {"networking.k8s.io", "networkpolicies"},
	"ServiceMonitor":                 {"monitoring.coreos.com", "servicemonitors"},
	"PrometheusRule":                 {"monitoring.coreos.com", "prometheusrules"},
	"ValidatingWebhookConfiguration": {"admissionregistration.k8s.io", "validatingwebhookconfigurations"},
}

func notCovered(rules []rbacv1.PolicyRule, bundle *manifests.Bundle) string {
	kinds := []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount", "Service",
		"ValidatingWebhookConfiguration"}
	for _, object := range bundle.Objects {
		kinds = append(kinds, object.GetKind())
	}
	for _, kind := range kinds {
		wanted, known := resourceOfKind[kind]
		if !known {
			return "change a " + kind + ", and this test does not know the resource"
		}
		verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
		if strings.HasSuffix(kind, "Role") {
			verbs = append(verbs, "bind", "escalate")
		}
		for _, verb := range verbs {
			if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
				return slices.Contains(r.Verbs, verb) && slices.Contains(r.APIGroups, wanted.group) &&
					slices.Contains(r.Resources, wanted.resource)
			}) {
				return verb + " " + wanted.resource
			}
		}
	}
	return ""
}

// documentedRules returns the rules of the ClusterRole in docs/how-to/install.md.
func documentedRules(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(contentOf(t,
		"../../docs/how-to/install.md"), -1) {
		for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(block[1]), 4096); ; {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if object.GetKind() != "ClusterRole" {
				continue
			}
			role := &rbacv1.ClusterRole{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, role,
				true); err != nil {
				t.Fatal(err)
			}
			return role.Rules
		}
	}
	t.Fatal("docs/how-to/install.md has no ClusterRole")
	return nil
}

func contentOf(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeFile(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
