package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// operatorUser is the ServiceAccount of the operator.
const operatorUser = "system:serviceaccount:" + Namespace + ":lvms-operator"

// AsOperator returns a configuration that may do what config/rbac/operator_role.yaml lets the operator do, and nothing
// else. The rules for the operator's namespace hold in the given one.
func (e *Env) AsOperator(namespace string) (*rest.Config, error) {
	repository, err := root()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(repository, "config", "rbac", "operator_role.yaml"))
	if err != nil {
		return nil, fmt.Errorf("the operator's roles: %w", err)
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data)); ; {
		role := &unstructured.Unstructured{}
		if err := decoder.Decode(role); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("the operator's roles: %w", err)
		}
		if role.GetNamespace() == Namespace {
			role.SetNamespace(namespace)
		}
		if err := e.bind(role); err != nil {
			return nil, err
		}
	}
	config := rest.CopyConfig(e.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: operatorUser,
		Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	return config, nil
}

// bind makes a role and gives it to the operator.
func (e *Env) bind(role *unstructured.Unstructured) error {
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: operatorUser}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.GetKind(), Name: role.GetName()}
	meta := metav1.ObjectMeta{Name: role.GetName(), Namespace: role.GetNamespace()}
	var binding client.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}
	if role.GetNamespace() != "" {
		binding = &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}
	}
	for _, object := range []client.Object{role, binding} {
		if err := e.Client.Create(context.Background(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%s %s: %w", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
		}
	}
	return nil
}
