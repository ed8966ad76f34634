// Package agentaccess states what a stolen token of one node agent can do: the permissions of config/rbac, restricted
// by the admission policies. docs/reference/agent-access.md is generated from both, and an API server is asked whether
// it is true.
package agentaccess

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/lvm-storage/lvm-operator/test/reference"
)

var update = flag.Bool("update", false, "write the page of docs/reference")

const (
	root         = "../.."
	rolesFile    = "config/rbac/vg_manager_role.yaml"
	policiesFile = "controllers/lvmcluster/operand/agentpolicies.yaml"
)

// permission is a rule of a role for one resource, and for one name if name is not empty. The namespace is empty in a
// ClusterRole.
type permission struct {
	namespace, resource, name string
	verbs                     []string
}

// resourceOf returns a resource with its group, as kubectl names it: nodes, logicalvolumes/status.topolvm.io.
func resourceOf(group, resource string) string { return strings.TrimSuffix(resource+"."+group, ".") }

// decodeAll decodes each document of a file of the repository.
func decodeAll[T any](t *testing.T, file string) []T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data)); ; {
		var one T
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, one)
	}
}

// permissions returns the permissions of the agents' ServiceAccount.
func permissions(t *testing.T) []permission {
	t.Helper()
	var all []permission
	for _, role := range decodeAll[rbacv1.Role](t, rolesFile) {
		for _, rule := range role.Rules {
			if len(rule.NonResourceURLs) > 0 || slices.Contains(slices.Concat(rule.APIGroups, rule.Resources,
				rule.Verbs), "*") {
				t.Fatalf("%s: %+v: the page has no rows for this", rolesFile, rule)
			}
			all = append(all, permissionsOf(role.Namespace, rule)...)
		}
	}
	return all
}

func permissionsOf(namespace string, rule rbacv1.PolicyRule) []permission {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []permission
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				all = append(all, permission{namespace: namespace, resource: resourceOf(group, resource), name: name,
					verbs: rule.Verbs})
			}
		}
	}
	return all
}

// policies returns the admission policies for agents.
func policies(t *testing.T) []admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	all := decodeAll[admissionv1.ValidatingAdmissionPolicy](t, policiesFile)
	return slices.DeleteFunc(all, func(p admissionv1.ValidatingAdmissionPolicy) bool {
		return p.Kind != "ValidatingAdmissionPolicy"
	})
}

// restricted returns the resources that a policy restricts.
func restricted(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, policy := range policies(t) {
		for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					all = append(all, resourceOf(group, resource))
				}
			}
		}
	}
	return all
}

func isRead(verb string) bool { return slices.Contains([]string{"get", "list", "watch"}, verb) }

// The annotations, labels and finalizers of the API that an agent must not set.
var keyName = regexp.MustCompile(`(Annotation|Label|Finalizer)$`)

// keys returns the keys in the API's constants whose names end in a word.
func keys(t *testing.T, word string) []string {
	t.Helper()
	source, err := reference.Parse(root, "api")
	if err != nil {
		t.Fatal(err)
	}
	found := []string{"example.com/later"}
	for _, d := range source.Declarations() {
		if keyName.MatchString(d.Name) && strings.HasSuffix(d.Name, word) {
			found = append(found, d.Value)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// allChanges returns the changes that are tried: those that are written down, and one for each key of the API that no
// allowed change of a kind has.
func allChanges(t *testing.T) []change {
	t.Helper()
	all := slices.Clone(changes)
	for _, kind := range []struct{ resource, object string }{{"logicalvolumes.topolvm.io", "lv"}, {"nodes", "node"}} {
		for _, word := range []string{"Annotation", "Label", "Finalizer"} {
			for _, key := range keys(t, word) {
				if kind.resource == "nodes" && word == "Finalizer" && !strings.Contains(key, "/") {
					continue // The API server refuses such a finalizer of a Node, whoever adds it.
				}
				if !slices.ContainsFunc(changes, func(c change) bool {
					return c.resource == kind.resource && c.allowed && strings.Contains(c.body, `"`+key+`"`)
				}) {
					all = append(all, change{resource: kind.resource, object: kind.object, body: setting(word, key),
						key: key, what: "another " + strings.ToLower(word)})
				}
			}
		}
	}
	return all
}

// setting returns the change that sets an annotation or a label, or adds a finalizer.
func setting(word, key string) string {
	if word == "Finalizer" {
		return fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, key)
	}
	return fmt.Sprintf(`{"metadata":{%q:{%q:"x"}}}`, strings.ToLower(word)+"s", key)
}

func TestReferenceOfTheAgentsAccessIsFresh(t *testing.T) {
	if err := reference.Check(filepath.Join(root, "docs/reference/agent-access.md"), page(t), *update); err != nil {
		t.Error(err)
	}
}

// A permission to write that a policy restricts has rows that say to what.
func TestEveryRestrictedPermissionHasRows(t *testing.T) {
	under := restricted(t)
	seen := 0
	for _, p := range permissions(t) {
		if slices.ContainsFunc(p.verbs, func(v string) bool { return !isRead(v) }) &&
			slices.Contains(under, p.resource) {
			seen++
			for _, allowed := range []bool{true, false} {
				if !slices.ContainsFunc(changes, func(c change) bool {
					return c.resource == p.resource && c.allowed == allowed
				}) {
					t.Errorf("%s: no change with allowed=%t: add one to changes_test.go", p.resource, allowed)
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("policies restrict %d permissions: there are more", seen)
	}
}

var literal = regexp.MustCompile(`'([^']*)'`)

// neutral are the words in the policies that say nothing about what can be changed, or that every change of an object
// changes.
var neutral = []string{"", "UPDATE", "metadata", "managedFields", "resourceVersion", "generation",
	"authentication.kubernetes.io/node-name"}

// wordsWithoutARow returns the words of a policy, for example the annotations that it allows, that no change has.
func wordsWithoutARow(policy *admissionv1.ValidatingAdmissionPolicy) []string {
	var missing []string
	expressions := make([]string, 0, len(policy.Spec.Variables)+len(policy.Spec.Validations))
	for _, v := range policy.Spec.Variables {
		expressions = append(expressions, v.Expression)
	}
	for _, v := range policy.Spec.Validations {
		expressions = append(expressions, v.Expression)
	}
	for _, m := range literal.FindAllStringSubmatch(strings.Join(expressions, "\n"), -1) {
		quoted := `"` + m[1]
		if !strings.HasSuffix(quoted, "/") {
			quoted += `"` // not a prefix of keys
		}
		if !slices.Contains(neutral, m[1]) && !slices.ContainsFunc(changes, func(c change) bool {
			return strings.Contains(c.body, quoted)
		}) {
			missing = append(missing, m[1])
		}
	}
	return missing
}

func TestEveryWordOfAPolicyHasARow(t *testing.T) {
	all := policies(t)
	if len(all) != 4 {
		t.Errorf("got %d policies", len(all))
	}
	for i := range all {
		for _, word := range wordsWithoutARow(&all[i]) {
			t.Errorf("policy %s names %q: add a change of it to changes_test.go, allowed or not", all[i].Name, word)
		}
	}
}

// TestAnAnnotationWithoutARowIsFound tests the test before.
func TestAnAnnotationWithoutARowIsFound(t *testing.T) {
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	policy.Spec.Variables = []admissionv1.Variable{{Name: "reported",
		Expression: "['lvm.topolvm.io/trim', 'lvm.topolvm.io/second']"}}
	policy.Spec.Validations = []admissionv1.Validation{{Expression: "k == 'lvm.topolvm.io/third'"}}
	if got := wordsWithoutARow(policy); !slices.Equal(got, []string{"lvm.topolvm.io/second", "lvm.topolvm.io/third"}) {
		t.Errorf("got %q", got)
	}
}
