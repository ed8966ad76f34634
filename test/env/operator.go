package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// agentUser is the ServiceAccount of node agents.
const agentUser = "system:serviceaccount:" + Namespace + ":vg-manager"

// AsOperator returns a configuration with exactly the permissions of config/rbac/operator_role.yaml, for an operator in
// the given namespace.
func (e *Env) AsOperator(namespace string) (*rest.Config, error) {
	return e.as("system:serviceaccount:"+namespace+":lvms-operator", "operator_role.yaml", namespace, nil, cached())
}

// cached returns a role to get objects that the operator reads from its cache and may only list and watch: tests have
// no cache.
func cached() *unstructured.Unstructured {
	role := &unstructured.Unstructured{Object: map[string]any{"rules": []any{
		map[string]any{"apiGroups": []any{"lvm.topolvm.io"}, "resources": []any{"lvmclusters"}, "verbs": []any{"get"}},
		map[string]any{"apiGroups": []any{"admissionregistration.k8s.io"},
			"resources": []any{"validatingadmissionpolicies", "validatingadmissionpolicybindings"},
			"verbs":     []any{"get"}},
		map[string]any{"apiGroups": []any{""}, "resources": []any{"serviceaccounts"}, "verbs": []any{"get"}},
		map[string]any{"apiGroups": []any{"networking.k8s.io"}, "resources": []any{"networkpolicies"},
			"verbs": []any{"get"}},
		map[string]any{"apiGroups": []any{"rbac.authorization.k8s.io"}, "resources": []any{"roles", "rolebindings"},
			"verbs": []any{"get"}},
		map[string]any{"apiGroups": []any{"console.openshift.io"},
			"resources": []any{"consoleplugins", "consolequickstarts"}, "verbs": []any{"get"}},
		map[string]any{"apiGroups": []any{"monitoring.coreos.com"},
			"resources": []any{"prometheusrules", "servicemonitors"}, "verbs": []any{"get"}},
		map[string]any{"apiGroups": []any{"config.openshift.io"}, "resources": []any{"apiservers"},
			"verbs": []any{"get"}},
	}}}
	role.SetAPIVersion("rbac.authorization.k8s.io/v1")
	role.SetKind("ClusterRole")
	role.SetName("cached-by-the-operator")
	return role
}

// AsNodeAgent returns a configuration with the permissions of config/rbac for the node agent of a node. For an empty
// node, the token is not bound to a node.
func (e *Env) AsNodeAgent(node string) (*rest.Config, error) {
	objects, err := manifests("controllers/lvmcluster/operand/agentpolicies.yaml", Namespace)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if err := e.create(object); err != nil {
			return nil, err
		}
	}
	var extra map[string][]string
	if node != "" {
		extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	return e.as(agentUser, "vg_manager_role.yaml", Namespace, extra)
}

// InstallPolicies creates the admission policies that restrict permissions, for an operator in a namespace, with the
// status that kube-controller-manager sets.
func (e *Env) InstallPolicies(namespace string) error {
	ctx := context.Background()
	for _, file := range []string{"agentpolicies.yaml", "operatorpolicies.yaml", "userpolicies.yaml"} {
		objects, err := manifests(filepath.Join("controllers", "lvmcluster", "operand", file), namespace)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if err := e.Client.Create(ctx, object); err != nil {
				return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
			}
			if object.GetKind() == "ValidatingAdmissionPolicy" {
				if err := e.CheckPolicy(ctx, object.GetName()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// CheckPolicy sets the status of a ValidatingAdmissionPolicy as kube-controller-manager does, which tests do not run.
func (e *Env) CheckPolicy(ctx context.Context, name string) error {
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	if err := e.Client.Get(ctx, client.ObjectKey{Name: name}, policy); err != nil {
		return fmt.Errorf("ValidatingAdmissionPolicy %s: %w", name, err)
	}
	policy.Status.ObservedGeneration = policy.Generation
	policy.Status.TypeChecking = &admissionv1.TypeChecking{}
	return e.Client.Status().Update(ctx, policy)
}

// as returns a configuration for a user with the permissions of a file of config/rbac and of other roles.
func (e *Env) as(user, roles, namespace string, extra map[string][]string,
	others ...*unstructured.Unstructured) (*rest.Config, error) {
	config := rest.CopyConfig(e.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user,
		Groups: []string{"system:serviceaccounts", "system:authenticated"}, Extra: extra}
	e.mu.Lock()
	defer e.mu.Unlock()
	key := roles + " " + namespace
	if e.bound[key] {
		return config, nil
	}
	objects, err := manifests(filepath.Join("config", "rbac", roles), Namespace)
	if err != nil {
		return nil, err
	}
	objects = append(objects, others...)
	for _, role := range objects {
		if role.GetNamespace() == Namespace {
			role.SetNamespace(namespace)
		}
		if err := e.bind(role, user); err != nil {
			return nil, err
		}
	}
	for _, role := range objects {
		if err := inForce(config, role); err != nil {
			return nil, err
		}
	}
	if e.bound == nil {
		e.bound = map[string]bool{}
	}
	e.bound[key] = true
	return config, nil
}

// inForce waits until the API server grants the permissions of a role, which it watches.
func inForce(config *rest.Config, object *unstructured.Unstructured) error {
	role := &rbacv1.Role{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
		return err
	}
	user, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return err
	}
	rule := role.Rules[len(role.Rules)-1]
	asked := &authorizationv1.ResourceAttributes{Namespace: role.Namespace, Verb: rule.Verbs[0],
		Group: rule.APIGroups[0]}
	asked.Resource, asked.Subresource, _ = strings.Cut(rule.Resources[0], "/")
	if len(rule.ResourceNames) > 0 {
		asked.Name = rule.ResourceNames[0]
	}
	for end := time.Now().Add(Patience); ; time.Sleep(10 * time.Millisecond) {
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: asked}}
		if err := user.Create(context.Background(), review); err != nil {
			return fmt.Errorf("ask whether %s %s is in force: %w", object.GetKind(), role.Name, err)
		}
		if review.Status.Allowed {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s %s is not in force: may not %s %s in namespace %q", object.GetKind(), role.Name,
				asked.Verb, rule.Resources[0], role.Namespace)
		}
	}
}

// manifests reads a file of the repository, for an operator in a namespace.
func manifests(name, namespace string) ([]*unstructured.Unstructured, error) {
	repository, err := root()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(repository, name))
	if err != nil {
		return nil, err
	}
	data = bytes.ReplaceAll(data, []byte(Namespace), []byte(namespace))
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data)); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, object)
	}
}

// bind creates a role and binds it to a user.
func (e *Env) bind(role *unstructured.Unstructured, user string) error {
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.GetKind(), Name: role.GetName()}
	meta := metav1.ObjectMeta{Name: role.GetName() + ":" + user, Namespace: role.GetNamespace()}
	var binding client.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}
	if role.GetNamespace() != "" {
		binding = &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}
	}
	return errors.Join(e.create(role), e.create(binding))
}

func (e *Env) create(object client.Object) error {
	if err := e.Client.Create(context.Background(), object); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%s %s: %w", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
	}
	return nil
}
