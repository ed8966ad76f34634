package permissions

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/lvm-storage/lvm-operator/test/lab"
)

// granted returns the permissions of config/rbac.
func granted() ([]string, error) {
	var all []string
	for user, file := range map[string]string{
		"lvms-operator": "operator_role.yaml",
		"vg-manager":    "vg_manager_role.yaml",
	} {
		permissions, err := rightsOf(user, file)
		if err != nil {
			return nil, err
		}
		for _, r := range permissions {
			all = append(all, r.String())
		}
	}
	return all, nil
}

// rightsOf returns the permissions that a file of config/rbac grants to a user.
func rightsOf(user, file string) ([]right, error) {
	root, err := lab.Root()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(root, "config", "rbac", file))
	if err != nil {
		return nil, err
	}
	var all []right
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		role := &rbacv1.Role{}
		if err := decoder.Decode(role); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, rule := range role.Rules {
			all = append(all, rightsOfRule(user, role.Namespace, rule)...)
		}
	}
}

func rightsOfRule(user, namespace string, rule rbacv1.PolicyRule) []right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					all = append(all, right{user, namespace, group, resource, name, verb})
				}
			}
		}
	}
	return all
}
